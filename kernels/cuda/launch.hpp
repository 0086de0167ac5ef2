// SPDX-License-Identifier: Apache-2.0
//
// How kernels are launched on a device, with no vendor type in sight: every kernel takes one argument structure by
// value and is launched through launch.cu's only call, cudaLaunchKernelExC. A host twin of the same name and arguments
// (twins.hpp) says what each one does, block by block.
#pragma once

#include <cstddef>

namespace ovl::kernels {

using Stream = void*;  // a cudaStream_t
using Event = void*;   // a cudaEvent_t

struct Shape {
  int blocks = 1;
  int threads = 1;
  std::size_t shared_bytes = 0;      // dynamic shared memory of a block
  Event all_blocks_began = nullptr;  // recorded when every block has started (cudaLaunchAttributeLaunchCompletionEvent)
};

// A cudaError_t; 0 is success. The caller says what a failure means.
using Status = int;

}  // namespace ovl::kernels
