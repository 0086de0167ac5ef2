// SPDX-License-Identifier: Apache-2.0
#include "app/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace ovl {

ProgressLine::ProgressLine(std::size_t cases) : cases_(cases), terminal_(isatty(STDERR_FILENO) == 1) {}

void ProgressLine::begin(const std::string& case_name) {
  ++current_;
  name_ = case_name;
}

void ProgressLine::update(const std::string& phase, int rounds, Seconds elapsed, Interval watched) {
  if (!terminal_) return;
  clear();
  fmt::print(stderr, "[{}/{}] {}: {}", current_, cases_, name_, phase);
  if (rounds > 0) fmt::print(stderr, ", {} rounds", rounds);
  if (!std::isnan(watched.width())) fmt::print(stderr, ", interval {:.3f}", watched.width());
  fmt::print(stderr, ", {}", format_seconds(elapsed));
  std::fflush(stderr);
}

void ProgressLine::end(const CaseResult& result) {
  clear();
  const std::string words = result.has_numbers() ? result.summary.verdict : result.reason;
  fmt::print(stderr, "[{}/{}] {}: {}{}, {}\n", current_, cases_, name_, name(result.status),
             words.empty() ? "" : ", " + words, format_seconds(result.elapsed));
}

void ProgressLine::say(const std::string& text) {
  clear();
  fmt::print(stderr, "{}\n", text);
}

void ProgressLine::clear() {
  if (terminal_) fmt::print(stderr, "\r\033[K");
}

}  // namespace ovl
