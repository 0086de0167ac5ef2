// SPDX-License-Identifier: Apache-2.0
#include "measure/summary.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "metrics/path.hpp"
#include "metrics/verdict.hpp"
#include "program/order.hpp"
#include "stats/bootstrap.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t arm_count = std::size(EnumNames<Arm>::table);
constexpr std::size_t index_of(Arm arm) { return static_cast<std::size_t>(arm); }

// The steps of every arm by round: what a bootstrap resamples. With --interleave block a round holds many samples.
class Rounds {
 public:
  explicit Rounds(std::span<const Sample> samples) {
    std::map<int, std::size_t> row_of;
    for (const Sample& s : samples) row_of.emplace(s.round, row_of.size());
    for (auto& steps : steps_) steps.resize(row_of.size());
    for (const Sample& s : samples) steps_[index_of(s.arm)][row_of.at(s.round)].push_back(s.step.value());
  }

  [[nodiscard]] std::size_t size() const { return steps_[0].size(); }

  // The median step of an arm over the given rounds, which may repeat; NaN when the arm was not run.
  [[nodiscard]] double median_step(Arm arm, std::span<const std::size_t> rounds) const {
    scratch_.clear();
    for (const std::size_t r : rounds) {
      const std::vector<double>& steps = steps_[index_of(arm)][r];
      scratch_.insert(scratch_.end(), steps.begin(), steps.end());
    }
    return median(scratch_);
  }

  [[nodiscard]] std::vector<std::size_t> all() const {
    std::vector<std::size_t> rounds(size());
    for (std::size_t i = 0; i < rounds.size(); ++i) rounds[i] = i;
    return rounds;
  }

 private:
  std::array<std::vector<std::vector<double>>, arm_count> steps_;
  mutable std::vector<double> scratch_;
};

ArmTimes arm_times(const Rounds& rounds, std::span<const std::size_t> which, std::int64_t repeats) {
  const auto time = [&](Arm arm) { return Seconds(rounds.median_step(arm, which) / static_cast<double>(repeats)); };
  return {time(Arm::compute), time(Arm::comm), time(Arm::serial), time(Arm::overlapped)};
}

// The median over the rounds of an arm's widest span; NaN when the arm has no lane of that role.
double median_span(std::span<const Sample> samples, Arm arm, Role role) {
  std::vector<double> spans;
  for (const Sample& s : samples) {
    if (s.arm == arm) spans.push_back(widest_span(s, role).value());
  }
  return median(spans);
}

// Whether compute and communication are free to run side by side: nothing orders an operation of one role after one of
// the other. Only then do both begin together, as the fluid formula has it.
bool side_by_side(const Program& program) {
  for (const RankClass& c : program.classes) {
    const HappensBefore order(c.body, program.lanes.size());
    // An operation that follows another of a lane follows the lane's first too, so the firsts are enough to ask about.
    std::map<std::pair<LaneId, Role>, std::size_t> firsts;
    for (std::size_t i = 0; i < c.body.size(); ++i) {
      const Operation& op = c.body[i];
      if (is_ordering(op.work)) continue;
      for (const auto& [of, first] : firsts) {
        if (of.second != op.role && order.before(first, i)) return false;
      }
      firsts.try_emplace({op.lane, op.role}, i);
    }
  }
  return true;
}

std::string common_order(std::span<const Sample> samples) {
  std::map<std::string, int> seen;
  int total = 0;
  for (const Sample& s : samples) {
    if (s.arm != Arm::overlapped) continue;
    ++seen[s.launch_order];
    ++total;
  }
  if (seen.empty()) return "unverified";
  const auto most = std::max_element(seen.begin(), seen.end(), [](auto& a, auto& b) { return a.second < b.second; });
  if (most->second == total) return most->first;
  return "mixed";
}

}  // namespace

Interval watched_interval(std::span<const Sample> used, std::int64_t repeats, std::uint64_t seed) {
  const Rounds rounds(used);
  const Watched watched = watched_statistic(arm_times(rounds, rounds.all(), repeats));
  // Asked after every block: a fifth of the resamples tells well enough whether to go on.
  return bootstrap_interval(rounds.size(),
                            [&](std::span<const std::size_t> which) {
                              return precision_statistic(arm_times(rounds, which, repeats), watched);
                            },
                            {.resamples = 200, .seed = seed});
}

Summary summarise(const Program& program, const Tuning& tuning, std::span<const Sample> used, std::uint64_t seed) {
  const Rounds rounds(used);
  const std::vector<std::size_t> all = rounds.all();
  Summary s;
  s.program = program;
  s.tuning = tuning;
  s.rounds = static_cast<int>(rounds.size());
  s.times = arm_times(rounds, all, tuning.repeats);
  s.overlap = overlap(s.times);

  const auto statistics = [&](std::span<const std::size_t> which, std::span<double> values) {
    const ArmTimes t = arm_times(rounds, which, tuning.repeats);
    const Overlap o = overlap(t);
    const std::array<double, 8> result{rounds.median_step(Arm::empty, which),
                                       t.compute.value(),
                                       t.comm.value(),
                                       t.serial.value(),
                                       t.step.value(),
                                       o.t_exposed.value(),
                                       o.hidden_share,
                                       o.speedup};
    std::copy(result.begin(), result.end(), values.begin());
  };
  const std::array<Estimate*, 8> estimates{&s.t_empty, &s.t_compute, &s.t_comm,       &s.t_serial,
                                           &s.t_step,  &s.t_exposed, &s.hidden_share, &s.speedup};
  std::array<double, 8> values{};
  statistics(all, values);
  const std::vector<Interval> intervals =
      bootstrap_intervals(rounds.size(), estimates.size(), statistics, {.seed = seed});
  for (std::size_t i = 0; i < estimates.size(); ++i) *estimates[i] = {values[i], intervals[i]};

  const double compute_alone = median_span(used, Arm::compute, Role::compute);
  const double comm_alone = median_span(used, Arm::comm, Role::communication);
  const double compute_together = median_span(used, Arm::overlapped, Role::compute);
  const double comm_together = median_span(used, Arm::overlapped, Role::communication);
  s.compute_stretch = compute_together / compute_alone;
  s.comm_stretch = comm_together / comm_alone;
  // In a program that orders both roles, a long span is as much waiting as contention.
  const bool contend = side_by_side(program);
  if (contend) {
    s.slowdowns = slowdowns_from_spans(Seconds(compute_alone), Seconds(comm_alone),
                                       {Seconds(compute_together), Seconds(comm_together)});
  }
  std::vector<double> skews;
  for (const Sample& sample : used) skews.push_back(sample.align_skew.value());
  s.align_skew = Seconds(median(skews));
  s.launch_order = common_order(used);
  s.verdict = verdict(s.times, s.hidden_share.interval, contend ? s.compute_stretch : unknown,
                      contend ? s.comm_stretch : unknown);
  return s;
}

Seconds isolated_path(const Program& program, const Tuning& tuning, const std::vector<Timings>& isolated) {
  // Of each operation and replay the slowest rank: a collective takes as long as its last one.
  std::vector<std::map<OpId, std::vector<double>>> slowest(program.classes.size());
  for (const Timings& t : isolated) {
    std::map<std::pair<std::size_t, OpId>, std::vector<double>> ranks;
    for (const OperationTiming& op : t.operations) {
      const auto c = static_cast<std::size_t>(&program.class_of(op.rank) - program.classes.data());
      ranks[{c, op.op}].push_back((op.end - op.start).value());
    }
    for (const auto& [op, durations] : ranks) slowest[op.first][op.second].push_back(quantile(durations, 1));
  }
  std::vector<Durations> medians;
  for (const auto& operations : slowest) {
    Durations& of_class = medians.emplace_back();
    for (const auto& [op, durations] : operations) of_class[op] = Seconds(median(durations));
  }
  return longest_path(program, medians) / static_cast<double>(tuning.repeats);
}

}  // namespace ovl
