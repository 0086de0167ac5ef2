// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/bodies.hpp"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch_impl.cuh"

namespace ovl::kernels {

extern "C" __global__ void __launch_bounds__(array_threads)
    ovl_fingerprint(const __grid_constant__ FingerprintArgs args) {
  const auto* data = static_cast<const unsigned char*>(args.data);
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % sizeof(std::uint64_t) == 0;
  const std::int64_t whole = aligned ? args.bytes / 8 : 0;  // words that can be loaded as such
  const std::int64_t words = (args.bytes + 7) / 8;
  std::uint64_t sum = 0;
  for (std::int64_t i = first_element(); i < words; i += element_stride()) {
    const std::uint64_t word =
        i < whole ? reinterpret_cast<const std::uint64_t*>(data)[i] : word_of(data, args.bytes, i);
    sum += fingerprint_word(word, i);
  }
  // One atomic a warp. Integer sums do not depend on the order.
  for (unsigned distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffffU, sum, distance);
  if (threadIdx.x % 32 == 0) atomicAdd(reinterpret_cast<unsigned long long*>(args.hash), sum);
}

Status launch_fingerprint(const FingerprintArgs& args, Stream stream) {
  return launch(ovl_fingerprint, args, array_shape((args.bytes + 7) / 8), stream);
}

}  // namespace ovl::kernels
