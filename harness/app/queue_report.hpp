// SPDX-License-Identifier: Apache-2.0
//
// What people read at the end of overlap-queue: a pure function from rows to text.
#pragma once

#include <string>
#include <vector>

#include "results/table.hpp"

namespace ovl {

// A table of the rows, measured beside the fluid line, and each case in words; what several lanes serve more than one
// does, a sentence made from the rows; and in a part of its own the averages beside the means of the steady state.
std::string queue_table_text(const std::vector<Row>& summary);

}  // namespace ovl
