// SPDX-License-Identifier: Apache-2.0
//
// Small programs of every shape that schedules have, correct and with no edge too many: deleting any one is an error.
#pragma once

#include <vector>

#include "program/program.hpp"

namespace ovl::sample {

// Two ranks. A GEMM beside an all_reduce that touches nothing of it. No events.
Program pair();

// Two ranks, three layers: each GEMM's gradient is all-reduced on the comm lane, then the optimizer, on the compute
// lane again, adds the reduced gradients to the weights.
Program ddp();

// Two ranks, two classes: stage 0 sends what it computed to stage 1, which computes on it and sends the gradient back.
Program pipeline();

// Four ranks as 2 × 2: an all_reduce within the rows, whose result is all-gathered within the columns.
Program mesh();

// All of the above.
std::vector<Program> all();

}  // namespace ovl::sample
