// SPDX-License-Identifier: Apache-2.0
//
// What people read at the end of a run that asks who slows whom: a pure function from rows to text.
#pragma once

#include <string>
#include <vector>

#include "results/table.hpp"

namespace ovl {

// A table of the rows of summary.csv that have the columns of overlap-contention, each case in words; then of each load
// curve where overlap stops paying, and of each budget of SMs or channels which settings are worth having.
std::string contention_table(const std::vector<Row>& summary);

}  // namespace ovl
