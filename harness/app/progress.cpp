// SPDX-License-Identifier: Apache-2.0
#include "app/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "app/command_line.hpp"

namespace ovl {

ProgressLine::ProgressLine(std::size_t cases, bool quiet)
    : cases_(cases), quiet_(quiet), terminal_(!quiet && isatty(STDERR_FILENO) == 1) {}

void ProgressLine::begin(const std::string& case_name) {
  ++current_;
  name_ = case_name;
}

void ProgressLine::update(const std::string& phase, int rounds, Seconds elapsed, Interval watched) {
  if (!terminal_) return;
  clear();
  std::string line = fmt::format("[{}/{}] {}: {}", current_, cases_, name_, phase);
  if (rounds > 0) line += fmt::format(", {} rounds", rounds);
  if (!std::isnan(watched.width())) line += fmt::format(", interval {:.3f}", watched.width());
  std::fputs((line + ", " + format_seconds(elapsed)).c_str(), stderr);
}

void ProgressLine::end(const CaseResult& result) {
  std::string words = result.has_numbers() ? result.summary.verdict : result.reason;
  const std::string status(name(result.status));
  if (words.starts_with(status)) words.erase(0, words.find_first_of(' ') + 1);  // a verdict that says it too
  say(fmt::format("[{}/{}] {}: {}{}, {}", current_, cases_, name_, status, words.empty() ? "" : ", " + words,
                  format_seconds(result.elapsed)));
}

void ProgressLine::say(const std::string& text) {
  if (quiet_) return;
  clear();
  print_message(text);
}

void ProgressLine::clear() {
  if (terminal_) std::fputs("\r\033[K", stderr);
}

}  // namespace ovl
