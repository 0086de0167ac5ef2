// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "kernels/cuda/launch_impl.cuh"

namespace ovl::kernels {

Status grant_shared_memory(const void* kernel, std::size_t shared_bytes) {
  constexpr std::size_t granted = 48 * 1024;
  if (shared_bytes <= granted) return cudaSuccess;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
}

Status read_footprint(const void* kernel, int threads, std::size_t shared_bytes, Footprint& footprint) {
  if (const Status status = grant_shared_memory(kernel, shared_bytes); status != cudaSuccess) return status;
  cudaFuncAttributes attributes{};
  if (const Status status = cudaFuncGetAttributes(&attributes, kernel); status != cudaSuccess) return status;
  footprint = {
      .threads = threads, .registers = attributes.numRegs, .local_bytes = static_cast<int>(attributes.localSizeBytes)};
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&footprint.blocks_of_sm, kernel, threads, shared_bytes);
}

Status launch_kernel(const void* kernel, void* arguments, const Shape& shape, Stream stream) {
  if (const Status status = grant_shared_memory(kernel, shape.shared_bytes); status != cudaSuccess) return status;
  cudaLaunchAttribute completion{};
  completion.id = cudaLaunchAttributeLaunchCompletionEvent;
  completion.val.launchCompletionEvent.event = static_cast<cudaEvent_t>(shape.all_blocks_began);
  completion.val.launchCompletionEvent.flags = 0;

  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &completion;
  config.numAttrs = shape.all_blocks_began != nullptr ? 1 : 0;
  void* list[] = {arguments};
  return cudaLaunchKernelExC(&config, kernel, list);
}

}  // namespace ovl::kernels
