// SPDX-License-Identifier: Apache-2.0
//
// Two or more runs side by side: what differs around them, the cases that they share, and what became of each quantity.
// The first run is what the others are compared with. A pure function of what was read (results/loaded_run.hpp).
//
// A case is matched by what was asked for (results/cost_series.hpp). Settings that each run has once and that differ
// between runs (transport, waiting ...) are what is compared, not what is matched: they stand among the differences.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "metrics/change.hpp"
#include "results/loaded_run.hpp"
#include "results/table.hpp"

namespace ovl {

struct ComparisonOptions {
  double margin = 0.05;  // what is the same, as a share
  double limit = 0;      // slower than this is marked beyond_limit; 0: nothing is
};

// One value a run, empty where a run has none.
struct EnvironmentDifference {
  std::string field;
  std::vector<std::string> values;
};

struct ComparedQuantity {
  std::string quantity;   // a column of summary.csv, or alpha, beta, half_performance of a series
  std::string unit;       // "s", "B/s", "s/B", "B" or "1"
  std::string key;        // "collective=all_reduce dtype=f32 ... bytes=1048576"
  std::string case_name;  // the same for people
  bool of_series = false;
  std::size_t run = 1;  // compared with run 0
  ComparedValue before;
  ComparedValue after;
  std::string source_before;  // measured, imported, model, proxy or emulated
  std::string source_after;
  Comparison comparison;
  bool beyond_limit = false;
};

struct RunComparison {
  std::vector<std::string> names;
  std::vector<std::string> about;  // of each: bench, sources, date, device
  std::vector<EnvironmentDifference> differences;
  std::size_t cases = 0;                          // in all of them
  std::vector<std::vector<std::string>> only_in;  // of each run the cases that another lacks
  std::vector<std::string> remarks;               // what was left out or taken together
  std::vector<ComparedQuantity> quantities;       // by case, then quantity, then run
};

// Throws Error(usage) for fewer than two runs, and when no case is in all of them: with what differs.
RunComparison compare_runs(std::span<const LoadedRun> runs, const ComparisonOptions& options);

// A row of comparison_schema().
Row comparison_row(const RunComparison& comparison, const ComparedQuantity& quantity);

}  // namespace ovl
