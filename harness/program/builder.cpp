// SPDX-License-Identifier: Apache-2.0
#include "program/builder.hpp"

#include <utility>

#include "base/error.hpp"

namespace ovl {

ProgramBuilder::ProgramBuilder(std::string name, int ranks) {
  program_.name = std::move(name);
  program_.ranks = ranks;
}

LaneId ProgramBuilder::lane(Lane lane) {
  program_.lanes.push_back(std::move(lane));
  return LaneId(program_.lanes.size() - 1);
}

CommId ProgramBuilder::world(std::string name, std::string transport, int channels) {
  std::vector<Rank> everyone;
  for (int r = 0; r < program_.ranks; ++r) everyone.emplace_back(r);
  return communicator({std::move(name), {std::move(everyone)}, std::move(transport), channels});
}

CommId ProgramBuilder::communicator(Communicator communicator) {
  program_.communicators.push_back(std::move(communicator));
  return CommId(program_.communicators.size() - 1);
}

BufferId ProgramBuilder::buffer(Buffer buffer) {
  program_.buffers.push_back(std::move(buffer));
  return BufferId(program_.buffers.size() - 1);
}

EventId ProgramBuilder::event(std::string name) {
  program_.events.push_back({std::move(name)});
  return EventId(program_.events.size() - 1);
}

Slice ProgramBuilder::whole(BufferId buffer) const { return {buffer, 0, program_.buffers.at(buffer.index()).count}; }

ClassBuilder ProgramBuilder::all_ranks() {
  std::vector<Rank> everyone;
  for (int r = 0; r < program_.ranks; ++r) everyone.emplace_back(r);
  return ranks("all", std::move(everyone));
}

ClassBuilder ProgramBuilder::ranks(std::string name, std::vector<Rank> members) {
  program_.classes.push_back({std::move(name), std::move(members), {}, {}, {}});
  return {*this, program_.classes.size() - 1};
}

Program ProgramBuilder::finish() && {
  std::size_t covered = 0;
  for (const RankClass& c : program_.classes) covered += c.members.size();
  require(covered == static_cast<std::size_t>(program_.ranks), "the classes of a program cover its ranks");
  return std::move(program_);
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
  const OpId id(next_id_++);
  const Role role = builder_->program_.lanes.at(lane.index()).role;
  (builder_->program_.classes[index_].*part)
      .push_back({id, lane, role, std::move(work), std::move(reads), std::move(writes)});
  return id;
}

}  // namespace ovl
