// SPDX-License-Identifier: Apache-2.0
//
// One replay: what the ranks of this process and the thread that opens the gates tell each other, and what each rank's
// worker does.
//
//   root stream:  evict │ gate ▷ align ▷ marker ▷ origin ─┬─▷ ... ─▷ joined
//   lanes:                                                └▷ wait, body, end ┘
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cuda/communicator.hpp"
#include "backend/cuda/plan.hpp"
#include "backend/cuda/rank.hpp"
#include "backend/cuda/stamps.hpp"
#include "backend/cuda/trace.hpp"
#include "backend/cuda/worker.hpp"

namespace ovl::cuda {

// Operations that may be pending on one stream behind a closed gate. CUDA's queues hold about a thousand, after which
// the call that adds one more blocks; what lies behind the gate would then never be complete.
inline constexpr std::int64_t queue_limit = 512;
// Collectives that fill such a queue, each with the events that join NCCL's own streams (queued_by).
inline constexpr int collectives_in_queue = 1024 / 4;
// Captured graphs that a case keeps for one rank; beyond it the oldest goes.
inline constexpr std::size_t most_graphs = 64;

// The meeting of the ranks and the opener.
class Meeting {
 public:
  Meeting(std::size_t ranks, bool gated) : missing_(ranks), open_(!gated) {}

  // A rank has enqueued everything, or failed: its part before the opening is over.
  void arrive();
  // A rank is at the queue limit. Returns when the gate is open.
  void pause();
  // Keeps the first failure.
  void fail(std::exception_ptr error);

  // Until every rank has arrived or paused. False: that took longer than the limit; NaN is no limit.
  bool wait(Seconds limit);
  void open();
  [[nodiscard]] bool partial() const;
  [[nodiscard]] std::exception_ptr error() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t missing_;
  bool open_;
  bool partial_ = false;
  std::exception_ptr error_;
};

// What all ranks of one replay share.
struct Replay {
  const Plan& plan;
  std::size_t arm = 0;
  ReplayOptions options;
  bool gated = true;
  // The first replay of an arm: nothing is captured yet, and nothing stays. Kernels are loaded when they are first
  // launched, which may wait for those that run: for one that lasts until an event behind that launch, for ever.
  bool warm_up = false;
  std::vector<const Group*> groups;  // of plan.groups
  const Group* align = nullptr;      // null: one rank
  Trace* trace = nullptr;            // null: no kernel intervals
  const Communicators& communicators;
  StopFlag& stop;
  Meeting meeting;
};

// A rank's part on its worker. Never throws: a failure is kept in the meeting and raises the stop flag.
void play(Replay& replay, std::size_t local_rank, RankCase& on, RankStamps& stamps) noexcept;

}  // namespace ovl::cuda
