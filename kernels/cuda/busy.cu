// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/device_kernels.hpp"
#include "kernels/cuda/launch_impl.cuh"

namespace ovl::kernels {

extern "C" __global__ void ovl_busy(const __grid_constant__ BusyArgs args) {
  const std::uint64_t start = global_nanoseconds();
  while (global_nanoseconds() - start < args.nanoseconds) {
  }
}

Status launch_busy(const BusyArgs& args, Stream stream, Event began) {
  return launch(ovl_busy, args, {.all_blocks_began = began}, stream);
}

}  // namespace ovl::kernels
