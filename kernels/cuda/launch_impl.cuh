// SPDX-License-Identifier: Apache-2.0
//
// The one way in which our kernels are launched.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device_kernels.hpp"
#include "kernels/cuda/launch.hpp"

namespace ovl::kernels {

// The only call of cudaLaunchKernelExC.
Status launch_kernel(const void* kernel, void* arguments, const Shape& shape, Stream stream);

// More dynamic shared memory than 48 KiB must be asked for, once a kernel and device.
Status grant_shared_memory(const void* kernel, std::size_t shared_bytes);
// What compiler and device make of a kernel in such blocks. Fills all of `footprint`.
Status read_footprint(const void* kernel, int threads, std::size_t shared_bytes, Footprint& footprint);

template <class Args>
Status launch(void (*kernel)(Args), Args args, const Shape& shape, Stream stream) {
  return launch_kernel(reinterpret_cast<const void*>(kernel), &args, shape, stream);
}

// Kernels that go over an array stride over it with the whole grid, in blocks of 256 threads: eight of them fill an SM.
// 2048 blocks fill more SMs than a device has; more would only be launched and retired.
inline constexpr int array_threads = 256;
inline constexpr std::int64_t most_array_blocks = 2048;

inline Shape array_shape(std::int64_t items) {
  const std::int64_t blocks = items / array_threads + (items % array_threads != 0 ? 1 : 0);
  return {.blocks = static_cast<int>(std::clamp<std::int64_t>(blocks, 1, most_array_blocks)), .threads = array_threads};
}

}  // namespace ovl::kernels
