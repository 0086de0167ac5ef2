// SPDX-License-Identifier: Apache-2.0
//
// From samples to the numbers of a row: pure, so that anyone can do it again from samples.csv.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/backend.hpp"
#include "measure/case.hpp"
#include "measure/samples.hpp"
#include "metrics/fluid_interference.hpp"
#include "metrics/overlap.hpp"
#include "program/reference.hpp"
#include "stats/interval.hpp"

namespace ovl {

struct Estimate {
  double value = std::numeric_limits<double>::quiet_NaN();
  Interval interval;
};

// What the used samples of one arm say.
struct ArmSummary {
  std::string name;
  Estimate compute;        // median of role_time(), per operation; NaN without compute
  Estimate communication;  // likewise
  // Medians over the samples of the least, the middle and the largest of the ranks' own times, per operation.
  Seconds rank_least = unknown_time;
  Seconds rank_middle = unknown_time;
  Seconds rank_most = unknown_time;
  BytesPerSecond pace = unknown_pace;  // median of pace()
  // The role that is to cover the other, and the share of the samples in which it did; NaN where nothing tells.
  std::optional<Role> covering;
  double coverage = std::numeric_limits<double>::quiet_NaN();
};

// What a recorded replay tells of a step (measure/step_costs.hpp says what each is).
struct StepCosts {
  Seconds exposed = unknown_time;
  Seconds tail = unknown_time;
  Seconds launch = unknown_time;
  Seconds event_wait = unknown_time;
  Seconds gap = unknown_time;
  Seconds rank_spread = unknown_time;
};
struct StepCostEstimates {
  StepCosts medians;
  Interval exposed;
  Interval tail;
};

// What a step exposes by one kind of operation on one lane ("all_reduce@data") for one cause.
struct ExposedLine {
  std::string operation;
  ExposedCause cause = ExposedCause::transfer;
  std::string beside;  // likewise: what it shares with, or what holds the units; empty: nothing of that kind
  Seconds time;
};

struct Summary {
  Program program;  // the overlapped one, as replayed
  Tuning tuning;
  int rounds = 0;            // used
  int rounds_uncovered = 0;  // measured again, because a role did not cover the other in an arm that needs it

  // Medians, per operation of the window (t_empty: per window), seconds.
  Estimate t_empty, t_compute, t_comm, t_serial, t_step;
  Estimate t_exposed, hidden_share, speedup;
  ArmTimes times;  // the same medians
  Overlap overlap;

  double compute_stretch = std::numeric_limits<double>::quiet_NaN();
  double comm_stretch = std::numeric_limits<double>::quiet_NaN();
  // Of the spans, by the fluid formula; NaN where the program orders one role after the other or the spans do not tell.
  // An arm in which one role covered all of the other tells the latter's at once, and with an interval.
  Slowdowns slowdowns{std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
  Interval compute_slowdown, comm_slowdown;           // 95 %, of what covered arms tell
  std::string slowdown_source;                        // fluid or covered; empty: unknown
  std::vector<ArmSummary> arms;                       // that were run, in no order that means anything
  StepCostEstimates step_costs;                       // of a case that asks about single operations
  std::vector<std::pair<std::string, Estimate>> own;  // CaseSpec::estimates
  // t_exposed in parts, the largest first, from a backend that knows; nothing: from none.
  std::optional<std::vector<ExposedLine>> exposed;
  std::optional<Difference> difference;  // from the serial replay; nothing: not looked for
  Seconds t_path = unknown_time;
  Seconds align_skew = unknown_time;
  double observer_ratio = std::numeric_limits<double>::quiet_NaN();
  std::string launch_order;
  std::string verdict;

  // nullptr: it was not run.
  [[nodiscard]] const ArmSummary* arm(std::string_view name) const;
};

// The least and the greatest of n rounds hold a median with 1 - 2 / 2^n: of fewer than six there is no interval of 95
// %, and every interval below is unknown, unless nothing scatters (a model).
inline constexpr int fewest_rounds = 6;

// Where the order of a replay's first operations was not seen.
inline constexpr const char* unverified_order = "unverified";

// The one order of all replays, or "mixed"; unverified where there is none.
std::string common_order(const std::vector<std::string>& orders);

// The precision that the stopping rule asks about, from the samples of the used blocks: the interval of the hidden
// share (or of the exposed fraction, see metrics/overlap.hpp).
Interval watched_interval(std::span<const Sample> used, std::int64_t repeats, std::uint64_t seed);

// One of the bench's own estimates. A fifth of the usual resamples will do where it is asked after every block.
Estimate estimate(std::span<const Sample> used, const std::function<double(const ArmMedians&)>& statistic,
                  std::uint64_t seed, int resamples = 1000);

// Instead, of a case that asks for the time of its last arm: the interval of the median step, as a part of it.
Interval relative_step_interval(std::span<const Sample> used, std::string_view arm, std::uint64_t seed);

// Instead, of a case that asks for times of communication: the widest interval of the median communication_time() of
// the given arms, as a part of that median.
Interval widest_communication_interval(std::span<const Sample> used, std::span<const std::string> arms,
                                       std::uint64_t seed);

// And of a case that asks for slowdowns: the widest interval of one in a covered arm, as a part of that slowdown.
Interval widest_slowdown_interval(std::span<const Sample> used, std::uint64_t seed);

// Everything above that samples tell; `used` holds only rounds that count. t_path and observer_ratio are left unknown.
Summary summarise(const Program& program, const Tuning& tuning, std::span<const Sample> used, std::uint64_t seed);

// Longest path through the body, each operation at its isolated time; NaN when one is missing. `isolated` are recorded
// replays of the arms compute and comm, which tell each operation's part of its arm; the whole is the arm's median in
// `times`, per operation of the window as the result. So the path is never shorter than t_ideal: stamps, a quieter
// moment, or the sum of many medians being less than the median of the sum, do not make it so.
Seconds isolated_path(const Program& program, const ArmTimes& times, const std::vector<Timings>& isolated);

}  // namespace ovl
