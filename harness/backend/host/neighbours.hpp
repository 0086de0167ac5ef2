// SPDX-License-Identifier: Apache-2.0
//
// The processes of a session over message passing, each of which is one rank: who shares this one's machine and cores,
// how far apart the clocks are, and how all come to a start together.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/host/clock.hpp"
#include "backend/host/signal.hpp"
#include "backend/message_passing.hpp"
#include "backend/world.hpp"

namespace ovl::host {

class Neighbours {
 public:
  // `cores`: those that this process may use. All processes make it together, in rank order. Throws Error(failure) when
  // the library counts them otherwise than the world does.
  Neighbours(World& world, MessagePassing& library, std::string transport, std::vector<int> cores);

  [[nodiscard]] World& world() const { return world_; }
  [[nodiscard]] MessagePassing& library() const { return library_; }
  [[nodiscard]] const std::string& transport() const { return transport_; }  // "mpi-openmpi"
  [[nodiscard]] Rank rank() const { return Rank(library_.process()); }
  [[nodiscard]] int ranks() const { return library_.size(); }
  // Ranks of this machine.
  [[nodiscard]] int on_machine() const { return on_machine_; }
  // Those among them that may use the very cores that this one may, itself included, and the how manieth it is. They
  // share the cores out; a process that was bound to cores of its own is alone.
  [[nodiscard]] int on_cores() const { return static_cast<int>(on_cores_.size()); }
  [[nodiscard]] int place() const { return place_; }
  // CPU seconds of all of them, from each one's own. All processes call it together.
  [[nodiscard]] double cpu_time(double own) const;

  // To add to this process's stamps, so that they are process 0's; 0 on its machine. ± clock_error().
  [[nodiscard]] Stamp clock_offset() const { return clock_offset_; }
  [[nodiscard]] Stamp clock_error() const { return clock_error_; }
  // Returns when all have come. Throws Stopped.
  void meet(const StopFlag& stop);

 private:
  void relate_clocks(const std::vector<std::string>& machines);

  World& world_;
  MessagePassing& library_;
  std::string transport_;
  std::unique_ptr<MessageOperation> barrier_;
  int on_machine_ = 0;
  std::vector<std::size_t> on_cores_;
  int place_ = 0;
  Stamp clock_offset_ = 0;
  Stamp clock_error_ = 0;
};

// One look at another clock: asked at `sent`, answered there with `theirs`, the answer here at `received`.
struct ClockLook {
  Stamp sent = 0;
  Stamp theirs = 0;
  Stamp received = 0;
};
struct ClockOffset {
  Stamp offset = 0;
  Stamp error = 0;
};
// The quickest look knows best: the answer was made within it, so the offset is known to half of its length.
ClockOffset clock_offset(const std::vector<ClockLook>& looks);

}  // namespace ovl::host
