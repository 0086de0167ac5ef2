// SPDX-License-Identifier: Apache-2.0
#include "program/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "program/order.hpp"
#include "program/print.hpp"

namespace ovl {
namespace {

std::string label(const Program& program, const Operation& op) {
  return fmt::format("%{} {} @{}", op.id.value, describe(op), program.lanes.at(op.lane.index()).name);
}

// ---- shape ---------------------------------------------------------------------------------------------------------

// The group of a communicator that a rank belongs to.
const std::vector<Rank>* group_of(const Program& program, CommId comm, Rank rank) {
  if (!comm.valid() || comm.index() >= program.communicators.size()) return nullptr;
  for (const auto& group : program.communicators[comm.index()].groups) {
    if (std::find(group.begin(), group.end(), rank) != group.end()) return &group;
  }
  return nullptr;
}

int index_in(const std::vector<Rank>& group, Rank rank) {
  return static_cast<int>(std::find(group.begin(), group.end(), rank) - group.begin());
}

// What an operation must read and write, as element counts; nullopt: free.
struct Shape {
  std::optional<std::vector<std::int64_t>> reads;
  std::optional<std::vector<std::int64_t>> writes;
};

struct ShapeOf {
  std::int64_t group_size;

  Shape operator()(const Gemm& g) const { return {{{g.m * g.k, g.k * g.n}}, {{g.m * g.n}}}; }
  Shape operator()(const Collective& c) const {
    const std::int64_t part = group_size > 0 ? c.count / group_size : 0;
    switch (c.kind) {
      case CollectiveKind::all_gather: return {{{part}}, {{c.count}}};
      case CollectiveKind::reduce_scatter: return {{{c.count}}, {{part}}};
      case CollectiveKind::all_reduce:
      case CollectiveKind::broadcast:
      case CollectiveKind::all_to_all: break;
    }
    return {{{c.count}}, {{c.count}}};
  }
  Shape operator()(const Exchange& /*e*/) const { return {}; }
  Shape operator()(const Copy& /*c*/) const { return {}; }
  Shape operator()(const Elementwise& /*e*/) const { return {}; }
  Shape operator()(const Busy& /*b*/) const { return {}; }  // a stand-in may keep the slices of what it stands for
  Shape operator()(const Fill& /*f*/) const { return {std::vector<std::int64_t>{}, std::nullopt}; }
  Shape operator()(const Verify& /*v*/) const { return {std::vector<std::int64_t>{}, std::vector<std::int64_t>{}}; }
  Shape operator()(const Record& /*r*/) const { return {std::vector<std::int64_t>{}, std::vector<std::int64_t>{}}; }
  Shape operator()(const Wait& /*w*/) const { return {std::vector<std::int64_t>{}, std::vector<std::int64_t>{}}; }
  Shape operator()(const HostSync& /*h*/) const { return {std::vector<std::int64_t>{}, std::vector<std::int64_t>{}}; }
};

CommId communicator_of(const Work& work) {
  if (const auto* c = std::get_if<Collective>(&work)) return c->comm;
  if (const auto* e = std::get_if<Exchange>(&work)) return e->comm;
  return {};
}

std::vector<std::int64_t> counts(const std::vector<Slice>& slices) {
  std::vector<std::int64_t> result;
  for (const Slice& s : slices) result.push_back(s.count);
  return result;
}

void check_shapes(const Program& program, const RankClass& c, const Operation& op, std::vector<Finding>& findings) {
  const auto add = [&](const std::string& what) {
    findings.push_back({FindingKind::shape, fmt::format("{} of class {}: {}", label(program, op), c.name, what)});
  };
  for (const auto* slices : {&op.reads, &op.writes}) {
    for (const Slice& s : *slices) {
      if (!s.buffer.valid() || s.buffer.index() >= program.buffers.size()) {
        add(fmt::format("buffer {} is not declared", s.buffer.value));
      } else if (const Buffer& b = program.buffers[s.buffer.index()];
                 s.offset < 0 || s.count < 0 || s.offset > b.count - s.count) {
        add(fmt::format("slice {}[{}:{}] is outside its {} elements", b.name, s.offset, s.offset + s.count, b.count));
      }
    }
  }
  std::int64_t group_size = 0;
  if (const CommId comm = communicator_of(op.work); comm.valid()) {
    for (const Rank rank : c.members) {
      const auto* group = group_of(program, comm, rank);
      if (group == nullptr) {
        add(fmt::format("rank {} is in no group of communicator {}", rank.value, comm.value));
        return;
      }
      const auto size = static_cast<std::int64_t>(group->size());
      if (group_size != 0 && size != group_size) add("its ranks are in groups of different sizes");
      group_size = size;
    }
  }
  if (const auto* e = std::get_if<Exchange>(&op.work)) {
    const auto sends = std::count_if(e->transfers.begin(), e->transfers.end(),
                                     [](const Transfer& t) { return t.direction == Direction::send; });
    if (sends != std::ssize(op.reads) || std::ssize(e->transfers) - sends != std::ssize(op.writes)) {
      add(fmt::format("{} sends and {} receives with {} reads and {} writes", sends, std::ssize(e->transfers) - sends,
                      op.reads.size(), op.writes.size()));
    }
    for (const Transfer& t : e->transfers) {
      if (t.peer < 0 || t.peer >= group_size)
        add(fmt::format("peer {} is outside its group of {}", t.peer, group_size));
    }
  }
  if (const auto* col = std::get_if<Collective>(&op.work)) {
    const bool divides = col->kind != CollectiveKind::all_reduce && col->kind != CollectiveKind::broadcast;
    if (divides && col->count % group_size != 0) {
      add(fmt::format("{} elements do not divide by {} ranks", col->count, group_size));
    }
    if (col->root < 0 || col->root >= group_size) add(fmt::format("root {} is outside its group", col->root));
  }
  const Shape shape = std::visit(ShapeOf{group_size}, op.work);
  const auto compare = [&](std::string_view side, const auto& wanted, const std::vector<Slice>& slices) {
    if (wanted && *wanted != counts(slices)) {
      add(fmt::format("{} elements {{{}}}, needs {{{}}}", side, fmt::join(counts(slices), ", "),
                      fmt::join(*wanted, ", ")));
    }
  };
  compare("reads", shape.reads, op.reads);
  compare("writes", shape.writes, op.writes);
}

// ---- events --------------------------------------------------------------------------------------------------------

void check_events(const Program& program, const RankClass& c, std::vector<Finding>& findings) {
  std::map<EventId, OpId> recorded;
  const auto add = [&](const Operation& op, const std::string& what) {
    findings.push_back({FindingKind::event, fmt::format("{} of class {}: {}", label(program, op), c.name, what)});
  };
  for (const Operation& op : c.body) {
    if (const auto* record = std::get_if<Record>(&op.work)) {
      if (!record->event.valid() || record->event.index() >= program.events.size()) {
        add(op, "the event is not declared");
      } else if (const auto [at, fresh] = recorded.emplace(record->event, op.id); !fresh) {
        add(op, fmt::format("the event is recorded already by %{}", at->second.value));
      }
    } else if (const auto* wait = std::get_if<Wait>(&op.work)) {
      if (!recorded.contains(wait->event)) {
        add(op, "no record of the event comes before it in issue order, so on a device it would not wait");
      }
    }
  }
}

// ---- races ---------------------------------------------------------------------------------------------------------

struct Access {
  std::size_t position;
  Slice slice;
  bool write;
};

void check_races(const Program& program, const RankClass& c, std::vector<Finding>& findings) {
  const HappensBefore order(c.body, program.lanes.size());
  std::map<BufferId, std::vector<Access>> by_buffer;
  for (std::size_t i = 0; i < c.body.size(); ++i) {
    for (const Slice& s : c.body[i].reads) by_buffer[s.buffer].push_back({i, s, false});
    for (const Slice& s : c.body[i].writes) by_buffer[s.buffer].push_back({i, s, true});
  }
  std::set<std::pair<std::size_t, std::size_t>> seen;
  for (const auto& [buffer, accesses] : by_buffer) {
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      for (std::size_t j = i + 1; j < accesses.size(); ++j) {
        const Access& a = accesses[i];
        const Access& b = accesses[j];
        if (a.position == b.position || !(a.write || b.write)) continue;
        if (a.slice.offset >= b.slice.offset + b.slice.count || b.slice.offset >= a.slice.offset + a.slice.count)
          continue;
        const auto [first, second] = std::minmax(a.position, b.position);
        if (order.before(first, second) || !seen.emplace(first, second).second) continue;
        const Operation& x = c.body[first];
        const Operation& y = c.body[second];
        findings.push_back(
            {FindingKind::race,
             fmt::format(
                 "{} and {} of class {} touch {} and nothing orders them: record after %{} on {}, wait before %{} "
                 "on {}",
                 label(program, x), label(program, y), c.name, program.buffers[buffer.index()].name, x.id.value,
                 program.lanes[x.lane.index()].name, y.id.value, program.lanes[y.lane.index()].name)});
      }
    }
  }
}

// ---- meetings ------------------------------------------------------------------------------------------------------

// What must be equal on all ranks at one position of a communicator's sequence.
std::string meeting(const Collective& c) {
  return fmt::format("{} of {} {} root {}", name(c.kind), c.count, name(c.dtype), c.root);
}

const Operation* collective_at(const RankClass& c, CommId comm, std::size_t position) {
  for (const Operation& op : c.body) {
    const auto* col = std::get_if<Collective>(&op.work);
    if (col != nullptr && col->comm == comm && position-- == 0) return &op;
  }
  return nullptr;
}

void check_sequences(const Program& program, std::vector<Finding>& findings) {
  for (std::size_t k = 0; k < program.communicators.size(); ++k) {
    const CommId comm(k);
    std::set<std::pair<const RankClass*, const RankClass*>> compared;
    for (const auto& group : program.communicators[k].groups) {
      const RankClass& first = program.class_of(group.front());
      for (const Rank rank : group) {
        const RankClass& other = program.class_of(rank);
        if (&other == &first || !compared.emplace(&first, &other).second) continue;
        for (std::size_t position = 0;; ++position) {
          const Operation* a = collective_at(first, comm, position);
          const Operation* b = collective_at(other, comm, position);
          if (a == nullptr && b == nullptr) break;
          const auto text = [](const Operation* op) {
            return op == nullptr ? std::string("nothing") : meeting(std::get<Collective>(op->work));
          };
          if (text(a) == text(b)) continue;
          findings.push_back(
              {FindingKind::mismatch, fmt::format("communicator {}, collective {}: rank {} has {}, rank {} has {}",
                                                  program.communicators[k].name, position, group.front().value, text(a),
                                                  rank.value, text(b))});
          break;
        }
      }
    }
  }
}

// Every send of one rank to another on a communicator, and every receive, in order.
void check_transfers(const Program& program, std::vector<Finding>& findings) {
  struct Side {
    std::vector<std::int64_t> sent;
    std::vector<std::int64_t> received;
  };
  std::map<std::tuple<CommId, Rank, Rank>, Side> pairs;
  for (const RankClass& c : program.classes) {
    for (const Operation& op : c.body) {
      const auto* e = std::get_if<Exchange>(&op.work);
      if (e == nullptr) continue;
      for (const Rank rank : c.members) {
        const auto* group = group_of(program, e->comm, rank);
        if (group == nullptr) continue;  // already a shape finding
        std::size_t read = 0;
        std::size_t written = 0;
        for (const Transfer& t : e->transfers) {
          if (t.peer < 0 || t.peer >= std::ssize(*group)) continue;
          const Rank peer = (*group)[static_cast<std::size_t>(t.peer)];
          if (t.direction == Direction::send) {
            pairs[{e->comm, rank, peer}].sent.push_back(read < op.reads.size() ? op.reads[read].count : -1);
            ++read;
          } else {
            pairs[{e->comm, peer, rank}].received.push_back(written < op.writes.size() ? op.writes[written].count : -1);
            ++written;
          }
        }
      }
    }
  }
  for (const auto& [key, side] : pairs) {
    if (side.sent == side.received) continue;
    const auto& [comm, from, to] = key;
    findings.push_back({FindingKind::mismatch,
                        fmt::format("communicator {}: rank {} sends {{{}}} elements to rank {}, which receives {{{}}}",
                                    program.communicators[comm.index()].name, from.value, fmt::join(side.sent, ", "),
                                    to.value, fmt::join(side.received, ", "))});
  }
}

// ---- deadlock ------------------------------------------------------------------------------------------------------

// Replays a program without durations. An operation is done when its predecessors are, and what it meets has been
// reached on every rank that takes part.
class Replay {
 public:
  explicit Replay(const Program& program) : program_(program) {
    for (int r = 0; r < program.ranks; ++r) {
      const RankClass& c = program.class_of(Rank(r));
      classes_.push_back(&c);
      lanes_.emplace_back(program.lanes.size());
      for (std::size_t i = 0; i < c.body.size(); ++i) lanes_.back()[c.body[i].lane.index()].positions.push_back(i);
      done_.emplace_back(c.body.size(), false);
      orders_.try_emplace(&c, c.body, program.lanes.size());
    }
  }

  std::vector<Finding> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < lanes_.size(); ++r) {
        for (LaneState& lane : lanes_[r]) moved = advance(r, lane) || moved;
      }
    }
    std::string stuck;
    for (std::size_t r = 0; r < lanes_.size(); ++r) {
      for (const LaneState& lane : lanes_[r]) {
        if (lane.next < lane.positions.size()) {
          stuck += fmt::format("{}rank {} at {}", stuck.empty() ? "" : "; ", r,
                               label(program_, classes_[r]->body[lane.positions[lane.next]]));
        }
      }
    }
    if (stuck.empty()) return {};
    return {{FindingKind::deadlock, "no lane can go on: " + stuck}};
  }

 private:
  struct LaneState {
    std::vector<std::size_t> positions;  // of the lane's operations, in issue order
    std::size_t next = 0;
    bool arrived = false;                               // counted at the meeting in front of it
    std::vector<std::pair<std::string, int>> meetings;  // keys and how many arrivals complete each
  };

  bool advance(std::size_t rank, LaneState& lane) {
    bool moved = false;
    while (lane.next < lane.positions.size()) {
      const std::size_t position = lane.positions[lane.next];
      const Operation& op = classes_[rank]->body[position];
      const auto& preds = orders_.at(classes_[rank]).predecessors(position);
      if (!std::all_of(preds.begin(), preds.end(), [&](std::size_t p) { return done_[rank][p]; })) break;
      if (!lane.arrived) {
        lane.meetings = meetings_of(rank, op);
        for (const auto& [key, needed] : lane.meetings) ++arrivals_[key];
        lane.arrived = true;
        moved = true;
      }
      const bool met = std::all_of(lane.meetings.begin(), lane.meetings.end(),
                                   [&](const auto& m) { return arrivals_[m.first] >= m.second; });
      if (!met) break;
      done_[rank][position] = true;
      lane.arrived = false;
      ++lane.next;
      moved = true;
    }
    return moved;
  }

  std::vector<std::pair<std::string, int>> meetings_of(std::size_t rank, const Operation& op) {
    std::vector<std::pair<std::string, int>> result;
    const Rank self(rank);
    if (const auto* c = std::get_if<Collective>(&op.work)) {
      if (const auto* group = group_of(program_, c->comm, self)) {
        const int n = ordinal_[fmt::format("c{} r{}", c->comm.value, rank)]++;
        result.emplace_back(fmt::format("c{} g{} #{}", c->comm.value, group->front().value, n),
                            static_cast<int>(group->size()));
      }
    } else if (const auto* e = std::get_if<Exchange>(&op.work)) {
      const auto* group = group_of(program_, e->comm, self);
      for (const Transfer& t : e->transfers) {
        if (group == nullptr || t.peer < 0 || t.peer >= std::ssize(*group)) continue;
        const int peer = (*group)[static_cast<std::size_t>(t.peer)].value;
        const bool send = t.direction == Direction::send;
        const auto pair = fmt::format("x{} {}>{}", e->comm.value, send ? self.value : peer, send ? peer : self.value);
        const int n = ordinal_[pair + (send ? " s" : " r")]++;
        result.emplace_back(fmt::format("{} #{}", pair, n), 2);
      }
    }
    return result;
  }

  const Program& program_;
  std::vector<const RankClass*> classes_;      // of each rank
  std::vector<std::vector<LaneState>> lanes_;  // of each rank
  std::vector<std::vector<bool>> done_;        // of each rank and position
  std::map<const RankClass*, HappensBefore> orders_;
  std::map<std::string, int> arrivals_;
  std::map<std::string, int> ordinal_;
};

// Collectives of two communicators in different orders on two ranks: each may hold what the other needs to start.
void check_communicator_order(const Program& program, std::vector<Finding>& findings) {
  const auto meets = [&](CommId comm, const RankClass& a, const RankClass& b) {
    const auto& groups = program.communicators[comm.index()].groups;
    return std::any_of(groups.begin(), groups.end(), [&](const std::vector<Rank>& group) {
      const auto has = [&](const RankClass& c) {
        return std::any_of(group.begin(), group.end(),
                           [&](Rank r) { return index_in(c.members, r) < std::ssize(c.members); });
      };
      return has(a) && has(b);
    });
  };
  const auto sequence = [&](const RankClass& c, const std::set<CommId>& shared) {
    std::vector<CommId> result;
    for (const Operation& op : c.body) {
      const auto* col = std::get_if<Collective>(&op.work);
      if (col != nullptr && shared.contains(col->comm)) result.push_back(col->comm);
    }
    return result;
  };
  for (std::size_t i = 0; i < program.classes.size(); ++i) {
    for (std::size_t j = i + 1; j < program.classes.size(); ++j) {
      const RankClass& a = program.classes[i];
      const RankClass& b = program.classes[j];
      std::set<CommId> shared;
      for (std::size_t k = 0; k < program.communicators.size(); ++k) {
        if (meets(CommId(k), a, b)) shared.insert(CommId(k));
      }
      const auto left = sequence(a, shared);
      const auto right = sequence(b, shared);
      // Unequal lengths are a mismatch, found elsewhere.
      if (shared.size() < 2 || left == right || left.size() != right.size()) continue;
      const auto [x, y] = std::mismatch(left.begin(), left.end(), right.begin());
      findings.push_back({FindingKind::deadlock,
                          fmt::format("class {} issues a collective of communicator {} where class {} issues one of "
                                      "communicator {}: issue them in one order on all ranks",
                                      a.name, program.communicators[x->index()].name, b.name,
                                      program.communicators[y->index()].name)});
    }
  }
}

}  // namespace

std::vector<Finding> check(const Program& program) {
  std::vector<Finding> findings;
  for (const RankClass& c : program.classes) {
    for (const auto* part : {&c.prologue, &c.body, &c.epilogue}) {
      for (const Operation& op : *part) check_shapes(program, c, op, findings);
    }
    check_events(program, c, findings);
  }
  if (!findings.empty()) return findings;  // the checks below read the slices and events
  for (const RankClass& c : program.classes) check_races(program, c, findings);
  check_sequences(program, findings);
  check_transfers(program, findings);
  check_communicator_order(program, findings);
  const std::vector<Finding> stuck = Replay(program).run();
  findings.insert(findings.end(), stuck.begin(), stuck.end());
  return findings;
}

}  // namespace ovl
