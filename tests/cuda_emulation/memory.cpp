// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <sstream>
#include <string_view>
#include <utility>

#include "graph.hpp"
#include "settings.hpp"
#include "table.hpp"

namespace ovl::emulation {
namespace {

constexpr std::size_t alignment = 512;
constexpr std::size_t chunk_bytes = std::size_t{1} << 30;
constexpr int garbage = 0xA5;  // what fresh memory holds: nobody may rely on zeros
constexpr int pinned_owner = -1;

struct Past {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool write = false;
  std::size_t lane = 0;
  std::uint64_t step = 0;
  std::uint32_t stream = 0;
  std::string name;
};

struct Aligned {
  void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{alignment}); }
};

struct Allocation {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  int owner = 0;  // the device, or pinned_owner
  std::unique_ptr<std::byte, Aligned> storage;
  std::vector<Past> past;
};

struct Chunk {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  std::size_t used = 0;
};

// Guarded by books().
struct Memory {
  std::map<std::uintptr_t, Allocation> live;
  std::map<std::uintptr_t, std::size_t> freed;  // device addresses only: they never come back
  std::map<int, std::vector<Chunk>> chunks;
  std::map<int, std::size_t> in_use;
  std::vector<std::unique_ptr<std::byte, Aligned>> abandoned;
};
Memory& memory() {
  static Memory* const memory = new Memory;
  return *memory;
}

std::uintptr_t number(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

std::string text(std::uintptr_t begin, std::size_t bytes) {
  std::ostringstream out;
  out << bytes << " bytes at 0x" << std::hex << begin;
  return out.str();
}

// The allocation with this address in it; nullptr: none.
Allocation* holding(std::uintptr_t address) {
  auto after = memory().live.upper_bound(address);
  if (after == memory().live.begin()) return nullptr;
  Allocation& found = std::prev(after)->second;
  return address < found.begin + std::max<std::size_t>(found.bytes, 1) ? &found : nullptr;
}

bool in_chunk(std::uintptr_t address) {
  for (const auto& [device, chunks] : memory().chunks) {
    for (const Chunk& chunk : chunks) {
      if (address >= chunk.begin && address < chunk.begin + chunk.bytes) return true;
    }
  }
  return false;
}

bool was_freed(std::uintptr_t address) {
  auto after = memory().freed.upper_bound(address);
  if (after == memory().freed.begin()) return false;
  const auto& [begin, bytes] = *std::prev(after);
  return address < begin + bytes;
}

[[noreturn]] void not_live(std::uintptr_t begin, std::size_t bytes, const std::string& who) {
  if (const Allocation* found = holding(begin)) {
    violation("out of bounds: " + who + " touches " + text(begin, bytes) + ", the allocation is " +
              text(found->begin, found->bytes));
  }
  if (was_freed(begin)) violation("use after free: " + who + " touches " + text(begin, bytes));
  violation("not device memory: " + who + " touches " + text(begin, bytes));
}

// The allocation that all of [begin, begin + bytes) is in.
Allocation& whole(std::uintptr_t begin, std::size_t bytes, const std::string& who) {
  Allocation* found = holding(begin);
  if (found == nullptr || bytes > found->begin + found->bytes - begin) not_live(begin, bytes, who);
  return *found;
}

std::uintptr_t take_addresses(int device, std::size_t bytes) {
  std::vector<Chunk>& chunks = memory().chunks[device];
  const std::size_t taken = (bytes / alignment + 2) * alignment;  // a gap behind each: an end is nobody's beginning
  if (chunks.empty() || chunks.back().bytes - chunks.back().used < taken) {
    const std::size_t size = std::max(chunk_bytes, taken);
    void* range = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) violation("no addresses left for device memory");
    chunks.push_back({number(range), size, 0});
  }
  Chunk& chunk = chunks.back();
  const std::uintptr_t begin = chunk.begin + chunk.used;
  chunk.used += taken;
  return begin;
}

std::unique_ptr<std::byte, Aligned> storage_of(std::size_t bytes) {
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  void* made = ::operator new (size, std::align_val_t{alignment}, std::nothrow);
  if (made == nullptr) return nullptr;
  std::memset(made, garbage, size);
  return std::unique_ptr<std::byte, Aligned>(static_cast<std::byte*>(made));
}

// Nobody may still be at work in what is freed: the device is idle, but other devices may copy from it.
void check_unused(const Allocation& allocation) {
  for (const Past& past : allocation.past) {
    if (!host_order().has(past.lane, past.step)) {
      violation("freed in use: " + past.name + " on stream " + std::to_string(past.stream) + " may still touch " +
                text(past.begin, past.end - past.begin) + "; nobody has waited for it");
    }
  }
}

void release(Allocation& allocation) {
  // With a broken context nobody has waited for the tasks: what they may touch stays.
  if (stopping()) {
    memory().abandoned.push_back(std::move(allocation.storage));
  } else {
    check_unused(allocation);
  }
}

}  // namespace

cudaError_t allocate(void** device, std::size_t bytes) {
  const int owner = current_device();
  if (is_unsafe_now("cudaMalloc")) return cudaErrorStreamCaptureUnsupported;
  if (bytes == 0) {
    *device = nullptr;
    return cudaSuccess;
  }
  wait_idle(owner);
  const Books lock(books());
  if (memory().in_use[owner] + bytes > settings().memory) return cudaErrorMemoryAllocation;
  std::unique_ptr<std::byte, Aligned> storage = storage_of(bytes);
  if (storage == nullptr) return cudaErrorMemoryAllocation;
  const std::uintptr_t begin = take_addresses(owner, bytes);
  memory().live.emplace(begin, Allocation{begin, bytes, owner, std::move(storage), {}});
  memory().in_use[owner] += bytes;
  count_live("device allocations", 1);
  *device = reinterpret_cast<void*>(begin);  // NOLINT(performance-no-int-to-ptr)
  return cudaSuccess;
}

cudaError_t deallocate(void* device) {
  if (device == nullptr) return cudaSuccess;
  if (is_unsafe_now("cudaFree")) return cudaErrorStreamCaptureUnsupported;
  const std::uintptr_t begin = number(device);
  int owner = 0;
  {
    const Books lock(books());
    const auto found = memory().live.find(begin);
    if (found == memory().live.end() || found->second.owner == pinned_owner) {
      if (was_freed(begin)) violation("double free of " + text(begin, memory().freed[begin]));
      return cudaErrorInvalidValue;
    }
    owner = found->second.owner;
  }
  wait_idle(owner);
  const Books lock(books());
  const auto found = memory().live.find(begin);
  if (found == memory().live.end()) violation("double free of " + text(begin, 0));
  release(found->second);
  memory().in_use[owner] -= found->second.bytes;
  memory().freed.emplace(begin, found->second.bytes);
  memory().live.erase(found);
  count_live("device allocations", -1);
  return cudaSuccess;
}

cudaError_t allocate_pinned(void** pointer, std::size_t bytes) {
  if (is_unsafe_now("cudaHostAlloc")) return cudaErrorStreamCaptureUnsupported;
  wait_idle(current_device());
  std::unique_ptr<std::byte, Aligned> storage = storage_of(bytes);
  if (storage == nullptr) return cudaErrorMemoryAllocation;
  const Books lock(books());
  *pointer = storage.get();
  const std::uintptr_t begin = number(storage.get());
  memory().live.emplace(begin, Allocation{begin, bytes, pinned_owner, std::move(storage), {}});
  count_live("pinned allocations", 1);
  return cudaSuccess;
}

cudaError_t free_pinned(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  if (is_unsafe_now("cudaFreeHost")) return cudaErrorStreamCaptureUnsupported;
  wait_idle(current_device());
  const Books lock(books());
  const auto found = memory().live.find(number(pointer));
  if (found == memory().live.end() || found->second.owner != pinned_owner) return cudaErrorInvalidValue;
  release(found->second);
  memory().live.erase(found);
  count_live("pinned allocations", -1);
  return cudaSuccess;
}

std::byte* address(const void* device, std::size_t bytes) {
  const Books lock(books());
  const std::uintptr_t begin = number(device);
  Allocation* found = holding(begin);
  if (found == nullptr || bytes > found->begin + found->bytes - begin) return nullptr;
  return found->storage.get() + (begin - found->begin);
}

Place place_of(const void* pointer, std::size_t bytes, const char* call) {
  const Books lock(books());
  const std::uintptr_t begin = number(pointer);
  if (holding(begin) == nullptr && !in_chunk(begin)) {
    return {Place::Kind::pageable, 0, const_cast<std::byte*>(static_cast<const std::byte*>(pointer))};
  }
  const Allocation& found = whole(begin, bytes, call);
  const bool pinned = found.owner == pinned_owner;
  return {pinned ? Place::Kind::pinned : Place::Kind::device, pinned ? 0 : found.owner,
          found.storage.get() + (begin - found.begin)};
}

std::size_t memory_in_use(int device) {
  const Books lock(books());
  return memory().in_use[device];
}

void touch(const Task& task, Stream& stream, std::uint64_t step) {
  for (const Range& range : task.ranges) {
    if (range.bytes == 0) continue;
    const std::uintptr_t begin = number(range.device);
    const std::uintptr_t end = begin + range.bytes;
    Allocation& found = whole(begin, range.bytes, task.name);
    if (!task.copy && found.owner != pinned_owner && found.owner != stream.device()) {
      violation("wrong device: " + task.name + " runs on device " + std::to_string(stream.device()) + " and touches " +
                text(begin, range.bytes) + " of device " + std::to_string(found.owner));
    }
    const bool write = range.access == Access::write;
    for (const Past& past : found.past) {
      const bool overlap = past.begin < end && begin < past.end;
      if (!overlap || !(write || past.write) || stream.order.has(past.lane, past.step)) continue;
      violation("unordered access: " + task.name + " on stream " + std::to_string(stream.id()) +
                (write ? " writes " : " reads ") + text(begin, range.bytes) + " while " + past.name + " on stream " +
                std::to_string(past.stream) + (past.write ? " writes" : " reads") +
                " there; no stream order, event or wait of the host is between them");
    }
    // What the host has waited for is before all that comes; what this covers, this stands for.
    const auto settled = [&](const Past& past) {
      if (host_order().has(past.lane, past.step)) return true;
      const bool covered = begin <= past.begin && past.end <= end && (write || !past.write);
      return covered && stream.order.has(past.lane, past.step);
    };
    found.past.erase(std::remove_if(found.past.begin(), found.past.end(), settled), found.past.end());
    found.past.push_back({begin, end, write, stream.lane(), step, stream.id(), task.name});
  }
}

}  // namespace ovl::emulation
