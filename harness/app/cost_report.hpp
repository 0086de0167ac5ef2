// SPDX-License-Identifier: Apache-2.0
//
// What people read at the end of a run whose sizes make a cost: pure functions from rows to text.
#pragma once

#include <string>
#include <vector>

#include "results/table.hpp"

namespace ovl {

// A table of the rows of summary.csv that have the columns of overlap-collective: one collective's time and bandwidths,
// alone and beside GEMMs, then each case in words.
std::string collective_table(const std::vector<Row>& summary);

// A table of the rows of fits.csv, one line a series and load: the relative line as the headline, the others beside it,
// then each in words, with the segments where several pay. `written`: they are in fits.csv too.
std::string cost_table(const std::vector<Row>& fits, bool written);

}  // namespace ovl
