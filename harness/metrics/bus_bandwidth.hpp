// SPDX-License-Identifier: Apache-2.0
//
// Algorithm and bus bandwidth by the convention of nccl-tests (doc/PERFORMANCE.md). `size` is the whole array, also for
// all_gather, reduce_scatter and all_to_all: Collective::count times the size of an element. `ranks` is at least 1.
#pragma once

#include "base/units.hpp"
#include "program/program.hpp"

namespace ovl {

// Bytes that each rank's link must carry, per byte of the array, whatever the algorithm: all_reduce 2 (n - 1) / n;
// all_gather, reduce_scatter, all_to_all (n - 1) / n; broadcast 1. With one rank nothing crosses a link and the factor
// is 0, but for broadcast, where nccl-tests keeps the 1.
double bus_factor(CollectiveKind kind, int ranks);

// size / time: what the caller sees.
BytesPerSecond algorithm_bandwidth(Bytes size, Seconds time);

// algorithm_bandwidth · bus_factor: comparable with the speed of a link, and over numbers of ranks. It is not what a
// link carried where the switch reduces or where the algorithm is hierarchical.
BytesPerSecond bus_bandwidth(CollectiveKind kind, int ranks, Bytes size, Seconds time);

// The time that a collective takes at a given bus bandwidth, latency left out.
Seconds time_at_bus_bandwidth(CollectiveKind kind, int ranks, Bytes size, BytesPerSecond bandwidth);

}  // namespace ovl
