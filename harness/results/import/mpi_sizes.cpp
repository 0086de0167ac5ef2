// SPDX-License-Identifier: Apache-2.0
#include "results/import/mpi_sizes.hpp"

#include <fmt/format.h>

#include <cmath>

namespace ovl {

bool counts_one_part(std::string_view collective) {
  for (const std::string_view kind : {"all_gather", "all_to_all", "gather", "scatter"}) {
    if (collective == kind) return true;
  }
  return false;
}

void MpiRows::add(ImportedRow row) {
  if (row.bytes && counts_one_part(row.collective)) {
    const bool told = told_part_of_ == row.collective;
    told_part_of_ = row.collective;
    if (row.ranks == 0) {
      if (!told) {
        result_.warn(row.line,
                     fmt::format("sizes of {} are those of one rank's part; say --ranks to have the whole array",
                                 row.collective));
      }
      if (row.status == RowStatus::ok) {
        row.status = RowStatus::skipped;
        row.reason = "the size of the whole array is unknown without the number of ranks";
      }
    } else {
      if (!told) {
        result_.warn(row.line, fmt::format("sizes of {} are those of one rank's part: multiplied by {} ranks",
                                           row.collective, row.ranks));
      }
      if (*row.bytes > std::numeric_limits<std::int64_t>::max() / row.ranks) {
        row.bytes.reset();
      } else {
        *row.bytes *= row.ranks;
      }
    }
  }
  if (!(row.seconds > 0)) row.seconds = ImportedRow::unknown;
  if (row.status == RowStatus::ok) {
    if (!row.bytes) {
      row.status = RowStatus::unreadable;
      row.reason = "its size does not fit 63 bits";
    } else if (std::isnan(row.seconds)) {
      row.status = RowStatus::unreadable;
      row.reason = "its time is no positive number";
    } else if (*row.bytes == 0) {
      row.status = RowStatus::skipped;
      row.reason = "size 0: nothing is sent";
    } else if (row.ranks == 1) {
      row.status = RowStatus::skipped;
      row.reason = "one rank: no communication is measured";
    }
  }
  if (row.bytes && *row.bytes > 0 && !std::isnan(row.seconds)) {
    row.algorithm_bandwidth = static_cast<double>(*row.bytes) / row.seconds;
    if (row.ranks != 1) row.bus_bandwidth = row.algorithm_bandwidth * known_bus_factor(row.collective, row.ranks);
  }
  result_.rows.push_back(row);
}

}  // namespace ovl
