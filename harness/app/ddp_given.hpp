// SPDX-License-Identifier: Apache-2.0
//
// overlap-ddp in given durations instead of kernels: equal buckets behind a backward pass of a given length, each sent
// at alpha + wire / buckets. A what-if question needs no machine.
#pragma once

#include "app/bench.hpp"

namespace ovl {

// The bench with --backward, --gradient-bytes, --equal-buckets, --alpha and --wire-time. With any of them all are
// needed, and its cases are theirs, one each combination; without them they are the bench's own. Adds the columns
// t_tail and t_exposed_formula.
Bench with_given_durations(Bench ddp);

}  // namespace ovl
