// SPDX-License-Identifier: Apache-2.0
//
// From samples to the numbers of a row: pure, so that anyone can do it again from samples.csv.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "measure/case.hpp"
#include "measure/samples.hpp"
#include "metrics/fluid_interference.hpp"
#include "metrics/overlap.hpp"
#include "stats/interval.hpp"

namespace ovl {

struct Estimate {
  double value = std::numeric_limits<double>::quiet_NaN();
  Interval interval;
};

struct Summary {
  Program program;  // the overlapped one, as replayed
  Tuning tuning;
  int rounds = 0;  // used

  // Medians, per operation of the window (t_empty: per window), seconds.
  Estimate t_empty, t_compute, t_comm, t_serial, t_step;
  Estimate t_exposed, hidden_share, speedup;
  ArmTimes times;  // the same medians
  Overlap overlap;

  double compute_stretch = std::numeric_limits<double>::quiet_NaN();
  double comm_stretch = std::numeric_limits<double>::quiet_NaN();
  // Of the spans, by the fluid formula; NaN where the program orders one role after the other or the spans do not tell.
  Slowdowns slowdowns{std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
  Seconds t_path = unknown_time;
  Seconds align_skew = unknown_time;
  double observer_ratio = std::numeric_limits<double>::quiet_NaN();
  std::string launch_order;
  std::string verdict;
};

// The precision that the stopping rule asks about, from the samples of the used blocks: the interval of the hidden
// share (or of the exposed fraction, see metrics/overlap.hpp).
Interval watched_interval(std::span<const Sample> used, std::int64_t repeats, std::uint64_t seed);

// Everything above that samples tell; `used` holds only rounds that count. t_path and observer_ratio are left unknown.
Summary summarise(const Program& program, const Tuning& tuning, std::span<const Sample> used, std::uint64_t seed);

// Longest path through the body, each operation at the median of its isolated durations; NaN when one is missing.
// Durations are of one window, the result is per operation of it.
Seconds isolated_path(const Program& program, const Tuning& tuning, const std::vector<Timings>& isolated);

}  // namespace ovl
