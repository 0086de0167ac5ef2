// SPDX-License-Identifier: Apache-2.0
#include "backend/host/plan.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/error.hpp"

namespace ovl::host {
namespace {

// The communicator that an operation uses.
std::optional<CommId> communicator_of(const Operation& op) {
  if (const auto* c = std::get_if<Collective>(&op.work)) return c->comm;
  if (const auto* e = std::get_if<Exchange>(&op.work)) return e->comm;
  return std::nullopt;
}

// Lanes of one rank that use each communicator.
std::map<CommId, std::set<LaneId>> lanes_by_communicator(const std::vector<Operation>& body) {
  std::map<CommId, std::set<LaneId>> lanes;
  for (const Operation& op : body) {
    if (const auto comm = communicator_of(op)) lanes[*comm].insert(op.lane);
  }
  return lanes;
}

class RankPlanner {
 public:
  RankPlanner(Plan& plan, const Program& program, Rank rank, const std::vector<int>& cores,
              const std::vector<std::vector<int>>& helper_cores, const Arena& arena, const Carriers& carriers)
      : plan_(plan),
        program_(program),
        rank_(rank),
        body_(program.class_of(rank).body),
        cores_(cores),
        helper_cores_(helper_cores),
        arena_(arena),
        carriers_(carriers),
        comm_lanes_(lanes_by_communicator(body_)) {}

  void run() {
    for (std::size_t e = 0; e < program_.events.size(); ++e) events_.push_back(&plan_.signals.emplace_back());
    for (const Operation& op : body_) track(op.lane);
    // A rank with nothing to do still passes the gate.
    if (body_.empty()) track(LaneId(0));
    for (const auto& [lane, t] : tracks_) joins_[lane] = &plan_.signals.emplace_back();
    for (const Operation& op : body_) add(op);
    for (auto& [lane, records] : pending_starts_) flush_starts(lane, false);
    resolve_early_waits();
    for (auto& [lane, t] : tracks_) mark_work(*t);
    plan_.operations.push_back(std::move(placed_));
  }

 private:
  Track& track(LaneId lane) {
    Track*& found = tracks_[lane];
    if (found == nullptr) {
      const Lane& declared = program_.lanes.at(lane.index());
      found =
          &plan_.tracks.emplace_back(WorkerId{rank_.value, lane.value, 0}, cores_.at(lane.index()), declared.waiting);
      if (plan_.progress) found->party = &plan_.progress->add(declared.role);
    }
    return *found;
  }
  Track& helper(LaneId lane, int channel) {
    Track*& found = helpers_[{lane, channel}];
    if (found == nullptr) {
      found = &plan_.tracks.emplace_back(WorkerId{rank_.value, lane.value, channel},
                                         helper_cores_.at(lane.index()).at(static_cast<std::size_t>(channel) - 1),
                                         program_.lanes.at(lane.index()).waiting);
    }
    return *found;
  }

  [[nodiscard]] Region region(const Slice& slice) const {
    const Buffer& buffer = program_.buffers.at(slice.buffer.index());
    return {arena_.copy(slice.buffer, 0) + slice.offset * size_of(buffer.dtype).value(), arena_.stride(slice.buffer),
            buffer.copies, slice.count};
  }
  [[nodiscard]] std::vector<Region> regions(const std::vector<Slice>& slices) const {
    std::vector<Region> all;
    for (const Slice& s : slices) all.push_back(region(s));
    return all;
  }
  [[nodiscard]] std::int64_t element_size(const Slice& slice) const {
    return size_of(program_.buffers.at(slice.buffer.index()).dtype).value();
  }

  template <class Action>
  static void append(Track& track, OpId op, bool work, Action action) {
    track.steps.push_back({op, work, std::move(action)});
  }

  void add(const Operation& op) {
    std::visit([&](const auto& work) { add(op, work); }, op.work);
  }

  // Ordering takes one step, the one appended last.
  void place(const Operation& op, PlacedOp::Order order, std::size_t source) {
    const Track& t = track(op.lane);
    const std::size_t last = t.steps.empty() ? 0 : t.steps.size() - 1;
    placed_.push_back({op.id, op.lane, order, &t, last, last, source});
  }

  void add(const Operation& op, const Record& record) {
    const std::size_t self = placed_.size();
    const RecordStep step{events_.at(record.event.index()), ++recorded_[record.event]};
    last_record_[record.event] = self;
    first_record_.try_emplace(record.event, self);
    if (record.moment == Moment::start) {
      pending_starts_[op.lane].emplace_back(self, step);
    } else {
      append(track(op.lane), op.id, false, step);
    }
    place(op, PlacedOp::Order::record, self);
  }

  // Waits for the latest record issued before it, or for the first one where none was.
  void add(const Operation& op, const Wait& wait) {
    const std::size_t self = placed_.size();
    append(track(op.lane), op.id, false, WaitStep{events_.at(wait.event.index()), std::max(1U, recorded_[wait.event])});
    const auto latest = last_record_.find(wait.event);
    const bool early = latest == last_record_.end();
    if (early) early_waits_.emplace_back(self, wait.event);
    place(op, PlacedOp::Order::wait, early ? self : latest->second);
  }

  void add(const Operation& op, const HostSync&) {
    join(op);
    place(op, PlacedOp::Order::join, placed_.size());
  }

  // Work takes the steps from where it began to the last that bears its name; waiting for its turn before and giving it
  // away after are not part of it.
  void add(const Operation& op, const auto& work) {
    Track& t = track(op.lane);
    const std::optional<std::size_t> until = append_until(t, op);
    append_work(t, op, work);
    std::size_t last = t.steps.size() - 1;
    while (t.steps[last].op != op.id) --last;
    placed_.push_back({op.id, op.lane, PlacedOp::Order::work, &t, began_, last, placed_.size(), posted_, until, due_});
  }

  // Lanes have no submitter: each looks itself at when what is next on it is due, as one that submits in issue order
  // would have it.
  std::optional<std::size_t> append_until(Track& t, const Operation& op) {
    if (op.not_before) due_ = std::max(due_, static_cast<Stamp>(std::llround(op.not_before->value() * 1e9)));
    if (!op.not_before && due_ == 0) return std::nullopt;
    append(t, OpId(), false, UntilStep{due_});
    return t.steps.size() - 1;
  }

  // Work begins here: the records of its start fire, so whoever waits for them starts later than it.
  void begin(Track& t, LaneId lane) {
    began_ = t.steps.size();
    posted_.reset();
    flush_starts(lane, true);
  }

  void append_work(Track& t, const Operation& op, const Gemm& gemm) {
    const auto [rows, columns] = tile_of(gemm);
    begin(t, op.lane);
    append(t, op.id, true,
           GemmStep{gemm, region(op.reads.at(0)), region(op.reads.at(1)), region(op.writes.at(0)), rows, columns});
  }
  // Where compute lanes poll, a GEMM is cut into tiles that take about the interval; the same ones in every arm, so
  // that they compute the same to the bit. Smaller than the smallest they would cost more than the polling.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> tile_of(const Gemm& gemm) const {
    const MessageProgress progress = progress_of(program_);
    if (!plan_.progress || progress.mode != ProgressMode::poll) return {gemm.m, gemm.n};
    constexpr FlopsPerSecond core(200e9);  // of one core in f32, about
    constexpr std::int64_t smallest = 128;
    const Seconds whole = flops_of({gemm.m, gemm.n, gemm.k, gemm.dtype}) / core;
    std::int64_t down = 1;
    std::int64_t across = 1;
    while (whole > progress.interval * static_cast<double>(down * across)) {
      const bool may_down = gemm.m / (down + 1) >= smallest;
      const bool may_across = gemm.n / (across + 1) >= smallest;
      if (!may_down && !may_across) break;
      const bool taller = gemm.m / down > gemm.n / across;
      may_down && (taller || !may_across) ? ++down : ++across;
    }
    return {(gemm.m + down - 1) / down, (gemm.n + across - 1) / across};
  }
  void append_work(Track& t, const Operation& op, const Copy&) {
    begin(t, op.lane);
    const Region from = region(op.reads.at(0));
    append(t, op.id, true, CopyStep{region(op.writes.at(0)), from, from.count * element_size(op.reads.at(0))});
  }
  void append_work(Track& t, const Operation& op, const Busy& busy) {
    begin(t, op.lane);
    append(t, op.id, true, BusyStep{static_cast<Stamp>(busy.duration.value() * 1e9)});
  }
  void append_work(Track& t, const Operation& op, const Occupy& o) {
    const OccupyStep step{static_cast<Stamp>(o.duration.value() * 1e9), end_of(o.until), 1};
    append_parts(t, op, std::vector<OccupyStep>(static_cast<std::size_t>(o.count), step));
  }
  // Each worker has its part of the slices, of the bytes and of the pace.
  void append_work(Track& t, const Operation& op, const Stream& s) {
    const Region to = region(op.writes.at(0));
    const Region from = region(op.reads.at(0));
    const std::int64_t element = element_size(op.reads.at(0));
    std::vector<StreamStep> parts;
    for (std::int64_t w = 0; w < s.workers; ++w) {
      const std::int64_t first = from.count * w / s.workers;
      const std::int64_t end = from.count * (w + 1) / s.workers;
      if (first == end) continue;
      const double part = static_cast<double>(end - first) / static_cast<double>(from.count);
      const auto bytes = static_cast<std::int64_t>(static_cast<double>(s.bytes.value()) * part);
      StreamStep step{to, from, (end - first) * element, bytes, s.pace.value() * part * 1e-9, end_of(s.until), 1};
      step.to.first += first * element;
      step.from.first += first * element;
      parts.push_back(step);
    }
    append_parts(t, op, parts);
  }
  // The record of the event comes later, and is its first.
  [[nodiscard]] Signal* end_of(EventId until) const { return until.valid() ? events_.at(until.index()) : nullptr; }

  // The first part is the lane's, the others are its helpers', who are all there before it counts as begun.
  template <class Part>
  void append_parts(Track& t, const Operation& op, const std::vector<Part>& parts) {
    const int count = static_cast<int>(parts.size());
    for (int h = 1; h < count; ++h) start_helper(t, op.lane, h, parts[static_cast<std::size_t>(h)]);
    for (int h = 1; h < count; ++h)
      append(t, OpId(), false, WaitStep{link(op.lane, h).arrived, link(op.lane, h).position});
    begin(t, op.lane);
    append(t, op.id, true, parts.front());
    for (int h = 1; h < count; ++h)
      append(t, op.id, true, WaitStep{link(op.lane, h).finished, link(op.lane, h).position});
  }

  void append_work(Track& t, const Operation& op, const Elementwise&) {
    begin(t, op.lane);
    append(
        t, op.id, true,
        AddStep{program_.buffers.at(op.writes.at(0).buffer.index()).dtype, region(op.writes.at(0)), regions(op.reads)});
  }
  void append_work(Track& t, const Operation& op, const Collective& c) {
    if (carriers_.messages != nullptr) {
      return append_messages(t, op, c.comm, group(c.comm).collective(c), {region(op.reads[0]), region(op.writes[0])});
    }
    const auto [group, member] = group_of(c.comm);
    const CollectiveStep step{group,
                              member,
                              0,
                              {c.kind, c.dtype, c.count, c.root, nullptr, nullptr},
                              region(op.reads.at(0)),
                              region(op.writes.at(0))};
    take_turn(t, c.comm);
    begin(t, op.lane);
    for (int channel = 1; channel < group->channels(); ++channel) {
      CollectiveStep part = step;
      part.channel = channel;
      start_helper(t, op.lane, channel, part);
    }
    append(t, op.id, true, step);
    for (int channel = 1; channel < group->channels(); ++channel) {
      append(t, op.id, true, WaitStep{link(op.lane, channel).finished, link(op.lane, channel).position});
    }
    pass_turn(t, c.comm);
  }
  void append_work(Track& t, const Operation& op, const Exchange& e) {
    std::vector<Region> memory;
    std::size_t sends = 0;
    std::size_t receives = 0;
    for (const Transfer& transfer : e.transfers) {
      memory.push_back(region(transfer.direction == Direction::send ? op.reads.at(sends++) : op.writes.at(receives++)));
    }
    if (carriers_.messages != nullptr) {
      std::vector<std::int64_t> counts;
      for (const Region& r : memory) counts.push_back(r.count);
      return append_messages(t, op, e.comm, group(e.comm).exchange(e.dtype, e.transfers, counts), memory);
    }
    const auto [group, member] = group_of(e.comm);
    ExchangeStep step{group, member, {}, {}};
    std::vector<std::pair<Message, Region>> transfers;
    for (std::size_t i = 0; i < memory.size(); ++i) {
      const Transfer& transfer = e.transfers[i];
      transfers.push_back(
          {{transfer.direction, transfer.peer, nullptr, memory[i].count * size_of(e.dtype).value()}, memory[i]});
    }
    std::stable_sort(transfers.begin(), transfers.end(),
                     [](const auto& a, const auto& b) { return a.first.peer < b.first.peer; });
    for (const auto& [message, r] : transfers) {
      step.messages.push_back(message);
      step.regions.push_back(r);
    }
    take_turn(t, e.comm);
    begin(t, op.lane);
    append(t, op.id, true, std::move(step));
    pass_turn(t, e.comm);
  }
  void append_messages(Track& t, const Operation& op, CommId comm, std::unique_ptr<MessageOperation> operation,
                       std::vector<Region> memory) {
    take_turn(t, comm);
    begin(t, op.lane);
    posted_ = t.steps.size();
    append(t, op.id, true, PostStep{operation.get(), std::move(memory)});
    append(t, op.id, true, CompleteStep{});
    pass_turn(t, comm);
    plan_.messages.push_back(std::move(operation));
  }
  void append_work(Track&, const Operation& op, const auto&) {
    require(false, "operation " + std::string(kind_name(op.work)) + " has no place in a body");
  }

  // One step of a lane and what its helper on a further channel waits for and answers.
  struct Link {
    Signal* started = nullptr;
    Signal* arrived = nullptr;
    Signal* finished = nullptr;
    std::uint32_t position = 0;
  };
  Link& link(LaneId lane, int channel) { return links_[{lane, channel}]; }

  template <class Part>
  void start_helper(Track& t, LaneId lane, int channel, Part part) {
    Link& l = link(lane, channel);
    if (l.started == nullptr) {
      l.started = &plan_.signals.emplace_back();
      l.arrived = &plan_.signals.emplace_back();
      l.finished = &plan_.signals.emplace_back();
    }
    ++l.position;
    append(t, OpId(), false, RecordStep{l.started, l.position});
    Track& h = helper(lane, channel);
    append(h, OpId(), false, WaitStep{l.started, l.position});
    append(h, OpId(), false, RecordStep{l.arrived, l.position});
    append(h, OpId(), false, part);
    append(h, OpId(), false, RecordStep{l.finished, l.position});
  }

  std::pair<Group*, int> group_of(CommId id) {
    const Communicator& comm = program_.communicators.at(id.index());
    for (const std::vector<Rank>& members : comm.groups) {
      const auto me = std::find(members.begin(), members.end(), rank_);
      if (me != members.end()) return {&carriers_.rings.get(comm, members), static_cast<int>(me - members.begin())};
    }
    throw in_no_group(comm);
  }
  MessageGroup& group(CommId id) {
    const Communicator& comm = program_.communicators.at(id.index());
    MessageGroup* const found = carriers_.messages->get(comm);
    if (found == nullptr) throw in_no_group(comm);
    return *found;
  }
  [[nodiscard]] Error in_no_group(const Communicator& comm) const {
    return failure("rank " + std::to_string(rank_.value) + " is in no group of communicator \"" + comm.name + "\"",
                   "its program uses it", "add the rank to a group");
  }

  // Operations of one communicator run in issue order. On one lane they do so anyway.
  void take_turn(Track& t, CommId comm) {
    const std::uint32_t position = turns_[comm];
    if (comm_lanes_[comm].size() < 2 || position == 0) return;
    append(t, OpId(), false, WaitStep{turn(comm), position});
  }
  void pass_turn(Track& t, CommId comm) {
    if (comm_lanes_[comm].size() < 2) return;
    append(t, OpId(), false, RecordStep{turn(comm), ++turns_[comm]});
  }
  Signal* turn(CommId comm) {
    Signal*& signal = turn_signals_[comm];
    if (signal == nullptr) signal = &plan_.signals.emplace_back();
    return signal;
  }

  void join(const Operation& op) {
    ++join_count_;
    for (auto& [lane, t] : tracks_) {
      JoinStep step{joins_.at(lane), {}, join_count_};
      for (const auto& [other, signal] : joins_) {
        if (other != lane) step.others.push_back(signal);
      }
      append(*t, lane == op.lane ? op.id : OpId(), false, std::move(step));
    }
  }

  void flush_starts(LaneId lane, bool work) {
    Track& t = track(lane);
    for (const auto& [placed, step] : pending_starts_[lane]) {
      placed_[placed].first_step = placed_[placed].last_step = t.steps.size();
      append(t, placed_[placed].op, work, step);
    }
    pending_starts_[lane].clear();
  }

  void resolve_early_waits() {
    for (const auto& [placed, event] : early_waits_) {
      const auto record = first_record_.find(event);
      if (record != first_record_.end()) placed_[placed].source = record->second;
    }
  }

  static void mark_work(Track& t) {
    const auto works = [](const Step& s) { return s.work; };
    const auto first = std::find_if(t.steps.begin(), t.steps.end(), works);
    if (first == t.steps.end()) {
      t.last_work = t.steps.empty() ? 0 : t.steps.size() - 1;
      return;
    }
    t.first_work = static_cast<std::size_t>(first - t.steps.begin());
    const auto last = std::find_if(t.steps.rbegin(), t.steps.rend(), works);
    t.last_work = static_cast<std::size_t>(t.steps.rend() - last) - 1;
  }

  Plan& plan_;
  const Program& program_;
  Rank rank_;
  const std::vector<Operation>& body_;
  const std::vector<int>& cores_;
  const std::vector<std::vector<int>>& helper_cores_;
  const Arena& arena_;
  const Carriers& carriers_;

  std::map<CommId, std::set<LaneId>> comm_lanes_;
  std::map<LaneId, Track*> tracks_;
  std::map<std::pair<LaneId, int>, Track*> helpers_;
  std::map<std::pair<LaneId, int>, Link> links_;
  std::map<LaneId, Signal*> joins_;
  std::vector<Signal*> events_;
  std::map<EventId, std::uint32_t> recorded_;
  std::map<EventId, std::size_t> first_record_;
  std::map<EventId, std::size_t> last_record_;
  std::vector<std::pair<std::size_t, EventId>> early_waits_;  // issued before any record of their event
  std::map<LaneId, std::vector<std::pair<std::size_t, RecordStep>>> pending_starts_;
  std::map<CommId, std::uint32_t> turns_;
  std::map<CommId, Signal*> turn_signals_;
  std::uint32_t join_count_ = 0;
  Stamp due_ = 0;                      // of the latest work
  std::size_t began_ = 0;              // the first step of the latest work
  std::optional<std::size_t> posted_;  // and where the library was called for it
  std::vector<PlacedOp> placed_;
};

}  // namespace

MessageGroup* MessageGroups::get(const Communicator& communicator) {
  const auto [found, made] = groups_.try_emplace({communicator.name, communicator.groups});
  if (made) {
    std::vector<std::vector<int>> groups;
    for (const std::vector<Rank>& members : communicator.groups) {
      std::vector<int>& processes = groups.emplace_back();
      for (const Rank rank : members) processes.push_back(rank.value);
    }
    found->second = library_.group(groups);
  }
  return found->second.get();
}

MessageProgress progress_of(const Program& program) {
  for (const Communicator& comm : program.communicators) {
    if (comm.progress.mode != ProgressMode::automatic) return comm.progress;
  }
  return {ProgressMode::thread, Seconds(0)};
}

int channels_of(const Communicator& communicator) { return std::max(1, communicator.channels); }

Group& Groups::get(const Communicator& communicator, const std::vector<Rank>& members) {
  const int channels = channels_of(communicator);
  std::unique_ptr<Group>& group = groups_[{communicator.name, members, channels}];
  if (group == nullptr) group = std::make_unique<Group>(static_cast<int>(members.size()), channels, cache_);
  return *group;
}

std::vector<int> helpers_by_lane(const Program& program) {
  std::vector<int> helpers(program.lanes.size(), 0);
  const auto threads = [&](const Work& work) {
    const auto* collective = std::get_if<Collective>(&work);
    return collective == nullptr ? std::max(1, cores_held(work))
                                 : channels_of(program.communicators.at(collective->comm.index()));
  };
  for (const RankClass& c : program.classes) {
    for (const Operation& op : c.body) {
      int& most = helpers.at(op.lane.index());
      most = std::max(most, threads(op.work) - 1);
    }
  }
  return helpers;
}

std::vector<bool> holds_cores(const Program& program) {
  std::vector<bool> holds(program.lanes.size());
  for (const RankClass& c : program.classes) {
    for (const Operation& op : c.body) {
      if (cores_held(op.work) > 0) holds.at(op.lane.index()) = true;
    }
  }
  return holds;
}

int cores_held(const Work& work) {
  if (const auto* occupy = std::get_if<Occupy>(&work)) return occupy->count;
  if (const auto* stream = std::get_if<Stream>(&work)) return stream->workers;
  return 0;
}

std::shared_ptr<Plan> make_plan(const Program& program, Rank first, const std::vector<std::vector<int>>& cores,
                                const std::vector<std::vector<std::vector<int>>>& helper_cores,
                                const std::vector<Arena>& arenas, const Carriers& carriers) {
  auto plan = std::make_shared<Plan>();
  plan->first_rank = first.value;
  plan->ranks = static_cast<int>(arenas.size());
  for (const Lane& lane : program.lanes) plan->lane_roles.push_back(lane.role);
  if (carriers.messages != nullptr) {
    plan->progress.emplace(progress_of(program));
    for (const Communicator& comm : program.communicators) carriers.messages->get(comm);
  }
  for (std::size_t r = 0; r < arenas.size(); ++r) {
    const Rank rank(static_cast<std::size_t>(first.value) + r);
    RankPlanner(*plan, program, rank, cores[r], helper_cores[r], arenas[r], carriers).run();
  }
  return plan;
}

}  // namespace ovl::host
