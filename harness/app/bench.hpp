// SPDX-License-Identifier: Apache-2.0
//
// What a bench is: a question, its axes, its own columns, and how axis values become cases. Everything else (options,
// order, timing, files, exit codes) is the suite's. A bench file is one such value and a one-line main.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/registry.hpp"
#include "measure/case.hpp"
#include "measure/choices.hpp"
#include "program/placement.hpp"
#include "results/fits.hpp"
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
Axis progress_axis();
// --ranks as a list, in the place of the option that all benches have. A value is a number, or "default": the
// backend's.
Axis ranks_axis();

// A value of channels_axis(). Throws Error(usage).
int parse_channels(const std::string& text);

// A whole number of an axis, from 1 to `most`. Throws Error(usage).
std::int64_t parse_count(const std::string& axis, const std::string& text, std::int64_t most);

// A placement that sets no order, for benches that hold it; `held` says how. Throws Error(usage).
Placement parse_unordered(const std::string& text, const std::string& held);

// A size that is a whole number of elements: several within one element would be one case. Throws Error(usage).
Bytes parse_size(const std::string& text, DType dtype);

class AxisValues {
 public:
  // `typed`: on the command line or in a configuration file, and not the bench's own list.
  void set(const std::string& axis, std::vector<std::string> values, bool typed = false) {
    values_[axis] = std::move(values);
    if (typed) typed_.insert(axis);
  }
  // Never empty. Throws std::logic_error for an axis that the bench does not declare.
  [[nodiscard]] const std::vector<std::string>& operator[](const std::string& axis) const;
  [[nodiscard]] bool on(const std::string& flag) const { return (*this)[flag].front() == "on"; }
  [[nodiscard]] const std::set<std::string>& typed() const { return typed_; }

 private:
  std::map<std::string, std::vector<std::string>> values_;
  std::set<std::string> typed_;
};

// Of a bench that takes durations in the place of kernels: an axis that is typed beside them and is none of `used`
// would change nothing. Throws Error(usage) that names it.
void require_used(const AxisValues& axes, const std::vector<std::string>& used);

// Each of `all` with each of `values` in its member `axis`; values vary fastest. Cases are products of axes.
template <class Asked>
std::vector<Asked> multiplied(const std::vector<Asked>& all, const std::vector<std::string>& values,
                              std::string Asked::*axis) {
  std::vector<Asked> more;
  for (const Asked& asked : all) {
    for (const std::string& value : values) {
      more.push_back(asked);
      more.back().*axis = value;
    }
  }
  return more;
}

struct CaseContext {
  Description backend;
  std::string transport;
  int ranks = 1;
  int processes = 1;
};

struct Bench {
  std::string name;
  std::string question;  // one sentence for --help
  std::vector<Axis> axes;
  std::vector<Column> columns;  // the bench's own, after the common ones of summary.csv
  // The product of the axes, in the order in which the user reads it. Throws Error(usage) for a value it cannot mean.
  std::function<std::vector<CaseSpec>(const AxisValues&, const CaseContext&)> cases;
  // What people read at the end; null: the table of overlaps (report.hpp).
  std::function<std::string(const std::vector<Row>& summary)> table = nullptr;
  // Of a bench whose sizes make a cost: the series to fit. Then there is fits.csv and --fit. null: no fits.
  std::function<std::vector<CostSeries>(const std::vector<Row>& summary)> series = nullptr;
  // Of a bench that sweeps an option to find its best value: then there is choices.csv. nullopt: none.
  std::optional<SweptOption> sweep = std::nullopt;
  // Its cases tell what happened over time: then there is series.csv, which is also what csv and json hold.
  bool over_time = false;
  // What the choices say together, in words; null: nothing.
  std::function<std::string(const std::vector<Row>& choices)> conclusion = nullptr;
  // The axis that says how many ranks a case has. A bench without it has the option --ranks.
  std::string ranks_axis = "ranks";
  // Whether the axes give every duration: then --backend auto is the model, which plays them exactly, on no machine.
  std::function<bool(const AxisValues&)> all_given = nullptr;
  // Whether all cases are to be measured in fresh processes, as with --launches: where one may hang on purpose, or has
  // an environment of its own (CaseSpec::environment).
  std::function<bool(const AxisValues&)> fresh_processes = nullptr;
};

// Everything from the command line to the exit code.
int run_bench(const Bench& bench, int argc, char** argv);
int run_bench(const Bench& bench, int argc, char** argv, const BackendRegistry& backends);

}  // namespace ovl
