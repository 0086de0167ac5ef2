// SPDX-License-Identifier: Apache-2.0
//
// Small programs of every shape that schedules have, correct and with no edge too many: deleting any one is an error.
#pragma once

#include <cstdint>
#include <string_view>
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

// One rank. A victim on the lane "compute" beside an occupier or a stream that is there before it and, where it lasts
// until contended_end, outlives it.
Program contended(const Work& aggressor, const Work& victim);
inline constexpr EventId contended_end{1};
inline constexpr Bytes contended_bytes{64};  // of either array of a stream

// All of the above but the last.
std::vector<Program> all();

// Elements of the buffer of this name; -1: there is none.
std::int64_t count_of(const Program& program, std::string_view buffer);

}  // namespace ovl::sample
