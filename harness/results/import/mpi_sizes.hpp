// SPDX-License-Identifier: Apache-2.0
//
// What the two MPI suites share: rows of a size and some columns, and sizes of one rank's part.
#pragma once

#include "results/import/imported.hpp"

namespace ovl {

// The suites count what one rank gives to (or takes from) another where nccl-tests counts the whole array.
bool counts_one_part(std::string_view collective);

// Completes and appends rows of an MPI suite: sizes made whole, bandwidths from size and time, status.
class MpiRows {
 public:
  explicit MpiRows(Imported& result) : result_(result) {}

  // `row` has its size as read, its seconds and, where it is not ok, its status and reason.
  void add(ImportedRow row);

 private:
  Imported& result_;
  std::string_view told_part_of_;  // collective
};

}  // namespace ovl
