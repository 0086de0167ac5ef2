// SPDX-License-Identifier: Apache-2.0
//
// What a bench is: a question, its axes, its own columns, and how axis values become cases. Everything else (options,
// order, timing, files, exit codes) is the suite's. A bench file is one such value and a one-line main.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/registry.hpp"
#include "measure/case.hpp"
#include "results/table.hpp"

namespace ovl {

struct Axis {
  std::string name;  // --<name>, a comma list
  std::string help;
  std::string fallback;  // the list that applies when the option is not given
  bool flag = false;     // --<name> without a value; the list is then "on" or "off"
};

// The axes that most benches share.
Axis collective_axis(const std::string& fallback);
Axis placement_axis(const std::string& fallback);
Axis dtype_axis(const std::string& fallback);
Axis waiting_axis();
Axis channels_axis();
Axis buffers_axis();

class AxisValues {
 public:
  void set(const std::string& axis, std::vector<std::string> values) { values_[axis] = std::move(values); }
  // Never empty. Throws std::logic_error for an axis that the bench does not declare.
  [[nodiscard]] const std::vector<std::string>& operator[](const std::string& axis) const;
  [[nodiscard]] bool on(const std::string& flag) const { return (*this)[flag].front() == "on"; }

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

struct CaseContext {
  Description backend;
  std::string transport;
  int ranks = 1;
};

struct Bench {
  std::string name;
  std::string question;  // one sentence for --help
  std::vector<Axis> axes;
  std::vector<Column> columns;  // the bench's own, after the common ones of summary.csv
  // The product of the axes, in the order in which the user reads it. Throws Error(usage) for a value it cannot mean.
  std::function<std::vector<CaseSpec>(const AxisValues&, const CaseContext&)> cases;
};

// Everything from the command line to the exit code.
int run_bench(const Bench& bench, int argc, char** argv);
int run_bench(const Bench& bench, int argc, char** argv, const BackendRegistry& backends);

}  // namespace ovl
