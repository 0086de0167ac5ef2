// SPDX-License-Identifier: Apache-2.0
#include "measure/step_costs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

using TimeSpan = std::pair<double, double>;

// Disjoint and in order.
std::vector<TimeSpan> merged(std::vector<TimeSpan> spans) {
  std::sort(spans.begin(), spans.end());
  std::vector<TimeSpan> all;
  for (const auto& [start, end] : spans) {
    if (all.empty() || start > all.back().second) {
      all.emplace_back(start, end);
    } else {
      all.back().second = std::max(all.back().second, end);
    }
  }
  return all;
}

double length(const std::vector<TimeSpan>& spans) {
  double sum = 0;
  for (const auto& [start, end] : spans) sum += end - start;
  return sum;
}

// What of `spans` no hole covers: together they are as long as the holes and this.
double uncovered(const std::vector<TimeSpan>& spans, const std::vector<TimeSpan>& holes) {
  std::vector<TimeSpan> both = spans;
  both.insert(both.end(), holes.begin(), holes.end());
  return length(merged(std::move(both))) - length(merged(holes));
}

// The larger, unknown if either is.
Seconds worse(Seconds a, Seconds b) { return std::isnan(a.value()) || a > b ? a : b; }

// One rank's operations of a replay, in issue order.
struct Seen {
  const Operation* op;
  const OperationTiming* timing;
};

class RankView {
 public:
  RankView(const RankClass& c, const std::map<OpId, const OperationTiming*>& timings) {
    for (const Operation& op : c.body) {
      if (is_ordering(op.work)) continue;
      const auto found = timings.find(op.id);
      complete_ = complete_ && found != timings.end();
      if (found != timings.end()) work_.push_back({&op, found->second});
    }
  }

  [[nodiscard]] StepCosts costs(std::int64_t steps) const {
    if (!complete_ || work_.empty()) return {};
    StepCosts costs = standing();
    costs.exposed = Seconds(uncovered(spans(Role::communication), spans(Role::compute)));
    if (has_unknown()) costs.exposed = unknown_time;
    costs.tail = tails(steps);
    for (Seconds* cost : {&costs.exposed, &costs.tail, &costs.launch, &costs.event_wait, &costs.gap}) {
      *cost = *cost / static_cast<double>(steps);
    }
    return costs;
  }

 private:
  [[nodiscard]] std::vector<TimeSpan> spans(Role role) const {
    std::vector<TimeSpan> all;
    for (const auto& [op, t] : work_) {
      if (op->role == role) all.emplace_back(t->start.value(), t->end.value());
    }
    return all;
  }

  [[nodiscard]] bool has_unknown() const {
    return std::any_of(work_.begin(), work_.end(), [](const Seen& s) {
      return std::isnan(s.timing->start.value()) || std::isnan(s.timing->end.value());
    });
  }

  // launch, event_wait and gap: how long a lane stood still before each operation, and why. What a lane does first
  // waited for nothing but the clock.
  [[nodiscard]] StepCosts standing() const {
    StepCosts costs{.launch = Seconds(0), .event_wait = Seconds(0), .gap = Seconds(0)};
    std::map<LaneId, Seconds> free;  // since when the lane has nothing to do
    for (const auto& [op, t] : work_) {
      const auto before = free.find(op->lane);
      const Seconds ready = before == free.end() ? t->ready : std::max(t->ready, before->second);
      if (op->role == Role::communication) {
        costs.launch += t->start - ready;
      } else if (before != free.end()) {
        costs.event_wait += ready - before->second;
        costs.gap += t->start - ready;
      }
      free[op->lane] = t->end;
    }
    return costs;
  }

  [[nodiscard]] Seconds tails(std::int64_t steps) const {
    const std::size_t each = work_.size() / static_cast<std::size_t>(steps);
    require(each * static_cast<std::size_t>(steps) == work_.size(), "steps are equal");
    Seconds sum(0);
    for (std::size_t begin = 0; begin < work_.size(); begin += each) {
      std::optional<std::size_t> last;  // communication of the step
      Seconds ends(-std::numeric_limits<double>::infinity());
      for (std::size_t i = begin; i < begin + each; ++i) {
        if (work_[i].op->role != Role::communication) continue;
        last = i;
        ends = worse(ends, work_[i].timing->end);
      }
      Seconds covers(-std::numeric_limits<double>::infinity());
      for (std::size_t i = begin; last && i < *last; ++i) {
        if (work_[i].op->role == Role::compute) covers = worse(covers, work_[i].timing->end);
      }
      if (!std::isfinite(covers.value())) return unknown_time;
      sum += ends - covers;
    }
    return sum;
  }

  std::vector<Seen> work_;
  bool complete_ = true;
};

Seconds spread_of_ranks(const Program& program, const std::map<Rank, std::map<OpId, const OperationTiming*>>& ranks) {
  std::map<OpId, std::vector<double>> ready;
  for (const auto& [rank, timings] : ranks) {
    for (const Operation& op : program.class_of(rank).body) {
      const auto found = timings.find(op.id);
      if (!std::holds_alternative<Collective>(op.work) || found == timings.end()) continue;
      ready[op.id].push_back(found->second->ready.value());
    }
  }
  std::vector<double> spreads;
  for (const auto& [op, times] : ready) {
    if (times.size() > 1) spreads.push_back(quantile(times, 1) - quantile(times, 0));
  }
  return Seconds(median(spreads));
}

using Times = std::vector<double>;

Times values_of(const std::vector<StepCosts>& replays, Seconds StepCosts::*cost) {
  Times values;
  for (const StepCosts& r : replays) values.push_back((r.*cost).value());
  return values;
}

}  // namespace

StepCosts step_costs(const Program& program, const Timings& timings, std::int64_t steps) {
  require(steps > 0, "a replay has a step");
  std::map<Rank, std::map<OpId, const OperationTiming*>> ranks;
  for (const OperationTiming& t : timings.operations) ranks[t.rank][t.op] = &t;
  std::optional<StepCosts> worst;
  for (const auto& [rank, of_rank] : ranks) {
    const StepCosts costs = RankView(program.class_of(rank), of_rank).costs(steps);
    if (!worst) {
      worst = costs;
      continue;
    }
    for (Seconds StepCosts::*cost :
         {&StepCosts::exposed, &StepCosts::tail, &StepCosts::launch, &StepCosts::event_wait, &StepCosts::gap}) {
      (*worst).*cost = worse((*worst).*cost, costs.*cost);
    }
  }
  if (!worst) return {};
  worst->rank_spread = spread_of_ranks(program, ranks);
  return *worst;
}

StepCostEstimates estimate(const std::vector<StepCosts>& replays) {
  StepCostEstimates e;
  if (replays.empty()) return e;
  const auto middle = [&](Seconds StepCosts::*cost) { return Seconds(median(values_of(replays, cost))); };
  e.medians = {.exposed = middle(&StepCosts::exposed),
               .tail = middle(&StepCosts::tail),
               .launch = middle(&StepCosts::launch),
               .event_wait = middle(&StepCosts::event_wait),
               .gap = middle(&StepCosts::gap),
               .rank_spread = middle(&StepCosts::rank_spread)};
  e.exposed = median_interval(values_of(replays, &StepCosts::exposed));
  e.tail = median_interval(values_of(replays, &StepCosts::tail));
  return e;
}

std::vector<Column> step_cost_columns() {
  return {{"t_tail", ColumnType::real, "s",
           "recorded: from the end of the work before a step's last communication to the end of its communication"},
          {"t_tail_low", ColumnType::real, "s", "lower end of the 95 % interval of t_tail, over the recorded replays"},
          {"t_tail_high", ColumnType::real, "s", "upper end of it"},
          {"t_alone", ColumnType::real, "s", "recorded: communication runs and nothing computes on its rank, a step"},
          {"t_alone_low", ColumnType::real, "s", "lower end of the 95 % interval of t_alone"},
          {"t_alone_high", ColumnType::real, "s", "upper end of it"},
          {"t_launch", ColumnType::real, "s", "recorded: communication was ready and had not begun, sum over a step"},
          {"t_event_wait", ColumnType::real, "s",
           "recorded: the compute lane stood still for something on another lane, sum over a step"},
          {"t_gap", ColumnType::real, "s",
           "recorded: the compute lane stood still though nothing was missing, sum over a step"},
          {"rank_spread", ColumnType::real, "s",
           "recorded: how much later the last rank was ready for a collective than the first, median"}};
}

std::vector<std::pair<std::string, Value>> step_cost_values(const Summary& summary) {
  const StepCostEstimates& e = summary.step_costs;
  return {{"t_tail", e.medians.tail.value()},     {"t_tail_low", e.tail.low},
          {"t_tail_high", e.tail.high},           {"t_alone", e.medians.exposed.value()},
          {"t_alone_low", e.exposed.low},         {"t_alone_high", e.exposed.high},
          {"t_launch", e.medians.launch.value()}, {"t_event_wait", e.medians.event_wait.value()},
          {"t_gap", e.medians.gap.value()},       {"rank_spread", e.medians.rank_spread.value()}};
}

}  // namespace ovl
