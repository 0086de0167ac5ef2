// SPDX-License-Identifier: Apache-2.0
//
// From what events, markers, CUPTI and the host saw of a replay to Timings: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cuda/plan.hpp"
#include "backend/cuda/residents.hpp"
#include "backend/cuda/trace.hpp"

namespace ovl::cuda {

// One step of an instrumented replay. Device times are from the rank's origin event; NaN: not seen.
struct StepStamps {
  std::int64_t enqueued = 0;     // host clock, ns: handed over
  std::int64_t host_return = 0;  // ... and the call came back
  Seconds start = unknown_time;  // from CUPTI only
  Seconds end = unknown_time;    // of work: its own event
};

struct LaneStamps {
  LaneId lane;
  Seconds start = unknown_time;  // from the origin
  Seconds end = unknown_time;
  std::optional<Bytes> moved;  // by streams, read and written
};

// What a kernel that stays told of this replay.
struct StayStamps {
  enum class Kind { occupy, stream, proxy };
  LaneId lane;
  Kind kind = Kind::occupy;
  StayReport report;
};

struct RankStamps {
  std::int64_t origin = 0;  // host clock, ns
  Seconds joined;           // all lanes done, from the origin
  std::vector<LaneStamps> lanes;
  std::vector<StayStamps> stays;
  std::vector<StepStamps> steps;  // Recording::operations only
};

// A tag of CUPTI: which rank and which step; the marker that stands beside the origin has its own.
std::uint64_t tag_of(Rank rank, std::size_t step);
std::uint64_t marker_tag(Rank rank);

// Starts of a rank's steps from what CUPTI saw: the earliest kernel of each. CUPTI's clock is related to the events' by
// what both saw end: an event fires at or after the end of the kernel before it, so the smallest difference is the
// clocks' (the origin event belongs to the marker). Where nothing was seen by both, no start is known.
void set_starts(Rank rank, const std::vector<KernelRecord>& records, std::vector<StepStamps>& steps);

// Gives its lane what each stream has moved.
void note_moved(RankStamps& stamps);

// CTAs of communication kernels and how they moved their data, as CUPTI saw them and as our own kernels tell; empty
// where nobody did.
struct Observed {
  int ctas = 0;                 // the most that one kernel had
  std::string path;             // "kernel", "symmetric", "copy_engine", "proxy"; "kernel+copy_engine" where both were
  std::set<std::uint64_t> sms;  // where kernels that stay were, but for proxies
  std::string shared;           // why something that holds SMs does not hold what it was asked to; empty: it does
};
Observed observed_in(const Plan& plan, const std::vector<KernelRecord>& records, const std::vector<RankStamps>& stamps);

// Host clock, ns.
std::int64_t latest_origin(const std::vector<RankStamps>& stamps);

// `stamps` of plan.ranks, in their order. Zero is the latest origin.
Timings timings_of(const Plan& plan, const std::vector<RankStamps>& stamps);

}  // namespace ovl::cuda
