// SPDX-License-Identifier: Apache-2.0
//
// What keeps a step from its ideal, term by term:
//
//   t_step - t_ideal = dependencies + start delay + compute slowdown + communication slowdown + clock drop
//                    + waiting for the slowest rank + remainder
//
// Each term comes from an instrument of its own; one without an instrument is empty and stays in the remainder, which
// is shown. Nothing is clamped: a term may be negative, and a remainder that is says that the terms overlap.
//
// The terms are those of the side that decides when the step ends: if compute alone takes longer, communication that is
// slowed in its shadow costs the step nothing. Which side that is, its own stretched end tells (critical_role).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "metrics/overlap.hpp"
#include "program/program.hpp"

namespace ovl {

// What the instruments saw. Everything but the step times is optional; of a role, both roles or neither.
struct AttributionInputs {
  ArmTimes times;                      // medians; compute, comm and step are needed
  std::optional<Seconds> t_path;       // longest path at isolated times: what the schedule cannot hide
  std::optional<Seconds> start_delay;  // of the critical side: from when it could begin to when it did
  // How many times as long each takes while the other runs, at equal clocks, and for how long both ran.
  std::optional<double> compute_slowdown;
  std::optional<double> comm_slowdown;
  std::optional<Seconds> together;
  std::optional<double> clock_ratio;  // clock while overlapped / clock while alone; below 1 is a drop
  std::optional<Seconds> waiting;     // of the last rank's peers: latest start minus the median one
};

struct Attribution {
  Seconds total;  // t_step - t_ideal
  std::optional<Seconds> dependencies;
  std::optional<Seconds> start_delay;
  std::optional<Seconds> compute_slowdown;
  std::optional<Seconds> comm_slowdown;
  std::optional<Seconds> clock_drop;
  std::optional<Seconds> waiting;
  Seconds remainder;  // what no term explains
};

// dependencies      t_path - t_ideal
// start delay       as given
// compute slowdown  together · (1 - 1 / s_c), where compute is the critical side: while both run it does 1 / s_c of
//                   what it would; 0 where it is not critical. The other way round for communication.
// clock drop        busy time of the critical side alone · (1 / clock_ratio - 1)
// waiting           as given
// NaN in, NaN out, but a NaN instrument is an empty one.
Attribution attribute(const AttributionInputs& inputs);

// The side whose isolated time is the longer: t_ideal is its; the tie is compute's.
Role critical_role(const ArmTimes& times);

// The terms by name in the order of the formula, without those that are empty, the remainder last.
std::vector<std::pair<std::string_view, Seconds>> named_terms(const Attribution& attribution);

// How many times as long work for all units takes when `held` of `units` are taken away: units / (units - held), as if
// work divided as finely as wanted (wave quantisation: metrics/gemm_waves.hpp). Infinite where none are left.
double share_slowdown(int units, int held);

// And when two want a resource of a given bandwidth: both get their part of it, max(1, (first + second) / capacity).
double bandwidth_slowdown(BytesPerSecond first, BytesPerSecond second, BytesPerSecond capacity);

}  // namespace ovl
