// SPDX-License-Identifier: Apache-2.0
#include "measure/samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "stats/summary.hpp"

namespace ovl {
namespace {

// Whether all that a lane does is of this role: one that does both, as a serial one does, tells of neither.
bool works_only_for(Role role, LaneId lane, const std::vector<Operation>& body) {
  bool works = false;
  for (const Operation& op : body) {
    if (op.lane != lane || is_ordering(op.work)) continue;
    if (op.role != role) return false;
    works = true;
  }
  return works;
}

struct Span {
  Seconds start = unknown_time;
  Seconds length = unknown_time;
};

// Of a class, by lane: whether it works for one role only, and which.
using LaneRoles = std::vector<std::optional<Role>>;

LaneRoles roles_of_lanes(const Program& program, const RankClass& c) {
  LaneRoles roles(program.lanes.size());
  for (std::size_t l = 0; l < roles.size(); ++l) {
    for (const Role role : {Role::compute, Role::communication}) {
      if (works_only_for(role, LaneId(l), c.body)) roles[l] = role;
    }
  }
  return roles;
}

Span span_of(Role role, const LaneRoles& roles, const RankTiming& rank) {
  double start = unknown_time.value();
  double end = unknown_time.value();
  for (const LaneTiming& lane : rank.lanes) {
    if (lane.lane.index() >= roles.size() || roles[lane.lane.index()] != role) continue;
    if (std::isnan((lane.end - lane.start).value())) return {};
    start = std::fmin(start, lane.start.value());
    end = std::fmax(end, lane.end.value());
  }
  return {Seconds(start), Seconds(end - start)};
}

BytesPerSecond pace_of(const RankTiming& rank) {
  BytesPerSecond pace = unknown_pace;
  for (const LaneTiming& lane : rank.lanes) {
    if (!lane.moved) continue;
    const BytesPerSecond own = *lane.moved / (lane.end - lane.start);
    pace = std::isnan(pace.value()) ? own : pace + own;
  }
  return pace;
}

Seconds start_of(const RankSample& r, Role role) { return role == Role::compute ? r.compute_start : r.comm_start; }
Seconds end_of(const RankSample& r, Role role) {
  return start_of(r, role) + (role == Role::compute ? r.compute_span : r.comm_span);
}

const Reading* find(const Conditions& conditions, const std::string& name) {
  const auto found = std::find_if(conditions.readings.begin(), conditions.readings.end(),
                                  [&](const Reading& r) { return r.name == name; });
  return found == conditions.readings.end() ? nullptr : &*found;
}

std::string quantity(double value, const Reading& reading) {
  if (reading.unit == "s") return format_seconds(Seconds(value));
  return fmt::format("{:.3g}{}", value, reading.unit == "1" ? "" : " " + reading.unit);
}

// Both values known and further apart than the factor.
bool apart(double a, double b, double factor) { return std::max(a, b) > factor * std::min(a, b); }

// The mean of a reading at both ends of a block; NaN when unknown.
double value_in(const Block& block, const std::string& name) {
  const Reading* before = find(block.before, name);
  const Reading* after = find(block.after, name);
  if (before == nullptr || after == nullptr) return std::numeric_limits<double>::quiet_NaN();
  return 0.5 * (before->value + after->value);
}

// One of each reading that has a change factor, by name, whichever blocks have it.
std::vector<Reading> comparable(const std::vector<Block>& blocks) {
  std::vector<Reading> all;
  for (const Block& block : blocks) {
    for (const Reading& reading : block.after.readings) {
      const bool known =
          std::any_of(all.begin(), all.end(), [&](const Reading& other) { return other.name == reading.name; });
      if (!known && !std::isnan(reading.change)) all.push_back(reading);
    }
  }
  return all;
}

// Where a band [low, low·factor] over the blocks' values begins that holds the most rounds.
double densest_band(const std::vector<Block>& blocks, const std::vector<double>& values, double factor) {
  double best = std::numeric_limits<double>::quiet_NaN();
  int most = -1;
  for (const double low : values) {
    int rounds = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (values[i] >= low && values[i] <= low * factor) rounds += blocks[i].rounds;
    }
    if (!std::isnan(low) && rounds > most) {
      most = rounds;
      best = low;
    }
  }
  return best;
}

}  // namespace

Sample observe(const Program& program, const Timings& timings) {
  Sample sample;
  sample.step = timings.step();
  sample.align_skew = timings.align_skew();
  sample.launch_order = timings.launch_order;
  std::map<const RankClass*, LaneRoles> classes;
  for (const RankTiming& r : timings.ranks) {
    const RankClass& c = program.class_of(r.rank);
    const auto [roles, fresh] = classes.try_emplace(&c);
    if (fresh) roles->second = roles_of_lanes(program, c);
    const Span compute = span_of(Role::compute, roles->second, r);
    const Span comm = span_of(Role::communication, roles->second, r);
    sample.ranks.push_back(
        {r.rank, r.end - r.origin, compute.length, comm.length, compute.start, comm.start, pace_of(r)});
  }
  return sample;
}

double noted(const Sample& sample, std::string_view name) {
  for (const auto& [known, value] : sample.values) {
    if (known == name) return value;
  }
  return unknown_number;
}

Seconds widest_span(const Sample& sample, Role role) {
  double widest = unknown_time.value();
  for (const RankSample& r : sample.ranks) {
    widest = std::fmax(widest, (role == Role::compute ? r.compute_span : r.comm_span).value());
  }
  return Seconds(widest);
}

RoleStart role_start(const Sample& sample, Role role) {
  std::vector<double> starts;
  for (const RankSample& r : sample.ranks) starts.push_back(start_of(r, role).value());
  const Seconds middle(median(starts));
  return {middle, Seconds(quantile(starts, 1)) - middle};
}

Seconds role_time(const Sample& sample, Role role) {
  double start = -std::numeric_limits<double>::infinity();
  double end = start;
  for (const RankSample& r : sample.ranks) {
    if (std::isnan(end_of(r, role).value())) return unknown_time;
    start = std::max(start, start_of(r, role).value());
    end = std::max(end, end_of(r, role).value());
  }
  return sample.ranks.empty() ? unknown_time : Seconds(end - start);
}

std::optional<bool> covers(const Sample& sample, Role covering) {
  const Role other = covering == Role::compute ? Role::communication : Role::compute;
  bool all = !sample.ranks.empty();
  for (const RankSample& r : sample.ranks) {
    if (std::isnan((end_of(r, covering) - end_of(r, other)).value())) return std::nullopt;
    all = all && start_of(r, covering) <= start_of(r, other) && end_of(r, covering) >= end_of(r, other);
  }
  return all;
}

BytesPerSecond pace(const Sample& sample) {
  BytesPerSecond all;
  for (const RankSample& r : sample.ranks) all += r.pace;
  return sample.ranks.empty() ? unknown_pace : all;
}

std::vector<std::string> judge(const Conditions& before, const Conditions& after) {
  std::vector<std::string> reasons;
  for (const Reading& end : after.readings) {
    const Reading* start = find(before, end.name);
    const double worst = start == nullptr ? end.value : std::fmax(start->value, end.value);
    if (worst > end.limit) {
      reasons.push_back(fmt::format("{} {} above {}", end.name, quantity(worst, end), quantity(end.limit, end)));
    }
    if (start != nullptr && apart(start->value, end.value, end.change)) {
      reasons.push_back(
          fmt::format("{} changed from {} to {}", end.name, quantity(start->value, end), quantity(end.value, end)));
    }
  }
  return reasons;
}

std::vector<std::vector<std::string>> judge_all(const std::vector<Block>& blocks) {
  std::vector<std::vector<std::string>> reasons;
  std::vector<Block> quiet;
  for (const Block& block : blocks) {
    reasons.push_back(judge(block.before, block.after));
    if (reasons.back().empty()) quiet.push_back(block);
  }
  for (const Reading& reading : comparable(quiet)) {
    std::vector<double> values;
    for (const Block& block : quiet) values.push_back(value_in(block, reading.name));
    const double low = densest_band(quiet, values, reading.change);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const double value = value_in(blocks[i], reading.name);
      if (value < low || value > low * reading.change) {
        reasons[i].push_back(fmt::format("{} {}, most rounds had {} to {}", reading.name, quantity(value, reading),
                                         quantity(low, reading), quantity(low * reading.change, reading)));
      }
    }
  }
  return reasons;
}

std::vector<double> readings(const std::vector<Block>& blocks, const std::string& name) {
  std::vector<double> values;
  for (const Block& block : blocks) {
    for (const Conditions* conditions : {&block.before, &block.after}) {
      const Reading* reading = find(*conditions, name);
      if (reading != nullptr && !std::isnan(reading->value)) values.push_back(reading->value);
    }
  }
  return values;
}

}  // namespace ovl
