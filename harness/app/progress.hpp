// SPDX-License-Identifier: Apache-2.0
//
// Progress of a long run on standard error: one line that moves on a terminal, one line a case elsewhere.
#pragma once

#include <cstddef>
#include <string>

#include "base/units.hpp"
#include "measure/runner.hpp"
#include "stats/interval.hpp"

namespace ovl {

class ProgressLine {
 public:
  // `quiet`: says nothing, because another process of the run does.
  explicit ProgressLine(std::size_t cases, bool quiet = false);

  void begin(const std::string& case_name);
  void update(const std::string& phase, int rounds, Seconds elapsed, Interval watched);
  void end(const CaseResult& result);
  // Something to say once, on a line of its own.
  void say(const std::string& text);

 private:
  void clear();

  std::size_t cases_;
  std::size_t current_ = 0;
  std::string name_;
  bool quiet_;
  bool terminal_;
};

}  // namespace ovl
