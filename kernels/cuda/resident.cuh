// SPDX-License-Identifier: Apache-2.0
//
// What kernels that stay share: when they end, what they tell, and registers that they hold.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/device_kernels.hpp"

namespace ovl::kernels {

__device__ inline Stamp stamp() { return {global_nanoseconds(), sm_id()}; }

// Whether it is over for a block that began at `start`, asked by one thread; `looks` counts how often.
__device__ inline bool is_over(const Until& until, std::uint64_t start, std::uint32_t looks) {
  constexpr std::uint32_t between_looks_at_the_host = 64;
  if (until.word != nullptr && *static_cast<const volatile std::uint32_t*>(until.word) >= until.value) return true;
  if (looks % between_looks_at_the_host == 0 && *static_cast<const volatile std::uint32_t*>(until.halt) != 0) {
    return true;
  }
  if (global_nanoseconds() - start < until.limit_ns) return false;
  if (until.word != nullptr) *static_cast<volatile std::uint32_t*>(until.expired) = 1;
  return true;
}

// Waits until `due`. Whether it is over by then.
__device__ inline bool is_over_before(std::uint64_t due, const Until& until, std::uint64_t start,
                                      std::uint32_t& looks) {
  do {
    if (is_over(until, start, looks++)) return true;
  } while (global_nanoseconds() < due);
  return false;
}

// Registers that live from its construction to fold(), whatever the compiler thinks of it: they are loaded from shared
// memory (whatever is there), which a barrier keeps from being loaded again later, and are folded in an order that
// matters only once the key is known. Takes count + threads words of shared memory.
template <int count>
class HeldRegisters {
 public:
  __device__ explicit HeldRegisters(const volatile std::uint32_t* shared) {
#pragma unroll
    for (int i = 0; i < count; ++i) values_[i] = shared[threadIdx.x + i];
  }
  // After a barrier.
  __device__ void fold(std::uint32_t key, volatile std::uint32_t* shared) const {
    std::uint32_t folded = 0;
#pragma unroll
    for (int i = 0; i < count; ++i) folded = folded * key + values_[i];
    shared[threadIdx.x] = folded;
  }

 private:
  std::uint32_t values_[count];
};

}  // namespace ovl::kernels
