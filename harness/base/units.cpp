// SPDX-License-Identifier: Apache-2.0
#include "base/units.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/error.hpp"

namespace ovl {
namespace {

struct Suffix {
  std::string_view text;
  std::int64_t factor;
};

// Largest first, so that format_bytes finds the shortest exact spelling.
constexpr std::array<Suffix, 7> suffixes{{{"GiB", std::int64_t{1} << 30},
                                          {"GB", 1'000'000'000},
                                          {"MiB", std::int64_t{1} << 20},
                                          {"MB", 1'000'000},
                                          {"KiB", std::int64_t{1} << 10},
                                          {"kB", 1'000},
                                          {"B", 1}}};

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

Error too_large(std::string_view text) {
  return usage_error("size " + quoted(text) + " is too large", "a size is at most 2^63 - 1 bytes",
                     "use a smaller size");
}

}  // namespace

Bytes parse_bytes(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, ec] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (ec == std::errc::result_out_of_range) throw too_large(text);
  if (ec != std::errc{} || !std::isfinite(number)) {
    throw usage_error("size " + quoted(text) + " is not a size", "it does not begin with a number",
                      "type for example 64KiB, 25MiB or 26214400");
  }
  const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  std::int64_t factor = suffix.empty() ? 1 : 0;
  for (const Suffix& known : suffixes) {
    if (known.text == suffix) factor = known.factor;
  }
  if (factor == 0) {
    const std::string digits(text.substr(0, text.size() - suffix.size()));
    const char letter = suffix.front();
    if (suffix.size() == 1 && std::string_view("kKmMgG").find(letter) != std::string_view::npos) {
      const auto upper = static_cast<char>(letter & ~0x20);
      const std::string binary = digits + upper + "iB";
      const std::string decimal = digits + (upper == 'K' ? 'k' : upper) + "B";
      throw usage_error("size " + quoted(text) + " is ambiguous", "the suffix may mean a power of 1024 or of 1000",
                        "type " + binary + " or " + decimal);
    }
    throw usage_error("size " + quoted(text) + " has the unknown suffix " + quoted(suffix),
                      "sizes are KiB, MiB, GiB (1024) or kB, MB, GB (1000)", "type for example " + digits + "MiB");
  }
  if (number <= 0) {
    throw usage_error("size " + quoted(text) + " is not positive", "a size is at least 1 byte",
                      "type for example 64KiB");
  }
  // A whole number keeps every digit; a double would round above 2^53.
  const std::string_view digits = text.substr(0, text.size() - suffix.size());
  std::int64_t whole = 0;
  const auto [wrest, wec] = std::from_chars(digits.data(), digits.data() + digits.size(), whole);
  if (wec == std::errc{} && wrest == digits.data() + digits.size()) {
    if (whole > std::numeric_limits<std::int64_t>::max() / factor) throw too_large(text);
    return Bytes(whole * factor);
  }
  const double bytes = number * static_cast<double>(factor);
  if (bytes >= 0x1p63) throw too_large(text);
  if (bytes != std::floor(bytes)) {
    throw usage_error("size " + quoted(text) + " is not a whole number of bytes", "", "round it to whole bytes");
  }
  return Bytes(static_cast<std::int64_t>(bytes));
}

std::string format_bytes(Bytes size) {
  const std::int64_t n = size.value();
  for (const Suffix& suffix : suffixes) {
    if (suffix.factor > 1 && n != 0 && n % suffix.factor == 0) {
      return std::to_string(n / suffix.factor) + std::string(suffix.text);
    }
  }
  return std::to_string(n);
}

std::string format_seconds(Seconds time) {
  const double s = time.value();
  if (std::isnan(s)) return "unknown";
  const double magnitude = std::fabs(s);
  const auto [scale, unit] = magnitude == 0 || magnitude >= 1 ? std::pair{1.0, "s"}
                             : magnitude >= 1e-3              ? std::pair{1e3, "ms"}
                             : magnitude >= 1e-6              ? std::pair{1e6, "us"}
                                                              : std::pair{1e9, "ns"};
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.4g %s", s * scale, unit);
  return text.data();
}

}  // namespace ovl
