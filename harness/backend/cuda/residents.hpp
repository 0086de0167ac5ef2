// SPDX-License-Identifier: Apache-2.0
//
// Kernels of ours that stay on their SMs (occupy, stream, ring_proxy): what they are on this device, how they are
// ended, and what their blocks tell.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/device.hpp"
#include "backend/cuda/memory.hpp"
#include "kernels/cuda/device_kernels.hpp"

namespace ovl::cuda {

// One that should have been ended by an event and is still there after so long is a defect: the replay fails.
inline constexpr Seconds stay_timeout{30};

// ---- what they are --------------------------------------------------------------------------------------------------

// Dynamic shared memory of a block: all that a block can have; what NCCL takes.
std::size_t occupy_shared_bytes(const Device& device);
std::size_t proxy_shared_bytes(const Device& device);

// Why a kernel is not what is stated of it; empty: it is.
std::string footprint_reason(std::string_view kernel, const kernels::StatedFootprint& stated,
                             const kernels::Footprint& found);

// Of each kernel what the device makes of it, in words, and why it cannot be used here (empty: it can).
struct KernelCheck {
  std::string text;
  std::string reason;
};
struct Residents {
  KernelCheck occupy;
  KernelCheck stream;
  KernelCheck proxy;
};
// Asks the compiler's and the device's numbers, on the current device.
Residents check_residents(const Device& device);

// ---- how they end ---------------------------------------------------------------------------------------------------

// What the host says to all of a rank's kernels that stay, and they to it.
class Halt {
 public:
  Halt();
  // Ends them, and all that come after. From any thread, any number of times.
  void raise() noexcept;
  // One was not ended by its event.
  [[nodiscard]] bool expired() const;

  // Ends when the word is `value`, or so long after it began where there is no word.
  [[nodiscard]] kernels::Until until(const std::uint32_t* word, std::uint32_t value, std::uint64_t limit_ns) const;

 private:
  MappedMemory memory_;
};

// The words that end them, in device memory: streams write them when they come to the record of the event.
class Words {
 public:
  // Zeroed on the stream.
  Words(std::size_t count, cudaStream_t stream);
  [[nodiscard]] std::uint32_t* at(std::size_t word) const;
  // Enqueues the write. Its stream does it when all before it is done.
  void write(std::size_t word, std::uint32_t value, cudaStream_t stream) const;

 private:
  DeviceMemory memory_;
};

// ---- what they tell -------------------------------------------------------------------------------------------------

// Of one kernel. Empty before it has run.
struct StayReport {
  int blocks = 0;  // that told
  std::set<std::uint64_t> sms;
  std::int64_t moved = 0;  // bytes copied or sent
};

// Where the blocks of one kernel write what they tell.
class ReportMemory {
 public:
  explicit ReportMemory(int blocks);
  [[nodiscard]] kernels::BlockReport* reports() const;
  [[nodiscard]] std::uint64_t* moved() const;
  // Of the first `blocks`, after they have ended; what was taken is forgotten.
  [[nodiscard]] StayReport take(int blocks);

 private:
  int blocks_;
  MappedMemory memory_;
};

// "0-3 7".
std::string text_of(const std::set<std::uint64_t>& sms);

}  // namespace ovl::cuda
