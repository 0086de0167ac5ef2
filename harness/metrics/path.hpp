// SPDX-License-Identifier: Apache-2.0
//
// What the schedule alone allows: the longest chain of operations that must follow each other, each at its isolated
// time. t_path - t_ideal cannot hide behind anything; t_step - t_path is contention, launch and waiting.
#pragma once

#include <map>

#include "base/units.hpp"
#include "program/program.hpp"

namespace ovl {

// Over the body of each rank class, the longest of all; order between ranks adds nothing, since an isolated collective
// already waits for its peers. Events and host_sync take no time. NaN when an operation has no duration.
Seconds longest_path(const Program& program, const std::map<OpId, Seconds>& durations);

}  // namespace ovl
