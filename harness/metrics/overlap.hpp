// SPDX-License-Identifier: Apache-2.0
//
// The overlap algebra: what the medians of a case's four arms say. Every number is signed and none is clamped: worse
// than serial is a negative share, and a share above one says that an isolated time was measured in a worse state than
// the combined one. Unknown in, unknown out; a share of nothing is unknown, not zero.
#pragma once

#include <string_view>
#include <utility>

#include "base/enum_names.hpp"
#include "base/units.hpp"

namespace ovl {

// Median step times of the arms `compute`, `comm`, `serial` and `overlapped`.
struct ArmTimes {
  Seconds compute = unknown_time;
  Seconds comm = unknown_time;
  Seconds serial = unknown_time;
  Seconds step = unknown_time;
};

// The parts of the step, NaN unless both are known.
Seconds shorter_part(const ArmTimes& times);
Seconds longer_part(const ArmTimes& times);

// part / whole, NaN where there is no whole to have a part of.
double share(Seconds part, Seconds whole);

struct Overlap {
  Seconds t_ideal;          // max(compute, comm)
  double speedup_bound;     // (compute + comm) / t_ideal: 2 where both are equal, 1 where one is nothing
  Seconds t_overlap;        // compute + comm - step: what running together saved
  Seconds t_exposed;        // step - compute: communication left on the wall clock
  double hidden_share;      // t_overlap / min(compute, comm): 1 perfect, 0 serial, below 0 worse than serial
  double hidden_fraction;   // t_overlap / comm: the part of the communication that left the wall clock
  double speedup;           // (compute + comm) / step
  double speedup_measured;  // serial / step
  Seconds serial_gap;       // serial - (compute + comm): what running one after the other costs or saves
};

Overlap overlap(const ArmTimes& times);

// What the stopping rule watches. A hidden share divides by the shorter part; where that is a small part of the step
// its interval explodes though nothing that matters is uncertain, so the exposed part of the step is watched instead.
enum class Watched { hidden_share, exposed_fraction };
template <>
struct EnumNames<Watched> {
  static constexpr std::string_view axis = "watched statistic";
  static constexpr std::pair<Watched, std::string_view> table[] = {{Watched::hidden_share, "hidden_share"},
                                                                   {Watched::exposed_fraction, "exposed_fraction"}};
};

// Below this part of the step the shorter of compute and communication is not worth hiding.
inline constexpr double smallest_part_worth_hiding = 0.05;

// Chosen once, from the medians of all rounds; resamples then keep to it, so that no interval mixes two statistics.
Watched watched_statistic(const ArmTimes& medians);

// The hidden share, or t_exposed / step.
double precision_statistic(const ArmTimes& times, Watched watched);

}  // namespace ovl
