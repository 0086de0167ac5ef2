// SPDX-License-Identifier: Apache-2.0
#include "program/dataflow.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/error.hpp"

namespace ovl {

Dataflow::Dataflow(ProgramBuilder& program, ClassBuilder rank_class)
    : program_(program), class_(rank_class), held_(program.lanes()), on_lane_(program.lanes()) {}

std::size_t Dataflow::add(LaneId lane, Work work, std::vector<Slice> reads, std::vector<Slice> writes) {
  require(!is_ordering(work), "order comes from data");
  const std::size_t self = steps_.size();
  std::vector<std::size_t> candidates = std::exchange(held_.at(lane.index()), {});
  for (const Slice& s : reads) touch(s, false, self, candidates);
  for (const Slice& s : writes) touch(s, true, self, candidates);
  steps_.push_back({lane, std::move(work), std::move(reads), std::move(writes), {}, false});
  follow(self, candidates);
  return self;
}

void Dataflow::hold(LaneId lane, std::size_t until) { held_.at(lane.index()).push_back(until); }

void Dataflow::touch(const Slice& slice, bool write, std::size_t self, std::vector<std::size_t>& conflicts) {
  if (slice.count == 0) return;
  Ranges& ranges = touched_[slice.buffer];
  const std::int64_t end = slice.offset + slice.count;
  // Ranges that reach over either end of the slice are cut there.
  const auto cut = [&](std::int64_t at) {
    auto range = ranges.upper_bound(at);
    if (range == ranges.begin()) return;
    --range;
    if (range->first == at || range->second.end <= at) return;
    Touched tail = range->second;
    range->second.end = at;
    ranges.emplace(at, std::move(tail));
  };
  cut(slice.offset);
  cut(end);
  std::int64_t covered = slice.offset;
  for (auto range = ranges.lower_bound(slice.offset); range != ranges.end() && range->first < end; ++range) {
    if (range->first > covered) ranges.emplace(covered, Touched{range->first, {self}, write});
    Touched& t = range->second;
    covered = t.end;
    const std::size_t hits = write ? t.by.size() : static_cast<std::size_t>(t.written);
    for (std::size_t i = 0; i < hits; ++i) {
      if (t.by[i] != self) conflicts.push_back(t.by[i]);
    }
    if (write) {
      t.by = {self};
      t.written = true;
    } else {
      t.by.push_back(self);
    }
  }
  if (covered < end) ranges.emplace(covered, Touched{end, {self}, write});
}

bool Dataflow::before(std::size_t a, std::size_t b) const {
  const std::size_t lane = steps_[a].lane.index();
  return clocks_[b * on_lane_.size() + lane] >= ordinal_[a];
}

void Dataflow::follow(std::size_t self, const std::vector<std::size_t>& candidates) {
  const std::size_t lanes = on_lane_.size();
  const std::size_t lane = steps_[self].lane.index();
  std::map<std::size_t, std::size_t> last;  // of each other lane
  for (const std::size_t c : candidates) {
    const std::size_t other = steps_[c].lane.index();
    if (other == lane) continue;
    const auto [at, fresh] = last.try_emplace(other, c);
    if (!fresh) at->second = std::max(at->second, c);
  }
  std::vector<std::size_t>& own = on_lane_[lane];
  clocks_.resize(clocks_.size() + lanes);
  const auto clock = clocks_.begin() + static_cast<std::ptrdiff_t>(self * lanes);
  const auto join = [&](std::size_t other) {
    const auto from = clocks_.begin() + static_cast<std::ptrdiff_t>(other * lanes);
    std::transform(clock, clock + static_cast<std::ptrdiff_t>(lanes), from, clock,
                   [](std::int32_t a, std::int32_t b) { return std::max(a, b); });
  };
  if (!own.empty()) join(own.back());
  for (const auto& [other, leader] : last) {
    const bool implied = (!own.empty() && before(leader, own.back())) ||
                         std::any_of(last.begin(), last.end(), [&, chosen = leader](const auto& further) {
                           return further.second != chosen && before(chosen, further.second);
                         });
    if (implied) continue;
    steps_[self].leaders.push_back(leader);
    steps_[leader].followed = true;
  }
  for (const std::size_t leader : steps_[self].leaders) join(leader);
  own.push_back(self);
  ordinal_.push_back(static_cast<std::int32_t>(own.size()));
  clock[static_cast<std::ptrdiff_t>(lane)] = ordinal_.back();
}

std::vector<OpId> Dataflow::finish() && {
  std::vector<OpId> ids;
  std::map<std::size_t, EventId> events;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    for (const std::size_t leader : step.leaders) class_.body(step.lane, Wait{events.at(leader)});
    ids.push_back(class_.body(step.lane, std::move(step.work), std::move(step.reads), std::move(step.writes)));
    if (!step.followed) continue;
    const EventId event = program_.event("after %" + std::to_string(ids.back().value));
    class_.body(step.lane, Record{event, Moment::completion});
    events.emplace(i, event);
  }
  return ids;
}

}  // namespace ovl
