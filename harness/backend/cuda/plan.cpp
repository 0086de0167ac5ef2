// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/plan.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/cuda/proxy.hpp"
#include "base/error.hpp"

namespace ovl::cuda {
namespace {

using CommConfigs = std::vector<std::optional<CommConfig>>;

std::optional<CommId> communicator_of(const Operation& op) {
  if (const auto* c = std::get_if<Collective>(&op.work)) return c->comm;
  if (const auto* e = std::get_if<Exchange>(&op.work)) return e->comm;
  return std::nullopt;
}

bool sends_and_receives(const Operation& op) {
  const auto* c = std::get_if<Collective>(&op.work);
  return std::holds_alternative<Exchange>(op.work) || (c != nullptr && c->kind == CollectiveKind::all_to_all);
}

// Every process makes the same list, whether it has a member or not.
std::vector<GroupKey> groups_of(const Program& program, const CommConfigs& comms) {
  std::vector<GroupKey> groups;
  for (std::size_t c = 0; c < comms.size(); ++c) {
    if (!comms[c]) continue;
    for (const std::vector<Rank>& members : program.communicators[c].groups) {
      if (without_nccl(program.communicators[c], members.size())) continue;
      GroupKey key{members, *comms[c]};
      if (std::find(groups.begin(), groups.end(), key) == groups.end()) groups.push_back(std::move(key));
    }
  }
  return groups;
}

// Bytes, of where slices begin: copies of buffers lie on boundaries of 256.
int alignment_of(const Program& program, const Operation& op) {
  std::int64_t common = 256;
  for (const auto* slices : {&op.reads, &op.writes}) {
    for (const Slice& s : *slices) {
      common = std::gcd(common, s.offset * size_of(program.buffers.at(s.buffer.index()).dtype).value());
    }
  }
  return static_cast<int>(common);
}

class RankPlanner {
 public:
  RankPlanner(Plan& plan, const Program& program, const CommConfigs& comms, Rank rank, int partition_sms)
      : plan_(plan), program_(program), comms_(comms), partition_sms_(partition_sms), out_{.rank = rank} {}

  RankPlan run() && {
    for (const Operation& op : program_.class_of(out_.rank).body) {
      std::visit([&](const auto& work) { add(op, work); }, op.work);
      note_lane(op.lane);
    }
    std::sort(out_.lanes.begin(), out_.lanes.end(),
              [](const LaneSpan& a, const LaneSpan& b) { return a.lane < b.lane; });
    return std::move(out_);
  }

 private:
  template <class Action>
  Step& append(const Operation& op, Action action) {
    if (op.not_before) plan_.live = out_.timed = true;
    out_.steps.push_back({.op = op.id, .lane = op.lane, .action = std::move(action), .not_before = op.not_before});
    return out_.steps.back();
  }

  void note_lane(LaneId lane) {
    auto span = std::find_if(out_.lanes.begin(), out_.lanes.end(), [&](const LaneSpan& s) { return s.lane == lane; });
    if (span == out_.lanes.end()) span = out_.lanes.insert(out_.lanes.end(), LaneSpan{.lane = lane});
    const std::size_t self = out_.steps.size() - 1;
    if (!out_.steps[self].works()) return;
    if (!span->first_work) span->first_work = self;
    span->last_work = self;
    // Its start is what the records before it were for.
    const auto pending = starts_.find(lane);
    if (pending == starts_.end()) return;
    out_.steps[self].began = pending->second.event;
    for (const EventId event : pending->second.marked) latest_[event].step = self;
    starts_.erase(pending);
  }

  void add(const Operation& op, const Gemm& g) {
    const Lane& lane = program_.lanes.at(op.lane.index());
    const bool confined = lane.partition == Partition::by_role && lane.role == Role::compute;
    const GemmShape shape{g.m,
                          g.n,
                          g.k,
                          g.dtype,
                          g.sm_target == 0 && confined ? partition_sms_ : g.sm_target,
                          alignment_of(program_, op)};
    auto found = std::find(plan_.shapes.begin(), plan_.shapes.end(), shape);
    if (found == plan_.shapes.end()) found = plan_.shapes.insert(plan_.shapes.end(), shape);
    append(op, GemmStep{static_cast<std::size_t>(found - plan_.shapes.begin()), g.repeat, op.reads.at(0),
                        op.reads.at(1), op.writes.at(0)});
  }
  void add(const Operation& op, const Collective& c) {
    const auto& [comm, members] = group_of(c.comm);
    if (staged(comm, members.size())) {
      append(op, StagedStep{op.reads.at(0), op.writes.at(0)});
    } else if (const auto proxy = parse_proxy(comm.transport)) {
      append(op, ProxyStep{op.reads.at(0), op.writes.at(0), c.dtype, proxy_steps(c.kind), ns_per_byte(proxy->rate),
                           stay(comm.channels, EventId())});
    } else {
      append(op, CollectiveStep{index_of(c.comm, members), c, op.reads.at(0), op.writes.at(0)});
    }
  }
  void add(const Operation& op, const Exchange& e) {
    const auto& members = group_of(e.comm).second;
    ExchangeStep step{index_of(e.comm, members), e, {}};
    std::size_t sends = 0;
    std::size_t receives = 0;
    for (const Transfer& t : e.transfers) {
      step.slices.push_back(t.direction == Direction::send ? op.reads.at(sends++) : op.writes.at(receives++));
    }
    append(op, std::move(step));
  }
  void add(const Operation& op, const Copy&) { append(op, CopyStep{op.reads.at(0), op.writes.at(0)}); }
  void add(const Operation& op, const Busy& b) {
    append(op, BusyStep{static_cast<std::uint64_t>(std::llround(b.duration.value() * 1e9))});
  }
  void add(const Operation& op, const Occupy& o) {
    append(op, OccupyStep{static_cast<std::uint64_t>(std::llround(o.duration.value() * 1e9)), stay(o.count, o.until)});
  }
  // Its bytes and pace count what is read and what is written, the kernel's what is copied.
  void add(const Operation& op, const ovl::Stream& s) {
    append(op, StreamStep{op.reads.at(0), op.writes.at(0), (s.bytes.value() + 1) / 2, 2 * ns_per_byte(s.pace),
                          stay(s.workers, s.until)});
  }
  void add(const Operation& op, const Elementwise&) { append(op, AddStep{op.writes.at(0), op.reads}); }
  void add(const Operation& op, const Record& r) {
    const std::size_t self = out_.steps.size();
    if (r.moment == Moment::completion) {
      const std::size_t event = out_.events++;
      const auto word = words_.find(r.event);
      append(op, RecordStep{event, r.moment, word == words_.end() ? std::nullopt : std::optional(word->second)});
      latest_[r.event] = {event, self, r.moment};
      return;
    }
    // A kernel can tell its start to one event only: several records of one start share it.
    const auto [pending, fresh] = starts_.try_emplace(op.lane);
    if (fresh) pending->second.event = out_.events++;
    pending->second.marked.push_back(r.event);
    append(op, RecordStep{pending->second.event, r.moment, std::nullopt});
    latest_[r.event] = {pending->second.event, self, r.moment};
  }
  void add(const Operation& op, const Wait& w) {
    const auto record = latest_.find(w.event);
    if (record == latest_.end()) {
      throw failure("program \"" + program_.name + "\" waits for an event before its record",
                    "on a stream that would be no wait at all", "issue the record first");
    }
    Step& step = append(op, WaitStep{record->second.event});
    step.source = record->second.step;
    step.source_moment = record->second.moment;
  }
  void add(const Operation& op, const HostSync&) {
    plan_.live = true;
    append(op, SyncStep{});
  }
  void add(const Operation& op, const auto&) {
    require(false, "operation " + std::string(kind_name(op.work)) + " has no place in a body");
  }

  // The record of the event comes later, and finds the word.
  Stay stay(int blocks, EventId until) {
    Stay made{blocks, out_.report_blocks.size(), std::nullopt};
    out_.report_blocks.push_back(blocks);
    if (until.valid()) {
      const auto [word, fresh] = words_.try_emplace(until, out_.words);
      if (fresh) ++out_.words;
      made.word = word->second;
    }
    return made;
  }

  [[nodiscard]] std::pair<const Communicator&, const std::vector<Rank>&> group_of(CommId id) const {
    const Communicator& comm = program_.communicators.at(id.index());
    for (const std::vector<Rank>& members : comm.groups) {
      if (std::find(members.begin(), members.end(), out_.rank) != members.end()) return {comm, members};
    }
    throw failure("rank " + std::to_string(out_.rank.value) + " is in no group of communicator \"" + comm.name + "\"",
                  "its program uses it", "add the rank to a group");
  }
  [[nodiscard]] std::size_t index_of(CommId comm, const std::vector<Rank>& members) const {
    require(comms_.at(comm.index()).has_value(), "a communicator that is used has a configuration");
    const GroupKey key{members, *comms_[comm.index()]};
    const auto found = std::find(plan_.groups.begin(), plan_.groups.end(), key);
    require(found != plan_.groups.end(), "a group that is used is in the plan");
    return static_cast<std::size_t>(found - plan_.groups.begin());
  }

  struct Latest {
    std::size_t event = 0;
    std::size_t step = 0;
    Moment moment = Moment::completion;
  };
  struct Starts {
    std::size_t event = 0;
    std::vector<EventId> marked;
  };

  Plan& plan_;
  const Program& program_;
  const CommConfigs& comms_;
  int partition_sms_;
  RankPlan out_;
  std::map<EventId, Latest> latest_;  // record of each event
  std::map<LaneId, Starts> starts_;   // waiting for the lane's next work
  std::map<EventId, std::size_t> words_;
};

}  // namespace

const Stay* Step::stay() const {
  if (const auto* occupy = std::get_if<OccupyStep>(&action)) return &occupy->stay;
  if (const auto* stream = std::get_if<StreamStep>(&action)) return &stream->stay;
  if (const auto* proxy = std::get_if<ProxyStep>(&action)) return &proxy->stay;
  return nullptr;
}

bool staged(const Communicator& comm, std::size_t group_size) { return comm.transport == "copy" && group_size == 1; }

bool without_nccl(const Communicator& comm, std::size_t group_size) {
  return staged(comm, group_size) || parse_proxy(comm.transport).has_value();
}

std::vector<LaneNeeds> lane_needs(const std::vector<Program>& arms) {
  std::vector<LaneNeeds> needs(arms.front().lanes.size());
  for (const Program& arm : arms) {
    for (const RankClass& c : arm.classes) {
      for (const Operation& op : c.body) {
        LaneNeeds& lane = needs.at(op.lane.index());
        lane.used = true;
        if (std::holds_alternative<Gemm>(op.work)) lane.gemm = true;
        if (const auto* collective = std::get_if<Collective>(&op.work)) {
          const Communicator& comm = arm.communicators.at(collective->comm.index());
          if (comm.transport == "copy") {
            lane.staging = std::max(lane.staging, size_of(collective->dtype) * op.reads.at(0).count);
          }
          if (parse_proxy(comm.transport)) lane.fifo = std::max(lane.fifo, Bytes(kernels::ring_fifo) * comm.channels);
        }
      }
    }
  }
  return needs;
}

CommConfigs comm_configs(const std::vector<Program>& arms) {
  const Program& first = arms.front();
  CommConfigs configs(first.communicators.size());
  for (const Program& arm : arms) {
    for (const RankClass& c : arm.classes) {
      for (const Operation& op : c.body) {
        const auto id = communicator_of(op);
        if (!id) continue;
        const Communicator& comm = first.communicators.at(id->index());
        std::optional<CommConfig>& config = configs[id->index()];
        if (!config) {
          config = CommConfig{.channels = comm.channels, .copy_engine = comm.transport == "copy", .graph = first.graph};
        }
        config->point_to_point = config->point_to_point || sends_and_receives(op);
      }
    }
  }
  const CommConfigs alike = configs;
  for (std::size_t c = 0; c < configs.size(); ++c) {
    if (!configs[c]) continue;
    const auto& groups = first.communicators[c].groups;
    for (std::size_t before = 0; before < c; ++before) {
      const auto& others = first.communicators[before].groups;
      if (alike[before] == alike[c] &&
          std::find_first_of(groups.begin(), groups.end(), others.begin(), others.end()) != groups.end()) {
        ++configs[c]->twin;
      }
    }
  }
  return configs;
}

Plan make_plan(const Program& program, const CommConfigs& comms, Rank first, int local_ranks, int partition_sms) {
  Plan plan;
  plan.graph = program.graph;
  plan.starts_agree = starts_agree(program);
  plan.groups = groups_of(program, comms);
  for (const Lane& lane : program.lanes) plan.lane_roles.push_back(lane.role);
  for (int r = 0; r < local_ranks; ++r) {
    plan.ranks.push_back(RankPlanner(plan, program, comms, Rank(first.value + r), partition_sms).run());
  }
  return plan;
}

std::optional<GroupKey> align_group(const Program& program, const CommConfigs& comms) {
  if (program.ranks < 2) return std::nullopt;
  for (std::size_t c = 0; c < comms.size(); ++c) {
    if (!comms[c] || comms[c]->copy_engine || comms[c]->graph || parse_proxy(program.communicators[c].transport)) {
      continue;
    }
    for (const std::vector<Rank>& members : program.communicators[c].groups) {
      if (static_cast<int>(members.size()) == program.ranks) return GroupKey{members, *comms[c]};
    }
  }
  GroupKey all;
  for (int r = 0; r < program.ranks; ++r) all.members.emplace_back(r);
  return all;
}

std::set<std::pair<std::size_t, BufferId>> registrations(const std::vector<Program>& arms, const CommConfigs& comms,
                                                         const std::vector<GroupKey>& groups) {
  std::set<std::pair<std::size_t, BufferId>> all;
  const auto add = [&](const Program& program, const RankClass& c, const Operation& op, CommId id) {
    for (const std::vector<Rank>& members : program.communicators.at(id.index()).groups) {
      const bool uses = std::any_of(c.members.begin(), c.members.end(), [&](Rank r) {
        return std::find(members.begin(), members.end(), r) != members.end();
      });
      const auto group = std::find(groups.begin(), groups.end(), GroupKey{members, *comms.at(id.index())});
      if (!uses || group == groups.end()) continue;
      for (const auto* slices : {&op.reads, &op.writes}) {
        for (const Slice& slice : *slices) {
          if (program.buffers.at(slice.buffer.index()).memory == Memory::plain) continue;
          all.emplace(static_cast<std::size_t>(group - groups.begin()), slice.buffer);
        }
      }
    }
  };
  for (const Program& arm : arms) {
    for (const RankClass& c : arm.classes) {
      for (const Operation& op : c.body) {
        if (const auto id = communicator_of(op)) add(arm, c, op, *id);
      }
    }
  }
  return all;
}

bool starts_agree(const Program& program) {
  std::map<CommId, std::vector<bool>> first;
  for (const RankClass& c : program.classes) {
    std::map<CommId, std::vector<bool>> marks;
    std::set<LaneId> marked;  // lanes whose next work a record marks
    for (const Operation& op : c.body) {
      const auto* r = std::get_if<Record>(&op.work);
      if (r != nullptr && r->moment == Moment::start) marked.insert(op.lane);
      if (is_ordering(op.work)) continue;
      if (const auto id = communicator_of(op)) marks[*id].push_back(marked.contains(op.lane));
      marked.erase(op.lane);
    }
    for (const auto& [comm, sequence] : marks) {
      const auto [known, fresh] = first.try_emplace(comm, sequence);
      if (!fresh && known->second != sequence) return false;
    }
  }
  return true;
}

std::string order_reason(const Program& program) {
  for (const RankClass& c : program.classes) {
    std::set<EventId> recorded;
    for (const Operation& op : c.body) {
      if (const auto* r = std::get_if<Record>(&op.work)) recorded.insert(r->event);
      const auto* w = std::get_if<Wait>(&op.work);
      if (w != nullptr && !recorded.contains(w->event)) {
        return "event \"" + program.events.at(w->event.index()).name +
               "\" is waited for before its record: on a stream that is no wait at all";
      }
    }
  }
  return {};
}

std::int64_t queued_by(const Step& step) {
  constexpr std::int64_t nccl = 4;  // the kernel, and events that join NCCL's own streams
  if (std::holds_alternative<CollectiveStep>(step.action) || std::holds_alternative<ExchangeStep>(step.action)) {
    return nccl;
  }
  if (std::holds_alternative<StagedStep>(step.action)) return 2;
  if (const auto* record = std::get_if<RecordStep>(&step.action)) return record->word ? 2 : 1;
  if (const auto* add = std::get_if<AddStep>(&step.action)) {
    return (std::ssize(add->from) + kernels::ElementwiseArgs::most_inputs - 1) / kernels::ElementwiseArgs::most_inputs;
  }
  return 1;
}

}  // namespace ovl::cuda
