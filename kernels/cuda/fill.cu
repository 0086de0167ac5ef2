// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/bodies.hpp"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch_impl.cuh"

namespace ovl::kernels {
namespace {

template <class Bits>
__device__ void fill(const FillArgs& args) {
  Bits* out = static_cast<Bits*>(args.out);
  const std::int64_t end = args.begin + args.count;
  for (std::int64_t i = args.begin + first_element(); i < end; i += element_stride()) {
    out[i] = static_cast<Bits>(fill_bits(args, i));
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(array_threads) ovl_fill(const __grid_constant__ FillArgs args) {
  switch (bytes_of(args.dtype)) {
    case 8: return fill<std::uint64_t>(args);
    case 4: return fill<std::uint32_t>(args);
    case 2: return fill<std::uint16_t>(args);
    default: return fill<std::uint8_t>(args);
  }
}

Status launch_fill(const FillArgs& args, Stream stream) {
  return launch(ovl_fill, args, array_shape(args.count), stream);
}

}  // namespace ovl::kernels
