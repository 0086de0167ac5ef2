// SPDX-License-Identifier: Apache-2.0
#include "metrics/path.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/error.hpp"

#include "program/order.hpp"

namespace ovl {
namespace {

// Replays all ranks at once, each operation when what it needs has finished.
class Clockwork {
 public:
  Clockwork(const Program& program, const std::vector<Durations>& durations) : program_(program) {
    for (std::size_t c = 0; c < program.classes.size(); ++c) {
      plans_.push_back(plan(program.classes[c], durations.at(c), program.lanes.size()));
    }
    for (int r = 0; r < program.ranks; ++r) {
      std::size_t c = 0;
      while (&program.classes[c] != &program.class_of(Rank(r))) ++c;
      ranks_.push_back({&program.classes[c], &plans_[c], std::vector<std::size_t>(program.lanes.size())});
      ranks_.back().arrived.resize(program.lanes.size());
      spans_.emplace_back(program.classes[c].body.size(), OperationSpan{unknown_time, unknown_time});
    }
  }

  Spans run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        for (std::size_t lane = 0; lane < program_.lanes.size(); ++lane) moved = advance(r, lane) || moved;
      }
    }
    return std::move(spans_);
  }

 private:
  // A collective or one transfer: when the last of its participants could begin.
  struct Meeting {
    std::size_t arrived = 0;
    std::size_t needed = 0;
    Seconds ready{0};
  };
  using Key = std::array<int, 4>;  // communicator, from (or first of the group), to (or -1), position in its sequence

  struct Plan {
    std::vector<std::vector<std::size_t>> lanes;         // positions in issue order
    std::vector<std::vector<std::size_t>> predecessors;  // of each position
    std::vector<Seconds> durations;
    std::vector<std::vector<int>> places;  // of each position, in the sequences of what it meets
  };
  struct RankState {
    const RankClass* rank_class;
    const Plan* plan;
    std::vector<std::size_t> next;               // of each lane
    std::vector<std::vector<Meeting*>> arrived;  // of each lane: the meetings in front of it, once it has come there
  };

  static Plan plan(const RankClass& c, const Durations& known, std::size_t lanes) {
    Plan result;
    result.lanes.resize(lanes);
    const HappensBefore order(c.body, lanes);
    std::map<CommId, int> collectives;
    std::map<std::array<int, 3>, int> transfers;  // communicator, direction, peer
    for (std::size_t i = 0; i < c.body.size(); ++i) {
      const Operation& op = c.body[i];
      result.lanes[op.lane.index()].push_back(i);
      result.predecessors.push_back(order.predecessors(i));
      const auto duration = known.find(op.id);
      const bool timed = duration != known.end() && !std::isnan(duration->second.value());
      require(timed || is_ordering(op.work), "every operation has a duration");
      result.durations.push_back(is_ordering(op.work) ? Seconds(0) : duration->second);
      std::vector<int>& places = result.places.emplace_back();
      if (const auto* collective = std::get_if<Collective>(&op.work)) {
        places.push_back(collectives[collective->comm]++);
      } else if (const auto* exchange = std::get_if<Exchange>(&op.work)) {
        for (const Transfer& t : exchange->transfers) {
          places.push_back(transfers[{exchange->comm.value, static_cast<int>(t.direction), t.peer}]++);
        }
      }
    }
    return result;
  }

  bool advance(std::size_t r, std::size_t lane) {
    RankState& rank = ranks_[r];
    const std::vector<std::size_t>& positions = rank.plan->lanes[lane];
    bool moved = false;
    for (std::size_t& next = rank.next[lane]; next < positions.size(); ++next) {
      const std::size_t position = positions[next];
      Seconds ready(0);
      for (const std::size_t p : rank.plan->predecessors[position]) {
        if (std::isnan(spans_[r][p].end.value())) return moved;
        ready = std::max(ready, spans_[r][p].end);
      }
      std::vector<Meeting*>& meetings = rank.arrived[lane];
      if (meetings.empty() && !rank.plan->places[position].empty()) {
        meetings = meet(r, position, ready);
        moved = true;
      }
      for (const Meeting* m : meetings) {
        if (m->arrived < m->needed) return moved;
        ready = std::max(ready, m->ready);
      }
      spans_[r][position] = {ready, ready + rank.plan->durations[position]};
      meetings.clear();
      moved = true;
    }
    return moved;
  }

  std::vector<Meeting*> meet(std::size_t r, std::size_t position, Seconds ready) {
    std::vector<Meeting*> result;
    const auto at = [&](Key key, std::size_t needed) {
      Meeting& m = meetings_[key];
      m.needed = needed;
      ++m.arrived;
      m.ready = std::max(m.ready, ready);
      result.push_back(&m);
    };
    const Work& work = ranks_[r].rank_class->body[position].work;
    const std::vector<int>& places = ranks_[r].plan->places[position];
    if (const auto* collective = std::get_if<Collective>(&work)) {
      const std::vector<Rank>& group = group_of(collective->comm, r);
      at({collective->comm.value, group.front().value, -1, places[0]}, group.size());
    } else if (const auto* exchange = std::get_if<Exchange>(&work)) {
      const std::vector<Rank>& group = group_of(exchange->comm, r);
      for (std::size_t i = 0; i < exchange->transfers.size(); ++i) {
        const Transfer& t = exchange->transfers[i];
        const int self = static_cast<int>(r);
        const int peer = group[static_cast<std::size_t>(t.peer)].value;
        const bool send = t.direction == Direction::send;
        at({exchange->comm.value, send ? self : peer, send ? peer : self, places[i]}, 2);
      }
    }
    return result;
  }

  [[nodiscard]] const std::vector<Rank>& group_of(CommId comm, std::size_t rank) const {
    for (const auto& group : program_.communicators.at(comm.index()).groups) {
      if (std::find(group.begin(), group.end(), Rank(rank)) != group.end()) return group;
    }
    throw std::logic_error("broken invariant: a rank is in a group of the communicator that it uses");
  }

  const Program& program_;
  std::vector<Plan> plans_;  // by class
  std::vector<RankState> ranks_;
  std::map<Key, Meeting> meetings_;
  Spans spans_;
};

}  // namespace

Seconds longest_path(const Program& program, const std::vector<Durations>& durations) {
  Seconds longest(0);
  for (std::size_t index = 0; index < program.classes.size(); ++index) {
    const RankClass& c = program.classes[index];
    const Durations& known = durations.at(index);
    const HappensBefore order(c.body, program.lanes.size());
    std::vector<Seconds> finish(c.body.size(), Seconds(0));
    for (std::size_t i = 0; i < c.body.size(); ++i) {
      for (const std::size_t p : order.predecessors(i)) finish[i] = std::max(finish[i], finish[p]);
      if (!is_ordering(c.body[i].work)) {
        const auto duration = known.find(c.body[i].id);
        if (duration == known.end() || std::isnan(duration->second.value())) return unknown_time;
        finish[i] += duration->second;
      }
      longest = std::max(longest, finish[i]);
    }
  }
  return longest;
}

Spans earliest_spans(const Program& program, const std::vector<Durations>& durations) {
  return Clockwork(program, durations).run();
}

Seconds longest_compute_span(const Program& program, const Spans& spans) {
  Seconds longest(0);
  for (std::size_t r = 0; r < spans.size(); ++r) {
    const std::vector<Operation>& body = program.class_of(Rank(r)).body;
    Seconds first = unknown_time;
    Seconds last = unknown_time;
    for (std::size_t i = 0; i < body.size(); ++i) {
      if (body[i].role != Role::compute || is_ordering(body[i].work)) continue;
      first = Seconds(std::fmin(first.value(), spans[r][i].start.value()));
      last = Seconds(std::fmax(last.value(), spans[r][i].end.value()));
    }
    if (!std::isnan(first.value())) longest = std::max(longest, last - first);
  }
  return longest;
}

Seconds makespan(const Spans& spans) {
  Seconds latest(0);
  for (const auto& rank : spans) {
    for (const OperationSpan& span : rank) latest = std::max(latest, span.end);
  }
  return latest;
}

std::vector<Durations> given_durations(const Program& program) {
  std::vector<Durations> all;
  for (const RankClass& c : program.classes) {
    Durations& durations = all.emplace_back();
    for (const Operation& op : c.body) {
      const auto* busy = std::get_if<Busy>(&op.work);
      durations[op.id] = busy == nullptr ? Seconds(0) : busy->duration;
    }
  }
  return all;
}

}  // namespace ovl
