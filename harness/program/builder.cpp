// SPDX-License-Identifier: Apache-2.0
#include "program/builder.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace ovl {
namespace {

std::vector<Rank> first_ranks(int count) {
  std::vector<Rank> ranks;
  ranks.reserve(static_cast<std::size_t>(count));
  for (int r = 0; r < count; ++r) ranks.emplace_back(r);
  return ranks;
}

// Printed programs name lanes and buffers, so a name stands for one of them.
template <class Named>
bool is_new(const std::vector<Named>& table, const std::string& name) {
  return std::none_of(table.begin(), table.end(), [&](const Named& other) { return other.name == name; });
}

}  // namespace

ProgramBuilder::ProgramBuilder(std::string name, int ranks) {
  program_.name = std::move(name);
  program_.ranks = ranks;
}

LaneId ProgramBuilder::lane(Lane lane) {
  require(is_new(program_.lanes, lane.name), "the lanes of a program have different names");
  program_.lanes.push_back(std::move(lane));
  return LaneId(program_.lanes.size() - 1);
}

CommId ProgramBuilder::world(std::string name, std::string transport, int channels, MessageProgress progress) {
  return communicator({std::move(name), {first_ranks(program_.ranks)}, std::move(transport), channels, progress});
}

CommId ProgramBuilder::communicator(Communicator communicator) {
  std::vector<Rank> members;
  for (const auto& group : communicator.groups) {
    require(!group.empty(), "a group of a communicator has a rank");
    members.insert(members.end(), group.begin(), group.end());
  }
  std::sort(members.begin(), members.end());
  require(std::adjacent_find(members.begin(), members.end()) == members.end(),
          "the groups of a communicator are disjoint");
  require(members.empty() || (members.front().valid() && members.back().value < program_.ranks),
          "the groups of a communicator are of the program's ranks");
  program_.communicators.push_back(std::move(communicator));
  return CommId(program_.communicators.size() - 1);
}

BufferId ProgramBuilder::buffer(Buffer buffer) {
  require(is_new(program_.buffers, buffer.name), "the buffers of a program have different names");
  program_.buffers.push_back(std::move(buffer));
  return BufferId(program_.buffers.size() - 1);
}

EventId ProgramBuilder::event(std::string name) {
  program_.events.push_back({std::move(name)});
  return EventId(program_.events.size() - 1);
}

Slice ProgramBuilder::whole(BufferId buffer) const { return {buffer, 0, program_.buffers.at(buffer.index()).count}; }

ClassBuilder ProgramBuilder::all_ranks() { return ranks("all", first_ranks(program_.ranks)); }

ClassBuilder ProgramBuilder::ranks(std::string name, std::vector<Rank> members) {
  program_.classes.push_back({std::move(name), std::move(members), {}, {}, {}});
  return {*this, program_.classes.size() - 1};
}

Program ProgramBuilder::finish() && {
  std::vector<Rank> covered;
  for (const RankClass& c : program_.classes) covered.insert(covered.end(), c.members.begin(), c.members.end());
  std::sort(covered.begin(), covered.end());
  require(covered == first_ranks(program_.ranks), "every rank of a program is in exactly one class");
  return std::move(program_);
}

OpId ClassBuilder::submit(Seconds not_before, LaneId lane, Work work, std::vector<Slice> reads,
                          std::vector<Slice> writes) {
  const OpId id = body(lane, std::move(work), std::move(reads), std::move(writes));
  builder_->program_.classes[index_].body.back().not_before = not_before;
  return id;
}

OpId ClassBuilder::prologue(LaneId lane, Work work, std::vector<Slice> reads, std::vector<Slice> writes) {
  return add(&RankClass::prologue, lane, std::move(work), std::move(reads), std::move(writes));
}

OpId ClassBuilder::body(LaneId lane, Work work, std::vector<Slice> reads, std::vector<Slice> writes) {
  return add(&RankClass::body, lane, std::move(work), std::move(reads), std::move(writes));
}

OpId ClassBuilder::epilogue(LaneId lane, Work work) { return add(&RankClass::epilogue, lane, std::move(work), {}, {}); }

EventId ClassBuilder::order(LaneId first, LaneId then) {
  const EventId event = builder_->event("e" + std::to_string(builder_->program_.events.size()));
  body(first, Record{event, Moment::completion});
  body(then, Wait{event});
  return event;
}

OpId ClassBuilder::add(std::vector<Operation> RankClass::*part, LaneId lane, Work work, std::vector<Slice> reads,
                       std::vector<Slice> writes) {
  RankClass& c = builder_->program_.classes[index_];
  const OpId id(c.prologue.size() + c.body.size() + c.epilogue.size());
  const Role role = builder_->program_.lanes.at(lane.index()).role;
  (c.*part).push_back({id, lane, role, std::move(work), std::move(reads), std::move(writes)});
  return id;
}

}  // namespace ovl
