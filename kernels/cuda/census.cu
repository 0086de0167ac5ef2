// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/device_kernels.hpp"
#include "kernels/cuda/launch_impl.cuh"

namespace ovl::kernels {

// One thread: what keeps other blocks off the SM is the shared memory that the launch asks for. The fence puts the
// stamp before the arrival, so that whoever has seen all blocks arrive may read all stamps.
extern "C" __global__ void __launch_bounds__(1) ovl_census(const __grid_constant__ CensusArgs args) {
  const std::uint64_t start = global_nanoseconds();
  args.stamps[blockIdx.x] = {start, sm_id()};
  __threadfence_system();
  atomicAdd(args.arrived, 1U);
  while (*static_cast<const volatile std::uint32_t*>(args.arrived) < args.blocks) {
    if (global_nanoseconds() - start >= args.timeout_ns) break;
  }
}

Status launch_census(const CensusArgs& args, std::size_t shared_bytes, Stream stream) {
  return launch(ovl_census, args, {.blocks = static_cast<int>(args.blocks), .shared_bytes = shared_bytes}, stream);
}

}  // namespace ovl::kernels
