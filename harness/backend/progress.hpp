// SPDX-License-Identifier: Apache-2.0
//
// How far lanes are, in words: what is told of a replay that hangs.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "program/program.hpp"

namespace ovl {

// "rank 0 comm: enqueued %3 all_reduce 25MiB f32, completed nothing", the lanes separated by "; ".
std::string progress_text(const Program& program, const std::vector<LaneProgress>& progress);

}  // namespace ovl
