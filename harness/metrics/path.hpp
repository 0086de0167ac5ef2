// SPDX-License-Identifier: Apache-2.0
//
// What the schedule alone allows: the longest chain of operations that must follow each other, each at its isolated
// time. t_path - t_ideal cannot hide behind anything; t_step - t_path is contention, launch and waiting.
#pragma once

#include <map>
#include <vector>

#include "base/units.hpp"
#include "program/program.hpp"

namespace ovl {

// What each operation of one rank class takes: ids are unique within a class only.
using Durations = std::map<OpId, Seconds>;

// Over the body of each rank class, the longest of all; order between ranks adds nothing, since an isolated collective
// already waits for its peers. Events and host_sync take no time. `durations` has one entry a class of the program.
// NaN when the duration of an operation is missing or unknown.
Seconds longest_path(const Program& program, const std::vector<Durations>& durations);

}  // namespace ovl
