// SPDX-License-Identifier: Apache-2.0
//
// The peers' definitions of overlap, from the times of one case. They give 0 % to 100 % on one and the same run, so a
// user who knows one of them can find it here beside ours. They clamp where the peer clamps, and nowhere else do we.
#pragma once

#include <string>
#include <vector>

#include "base/units.hpp"
#include "metrics/overlap.hpp"

namespace ovl {

// Total lengths within the overlapped run, as a trace shows them: compute running, communication running, both at once.
struct RunningTimes {
  Seconds compute = unknown_time;
  Seconds comm = unknown_time;
  Seconds both = unknown_time;
};

struct PeerMetric {
  std::string name;
  double value;            // NaN where a time it needs is unknown
  std::string unit;        // "%", "1" or "s"
  std::string definition;  // in our names; running_* are the RunningTimes
  std::string source;      // where the peer computes or defines it
};

std::vector<PeerMetric> peer_metrics(const ArmTimes& times, const RunningTimes& running);

}  // namespace ovl
