// SPDX-License-Identifier: Apache-2.0
//
// What a rank has on its device: for the session, and for one case. Both are made, used and destroyed on the rank's
// worker, where the device is current.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "backend/cuda/device.hpp"
#include "backend/cuda/device_clock.hpp"
#include "backend/cuda/gate.hpp"
#include "backend/cuda/gemm.hpp"
#include "backend/cuda/graph.hpp"
#include "backend/cuda/memory.hpp"
#include "backend/cuda/partition.hpp"
#include "backend/cuda/plan.hpp"
#include "backend/cuda/residents.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/worker.hpp"

namespace ovl::cuda {

struct RankDevice {
  RankDevice(Rank r, const Device& d);

  Rank rank;
  Device device;
  BlasHandle blas;
  Stream root;
  Gate gate;
  DeviceClock clock;
  Residents residents;
  Halt halt;
  MappedMemory marker;  // the stamp beside the origin
  Event origin{Timing::on};
  Event joined{Timing::on};
  DeviceMemory align;                                      // what ranks sum to meet
  DeviceMemory scratch;                                    // twice the L2: writing it evicts the rest
  bool launch_completion = false;                          // kernels of ours can tell when they have started
  std::map<int, std::unique_ptr<SmPartition>> partitions;  // by SMs of communication

 private:
  // Every kernel of ours runs once, so that none is loaded while a gate is closed.
  void warm_up();
  void warm_up_residents(cudaStream_t stream) const;
};

// How far a lane is; read by whoever asks while a replay hangs.
struct LaneState {
  LaneState(const Lane& declared, LaneId id, const LaneNeeds& needs, RankDevice& rank, const SmPartition* partition);

  LaneId lane;
  Stream stream;
  DeviceMemory workspace;
  MappedMemory staging;
  DeviceMemory fifo;
  Event start{Timing::on};  // before its first work
  Event end{Timing::on};    // after its last
  Event finished{Timing::off};
  std::atomic<std::int32_t> enqueued{-1};  // operations
  std::atomic<std::int32_t> completed{-1};
};

// Which graph: arm, recording, and the copy that the slot chooses of every buffer.
using GraphKey = std::tuple<std::size_t, bool, std::vector<std::int64_t>>;

struct RankCase {
  // Allocates. `comm_sms` as partition_comm_sms().
  RankCase(RankDevice& rank, const Program& program, const std::vector<LaneNeeds>& needs, int comm_sms);

  LaneState& lane(LaneId id) { return *lanes.at(id.index()); }
  // Enough events of each kind for every arm, and what its kernels that stay look at and write.
  void make_events(const std::vector<Plan>& plans, std::size_t local_rank);
  // Makes `step_events` where a replay is the first that wants one for every step. Not while a gate is closed.
  void make_step_events(std::size_t steps);

  RankDevice& rank;
  Arena arena;
  std::vector<std::int64_t> buffer_copies;        // by BufferId
  std::vector<std::unique_ptr<LaneState>> lanes;  // by LaneId; null: no arm uses it
  std::map<GemmShape, std::unique_ptr<GemmPlan>> gemms;
  std::deque<Event> events;      // of records
  std::optional<Words> words;    // made with the events
  std::uint32_t word_value = 0;  // of this replay: grows, so that an old write never ends a new kernel
  std::vector<ReportMemory> reports;
  std::deque<Event> step_events;  // Recording::operations
  Event fork{Timing::off};        // lanes of a graph begin here
  std::map<GraphKey, std::unique_ptr<Graph>> graphs;
  std::deque<GraphKey> graph_order;  // oldest first
};

}  // namespace ovl::cuda
