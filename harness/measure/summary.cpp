// SPDX-License-Identifier: Apache-2.0
#include "measure/summary.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "metrics/path.hpp"
#include "metrics/verdict.hpp"
#include "program/order.hpp"
#include "stats/bootstrap.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

// Values of every arm's samples by round: what a bootstrap resamples. With --interleave block a round holds many
// samples.
class Rounds {
 public:
  template <class Value>
  Rounds(std::span<const Sample> samples, const Value& value) {
    std::map<int, std::size_t> row_of;
    for (const Sample& s : samples) row_of.emplace(s.round, row_of.size());
    size_ = row_of.size();
    for (const Sample& s : samples) {
      auto& rows = values_[s.arm];
      rows.resize(size_);
      rows[row_of.at(s.round)].push_back(value(s));
    }
  }

  [[nodiscard]] std::size_t size() const { return size_; }

  // The median of an arm over the given rounds, which may repeat; NaN when the arm was not run.
  [[nodiscard]] double median_of(std::string_view arm, std::span<const std::size_t> rounds) const {
    const auto rows = values_.find(arm);
    if (rows == values_.end()) return unknown_number;
    scratch_.clear();
    for (const std::size_t r : rounds) {
      scratch_.insert(scratch_.end(), rows->second[r].begin(), rows->second[r].end());
    }
    return median(scratch_);
  }

  [[nodiscard]] std::vector<std::size_t> all() const {
    std::vector<std::size_t> rounds(size());
    for (std::size_t i = 0; i < rounds.size(); ++i) rounds[i] = i;
    return rounds;
  }

  [[nodiscard]] std::vector<std::string> arms() const {
    std::vector<std::string> names;
    for (const auto& [name, rows] : values_) names.push_back(name);
    return names;
  }

 private:
  std::size_t size_ = 0;
  std::map<std::string, std::vector<std::vector<double>>, std::less<>> values_;
  mutable std::vector<double> scratch_;
};

// Of 95 %, where there are rounds enough for one, or where no resample differs.
std::vector<Interval> intervals_over(std::size_t rounds, std::size_t count, const Statistics& statistics,
                                     const BootstrapOptions& options) {
  std::vector<Interval> intervals = bootstrap_intervals(rounds, count, statistics, options);
  for (Interval& interval : intervals) {
    if (rounds < fewest_rounds && interval.width() > 0) interval = {};
  }
  return intervals;
}

Interval interval_over(std::size_t rounds, const Statistic& statistic, const BootstrapOptions& options) {
  const Statistics one = [&](std::span<const std::size_t> which, std::span<double> values) {
    values[0] = statistic(which);
  };
  return intervals_over(rounds, 1, one, options)[0];
}

double step_of(const Sample& s) { return s.step.value(); }
double compute_span_of(const Sample& s) { return widest_span(s, Role::compute).value(); }
double compute_of(const Sample& s) { return role_time(s, Role::compute).value(); }
double communication_of(const Sample& s) { return role_time(s, Role::communication).value(); }

ArmTimes arm_times(const Rounds& rounds, std::span<const std::size_t> which, std::int64_t repeats) {
  const auto time = [&](Arm arm) { return Seconds(rounds.median_of(name(arm), which) / static_cast<double>(repeats)); };
  return {time(Arm::compute), time(Arm::comm), time(Arm::serial), time(Arm::overlapped)};
}

// The median over the rounds of an arm's widest span; NaN when the arm has no lane of that role.
double median_span(std::span<const Sample> samples, Arm arm, Role role) {
  std::vector<double> spans;
  for (const Sample& s : samples) {
    if (s.arm == name(arm)) spans.push_back(widest_span(s, role).value());
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

// By what an arm's operations are to be multiplied so that its own longest path takes `whole`.
double scale_to(Seconds whole, const Program& arm, const std::vector<Durations>& durations) {
  return share(whole, longest_path(arm, durations));
}

// Whether each rank does both roles on one lane, so that nothing can run beside anything.
bool on_one_lane(const Program& program) {
  bool both = false;
  for (const RankClass& c : program.classes) {
    std::map<LaneId, std::set<Role>> roles;
    for (const Operation& op : c.body) {
      if (!is_ordering(op.work)) roles[op.lane].insert(op.role);
    }
    if (roles.size() > 1) return false;
    both = both || (!roles.empty() && roles.begin()->second.size() > 1);
  }
  return both;
}

std::string order_of(std::span<const Sample> samples) {
  std::vector<std::string> orders;
  for (const Sample& s : samples) {
    if (s.arm == name(Arm::overlapped)) orders.push_back(s.launch_order);
  }
  return common_order(orders);
}

// The medians over an arm's samples of the p-quantile of the ranks' own times.
Seconds rank_time(std::span<const Sample> used, const std::string& arm, double p, std::int64_t repeats) {
  std::vector<double> values;
  for (const Sample& s : used) {
    if (s.arm != arm) continue;
    std::vector<double> own;
    for (const RankSample& r : s.ranks) own.push_back(r.own.value());
    values.push_back(quantile(own, p));
  }
  return Seconds(median(values) / static_cast<double>(repeats));
}

double coverage_of(std::span<const Sample> used, const std::string& arm) {
  double samples = 0;
  double covered = 0;
  for (const Sample& s : used) {
    if (s.arm != arm || !s.covered) continue;
    ++samples;
    covered += *s.covered ? 1 : 0;
  }
  return samples > 0 ? covered / samples : unknown_number;
}

std::vector<ArmSummary> arm_summaries(std::span<const Sample> used, std::int64_t repeats, std::uint64_t seed) {
  const Rounds compute(used, compute_of);
  const Rounds communication(used, communication_of);
  const auto estimate = [&](const Rounds& rounds, const std::string& arm) -> Estimate {
    const auto statistic = [&](std::span<const std::size_t> which) {
      return rounds.median_of(arm, which) / static_cast<double>(repeats);
    };
    const double value = statistic(rounds.all());
    if (std::isnan(value)) return {};
    return {value, interval_over(rounds.size(), statistic, {.seed = seed})};
  };
  std::vector<ArmSummary> all;
  for (const std::string& arm : compute.arms()) {
    ArmSummary& summary = all.emplace_back();
    summary.name = arm;
    summary.compute = estimate(compute, arm);
    summary.communication = estimate(communication, arm);
    summary.rank_least = rank_time(used, arm, 0, repeats);
    summary.rank_middle = rank_time(used, arm, 0.5, repeats);
    summary.rank_most = rank_time(used, arm, 1, repeats);
    std::vector<double> paces;
    for (const Sample& s : used) {
      if (s.arm != arm) continue;
      summary.covering = s.covering;
      paces.push_back(pace(s).value());
    }
    summary.pace = BytesPerSecond(median(paces));
    summary.coverage = coverage_of(used, arm);
  }
  return all;
}

// How many times as long a role takes in an arm in which the other covers it as in its own: of the same rounds.
Estimate covered_slowdown(std::span<const Sample> used, Role victim, const std::string& arm,
                          const BootstrapOptions& options) {
  const Rounds rounds(used, victim == Role::compute ? compute_of : communication_of);
  const std::string_view alone = name(victim == Role::compute ? Arm::compute : Arm::comm);
  const auto ratio = [&](std::span<const std::size_t> which) {
    return rounds.median_of(arm, which) / rounds.median_of(alone, which);
  };
  return {ratio(rounds.all()), interval_over(rounds.size(), ratio, options)};
}

}  // namespace

const ArmSummary* Summary::arm(std::string_view wanted) const {
  const auto found = std::find_if(arms.begin(), arms.end(), [&](const ArmSummary& a) { return a.name == wanted; });
  return found == arms.end() ? nullptr : &*found;
}

std::string common_order(const std::vector<std::string>& orders) {
  if (orders.empty()) return unverified_order;
  const bool same = std::all_of(orders.begin(), orders.end(), [&](const auto& o) { return o == orders.front(); });
  return same ? orders.front() : "mixed";
}

Interval watched_interval(std::span<const Sample> used, std::int64_t repeats, std::uint64_t seed) {
  const Rounds rounds(used, step_of);
  const Watched watched = watched_statistic(arm_times(rounds, rounds.all(), repeats));
  // Asked after every block: a fifth of the resamples tells well enough whether to go on.
  return interval_over(rounds.size(),
                       [&](std::span<const std::size_t> which) {
                         return precision_statistic(arm_times(rounds, which, repeats), watched);
                       },
                       {.resamples = 200, .seed = seed});
}

Estimate estimate(std::span<const Sample> used, const std::function<double(const ArmMedians&)>& statistic,
                  std::uint64_t seed, int resamples) {
  const Rounds steps(used, step_of);
  const Rounds spans(used, compute_span_of);
  const Rounds compute(used, compute_of);
  const Rounds communication(used, communication_of);
  const auto starts = [&](Role role) {
    return Rounds(used, [=](const Sample& s) { return role_start(s, role).middle.value(); });
  };
  const auto spreads = [&](Role role) {
    return Rounds(used, [=](const Sample& s) { return role_start(s, role).spread.value(); });
  };
  const std::array<Rounds, 2> start{starts(Role::compute), starts(Role::communication)};
  const std::array<Rounds, 2> spread{spreads(Role::compute), spreads(Role::communication)};
  std::map<std::string, Rounds, std::less<>> values;
  for (const Sample& s : used) {
    for (const auto& [name, value] : s.values) {
      if (values.contains(name)) continue;
      values.emplace(name, Rounds(used, [&name = name](const Sample& other) { return noted(other, name); }));
    }
  }
  const auto over = [&](std::span<const std::size_t> which) {
    return statistic(
        {.step = [&](std::string_view arm) { return Seconds(steps.median_of(arm, which)); },
         .compute_span = [&](std::string_view arm) { return Seconds(spans.median_of(arm, which)); },
         .role_time =
             [&](std::string_view arm, Role role) {
               return Seconds((role == Role::compute ? compute : communication).median_of(arm, which));
             },
         .start = [&](std::string_view arm,
                      Role role) { return Seconds(start[role == Role::compute ? 0 : 1].median_of(arm, which)); },
         .start_spread =
             [&](std::string_view arm, Role role) {
               return Seconds(spread[role == Role::compute ? 0 : 1].median_of(arm, which));
             },
         .value =
             [&](std::string_view arm, std::string_view name) {
               const auto rounds = values.find(name);
               return rounds == values.end() ? unknown_number : rounds->second.median_of(arm, which);
             }});
  };
  return {over(steps.all()), interval_over(steps.size(), over, {.resamples = resamples, .seed = seed})};
}

Interval relative_step_interval(std::span<const Sample> used, std::string_view arm, std::uint64_t seed) {
  const Rounds steps(used, step_of);
  const double whole = steps.median_of(arm, steps.all());
  return interval_over(steps.size(),
                       [&](std::span<const std::size_t> which) { return steps.median_of(arm, which) / whole; },
                       {.resamples = 200, .seed = seed});
}

Interval widest_communication_interval(std::span<const Sample> used, std::span<const std::string> arms,
                                       std::uint64_t seed) {
  const Rounds rounds(used, communication_of);
  Interval widest{0, 0};
  for (const std::string& arm : arms) {
    const double whole = rounds.median_of(arm, rounds.all());
    const Interval interval = interval_over(
        rounds.size(), [&](std::span<const std::size_t> which) { return rounds.median_of(arm, which) / whole; },
        {.resamples = 200, .seed = seed});
    if (!(interval.width() <= widest.width())) widest = interval;
    if (std::isnan(widest.width())) break;  // one that is unknown does not become known by another
  }
  return widest;
}

Interval widest_slowdown_interval(std::span<const Sample> used, std::uint64_t seed) {
  std::map<std::string, Role> covering;  // by arm
  for (const Sample& s : used) {
    if (s.covering) covering.emplace(s.arm, *s.covering);
  }
  Interval widest{0, 0};
  for (const auto& [arm, role] : covering) {
    const Role victim = role == Role::compute ? Role::communication : Role::compute;
    const Estimate slowdown = covered_slowdown(used, victim, arm, {.resamples = 200, .seed = seed});
    const Interval relative{slowdown.interval.low / slowdown.value, slowdown.interval.high / slowdown.value};
    if (!(relative.width() <= widest.width())) widest = relative;
    if (std::isnan(widest.width())) break;
  }
  return widest;
}

Summary summarise(const Program& program, const Tuning& tuning, std::span<const Sample> used, std::uint64_t seed) {
  const Rounds rounds(used, step_of);
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
    const std::array<double, 8> result{rounds.median_of(name(Arm::empty), which),
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
  const std::vector<Interval> intervals = intervals_over(rounds.size(), estimates.size(), statistics, {.seed = seed});
  for (std::size_t i = 0; i < estimates.size(); ++i) *estimates[i] = {values[i], intervals[i]};

  const double compute_alone = median_span(used, Arm::compute, Role::compute);
  const double comm_alone = median_span(used, Arm::comm, Role::communication);
  const double compute_together = median_span(used, Arm::overlapped, Role::compute);
  const double comm_together = median_span(used, Arm::overlapped, Role::communication);
  s.compute_stretch = compute_together / compute_alone;
  s.comm_stretch = comm_together / comm_alone;
  // In a program that orders both roles, a long span is as much waiting as contention.
  const bool contend = side_by_side(program);
  s.arms = arm_summaries(used, tuning.repeats, seed);
  if (contend) {
    s.slowdowns = slowdowns_from_spans(Seconds(compute_alone), Seconds(comm_alone),
                                       {Seconds(compute_together), Seconds(comm_together)});
  }
  if (!std::isnan(s.slowdowns.compute) || !std::isnan(s.slowdowns.comm)) s.slowdown_source = "fluid";
  for (const ArmSummary& arm : s.arms) {
    if (arm.coverage != 1) continue;
    const bool of_compute = arm.covering == Role::communication;
    const Estimate slowdown =
        covered_slowdown(used, of_compute ? Role::compute : Role::communication, arm.name, {.seed = seed});
    if (std::isnan(slowdown.value)) continue;
    (of_compute ? s.slowdowns.compute : s.slowdowns.comm) = slowdown.value;
    (of_compute ? s.compute_slowdown : s.comm_slowdown) = slowdown.interval;
    s.slowdown_source = "covered";
  }
  std::vector<double> skews;
  for (const Sample& sample : used) skews.push_back(sample.align_skew.value());
  s.align_skew = Seconds(median(skews));
  s.launch_order = order_of(used);
  s.verdict = verdict(s.times, s.hidden_share.interval, contend ? s.compute_stretch : unknown_number,
                      contend ? s.comm_stretch : unknown_number, on_one_lane(program)) +
              serial_remark(s.times, s.t_serial.interval);
  return s;
}

Seconds isolated_path(const Program& program, const ArmTimes& times, const std::vector<Timings>& isolated) {
  // Of each operation and replay the slowest rank: a collective takes as long as its last one.
  std::vector<std::map<OpId, std::vector<double>>> slowest(program.classes.size());
  for (const Timings& t : isolated) {
    constexpr double none = -std::numeric_limits<double>::infinity();
    std::vector<std::vector<double>> most(program.classes.size());  // by class and operation; NaN: one is not known
    for (const OperationTiming& op : t.operations) {
      auto& of_class = most[static_cast<std::size_t>(&program.class_of(op.rank) - program.classes.data())];
      if (op.op.index() >= of_class.size()) of_class.resize(op.op.index() + 1, none);
      double& longest = of_class[op.op.index()];
      const double duration = (op.end - op.start).value();
      longest = std::isnan(duration) || duration > longest ? duration : longest;
    }
    for (std::size_t c = 0; c < most.size(); ++c) {
      for (std::size_t op = 0; op < most[c].size(); ++op) {
        if (most[c][op] != none) slowest[c][OpId(op)].push_back(most[c][op]);
      }
    }
  }
  std::vector<Durations> medians;
  for (const auto& operations : slowest) {
    Durations& of_class = medians.emplace_back();
    for (const auto& [op, durations] : operations) of_class[op] = Seconds(median(durations));
  }
  const double of_compute = scale_to(times.compute, project(program, Arm::compute), medians);
  const double of_comm = scale_to(times.comm, project(program, Arm::comm), medians);
  for (std::size_t c = 0; c < medians.size(); ++c) {
    for (const Operation& op : program.classes[c].body) {
      const auto found = medians[c].find(op.id);
      if (found != medians[c].end()) found->second = found->second * (op.role == Role::compute ? of_compute : of_comm);
    }
  }
  return longest_path(program, medians);
}

}  // namespace ovl
