// SPDX-License-Identifier: Apache-2.0
//
// A machine description (results/machine.hpp) as rates.
#pragma once

#include "backend/model/rates.hpp"
#include "results/machine.hpp"

namespace ovl::model {

// What a description does not say stays unknown. Of a collective's series those that nothing ran beside are taken, out
// of place before in place; its contention between gemm (or compute) and a collective (or comm), the worst of each way.
Rates rates_of(const Machine& machine);

}  // namespace ovl::model
