// SPDX-License-Identifier: Apache-2.0
#include "cuda_emulation/nccl_communicator.hpp"

#include <algorithm>
#include <cstdlib>
#include <unordered_map>

#include "cuda_emulation/emulator.hpp"

namespace ovl::emulation::nccl {
namespace {

struct Allocation {
  void* device;  // what is given back
  std::size_t bytes;
};

struct Process {
  std::mutex mutex;
  std::map<ncclComm_t, Comm> living;
  std::vector<Comm> gone;  // kept so that no new handle equals an old one
  std::map<const std::byte*, Allocation> memory;
};

// Never destroyed: streams may still be running when the process ends.
Process& process() {
  static Process* const only = new Process;
  return *only;
}

}  // namespace

int pretended_version() {
  const char* text = std::getenv("OVL_EMULATED_NCCL");
  return text == nullptr || *text == '\0' ? version_code(2, 28, 9) : std::atoi(text);
}

std::uint64_t Queue::enter() {
  const std::lock_guard lock(mutex_);
  return entered_++;
}

void Queue::leave(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  left_.insert(ticket);
  while (left_.erase(served_) > 0) {
    ++served_;
  }
}

bool Queue::is_turn(std::uint64_t ticket) const {
  const std::lock_guard lock(mutex_);
  return served_ == ticket;
}

bool Queue::idle() const {
  const std::lock_guard lock(mutex_);
  return served_ == entered_;
}

void add(const Comm& comm) {
  const std::lock_guard lock(process().mutex);
  process().living.emplace(comm.get(), comm);
  count_live("NCCL communicators", 1);
}

void remove(const Comm& comm) {
  int registrations = 0;
  {
    const std::lock_guard lock(comm->mutex);
    registrations = static_cast<int>(comm->registered.size());
    comm->registered.clear();
  }
  count_live("NCCL registrations", -registrations);
  const std::lock_guard lock(process().mutex);
  if (process().living.erase(comm.get()) > 0) {
    process().gone.push_back(comm);
    count_live("NCCL communicators", -1);
  }
}

Comm find(ncclComm_t handle, const char* call) {
  if (handle == nullptr) {
    return nullptr;
  }
  const std::lock_guard lock(process().mutex);
  const auto found = process().living.find(handle);
  if (found == process().living.end()) {
    violation(std::string(call) + " with a communicator that was destroyed, aborted or never made");
  }
  return found->second;
}

ncclResult_t allocate(void** memory, std::size_t bytes) {
  void* device = nullptr;
  if (emulation::allocate(&device, bytes + NCCL_WIN_REQUIRED_ALIGNMENT) != cudaSuccess) {
    return ncclUnhandledCudaError;
  }
  auto* begin = static_cast<std::byte*>(device);
  begin += (NCCL_WIN_REQUIRED_ALIGNMENT - reinterpret_cast<std::uintptr_t>(begin) % NCCL_WIN_REQUIRED_ALIGNMENT) %
           NCCL_WIN_REQUIRED_ALIGNMENT;
  const std::lock_guard lock(process().mutex);
  process().memory.emplace(begin, Allocation{device, bytes});
  *memory = begin;
  return ncclSuccess;
}

ncclResult_t deallocate(void* memory) {
  const auto* begin = static_cast<const std::byte*>(memory);
  void* device = nullptr;
  {
    const std::lock_guard lock(process().mutex);
    const auto found = process().memory.find(begin);
    if (found == process().memory.end()) {
      violation("ncclMemFree of memory that is not from ncclMemAlloc");
    }
    for (const auto& [handle, comm] : process().living) {
      const std::lock_guard of_comm(comm->mutex);
      for (const auto& [key, registered] : comm->registered) {
        if (registered.begin < begin + found->second.bytes && begin < registered.begin + registered.bytes) {
          violation("ncclMemFree of memory that is still registered with a communicator");
        }
      }
    }
    device = found->second.device;
    process().memory.erase(found);
  }
  return emulation::deallocate(device) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

bool is_allocated(const void* memory, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(memory);
  const std::lock_guard lock(process().mutex);
  const auto& all = process().memory;
  auto after = all.upper_bound(begin);
  return after != all.begin() && (--after, begin + bytes <= after->first + after->second.bytes);
}

}  // namespace ovl::emulation::nccl

bool ncclComm::stopped() const { return aborted.load() || ovl::emulation::stopping(); }

bool ncclComm::is_symmetric(const void* begin, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(begin);
  const std::lock_guard lock(mutex);
  return std::any_of(registered.begin(), registered.end(), [&](const auto& entry) {
    const ovl::emulation::nccl::Registered& range = entry.second;
    return range.symmetric && range.begin <= first && first + bytes <= range.begin + range.bytes;
  });
}
