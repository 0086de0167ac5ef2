// SPDX-License-Identifier: Apache-2.0
#include "backend/host/plan.hpp"

#include <algorithm>
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
              const std::vector<std::vector<int>>& helper_cores, const Arena& arena, Groups& groups)
      : plan_(plan),
        program_(program),
        rank_(rank),
        body_(program.class_of(rank).body),
        cores_(cores),
        helper_cores_(helper_cores),
        arena_(arena),
        groups_(groups),
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
      found = &plan_.tracks.emplace_back(WorkerId{rank_.value, lane.value, 0}, cores_.at(lane.index()),
                                         program_.lanes.at(lane.index()).waiting);
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
    append_work(t, op, work);
    std::size_t last = t.steps.size() - 1;
    while (t.steps[last].op != op.id) --last;
    placed_.push_back({op.id, op.lane, PlacedOp::Order::work, &t, began_, last, placed_.size()});
  }

  // Work begins here: the records of its start fire, so whoever waits for them starts later than it.
  void begin(Track& t, LaneId lane) {
    began_ = t.steps.size();
    flush_starts(lane, true);
  }

  void append_work(Track& t, const Operation& op, const Gemm& gemm) {
    begin(t, op.lane);
    append(t, op.id, true, GemmStep{gemm, region(op.reads.at(0)), region(op.reads.at(1)), region(op.writes.at(0))});
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
  void append_work(Track& t, const Operation& op, const Elementwise&) {
    begin(t, op.lane);
    append(
        t, op.id, true,
        AddStep{program_.buffers.at(op.writes.at(0).buffer.index()).dtype, region(op.writes.at(0)), regions(op.reads)});
  }
  void append_work(Track& t, const Operation& op, const Collective& c) {
    const auto [group, member] = group_of(c.comm);
    const CollectiveStep step{group,
                              member,
                              0,
                              {c.kind, c.dtype, c.count, c.root, nullptr, nullptr},
                              region(op.reads.at(0)),
                              region(op.writes.at(0))};
    take_turn(t, c.comm);
    begin(t, op.lane);
    for (int channel = 1; channel < group->channels(); ++channel) start_helper(t, op, step, channel);
    append(t, op.id, true, step);
    for (int channel = 1; channel < group->channels(); ++channel) {
      append(t, op.id, true, WaitStep{link(op.lane, channel).finished, link(op.lane, channel).position});
    }
    pass_turn(t, c.comm);
  }
  void append_work(Track& t, const Operation& op, const Exchange& e) {
    const auto [group, member] = group_of(e.comm);
    ExchangeStep step{group, member, {}, {}};
    std::vector<std::pair<Message, Region>> transfers;
    std::size_t sends = 0;
    std::size_t receives = 0;
    for (const Transfer& transfer : e.transfers) {
      const bool send = transfer.direction == Direction::send;
      const Region r = region(send ? op.reads.at(sends++) : op.writes.at(receives++));
      transfers.push_back({{transfer.direction, transfer.peer, nullptr, r.count * size_of(e.dtype).value()}, r});
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
  void append_work(Track&, const Operation& op, const auto&) {
    require(false, "operation " + std::string(kind_name(op.work)) + " has no place in a body");
  }

  // One step of a lane and what its helper on a further channel waits for and answers.
  struct Link {
    Signal* started = nullptr;
    Signal* finished = nullptr;
    std::uint32_t position = 0;
  };
  Link& link(LaneId lane, int channel) { return links_[{lane, channel}]; }

  void start_helper(Track& t, const Operation& op, CollectiveStep step, int channel) {
    Link& l = link(op.lane, channel);
    if (l.started == nullptr) {
      l.started = &plan_.signals.emplace_back();
      l.finished = &plan_.signals.emplace_back();
    }
    ++l.position;
    append(t, OpId(), false, RecordStep{l.started, l.position});
    Track& h = helper(op.lane, channel);
    step.channel = channel;
    append(h, OpId(), false, WaitStep{l.started, l.position});
    append(h, OpId(), false, step);
    append(h, OpId(), false, RecordStep{l.finished, l.position});
  }

  std::pair<Group*, int> group_of(CommId id) {
    const Communicator& comm = program_.communicators.at(id.index());
    for (const std::vector<Rank>& members : comm.groups) {
      const auto me = std::find(members.begin(), members.end(), rank_);
      if (me != members.end()) return {&groups_.get(comm, members), static_cast<int>(me - members.begin())};
    }
    throw failure("rank " + std::to_string(rank_.value) + " is in no group of communicator \"" + comm.name + "\"",
                  "its program uses it", "add the rank to a group");
  }

  // Operations of one communicator run in issue order. On one lane they do so anyway.
  void take_turn(Track& t, CommId comm) {
    const std::uint32_t position = turns_[comm];
    if (comm_lanes_[comm].size() < 2 || position == 0) return;
    const auto [group, member] = group_of(comm);
    append(t, OpId(), false, WaitStep{&group->turn(member), position});
  }
  void pass_turn(Track& t, CommId comm) {
    if (comm_lanes_[comm].size() < 2) return;
    const auto [group, member] = group_of(comm);
    append(t, OpId(), false, RecordStep{&group->turn(member), ++turns_[comm]});
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
  Groups& groups_;

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
  std::uint32_t join_count_ = 0;
  std::size_t began_ = 0;  // the first step of the latest work
  std::vector<PlacedOp> placed_;
};

}  // namespace

int channels_of(const Communicator& communicator) { return std::max(1, communicator.channels); }

Group& Groups::get(const Communicator& communicator, const std::vector<Rank>& members) {
  const int channels = channels_of(communicator);
  std::unique_ptr<Group>& group = groups_[{communicator.name, members, channels}];
  if (group == nullptr) group = std::make_unique<Group>(static_cast<int>(members.size()), channels, cache_);
  return *group;
}

std::vector<int> helpers_by_lane(const Program& program) {
  std::vector<int> helpers(program.lanes.size(), 0);
  for (const RankClass& c : program.classes) {
    for (const Operation& op : c.body) {
      if (const auto* collective = std::get_if<Collective>(&op.work)) {
        int& most = helpers.at(op.lane.index());
        most = std::max(most, channels_of(program.communicators.at(collective->comm.index())) - 1);
      }
    }
  }
  return helpers;
}

std::shared_ptr<Plan> make_plan(const Program& program, const std::vector<std::vector<int>>& cores,
                                const std::vector<std::vector<std::vector<int>>>& helper_cores,
                                const std::vector<Arena>& arenas, Groups& groups) {
  auto plan = std::make_shared<Plan>();
  plan->ranks = program.ranks;
  for (const Lane& lane : program.lanes) plan->lane_roles.push_back(lane.role);
  for (std::size_t r = 0; r < arenas.size(); ++r) {
    RankPlanner(*plan, program, Rank(r), cores[r], helper_cores[r], arenas[r], groups).run();
  }
  return plan;
}

}  // namespace ovl::host
