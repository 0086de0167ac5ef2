// SPDX-License-Identifier: Apache-2.0
#include "program/placement.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "program/order.hpp"
#include "program/projection.hpp"

namespace ovl {
namespace {

enum class Axis { order, priority, partition, transport, replay };

struct Preset {
  std::string_view name;
  Axis axis;
  std::function<void(Placement&)> set;
};

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all{
      {"concurrent", Axis::order, [](Placement& p) { p.order = LaunchOrder::concurrent; }},
      {"serial", Axis::order, [](Placement& p) { p.order = LaunchOrder::serial; }},
      {"comm_first", Axis::order, [](Placement& p) { p.order = LaunchOrder::comm_first; }},
      {"compute_first", Axis::order, [](Placement& p) { p.order = LaunchOrder::compute_first; }},
      {"event_chained", Axis::order, [](Placement& p) { p.order = LaunchOrder::event_chained; }},
      {"global_sync", Axis::order, [](Placement& p) { p.order = LaunchOrder::global_sync; }},
      {"priority_comm", Axis::priority, [](Placement& p) { p.priority = Role::communication; }},
      {"priority_compute", Axis::priority, [](Placement& p) { p.priority = Role::compute; }},
      {"partitioned", Axis::partition, [](Placement& p) { p.partition = Partition::by_role; }},
      {"shared_core", Axis::partition, [](Placement& p) { p.partition = Partition::by_rank; }},
      {"copy_engine", Axis::transport, [](Placement& p) { p.transport = "copy"; }},
      {"graph", Axis::replay, [](Placement& p) { p.graph = true; }}};
  return all;
}

// Appends operations to a class's body with fresh ids and, for events, fresh events.
class Rewriter {
 public:
  Rewriter(Program& program, RankClass& c) : program_(program), class_(c), source_(std::move(c.body)) {
    class_.body.clear();
    for (const auto* part : {&c.prologue, &source_, &c.epilogue}) {
      for (const Operation& op : *part) next_id_ = std::max(next_id_, op.id.value + 1);
    }
  }

  [[nodiscard]] const std::vector<Operation>& source() const { return source_; }
  void keep(const Operation& op) { class_.body.push_back(op); }
  EventId record(LaneId lane, Moment moment, const std::string& name) {
    program_.events.push_back({name});
    const EventId event(program_.events.size() - 1);
    add(lane, Record{event, moment});
    return event;
  }
  void wait(LaneId lane, EventId event) { add(lane, Wait{event}); }
  void sync(LaneId lane) { add(lane, HostSync{}); }

 private:
  void add(LaneId lane, Work work) {
    class_.body.push_back({OpId(next_id_++), lane, program_.lanes[lane.index()].role, std::move(work), {}, {}});
  }

  Program& program_;
  RankClass& class_;
  std::vector<Operation> source_;
  int next_id_ = 0;
};

// The lanes of the other role open when the first operation of `first` starts.
void open_after_start(Program& program, RankClass& c, Role first) {
  const auto leads = [&](const Operation& op) { return !is_ordering(op.work) && op.role == first; };
  const auto leader = std::find_if(c.body.begin(), c.body.end(), leads);
  if (leader == c.body.end()) return;
  const auto leader_at = static_cast<std::size_t>(leader - c.body.begin());
  const HappensBefore order(c.body, program.lanes.size());
  std::set<LaneId> others;
  for (std::size_t i = 0; i < c.body.size(); ++i) {
    if (is_ordering(c.body[i].work) || c.body[i].role == first) continue;
    if (order.before(i, leader_at)) {
      throw impossible_error("placement " + std::string(first == Role::communication ? "comm_first" : "compute_first") +
                                 " is not possible for program " + program.name,
                             "its first operation of that role waits for the other role", "use concurrent");
    }
    others.insert(c.body[i].lane);
  }
  Rewriter out(program, c);
  // The leader and what it waits for on its lane are issued first.
  const Operation lead = out.source()[leader_at];
  for (std::size_t i = 0; i < leader_at; ++i) {
    if (out.source()[i].lane == lead.lane) out.keep(out.source()[i]);
  }
  const EventId started = out.record(lead.lane, Moment::start, "first started");
  out.keep(lead);
  for (const LaneId lane : others) out.wait(lane, started);
  for (std::size_t i = 0; i < out.source().size(); ++i) {
    if (i != leader_at && (i > leader_at || out.source()[i].lane != lead.lane)) out.keep(out.source()[i]);
  }
}

void chain(Program& program, RankClass& c) {
  Rewriter out(program, c);
  const Operation* previous = nullptr;
  for (const Operation& op : out.source()) {
    if (!is_ordering(op.work)) {
      if (previous != nullptr && previous->lane != op.lane) {
        out.wait(op.lane, out.record(previous->lane, Moment::completion, "chain"));
      }
      previous = &op;
    }
    out.keep(op);
  }
}

void synchronise(Program& program, RankClass& c) {
  Rewriter out(program, c);
  const Operation* previous = nullptr;
  for (const Operation& op : out.source()) {
    if (!is_ordering(op.work)) {
      if (previous != nullptr && previous->role != op.role) out.sync(op.lane);
      previous = &op;
    }
    out.keep(op);
  }
}

}  // namespace

std::vector<std::string> placement_names() {
  std::vector<std::string> all;
  for (const Preset& preset : presets()) all.emplace_back(preset.name);
  return all;
}

Placement parse_placement(std::string_view text) {
  Placement placement;
  std::vector<std::pair<Axis, std::string>> seen;
  for (std::string_view rest = text;;) {
    const std::size_t plus = rest.find('+');
    const std::string_view word = rest.substr(0, plus);
    const auto found =
        std::find_if(presets().begin(), presets().end(), [&](const Preset& p) { return p.name == word; });
    if (found == presets().end()) throw unknown_value("placement", word, placement_names());
    for (const auto& [axis, name] : seen) {
      if (axis == found->axis) {
        throw usage_error("placement \"" + std::string(text) + "\" sets one axis twice",
                          name + " and " + std::string(word) + " exclude each other", "keep one of them");
      }
    }
    seen.emplace_back(found->axis, word);
    found->set(placement);
    if (plus == std::string_view::npos) return placement;
    rest.remove_prefix(plus + 1);
  }
}

Program place(const Program& program, const Placement& placement) {
  Program out = program;
  for (Lane& lane : out.lanes) {
    if (placement.priority && lane.role == *placement.priority) lane.priority = Priority::high;
    if (placement.partition != Partition::automatic) lane.partition = placement.partition;
  }
  if (placement.transport) {
    for (Communicator& c : out.communicators) c.transport = *placement.transport;
  }
  out.graph = placement.graph;
  switch (placement.order) {
    case LaunchOrder::concurrent: break;
    case LaunchOrder::serial: {
      const std::string name = out.name;
      out = project(out, Arm::serial);
      out.name = name;
      break;
    }
    case LaunchOrder::comm_first:
    case LaunchOrder::compute_first: {
      const Role first = placement.order == LaunchOrder::comm_first ? Role::communication : Role::compute;
      for (RankClass& c : out.classes) open_after_start(out, c, first);
      break;
    }
    case LaunchOrder::event_chained:
      for (RankClass& c : out.classes) chain(out, c);
      break;
    case LaunchOrder::global_sync:
      for (RankClass& c : out.classes) synchronise(out, c);
      break;
  }
  return out;
}

}  // namespace ovl
