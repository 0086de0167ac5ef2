// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "results/table.hpp"

namespace ovl {

// The table of overlap-step: what a step takes, what each way of cutting it leaves exposed, and in words.
std::string step_table_text(const std::vector<Row>& rows);

}  // namespace ovl
