// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/device_kernels.hpp"
#include "kernels/cuda/launch_impl.cuh"

namespace ovl::kernels {

extern "C" __global__ void ovl_marker(const __grid_constant__ MarkerArgs args) {
  *args.stamp = {global_nanoseconds(), sm_id()};
}

Status launch_marker(const MarkerArgs& args, Stream stream) { return launch(ovl_marker, args, {}, stream); }

}  // namespace ovl::kernels
