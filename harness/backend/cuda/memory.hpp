// SPDX-License-Identifier: Apache-2.0
//
// Owners of device memory and of host memory that the device sees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "backend/cuda/device.hpp"
#include "program/program.hpp"

namespace ovl::cuda {

// cudaMalloc, or ncclMemAlloc for what will be registered (Memory::registered, symmetric).
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(Bytes bytes, Memory memory = Memory::plain);
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  [[nodiscard]] std::byte* get() const { return memory_; }
  [[nodiscard]] Bytes size() const { return bytes_; }

 private:
  std::byte* memory_ = nullptr;
  Bytes bytes_;
  bool from_nccl_ = false;
};

// Pinned, mapped and coherent: both sides read and write it while kernels run.
class MappedMemory {
 public:
  MappedMemory() = default;
  explicit MappedMemory(Bytes bytes);
  MappedMemory(MappedMemory&& other) noexcept { *this = std::move(other); }
  MappedMemory& operator=(MappedMemory&& other) noexcept;
  ~MappedMemory();

  [[nodiscard]] std::byte* host() const { return host_; }
  [[nodiscard]] std::byte* device() const { return device_; }

 private:
  std::byte* host_ = nullptr;
  std::byte* device_ = nullptr;
};

// The buffers of one rank, all copies, each copy on a boundary of 256 bytes (and of its own allocation where it will be
// registered).
class Arena {
 public:
  Arena(const Device& device, const std::vector<Buffer>& buffers);

  [[nodiscard]] std::byte* copy(BufferId buffer, std::int64_t copy) const;
  // Where a slice begins in replay slot `slot`: of copy slot % copies.
  [[nodiscard]] std::byte* at(const Slice& slice, std::int64_t slot) const;
  [[nodiscard]] const Buffer& buffer(BufferId id) const { return buffers_.at(id.index()); }
  [[nodiscard]] const DeviceMemory& memory(BufferId id) const { return memory_.at(id.index()); }

 private:
  std::vector<Buffer> buffers_;
  std::vector<DeviceMemory> memory_;
};

}  // namespace ovl::cuda
