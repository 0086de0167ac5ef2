// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/device_kernels.hpp"
#include "kernels/cuda/launch_impl.cuh"

namespace ovl::kernels {

// Volatile: each look goes to the host's memory.
extern "C" __global__ void ovl_spin(const __grid_constant__ SpinArgs args) {
  const std::uint64_t start = global_nanoseconds();
  while (*static_cast<const volatile std::uint32_t*>(args.word) < args.value) {
    if (global_nanoseconds() - start < args.timeout_ns) continue;
    *static_cast<volatile std::uint32_t*>(args.timed_out) = 1;
    break;
  }
  __threadfence_system();
}

Status launch_spin(const SpinArgs& args, Stream stream) { return launch(ovl_spin, args, {}, stream); }

}  // namespace ovl::kernels
