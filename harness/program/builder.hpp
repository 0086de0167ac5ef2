// SPDX-License-Identifier: Apache-2.0
//
// How schedules write programs: tables first, then for every class its operations in issue order.
//
//   ProgramBuilder p("pair", 2);
//   const LaneId compute = p.lane({.name = "compute", .role = Role::compute});
//   const BufferId a = p.buffer({.name = "a", .count = 64});
//   ClassBuilder all = p.all_ranks();
//   all.prologue(compute, Fill{}, {}, {p.whole(a)});
//   const OpId g = all.body(compute, Gemm{8, 8, 8}, {...}, {...});
//   all.order(compute, comm);            // record on compute, wait on comm
//   Program program = std::move(p).finish();
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "program/program.hpp"

namespace ovl {

class ClassBuilder;

class ProgramBuilder {
 public:
  ProgramBuilder(std::string name, int ranks);

  // The lanes of a program have different names, and so have its buffers: printed programs refer to them by name.
  LaneId lane(Lane lane);
  // One group of all ranks.
  CommId world(std::string name, std::string transport, int channels, MessageProgress progress = {});
  CommId communicator(Communicator communicator);
  BufferId buffer(Buffer buffer);
  EventId event(std::string name);

  [[nodiscard]] Slice whole(BufferId buffer) const;
  [[nodiscard]] std::size_t lanes() const { return program_.lanes.size(); }

  // The builders stay valid until finish().
  ClassBuilder all_ranks();
  ClassBuilder ranks(std::string name, std::vector<Rank> members);

  // Every rank is in exactly one class.
  Program finish() &&;

 private:
  friend class ClassBuilder;
  Program program_;
};

class ClassBuilder {
 public:
  // The role is the lane's.
  OpId prologue(LaneId lane, Work work, std::vector<Slice> reads, std::vector<Slice> writes);
  OpId body(LaneId lane, Work work, std::vector<Slice> reads = {}, std::vector<Slice> writes = {});
  // Submitted that long after the origin, and no earlier. Such times do not decrease in issue order.
  OpId submit(Seconds not_before, LaneId lane, Work work, std::vector<Slice> reads = {},
              std::vector<Slice> writes = {});
  OpId epilogue(LaneId lane, Work work);

  // Everything issued on `first` so far finishes before anything issued on `then` from here on. Returns the event.
  EventId order(LaneId first, LaneId then);

 private:
  friend class ProgramBuilder;
  ClassBuilder(ProgramBuilder& builder, std::size_t index) : builder_(&builder), index_(index) {}
  OpId add(std::vector<Operation> RankClass::*part, LaneId lane, Work work, std::vector<Slice> reads,
           std::vector<Slice> writes);

  ProgramBuilder* builder_;
  std::size_t index_;
};

}  // namespace ovl
