// SPDX-License-Identifier: Apache-2.0
#include "measure/samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ovl {
namespace {

Seconds span_of(const Program& program, const RankTiming& rank, Role role) {
  Seconds start = unknown_time;
  Seconds end = unknown_time;
  for (const LaneTiming& lane : rank.lanes) {
    if (program.lanes.at(lane.lane.index()).role != role || std::isnan(lane.end.value())) continue;
    start = std::isnan(start.value()) ? lane.start : std::min(start, lane.start);
    end = std::isnan(end.value()) ? lane.end : std::max(end, lane.end);
  }
  return end - start;
}

const Reading* find(const Conditions& conditions, const std::string& name) {
  const auto found = std::find_if(conditions.readings.begin(), conditions.readings.end(),
                                  [&](const Reading& r) { return r.name == name; });
  return found == conditions.readings.end() ? nullptr : &*found;
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
  for (const RankTiming& r : timings.ranks) {
    sample.ranks.push_back(
        {r.rank, r.end - r.origin, span_of(program, r, Role::compute), span_of(program, r, Role::communication)});
  }
  return sample;
}

Seconds widest_span(const Sample& sample, Role role) {
  Seconds widest = unknown_time;
  for (const RankSample& r : sample.ranks) {
    const Seconds span = role == Role::compute ? r.compute_span : r.comm_span;
    if (!std::isnan(span.value())) widest = std::isnan(widest.value()) ? span : std::max(widest, span);
  }
  return widest;
}

std::vector<std::string> judge(const Conditions& before, const Conditions& after) {
  std::vector<std::string> reasons;
  for (const Reading& end : after.readings) {
    const Reading* start = find(before, end.name);
    const double worst = start == nullptr ? end.value : std::fmax(start->value, end.value);
    if (worst > end.limit) {
      reasons.push_back(fmt::format("{} {:.3g} {} above {:.3g}", end.name, worst, end.unit, end.limit));
    }
    if (start != nullptr && apart(start->value, end.value, end.change)) {
      reasons.push_back(
          fmt::format("{} changed from {:.3g} to {:.3g} {}", end.name, start->value, end.value, end.unit));
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
  if (quiet.empty()) return reasons;
  for (const Reading& reading : quiet.front().after.readings) {
    if (std::isnan(reading.change)) continue;
    std::vector<double> values;
    for (const Block& block : quiet) values.push_back(value_in(block, reading.name));
    const double low = densest_band(quiet, values, reading.change);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const double value = value_in(blocks[i], reading.name);
      if (value < low || value > low * reading.change) {
        reasons[i].push_back(fmt::format("{} {:.3g} {}, most rounds had {:.3g} to {:.3g}", reading.name, value,
                                         reading.unit, low, low * reading.change));
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
