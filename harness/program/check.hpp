// SPDX-License-Identifier: Apache-2.0
//
// What can be known to be wrong with a program from the data alone, before anything is launched.
#pragma once

#include <string>
#include <vector>

#include "program/program.hpp"

namespace ovl {

struct Finding {
  FindingKind kind;
  std::string message;
};

// shape: an operation's slices do not fit its buffers or its kind; a verify of nothing.
// event: a wait without an earlier record in issue order, an event recorded twice, a start record that marks no start,
// an operation that lasts until an event recorded before it or nowhere.
// race: two operations touch overlapping slices, one writes, and nothing orders them: both, and the missing edge.
// mismatch: ranks of a communicator disagree about a position of their collective sequence, or a send is never met.
// deadlock: replayed without durations, some lane never finishes: where each one stands; or that happens where a rank
// runs one collective at a time, because ranks issue those of several communicators in different orders.
// Shapes and events come first: while one of them is wrong, the others are not looked for.
// Empty: nothing is wrong. Cost: linear in ranks × operations, but for race, quadratic in the operations of a class
// that share a buffer.
std::vector<Finding> check(const Program& program);

// Those of a kind that the program does not expect: with one of them it is not launched.
std::vector<Finding> unexpected_findings(const Program& program);

}  // namespace ovl
