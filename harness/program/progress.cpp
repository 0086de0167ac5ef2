// SPDX-License-Identifier: Apache-2.0
#include "program/progress.hpp"

#include <fmt/format.h>

#include <charconv>

#include "base/error.hpp"

namespace ovl {
namespace {

Error no_interval(std::string_view text) {
  return usage_error(fmt::format("progress \"{}\" has no interval", text),
                     "polling takes one from 1us to 1s, in us or ms", "type for example --progress poll:100us");
}

Seconds parse_interval(std::string_view text, std::string_view whole) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, ec] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  const double scale = unit == "us" ? 1e-6 : unit == "ms" ? 1e-3 : 0;
  constexpr double shortest = 1e-6;
  constexpr double longest = 1;
  const double seconds = number * scale;
  if (ec != std::errc{} || !(seconds >= shortest && seconds <= longest)) throw no_interval(whole);
  return Seconds(seconds);
}

}  // namespace

MessageProgress parse_progress(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto mode = parse_enum<ProgressMode>(text.substr(0, colon));
  if (mode == ProgressMode::poll) {
    if (colon == std::string_view::npos) throw no_interval(text);
    return {mode, parse_interval(text.substr(colon + 1), text)};
  }
  if (colon != std::string_view::npos) {
    throw usage_error(fmt::format("progress \"{}\" has an interval", text), "only polling has one",
                      fmt::format("type --progress {} or poll:100us", name(mode)));
  }
  return {mode, Seconds(0)};
}

std::string progress_name(const MessageProgress& progress) {
  if (progress.mode != ProgressMode::poll) return std::string(name(progress.mode));
  return fmt::format("poll:{:g}us", progress.interval.value() * 1e6);
}

}  // namespace ovl
