// SPDX-License-Identifier: Apache-2.0
//
// summary.csv of overlap-collective, as far as tests of its rows need it.
#pragma once

#include "results/table.hpp"

namespace ovl::test {

// The common columns, those that name a series, and those of measure/cost.hpp.
const Schema& cost_schema();

}  // namespace ovl::test
