// SPDX-License-Identifier: Apache-2.0
//
// What the cases of a loaded run are, under names that runs of different tools and versions share, and what a
// collective costs in it by size.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "results/loaded_run.hpp"
#include "stats/fit.hpp"

namespace ovl {

using CaseAxes = std::map<std::string, std::string, std::less<>>;

// Whether the cases are collectives at one size each: overlap-collective and overlap-import.
bool holds_series(const LoadedRun& run);

// What was asked for in a row of summary.csv: the words of its key. Of a series collective, dtype, op, ranks, in_place
// and bytes are those of its columns, dtypes and reductions under one name (float is f32, a reduction without a name is
// sum). Unknown ones are left out.
CaseAxes axes_of(const LoadedRun& run, const Row& row);

// "f32" of float and float32; what has no other name stays as it is.
std::string_view common_dtype(std::string_view dtype);

// The options that only say how a case was run, not what: they may differ between two runs that are compared.
bool is_setting(std::string_view axis);

// "all_reduce f32 sum, 8 ranks, out of place", then the settings named in `shown` and the load.
std::string series_title(const CaseAxes& axes, const std::set<std::string, std::less<>>& shown = {});

bool has_numbers(const Row& row);  // status ok or noisy

inline constexpr std::size_t fewest_sizes = 4;  // of a series that is compared or becomes a machine's cost

struct LoadedSeries {
  CaseAxes axes;  // without bytes; load is idle or loaded, and absent for imported logs
  std::string source;
  std::vector<std::vector<SizeTime>> launches;  // by launch; logs of one series in several files count as launches

  [[nodiscard]] std::vector<SizeTime> points() const;
};

// Every series of a run that holds some, in the order in which they begin: its rows with numbers. A row with a time
// beside a GEMM is a point of two series.
std::vector<LoadedSeries> series_in(const LoadedRun& run);

}  // namespace ovl
