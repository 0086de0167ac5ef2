// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/memory.hpp"

#include <cstring>
#include <string>

#include "base/error.hpp"

namespace ovl::cuda {
namespace {

// cudaMalloc's own, and what vector loads and cuBLASLt's algorithms are chosen for.
constexpr std::int64_t alignment = 256;

std::int64_t round_up(std::int64_t size, std::int64_t unit) { return (size + unit - 1) / unit * unit; }

std::size_t size_in_bytes(Bytes bytes) { return static_cast<std::size_t>(bytes.value()); }

// NCCL says "unhandled CUDA error" where memory ran out; how much is left tells.
void check_nccl_allocation(ncclResult_t status, Bytes bytes) {
  if (status == ncclUnhandledCudaError) {
    forgive(status);
    std::size_t free = 0;
    std::size_t total = 0;
    if (cudaMemGetInfo(&free, &total) == cudaSuccess && free < size_in_bytes(bytes)) {
      throw impossible_error("ncclMemAlloc failed: out of device memory",
                             format_bytes(bytes) + " asked of " + std::to_string(free >> 20) + " MiB that are free",
                             "use smaller sizes, fewer buffer copies or fewer ranks");
    }
  }
  check(status, "ncclMemAlloc");
}

}  // namespace

DeviceMemory::DeviceMemory(Bytes bytes, Memory memory) : bytes_(bytes), from_nccl_(memory != Memory::plain) {
  if (bytes.value() == 0) return;
  void* allocated = nullptr;
  if (from_nccl_) {
    check_nccl_allocation(ncclMemAlloc(&allocated, size_in_bytes(bytes)), bytes);
  } else {
    const std::string call = "cudaMalloc (" + format_bytes(bytes) + ")";
    check(cudaMalloc(&allocated, size_in_bytes(bytes)), call.c_str());
  }
  memory_ = static_cast<std::byte*>(allocated);
}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(from_nccl_, other.from_nccl_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (memory_ == nullptr) return;
  if (from_nccl_) {
    release(ncclMemFree(memory_), "ncclMemFree");
  } else {
    release(cudaFree(memory_), "cudaFree");
  }
}

MappedMemory::MappedMemory(Bytes bytes) {
  if (bytes.value() == 0) return;
  void* host = nullptr;
  check(cudaHostAlloc(&host, size_in_bytes(bytes), cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
  host_ = static_cast<std::byte*>(host);
  std::memset(host_, 0, size_in_bytes(bytes));
  void* device = nullptr;
  const cudaError_t status = cudaHostGetDevicePointer(&device, host_, 0);
  if (status != cudaSuccess) release(cudaFreeHost(host_), "cudaFreeHost");
  check(status, "cudaHostGetDevicePointer");
  device_ = static_cast<std::byte*>(device);
}

MappedMemory& MappedMemory::operator=(MappedMemory&& other) noexcept {
  std::swap(host_, other.host_);
  std::swap(device_, other.device_);
  return *this;
}

MappedMemory::~MappedMemory() {
  if (host_ != nullptr) release(cudaFreeHost(host_), "cudaFreeHost");
}

Arena::Arena(const Device& device, const std::vector<Buffer>& buffers) : buffers_(buffers) {
  make_current(device);
  memory_.reserve(buffers.size());
  for (const Buffer& b : buffers) {
    const std::int64_t stride = round_up(b.count * size_of(b.dtype).value(), alignment);
    memory_.emplace_back(Bytes(stride * b.copies), b.memory);
  }
}

std::byte* Arena::copy(BufferId buffer, std::int64_t copy) const {
  const Buffer& b = buffers_.at(buffer.index());
  return memory_.at(buffer.index()).get() + round_up(b.count * size_of(b.dtype).value(), alignment) * copy;
}

std::byte* Arena::at(const Slice& slice, std::int64_t slot) const {
  const Buffer& b = buffers_.at(slice.buffer.index());
  return copy(slice.buffer, slot % b.copies) + slice.offset * size_of(b.dtype).value();
}

}  // namespace ovl::cuda
