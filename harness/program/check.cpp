// SPDX-License-Identifier: Apache-2.0
#include "program/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "program/alike.hpp"
#include "program/order.hpp"
#include "program/print.hpp"

namespace ovl {
namespace {

std::string label(const Program& program, const Operation& op) {
  return fmt::format("%{} {} @{}", op.id.value, describe(op), program.lanes.at(op.lane.index()).name);
}

// Which class a rank is of and whom it meets, looked up once.
class Ranks {
 public:
  explicit Ranks(const Program& program) {
    for (int r = 0; r < program.ranks; ++r) classes_.push_back(&program.class_of(Rank(r)));
    for (const Communicator& communicator : program.communicators) {
      auto& groups = groups_.emplace_back(classes_.size(), nullptr);
      for (const auto& group : communicator.groups) {
        for (const Rank rank : group) groups.at(rank.index()) = &group;
      }
    }
  }

  [[nodiscard]] const RankClass& class_of(Rank rank) const { return *classes_[rank.index()]; }
  // nullptr: the rank is in no group, or there is no such communicator.
  [[nodiscard]] const std::vector<Rank>* group_of(CommId comm, Rank rank) const {
    return comm.valid() && comm.index() < groups_.size() ? groups_[comm.index()][rank.index()] : nullptr;
  }

 private:
  std::vector<const RankClass*> classes_;
  std::vector<std::vector<const std::vector<Rank>*>> groups_;  // of each communicator and rank
};

// ---- shape ---------------------------------------------------------------------------------------------------------

std::vector<std::int64_t> counts(const std::vector<Slice>& slices) {
  std::vector<std::int64_t> result;
  result.reserve(slices.size());
  for (const Slice& s : slices) result.push_back(s.count);
  return result;
}

// Says what is wrong with an operation, by its kind.
class ShapeChecker {
 public:
  ShapeChecker(const Ranks& ranks, const RankClass& c, const Operation& op, std::vector<std::string>& wrong)
      : ranks_(ranks), class_(c), op_(op), wrong_(wrong) {}

  void operator()(const Gemm& g) const {
    needs("reads", op_.reads, {g.m * g.k, g.k * g.n});
    needs("writes", op_.writes, {g.m * g.n});
  }
  void operator()(const Collective& c) const {
    const std::int64_t size = group_size(c.comm);
    if (size == 0) return;
    if (c.kind != CollectiveKind::all_reduce && c.kind != CollectiveKind::broadcast && c.count % size != 0) {
      wrong_.push_back(fmt::format("{} elements do not divide by {} ranks", c.count, size));
    }
    if (c.root < 0 || c.root >= size) wrong_.push_back(fmt::format("root {} is outside its group of {}", c.root, size));
    needs("reads", op_.reads, {c.kind == CollectiveKind::all_gather ? c.count / size : c.count});
    needs("writes", op_.writes, {c.kind == CollectiveKind::reduce_scatter ? c.count / size : c.count});
  }
  void operator()(const Exchange& e) const {
    const std::int64_t size = group_size(e.comm);
    if (size == 0) return;
    const auto sends = std::count_if(e.transfers.begin(), e.transfers.end(),
                                     [](const Transfer& t) { return t.direction == Direction::send; });
    const auto receives = std::ssize(e.transfers) - sends;
    if (sends != std::ssize(op_.reads) || receives != std::ssize(op_.writes)) {
      wrong_.push_back(fmt::format("{} sends and {} receives with {} reads and {} writes", sends, receives,
                                   op_.reads.size(), op_.writes.size()));
    }
    for (const Transfer& t : e.transfers) {
      if (t.peer < 0 || t.peer >= size) {
        wrong_.push_back(fmt::format("peer {} is outside its group of {}", t.peer, size));
      }
    }
  }
  void operator()(const Copy& /*c*/) const {
    if (op_.reads.size() != 1 || !fits_the_write()) needs_one_write("one read");
  }
  void operator()(const Elementwise& /*e*/) const {
    if (op_.reads.empty() || !fits_the_write()) needs_one_write("each read");
  }
  void operator()(const Busy& /*b*/) const {}  // a stand-in may keep the slices of what it stands for
  void operator()(const Occupy& o) const {
    needs_nothing();
    if (o.count < 1) wrong_.push_back(fmt::format("{} SMs or cores to hold, needs one or more", o.count));
    needs_one_end(o.until, o.duration.value() > 0, "a duration");
  }
  void operator()(const Stream& s) const {
    if (op_.reads.size() != 1 || !fits_the_write()) needs_one_write("one read");
    if (std::any_of(op_.writes.begin(), op_.writes.end(), [](const Slice& w) { return w.count == 0; })) {
      wrong_.emplace_back("no element to move");
    }
    if (s.workers < 1) wrong_.push_back(fmt::format("{} workers, needs one or more", s.workers));
    if (!(s.pace.value() >= 0)) wrong_.push_back(fmt::format("a pace of {} B/s", s.pace.value()));
    needs_one_end(s.until, s.bytes.value() > 0, "an amount of bytes");
  }
  void operator()(const Fill& /*f*/) const { needs("reads", op_.reads, {}); }
  void operator()(const Verify& v) const {
    needs_nothing();
    if (std::none_of(class_.body.begin(), class_.body.end(), [&](const Operation& o) { return o.id == v.target; })) {
      wrong_.emplace_back("the body has no such operation");
    }
  }
  void operator()(const Record& /*r*/) const { needs_nothing(); }
  void operator()(const Wait& /*w*/) const { needs_nothing(); }
  void operator()(const HostSync& /*h*/) const { needs_nothing(); }

 private:
  // Of the groups that the class's ranks are in; 0 when there is no one size, which is then said.
  [[nodiscard]] std::int64_t group_size(CommId comm) const {
    std::size_t size = 0;
    for (const Rank rank : class_.members) {
      const auto* group = ranks_.group_of(comm, rank);
      if (group == nullptr) {
        wrong_.push_back(fmt::format("rank {} is in no group of communicator {}", rank.value, comm.value));
        return 0;
      }
      if (size != 0 && group->size() != size) {
        wrong_.emplace_back("its ranks are in groups of different sizes");
        return 0;
      }
      size = group->size();
    }
    return static_cast<std::int64_t>(size);
  }
  void needs(std::string_view side, const std::vector<Slice>& slices, const std::vector<std::int64_t>& wanted) const {
    if (counts(slices) == wanted) return;
    wrong_.push_back(fmt::format("{} elements {{{}}}, needs {{{}}}", side, fmt::join(counts(slices), ", "),
                                 fmt::join(wanted, ", ")));
  }
  void needs_nothing() const {
    needs("reads", op_.reads, {});
    needs("writes", op_.writes, {});
  }
  void needs_one_end(EventId until, bool amount, std::string_view of_what) const {
    if (until.valid() == amount) wrong_.push_back(fmt::format("needs either {} or an event to last until", of_what));
  }
  [[nodiscard]] bool fits_the_write() const {
    return op_.writes.size() == 1 && std::all_of(op_.reads.begin(), op_.reads.end(),
                                                 [&](const Slice& read) { return read.count == op_.writes[0].count; });
  }
  void needs_one_write(std::string_view reads) const {
    wrong_.push_back(fmt::format("reads elements {{{}}}, writes {{{}}}, needs one write and as many elements in {}",
                                 fmt::join(counts(op_.reads), ", "), fmt::join(counts(op_.writes), ", "), reads));
  }

  const Ranks& ranks_;
  const RankClass& class_;
  const Operation& op_;
  std::vector<std::string>& wrong_;
};

std::optional<DType> dtype_read(const Work& work) {
  if (const auto* g = std::get_if<Gemm>(&work)) return g->dtype;
  if (const auto* c = std::get_if<Collective>(&work)) return c->dtype;
  if (const auto* e = std::get_if<Exchange>(&work)) return e->dtype;
  return std::nullopt;
}

std::optional<DType> dtype_written(const Work& work) {
  if (const auto* g = std::get_if<Gemm>(&work)) return gemm_output(g->dtype);
  return dtype_read(work);
}

// tf32 is how a GEMM multiplies f32, not how memory holds it.
DType stored(DType dtype) { return dtype == DType::tf32 ? DType::f32 : dtype; }

void check_slice(const Program& program, const Slice& s, std::optional<DType> dtype, std::vector<std::string>& wrong) {
  if (!s.buffer.valid() || s.buffer.index() >= program.buffers.size()) {
    wrong.push_back(fmt::format("buffer {} is not declared", s.buffer.value));
    return;
  }
  const Buffer& b = program.buffers[s.buffer.index()];
  if (s.offset < 0 || s.count < 0 || s.offset > b.count - s.count) {
    wrong.push_back(
        fmt::format("slice {}[{}:{}] is outside its {} elements", b.name, s.offset, s.offset + s.count, b.count));
  }
  if (dtype && stored(*dtype) != stored(b.dtype)) {
    wrong.push_back(fmt::format("buffer {} holds {}", b.name, name(b.dtype)));
  }
}

void check_shapes(const Program& program, const Ranks& ranks, const RankClass& c, const Operation& op,
                  std::vector<Finding>& findings) {
  std::vector<std::string> wrong;
  for (const Slice& s : op.reads) check_slice(program, s, dtype_read(op.work), wrong);
  for (const Slice& s : op.writes) check_slice(program, s, dtype_written(op.work), wrong);
  std::visit(ShapeChecker(ranks, c, op, wrong), op.work);
  for (const std::string& what : wrong) {
    findings.push_back({FindingKind::shape, fmt::format("{} of class {}: {}", label(program, op), c.name, what)});
  }
}

// ---- events --------------------------------------------------------------------------------------------------------

bool records_start(const Operation& op) {
  const auto* record = std::get_if<Record>(&op.work);
  return record != nullptr && record->moment == Moment::start;
}

// Whether the start record at `position` is followed at once by the operation that it marks. Anything in between that
// waited, on this lane or on the host, could wait for the event itself.
bool marks_an_operation(const RankClass& c, std::size_t position) {
  const LaneId lane = c.body[position].lane;
  while (position < c.body.size() && records_start(c.body[position]) && c.body[position].lane == lane) ++position;
  return position < c.body.size() && c.body[position].lane == lane && !is_ordering(c.body[position].work);
}

// Where the event is recorded; empty: nowhere.
std::optional<std::size_t> position_of_record(const RankClass& c, EventId event) {
  const auto found = std::find_if(c.body.begin(), c.body.end(), [&](const Operation& op) {
    const auto* record = std::get_if<Record>(&op.work);
    return record != nullptr && record->event == event;
  });
  if (found == c.body.end()) return std::nullopt;
  return static_cast<std::size_t>(found - c.body.begin());
}

void check_events(const Program& program, const RankClass& c, std::vector<Finding>& findings) {
  std::map<EventId, OpId> recorded;
  const auto add = [&](const Operation& op, const std::string& what) {
    findings.push_back({FindingKind::event, fmt::format("{} of class {}: {}", label(program, op), c.name, what)});
  };
  for (std::size_t i = 0; i < c.body.size(); ++i) {
    const Operation& op = c.body[i];
    if (const auto* record = std::get_if<Record>(&op.work)) {
      if (records_start(op) && !marks_an_operation(c, i)) {
        add(op, "the next operation in issue order is not work on its lane, so it marks no start");
      }
      if (!record->event.valid() || record->event.index() >= program.events.size()) {
        add(op, "the event is not declared");
      } else if (const auto [at, fresh] = recorded.emplace(record->event, op.id); !fresh) {
        add(op, fmt::format("the event is recorded already by %{}", at->second.value));
      }
    } else if (const auto* wait = std::get_if<Wait>(&op.work)) {
      if (!recorded.contains(wait->event)) {
        add(op, "no record of the event comes before it in issue order, so on a device it would not wait");
      }
    } else if (const EventId until = lasts_until(op.work); until.valid()) {
      if (recorded.contains(until)) {
        add(op, fmt::format("it lasts until e{}, which is recorded before it begins", until.value));
      } else if (!position_of_record(c, until)) {
        add(op, fmt::format("it lasts until e{}, which nothing records", until.value));
      }
    }
  }
}

// ---- submission ----------------------------------------------------------------------------------------------------

// One submitter a rank, in issue order: it cannot go back in time.
void check_submissions(const Program& program, const RankClass& c, std::vector<Finding>& findings) {
  const auto add = [&](const Operation& op, const std::string& what) {
    findings.push_back({FindingKind::shape, fmt::format("{} of class {}: {}", label(program, op), c.name, what)});
  };
  for (const auto* part : {&c.prologue, &c.epilogue}) {
    for (const Operation& op : *part) {
      if (op.not_before) add(op, "only what is in the body is submitted at a time");
    }
  }
  const Operation* last = nullptr;
  for (const Operation& op : c.body) {
    if (!op.not_before) continue;
    const Seconds time = *op.not_before;
    if (is_ordering(op.work)) add(op, "only work is submitted at a time, what orders it goes with it");
    if (!(time >= Seconds(0)) || !std::isfinite(time.value())) {
      add(op, fmt::format("it is to be submitted {} s after the origin", time.value()));
      continue;
    }
    if (last != nullptr && time < *last->not_before) {
      add(op, fmt::format("it is to be submitted after {} s, and %{}, which is issued before it, after {} s",
                          time.value(), last->id.value, last->not_before->value()));
    }
    last = &op;
  }
}

// ---- races ---------------------------------------------------------------------------------------------------------

struct Access {
  std::size_t position;
  Slice slice;
  bool write;
};

bool slices_overlap(const Slice& a, const Slice& b) {
  return a.offset < b.offset + b.count && b.offset < a.offset + a.count;
}

// The accesses of a buffer that nothing orders, as pairs in the order of the list. What precedes an operation on
// another lane is the beginning of what that lane does, so only the rest of it, up to this operation, can be beside it.
std::vector<std::pair<std::size_t, std::size_t>> unordered_accesses(const std::vector<Access>& accesses,
                                                                    const RankClass& c, const HappensBefore& order) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  std::map<LaneId, std::vector<std::size_t>> so_far;  // of each lane, in issue order
  for (std::size_t j = 0; j < accesses.size(); ++j) {
    const Access& b = accesses[j];
    for (const auto& [lane, earlier] : so_far) {
      if (lane == c.body[b.position].lane) continue;
      for (auto i = earlier.rbegin(); i != earlier.rend(); ++i) {
        const Access& a = accesses[*i];
        if (order.before(a.position, b.position)) break;
        if ((a.write || b.write) && slices_overlap(a.slice, b.slice)) pairs.emplace_back(*i, j);
      }
    }
    so_far[c.body[b.position].lane].push_back(j);
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

void check_races(const Program& program, const RankClass& c, std::vector<Finding>& findings) {
  const HappensBefore order(c.body, program.lanes.size());
  std::map<BufferId, std::vector<Access>> by_buffer;
  for (std::size_t i = 0; i < c.body.size(); ++i) {
    for (const Slice& s : c.body[i].reads) by_buffer[s.buffer].push_back({i, s, false});
    for (const Slice& s : c.body[i].writes) by_buffer[s.buffer].push_back({i, s, true});
  }
  std::set<std::pair<std::size_t, std::size_t>> seen;
  for (const auto& [buffer, accesses] : by_buffer) {
    for (const auto& [i, j] : unordered_accesses(accesses, c, order)) {
      const std::size_t first = accesses[i].position;
      const std::size_t second = accesses[j].position;
      if (!seen.emplace(first, second).second) continue;
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

// ---- meetings ------------------------------------------------------------------------------------------------------

// What must be equal on all ranks of a group: the collectives of a communicator in issue order.
std::vector<std::string> sequence(const RankClass& c, CommId comm) {
  std::vector<std::string> result;
  for (const Operation& op : c.body) {
    const auto* col = std::get_if<Collective>(&op.work);
    if (col == nullptr || col->comm != comm) continue;
    result.push_back(fmt::format("{} of {} {} root {}", name(col->kind), col->count, name(col->dtype), col->root));
  }
  return result;
}

void check_sequences(const Program& program, const Ranks& ranks, std::vector<Finding>& findings) {
  for (std::size_t k = 0; k < program.communicators.size(); ++k) {
    const Communicator& communicator = program.communicators[k];
    std::set<std::pair<const RankClass*, const RankClass*>> compared;
    for (const auto& group : communicator.groups) {
      const RankClass& first = ranks.class_of(group.front());
      for (const Rank rank : group) {
        const RankClass& other = ranks.class_of(rank);
        if (&other == &first || !compared.emplace(&first, &other).second) continue;
        const auto left = sequence(first, CommId(k));
        const auto right = sequence(other, CommId(k));
        if (left == right) continue;
        const auto [l, r] = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
        findings.push_back(
            {FindingKind::mismatch,
             fmt::format("communicator {}, collective {}: rank {} has {}, rank {} has {}", communicator.name,
                         l - left.begin(), group.front().value, l == left.end() ? "nothing" : *l, rank.value,
                         r == right.end() ? "nothing" : *r)});
      }
    }
  }
}

// Every send of one rank to another on a communicator, and every receive, in order.
void check_transfers(const Program& program, const Ranks& ranks, std::vector<Finding>& findings) {
  struct Side {
    std::vector<std::string> sent;
    std::vector<std::string> received;
  };
  std::map<std::tuple<CommId, Rank, Rank>, Side> pairs;
  for (const RankClass& c : program.classes) {
    for (const Operation& op : c.body) {
      const auto* e = std::get_if<Exchange>(&op.work);
      if (e == nullptr) continue;
      for (const Rank rank : c.members) {
        const std::vector<Rank>& group = *ranks.group_of(e->comm, rank);
        auto read = op.reads.begin();
        auto write = op.writes.begin();
        for (const Transfer& t : e->transfers) {
          const Rank peer = group[static_cast<std::size_t>(t.peer)];
          if (t.direction == Direction::send) {
            pairs[{e->comm, rank, peer}].sent.push_back(fmt::format("{} {}", (read++)->count, name(e->dtype)));
          } else {
            pairs[{e->comm, peer, rank}].received.push_back(fmt::format("{} {}", (write++)->count, name(e->dtype)));
          }
        }
      }
    }
  }
  for (const auto& [key, side] : pairs) {
    if (side.sent == side.received) continue;
    const auto& [comm, from, to] = key;
    findings.push_back(
        {FindingKind::mismatch, fmt::format("communicator {}: rank {} sends {{{}}} to rank {}, which receives {{{}}}",
                                            program.communicators[comm.index()].name, from.value,
                                            fmt::join(side.sent, ", "), to.value, fmt::join(side.received, ", "))});
  }
}

// ---- deadlock ------------------------------------------------------------------------------------------------------

// What one rank of a class replays.
struct Plan {
  std::vector<std::vector<std::size_t>> lanes;         // the positions of each lane, in issue order
  std::vector<std::vector<std::size_t>> predecessors;  // of each position
  std::vector<std::vector<int>> places;                // of each position and meeting, in the sequence that it is in
  std::vector<std::optional<std::size_t>> ended_by;    // of each position: the record that it lasts until
};

// Collectives of one communicator meet in issue order, and so do the transfers between two ranks. With `one_collective`
// a rank runs one collective at a time, also in issue order.
Plan plan(const RankClass& c, std::size_t lanes, bool one_collective) {
  Plan result;
  result.lanes.resize(lanes);
  const HappensBefore order(c.body, lanes);
  std::optional<std::size_t> previous;  // collective
  std::map<CommId, int> collectives;
  std::map<std::tuple<CommId, Direction, int>, int> transfers;
  for (std::size_t i = 0; i < c.body.size(); ++i) {
    const Operation& op = c.body[i];
    result.lanes[op.lane.index()].push_back(i);
    std::vector<std::size_t>& predecessors = result.predecessors.emplace_back(order.predecessors(i));
    std::vector<int>& places = result.places.emplace_back();
    const EventId until = lasts_until(op.work);
    result.ended_by.push_back(until.valid() ? position_of_record(c, until) : std::nullopt);
    if (const auto* col = std::get_if<Collective>(&op.work)) {
      places.push_back(collectives[col->comm]++);
      if (one_collective && previous) predecessors.push_back(*previous);
      previous = i;
    } else if (const auto* e = std::get_if<Exchange>(&op.work)) {
      for (const Transfer& t : e->transfers) places.push_back(transfers[{e->comm, t.direction, t.peer}]++);
    }
  }
  return result;
}

// Replays a program without durations. An operation is done when its predecessors are, what it meets has been reached
// on every rank that takes part, and the event that it lasts until has fired. Of ranks that are alike one is played.
class Replay {
 public:
  Replay(const Program& program, bool one_collective)
      : program_(program), table_(program), alike_(members_are_alike(program, table_)) {
    for (const RankClass& c : program.classes) {
      const Plan& its = plans_.emplace(&c, plan(c, program.lanes.size(), one_collective)).first->second;
      const std::size_t played = alike_ ? std::min<std::size_t>(1, c.members.size()) : c.members.size();
      for (std::size_t i = 0; i < played; ++i) {
        states_.push_back({alike_ ? c.members : std::vector<Rank>{c.members[i]}, &c, &its,
                           std::vector<bool>(c.body.size()), std::vector<LaneState>(program.lanes.size())});
      }
    }
  }

  // Where each lane that cannot go on stands: "ranks {0..3} at %7 ...; ranks ...". Empty: all finish.
  std::string run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (RankState& rank : states_) {
        for (std::size_t lane = 0; lane < rank.lanes.size(); ++lane) moved = advance(rank, lane) || moved;
      }
    }
    std::map<std::pair<const RankClass*, std::size_t>, std::vector<Rank>> stuck;
    for (const RankState& rank : states_) {
      for (std::size_t lane = 0; lane < rank.lanes.size(); ++lane) {
        const auto& positions = rank.plan->lanes[lane];
        if (rank.lanes[lane].next < positions.size()) {
          std::vector<Rank>& all = stuck[{rank.rank_class, positions[rank.lanes[lane].next]}];
          all.insert(all.end(), rank.members.begin(), rank.members.end());
        }
      }
    }
    std::string text;
    for (auto& [at, ranks] : stuck) {
      std::sort(ranks.begin(), ranks.end());
      text += fmt::format("{}ranks {} at {}", text.empty() ? "" : "; ", describe(ranks),
                          label(program_, at.first->body[at.second]));
    }
    return text;
  }

 private:
  struct Meeting {
    const int* arrived;
    int needed;
  };
  struct LaneState {
    std::size_t next = 0;           // index into the lane's positions
    bool arrived = false;           // counted at the meetings in front of it
    std::vector<Meeting> meetings;  // of the operation in front of it, once arrived
  };
  // The ranks that meet on a communicator: a group, and of ranks that are alike, all groups of the same classes.
  struct Party {
    int id;
    std::size_t size;   // of those that are played
    std::size_t place;  // of the rank in question
  };
  struct RankState {
    std::vector<Rank> members;  // that are played as one
    const RankClass* rank_class;
    const Plan* plan;
    std::vector<bool> done;  // by position
    std::vector<LaneState> lanes;
    std::map<CommId, Party> parties = {};  // as far as they were needed
  };

  const Party& party_of(RankState& rank, CommId comm) {
    const auto [found, fresh] = rank.parties.try_emplace(comm);
    if (!fresh) return found->second;
    const Rank one = rank.members.front();
    const auto& group = program_.communicators[comm.index()].groups[table_.group_of(comm.index(), one)];
    const auto place = std::find(group.begin(), group.end(), one) - group.begin();
    std::vector<std::size_t> who;
    for (const Rank other : group) who.push_back(alike_ ? table_.class_of(other) : other.index());
    const int id = parties_.try_emplace({comm, who}, static_cast<int>(parties_.size())).first->second;
    std::sort(who.begin(), who.end());
    const auto size = std::unique(who.begin(), who.end()) - who.begin();
    return found->second = {id, static_cast<std::size_t>(size), static_cast<std::size_t>(place)};
  }

  bool advance(RankState& rank, std::size_t lane_index) {
    const auto& positions = rank.plan->lanes[lane_index];
    LaneState& lane = rank.lanes[lane_index];
    bool moved = false;
    for (; lane.next < positions.size(); ++lane.next) {
      const std::size_t position = positions[lane.next];
      if (!lane.arrived) {
        const auto& predecessors = rank.plan->predecessors[position];
        if (!std::all_of(predecessors.begin(), predecessors.end(), [&](std::size_t p) { return rank.done[p]; })) break;
        lane.meetings = arrive(rank, position);
        lane.arrived = true;
        moved = true;
      }
      if (!std::all_of(lane.meetings.begin(), lane.meetings.end(),
                       [](const Meeting& m) { return *m.arrived >= m.needed; })) {
        break;
      }
      const std::optional<std::size_t> ended_by = rank.plan->ended_by[position];
      if (ended_by && !rank.done[*ended_by]) break;
      rank.done[position] = true;
      lane.arrived = false;
      moved = true;
    }
    return moved;
  }

  // Counts a rank at all that its operation meets.
  std::vector<Meeting> arrive(RankState& rank, std::size_t position) {
    std::vector<Meeting> result;
    const auto meet = [&](std::array<int, 4> key, std::size_t needed) {
      int& arrived = arrivals_[key];
      ++arrived;
      result.push_back({&arrived, static_cast<int>(needed)});
    };
    const Work& work = rank.rank_class->body[position].work;
    const std::vector<int>& places = rank.plan->places[position];
    if (const auto* c = std::get_if<Collective>(&work)) {
      const Party& party = party_of(rank, c->comm);
      meet({party.id, -1, -1, places[0]}, party.size);
    } else if (const auto* e = std::get_if<Exchange>(&work)) {
      const Party& party = party_of(rank, e->comm);
      const int self = static_cast<int>(party.place);
      for (std::size_t i = 0; i < e->transfers.size(); ++i) {
        const Transfer& t = e->transfers[i];
        const bool send = t.direction == Direction::send;
        meet({party.id, send ? self : t.peer, send ? t.peer : self, places[i]}, 2);
      }
    }
    return result;
  }

  const Program& program_;
  RankTable table_;
  bool alike_;
  std::map<const RankClass*, Plan> plans_;
  std::vector<RankState> states_;
  std::map<std::pair<CommId, std::vector<std::size_t>>, int> parties_;
  std::map<std::array<int, 4>, int>
      arrivals_;  // of party, from (or -1), to (or -1): places in it; and place in sequence
};

void check_deadlock(const Program& program, std::vector<Finding>& findings) {
  if (const std::string stuck = Replay(program, false).run(); !stuck.empty()) {
    findings.push_back({FindingKind::deadlock, "no lane can go on: " + stuck});
  } else if (const std::string crossed = Replay(program, true).run(); !crossed.empty()) {
    findings.push_back(
        {FindingKind::deadlock, "a device that runs one collective at a time hangs: " + crossed +
                                    ": issue the collectives of all communicators in one order on all ranks"});
  }
}

}  // namespace

std::vector<Finding> check(const Program& program) {
  const Ranks ranks(program);
  std::vector<Finding> findings;
  for (const RankClass& c : program.classes) {
    for (const auto* part : {&c.prologue, &c.body, &c.epilogue}) {
      for (const Operation& op : *part) check_shapes(program, ranks, c, op, findings);
    }
    check_events(program, c, findings);
    check_submissions(program, c, findings);
  }
  if (!findings.empty()) return findings;  // the checks below rely on shapes and events
  for (const RankClass& c : program.classes) check_races(program, c, findings);
  check_sequences(program, ranks, findings);
  check_transfers(program, ranks, findings);
  check_deadlock(program, findings);
  return findings;
}

std::vector<Finding> unexpected_findings(const Program& program) {
  std::vector<Finding> findings = check(program);
  const auto& expected = program.expected_findings;
  std::erase_if(findings, [&](const Finding& f) {
    return std::find(expected.begin(), expected.end(), f.kind) != expected.end();
  });
  return findings;
}

}  // namespace ovl
