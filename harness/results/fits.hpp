// SPDX-License-Identifier: Apache-2.0
//
// From times by size to what a collective costs: rows that differ in nothing but size are a series, a series is fitted,
// and the fits are rows of fits.csv. Measured runs and imported logs go the same way.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "results/table.hpp"
#include "schedule/collective.hpp"
#include "stats/fit.hpp"

namespace ovl {

struct CostSeries {
  std::string file;  // of an imported log
  std::string key;   // of its rows in summary.csv, without the size
  std::string source;
  std::string collective;
  std::string dtype;
  std::string op;
  std::int32_t ranks = 0;  // 0: unknown
  std::optional<bool> in_place;
  std::string load;  // idle, loaded, or unknown
  std::vector<SizeTime> points;
  std::vector<std::vector<SizeTime>> launches;  // the same points by process launch; empty for an imported log

  [[nodiscard]] std::string title() const;  // "all_reduce float sum, 8 ranks, in place"
};

// Bus bandwidth is algorithm bandwidth times this: nccl-tests' factor of the collective whose result the form has (1
// for an exchange), so that an all_reduce and its sequences compare. Not what a link carried in a hierarchy.
double bus_factor(CollectiveForm form, int ranks);

// The series of summary.csv's rows that have numbers, in the order in which they begin: t_comm against bytes is idle,
// t_loaded, where a row has it, loaded. The rows have the columns collective, dtype, in_place, bytes and t_loaded.
std::vector<CostSeries> measured_series(const std::vector<Row>& summary);

// Relative, ordinary and Theil-Sen lines, then, where breakpoints pay, the segments of every number up to the best.
// Empty for fewer than two sizes. Theil-Sen is left out above 4096 points; breakpoints are not searched among more than
// 200 sizes.
std::vector<CostFit> fits_of(const CostSeries& series);

// Rows of fits_schema(): one for each fit and segment.
std::vector<Row> fit_rows(const CostSeries& series, std::span<const CostFit> fits);

}  // namespace ovl
