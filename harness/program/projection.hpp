// SPDX-License-Identifier: Apache-2.0
//
// The arms of a case are projections of its overlapped program, written once for every schedule. They keep the ids,
// the issue order and the buffers of the operations that stay.
#pragma once

#include <string>
#include <vector>

#include "base/enum_names.hpp"
#include "program/program.hpp"

namespace ovl {

enum class Arm { empty, compute, comm, serial, overlapped };
template <>
struct EnumNames<Arm> {
  static constexpr std::string_view axis = "arm";
  static constexpr std::pair<Arm, std::string_view> table[] = {{Arm::empty, "empty"},
                                                               {Arm::compute, "compute"},
                                                               {Arm::comm, "comm"},
                                                               {Arm::serial, "serial"},
                                                               {Arm::overlapped, "overlapped"}};
};

// empty: every operation becomes one of no duration, on its lane, with all events: what the harness itself costs.
// compute, comm: only operations of that role; order that ran through dropped ones is kept by new events, no more than
// it takes. A start event or a host_sync leaves only the order that it implied.
// serial: everything on the lane of the first compute operation (communication, if there is none), in issue order,
// without events. Ranks that meet in crossed order on lanes side by side (a send on one, a receive on the other) have
// no serial arm: check() finds its deadlock. overlapped: the program itself. Each but the last is called
// <program>:<arm>. What an arm no longer does, its epilogue no longer verifies. Throws Error(failure) where the arm
// keeps an operation that lasts until an event: without the whole program it would not end.
Program project(const Program& program, Arm arm);

// The program as it were if the collectives on these communicators, by name, took no time and waited for nobody:
// operations of no duration in their place. All order stays. Called <program>:without_<names>. For collectives of ranks
// that are alike: what else ranks learn from each other by meeting is lost.
Program without_collectives(const Program& program, const std::vector<std::string>& communicators);

}  // namespace ovl
