// SPDX-License-Identifier: Apache-2.0
#include "results/import/imported.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace ovl {
namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_blank(char c) { return static_cast<unsigned char>(c) <= ' '; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Spellings without case, _ and -.
constexpr std::pair<std::string_view, std::string_view> collectives[] = {{"allreduce", "all_reduce"},
                                                                         {"allgather", "all_gather"},
                                                                         {"reducescatter", "reduce_scatter"},
                                                                         {"broadcast", "broadcast"},
                                                                         {"bcast", "broadcast"},
                                                                         {"alltoall", "all_to_all"},
                                                                         {"alltoallv", "all_to_allv"},
                                                                         {"reduce", "reduce"},
                                                                         {"gather", "gather"},
                                                                         {"scatter", "scatter"},
                                                                         {"sendrecv", "sendrecv"},
                                                                         {"hypercube", "hypercube"},
                                                                         {"allgatherv", "all_gatherv"},
                                                                         {"reducescatterblock", "reduce_scatter"}};

// Powers of ten that a double holds exactly.
constexpr std::array<double, 23> tens{1,    1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                      1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

}  // namespace

std::string_view Imported::intern(std::string_view text) {
  if (text.empty()) return {};
  const auto found = words.find(text);
  return found != words.end() ? *found : *words.emplace(text).first;
}

void Imported::warn(std::int64_t line, std::string text) {
  if (warnings.size() == most_warnings) {
    ++warnings_left_out;
    return;
  }
  warnings.push_back({line, std::move(text)});
}

std::string printable(std::string_view text, std::size_t most) {
  constexpr std::string_view hex = "0123456789abcdef";
  std::string safe;
  for (const char c : text) {
    if (safe.size() >= most) return safe + "...";
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      safe += c;
    } else {
      safe.append("\\x").append(1, hex[byte >> 4U]).append(1, hex[byte & 15U]);
    }
  }
  return safe;
}

std::string_view known_collective(std::string_view word) {
  std::array<char, 24> folded{};
  std::size_t length = 0;
  for (const char c : word) {
    if (c == '_' || c == '-') continue;
    if (length == folded.size()) return {};
    folded[length++] = lower(c);
  }
  std::string_view name(folded.data(), length);
  for (const std::string_view ending : {"mpi", "perf", "test"}) {  // all_reduce_perf, all_reduce_perf_mpi
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  }
  for (const auto& [spelling, ours] : collectives) {
    if (name == spelling) return ours;
  }
  return {};
}

double known_bus_factor(std::string_view collective, int ranks) {
  if (collective == "broadcast" || collective == "reduce" || collective == "sendrecv") return 1;
  if (ranks < 1) return ImportedRow::unknown;
  const double n = ranks;
  if (collective == "all_reduce") return 2 * (n - 1) / n;
  for (const std::string_view share : {"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"}) {
    if (collective == share) return (n - 1) / n;
  }
  return ImportedRow::unknown;
}

Lines::Lines(std::string_view text) : rest_(text), escapes_(text.find('\x1b') != std::string_view::npos) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (rest_.starts_with(byte_order_mark)) rest_.remove_prefix(byte_order_mark.size());
}

bool Lines::next(std::string_view& line) {
  if (rest_.empty()) return false;
  const std::size_t end = rest_.find('\n');
  unterminated_ = end == std::string_view::npos;
  line = rest_.substr(0, end);
  rest_.remove_prefix(unterminated_ ? rest_.size() : end + 1);
  ++number_;
  while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (escapes_ && line.find('\x1b') != std::string_view::npos) line = without_escapes(line);
  return true;
}

// ESC [ parameters letter, ESC ] text BEL, ESC character.
std::string_view Lines::without_escapes(std::string_view line) {
  cleaned_.clear();
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      cleaned_ += line[i];
      continue;
    }
    if (++i >= line.size()) break;
    if (line[i] == '[') {
      do {
        ++i;
      } while (i < line.size() && !(line[i] >= '@' && line[i] <= '~'));
    } else if (line[i] == ']') {
      do {
        ++i;
      } while (i < line.size() && line[i] != '\a');
    }
  }
  return cleaned_;
}

std::size_t split(std::string_view line, std::span<std::string_view> tokens) {
  std::size_t count = 0;
  const char* at = line.data();
  const char* const end = at + line.size();
  while (count < tokens.size()) {
    while (at != end && is_blank(*at)) ++at;
    if (at == end) break;
    const char* const begin = at;
    while (at != end && !is_blank(*at)) ++at;
    tokens[count++] = {begin, static_cast<std::size_t>(at - begin)};
  }
  return count;
}

std::optional<Decimal> read_decimal(std::string_view text) {
  const bool negative = !text.empty() && text.front() == '-';
  std::string_view rest = text;
  if (!rest.empty() && (rest.front() == '-' || rest.front() == '+')) rest.remove_prefix(1);
  if (rest.empty() || !(is_digit(rest.front()) || (rest.front() == '.' && rest.size() > 1 && is_digit(rest[1])))) {
    return std::nullopt;
  }
  // A quotient of two exact numbers is rounded once: the same double as from_chars, in a fraction of its time.
  Decimal number;
  if (rest.size() <= 15) {
    std::int64_t digits = 0;
    bool plain = true;
    for (const char c : rest) {
      if (is_digit(c)) {
        digits = digits * 10 + (c - '0');
        if (number.point) ++number.decimals;
      } else if (c == '.' && !number.point) {
        number.point = true;
      } else {
        plain = false;
        break;
      }
    }
    if (plain) {
      number.value = static_cast<double>(digits) / tens[number.decimals];
      if (negative) number.value = -number.value;
      number.digits = digits;
      return number;
    }
  }
  number = {};
  const auto [end, ec] = std::from_chars(rest.data(), rest.data() + rest.size(), number.value);
  if (ec != std::errc{} || end != rest.data() + rest.size()) return std::nullopt;
  if (negative) number.value = -number.value;
  const std::size_t exponent = rest.find_first_of("eE");
  const std::size_t point = rest.find('.');
  number.exponent = exponent != std::string_view::npos;
  number.point = point != std::string_view::npos;
  if (number.point) {
    number.decimals = static_cast<std::uint8_t>(std::min<std::size_t>(std::min(exponent, rest.size()) - point - 1, 99));
  }
  return number;
}

double Decimal::over_ten_to(unsigned power) const {
  if (digits < 0 || decimals + power >= tens.size()) return value / tens[std::min<std::size_t>(power, tens.size() - 1)];
  const double result = static_cast<double>(digits) / tens[decimals + power];
  return std::signbit(value) ? -result : result;
}

std::optional<double> parse_decimal(std::string_view text) {
  const auto number = read_decimal(text);
  return number ? std::optional(number->value) : std::nullopt;
}

std::optional<std::int64_t> parse_count(std::string_view text) {
  if (!is_digits(text)) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{}) return std::nullopt;
  return value;
}

bool is_digits(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), is_digit); }

bool is_word(std::string_view text) {
  if (text.empty() || text.size() > 32 || !is_letter(text.front())) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter(c) || is_digit(c) || c == '_' || c == '+' || c == '-' || c == '.';
  });
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

}  // namespace ovl
