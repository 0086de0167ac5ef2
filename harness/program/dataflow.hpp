// SPDX-License-Identifier: Apache-2.0
//
// Order that follows from data. A schedule lists one class's operations in issue order with what they read and write;
// the events between lanes follow: an operation waits for the last one of each other lane that touches what it
// touches, one of them writing, unless it already follows it. So no edge is missing, and none can be left out.
//
//   Dataflow flow(p, p.all_ranks());
//   flow.add(compute, Gemm{...}, {...}, {gradient});
//   flow.add(comm, Collective{...}, {gradient}, {reduced});   // waits for the GEMM
//   const std::vector<OpId> ids = std::move(flow).finish();
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "program/builder.hpp"

namespace ovl {

class Dataflow {
 public:
  // Prologue and epilogue are written through `rank_class`, before or after finish(). The program has all of its lanes.
  Dataflow(ProgramBuilder& program, ClassBuilder rank_class);

  // Returns the operation's index, from 0.
  std::size_t add(LaneId lane, Work work, std::vector<Slice> reads = {}, std::vector<Slice> writes = {});
  // The lane's next operation waits for this one, though no data says so: a choice of the schedule, like posting late.
  void hold(LaneId lane, std::size_t until);
  // Operations so far.
  [[nodiscard]] std::size_t size() const { return steps_.size(); }

  // Writes the body. The ids of the operations, by index.
  std::vector<OpId> finish() &&;

 private:
  struct Step {
    LaneId lane;
    Work work;
    std::vector<Slice> reads;
    std::vector<Slice> writes;
    std::vector<std::size_t> leaders;  // on other lanes, that it waits for
    bool followed = false;             // some other waits for it
  };
  // Who touched a range of a buffer: the last write, and the reads since. What came before them precedes the write.
  struct Touched {
    std::int64_t end = 0;
    std::vector<std::size_t> by;  // the write first, if any
    bool written = false;
  };
  using Ranges = std::map<std::int64_t, Touched>;  // by first element; disjoint

  void touch(const Slice& slice, bool write, std::size_t self, std::vector<std::size_t>& conflicts);
  void follow(std::size_t self, const std::vector<std::size_t>& candidates);
  [[nodiscard]] bool before(std::size_t a, std::size_t b) const;

  ProgramBuilder& program_;
  ClassBuilder class_;
  std::vector<Step> steps_;
  std::map<BufferId, Ranges> touched_;
  std::vector<std::vector<std::size_t>> held_;     // by lane: what its next operation waits for anyway
  std::vector<std::vector<std::size_t>> on_lane_;  // indices by lane
  std::vector<std::int32_t> ordinal_;              // of each operation on its lane, from 1
  std::vector<std::int32_t> clocks_;  // operations × lanes: how many of each have finished when it may begin
};

}  // namespace ovl
