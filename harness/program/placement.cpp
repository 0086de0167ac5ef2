// SPDX-License-Identifier: Apache-2.0
#include "program/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
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
  void (*set)(Placement&);
};

constexpr Preset presets[] = {
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
    {"smt_siblings", Axis::partition, [](Placement& p) { p.partition = Partition::siblings; }},
    {"copy_engine", Axis::transport, [](Placement& p) { p.transport = "copy"; }},
    {"graph", Axis::replay, [](Placement& p) { p.graph = true; }}};

// Writes a class's body anew, with orderings of its own between the operations that it keeps.
class Rewriter {
 public:
  Rewriter(Program& program, RankClass& c)
      : program_(program), class_(c), next_id_(free_id(c).value), source_(std::exchange(c.body, {})) {}

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
  int next_id_;
  std::vector<Operation> source_;
};

// An operation that does work, or the start record that marks one and belongs to it.
bool begins_work(const Operation& op) {
  const auto* record = std::get_if<Record>(&op.work);
  return !is_ordering(op.work) || (record != nullptr && record->moment == Moment::start);
}

// The lanes of the other role open when the first operation of this one, the leader, starts.
void open_after_start(Program& program, RankClass& c, Role first) {
  const auto leader = std::find_if(c.body.begin(), c.body.end(),
                                   [&](const Operation& op) { return !is_ordering(op.work) && op.role == first; });
  if (leader == c.body.end()) return;
  const LaneId lead_lane = leader->lane;
  const auto leader_at = static_cast<std::size_t>(leader - c.body.begin());
  const HappensBefore order(c.body, program.lanes.size());
  std::set<LaneId> others;
  for (std::size_t i = 0; i < c.body.size(); ++i) {
    if (!begins_work(c.body[i]) || c.body[i].role == first) continue;
    if (order.before(i, leader_at)) {
      const bool comm_first = first == Role::communication;
      throw impossible_error(
          fmt::format("placement {} is not possible for program {}", comm_first ? "comm_first" : "compute_first",
                      program.name),
          comm_first ? "its first communication waits for compute" : "its first compute waits for communication",
          "use concurrent");
    }
    if (c.body[i].lane != lead_lane) others.insert(c.body[i].lane);
  }
  if (others.empty()) return;
  // Issued first: the records and waits that the leader needs, then the leader. All else follows as it was.
  Rewriter out(program, c);
  for (std::size_t i = 0; i < leader_at; ++i) {
    if (order.before(i, leader_at)) out.keep(out.source()[i]);
  }
  const EventId started = out.record(lead_lane, Moment::start, "first started");
  out.keep(out.source()[leader_at]);
  for (const LaneId lane : others) out.wait(lane, started);
  for (std::size_t i = 0; i < out.source().size(); ++i) {
    if (i != leader_at && !order.before(i, leader_at)) out.keep(out.source()[i]);
  }
}

// Calls between(previous, next) where an operation that does work follows another in issue order, then keeps it with
// the orderings of the source.
template <class Between>
void rewrite(Program& program, RankClass& c, const Between& between) {
  Rewriter out(program, c);
  const Operation* previous = nullptr;
  for (const Operation& op : out.source()) {
    if (begins_work(op)) {
      if (previous != nullptr) between(out, *previous, op);
      previous = &op;
    }
    out.keep(op);
  }
}

void chain(Program& program, RankClass& c) {
  rewrite(program, c, [](Rewriter& out, const Operation& previous, const Operation& next) {
    if (previous.lane != next.lane) out.wait(next.lane, out.record(previous.lane, Moment::completion, "chain"));
  });
}

void synchronise(Program& program, RankClass& c) {
  rewrite(program, c, [](Rewriter& out, const Operation& previous, const Operation& next) {
    if (previous.role != next.role) out.sync(next.lane);
  });
}

}  // namespace

std::vector<std::string> placement_names() {
  std::vector<std::string> all;
  for (const Preset& preset : presets) all.emplace_back(preset.name);
  return all;
}

Placement parse_placement(std::string_view text) {
  Placement placement;
  std::vector<std::pair<Axis, std::string_view>> seen;
  for (std::string_view rest = text;;) {
    const std::size_t plus = rest.find('+');
    const std::string_view word = rest.substr(0, plus);
    const auto* const found =
        std::find_if(std::begin(presets), std::end(presets), [&](const Preset& p) { return p.name == word; });
    if (found == std::end(presets)) throw unknown_value("placement", word, placement_names());
    for (const auto& [axis, name] : seen) {
      if (axis == found->axis) {
        throw usage_error(fmt::format("placement \"{}\" sets one axis twice", text),
                          fmt::format("{} and {} exclude each other", name, word), "keep one of them");
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
  out.graph = program.graph || placement.graph;
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
