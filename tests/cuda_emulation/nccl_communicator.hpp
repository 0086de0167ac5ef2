// SPDX-License-Identifier: Apache-2.0
//
// The emulated NCCL's communicators: what lives between the calls.
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cuda_emulation/elements.hpp"
#include "cuda_emulation/nccl_config.hpp"
#include "cuda_emulation/nccl_transport.hpp"

namespace ovl::emulation::nccl {

// OVL_EMULATED_NCCL, the version that this pretends to be.
int pretended_version();

// A communicator runs its collectives one after the other in the order of their calls, on whatever streams they are.
class Queue {
 public:
  std::uint64_t enter();
  void leave(std::uint64_t ticket);
  [[nodiscard]] bool is_turn(std::uint64_t ticket) const;
  [[nodiscard]] bool idle() const;

 private:
  mutable std::mutex mutex_;
  std::uint64_t entered_ = 0;
  std::uint64_t served_ = 0;
  std::set<std::uint64_t> left_;  // before their turn
};

struct Registered {
  const std::byte* begin;
  std::size_t bytes;
  bool window;
  bool symmetric;
};

}  // namespace ovl::emulation::nccl

// NCCL's opaque handle.
struct ncclComm {
  int rank = 0;
  int ranks = 1;
  int device = 0;
  ovl::emulation::nccl::Settings settings;
  std::shared_ptr<ovl::emulation::nccl::Segment> segment;
  ovl::emulation::nccl::Queue queue;
  std::atomic<int> running{0};       // tasks
  std::atomic<bool> entered{false};  // a thread is within a call
  std::atomic<bool> aborted{false};
  std::atomic<int> async_error{ncclSuccess};
  std::atomic<bool> finalized{false};
  std::atomic<bool> destroyed{false};  // not aborted: then what is left of its work ends at once
  std::mutex mutex;                    // of what follows
  std::map<void*, ovl::emulation::nccl::Registered> registered;

  [[nodiscard]] bool stopped() const;
  // The whole range lies in a window of NCCL_WIN_COLL_SYMMETRIC.
  [[nodiscard]] bool is_symmetric(const void* begin, std::size_t bytes);
};

namespace ovl::emulation::nccl {

using Comm = std::shared_ptr<ncclComm>;

// The living communicators of this process. A handle that was destroyed or aborted is never given out again, so that
// its use is found.
void add(const Comm& comm);
void remove(const Comm& comm);
// nullptr for nullptr; a violation where it does not live.
Comm find(ncclComm_t handle, const char* call);

// ncclMemAlloc's memory, which alone can be in a window: aligned as windows need it.
ncclResult_t allocate(void** memory, std::size_t bytes);
ncclResult_t deallocate(void* memory);
bool is_allocated(const void* memory, std::size_t bytes);

enum class Call { all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send, receive };

// One call as it waits for its group to end.
struct Operation {
  Call call;
  Comm comm;
  cudaStream_t stream;
  Element element;
  const void* in;
  void* out;
  std::size_t count;
  int peer;  // or root
  Settings settings;
  cudaEvent_t all_began;
};

// Enqueues the operations of one communicator in one group: every collective is a task, all sends and receives together
// are one. Where they are on several streams they run on the first, joined with the others before and after.
ncclResult_t launch(const std::vector<Operation>& operations);

}  // namespace ovl::emulation::nccl
