// SPDX-License-Identifier: Apache-2.0
//
// What can be known to be wrong with a program from the data alone, before anything is launched.
#pragma once

#include <string>
#include <vector>

#include "base/enum_names.hpp"
#include "program/program.hpp"

namespace ovl {

enum class FindingKind { shape, event, race, mismatch, deadlock };
template <>
struct EnumNames<FindingKind> {
  static constexpr std::string_view axis = "finding";
  static constexpr std::pair<FindingKind, std::string_view> table[] = {{FindingKind::shape, "shape"},
                                                                       {FindingKind::event, "event"},
                                                                       {FindingKind::race, "race"},
                                                                       {FindingKind::mismatch, "mismatch"},
                                                                       {FindingKind::deadlock, "deadlock"}};
};

struct Finding {
  FindingKind kind;
  std::string message;
};

// shape: an operation's slices do not fit its buffers or its kind.
// event: a wait without an earlier record in issue order, or an event recorded twice.
// race: two operations touch overlapping slices, one writes, and nothing orders them: both, and the missing edge.
// mismatch: ranks of a communicator disagree about a position of their collective sequence, or a send is never met.
// deadlock: replayed without durations, some lane never finishes: where each one stands; or two ranks issue the
// collectives of two communicators in different orders.
// Empty: nothing is wrong. Cost: linear in ranks × operations, but for race, quadratic in the operations of a class
// that share a buffer.
std::vector<Finding> check(const Program& program);

}  // namespace ovl
