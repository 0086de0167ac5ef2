// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "results/table.hpp"

namespace ovl {

// What people read at the end of overlap-pp: pure, from rows of its summary.csv.
std::string pipeline_table_text(const std::vector<Row>& rows);

}  // namespace ovl
