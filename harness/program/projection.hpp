// SPDX-License-Identifier: Apache-2.0
//
// The arms of a case are projections of its overlapped program, written once for every schedule. They keep the ids,
// the issue order and the buffers of the operations that stay.
#pragma once

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

// empty: every operation becomes one of no duration: what the harness itself costs.
// compute, comm: only operations of that role; order that ran through the dropped ones is kept by new events.
// serial: everything on the lane of the first operation, in issue order, without events.
// overlapped: the program itself.
Program project(const Program& program, Arm arm);

}  // namespace ovl
