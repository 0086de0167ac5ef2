// SPDX-License-Identifier: Apache-2.0
//
// What a kernel asks the device.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ovl::kernels {

// This thread's first element and the distance to its next, in a one-dimensional grid over an array.
__device__ inline std::int64_t first_element() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t element_stride() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

// Nanoseconds, one clock for the whole device; it ticks every microsecond or less, depending on the device.
__device__ inline std::uint64_t global_nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) : : "memory");
  return now;
}

__device__ inline std::uint32_t sm_id() {
  std::uint32_t id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}

}  // namespace ovl::kernels
