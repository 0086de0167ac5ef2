// SPDX-License-Identifier: Apache-2.0
//
// Whether samples and summary of a run still say the same: what one begins to build on, nobody may have changed.
#pragma once

#include <string>
#include <vector>

#include "results/table.hpp"

namespace ovl {

// The first way in which finished cases and their samples do not go together, with the case; empty: they do. A case is
// one row of `summary`; as many rounds are used as it says; every replay of an arm has a row of as many ranks, and
// every round all arms; t_empty, t_compute, t_comm, t_serial and t_step are the medians of their arms' used samples.
// Only for cases with numbers. `samples` in any order.
std::string inconsistency(const std::vector<Row>& summary, const std::vector<Row>& samples);

}  // namespace ovl
