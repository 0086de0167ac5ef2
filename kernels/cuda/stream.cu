// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/bodies.hpp"
#include "kernels/cuda/launch_impl.cuh"
#include "kernels/cuda/resident.cuh"

namespace ovl::kernels {
namespace {

constexpr std::size_t shared_bytes = sizeof(std::uint32_t);  // one thread's answer for all

// Four on their way at once: one block alone shall move what an SM can.
template <class Unit>
__device__ void copy(const Unit* from, Unit* to, std::int64_t count) {
  constexpr int batch = 4;
  const std::int64_t stride = blockDim.x;
  std::int64_t i = threadIdx.x;
  for (; i + (batch - 1) * stride < count; i += batch * stride) {
    Unit units[batch];
#pragma unroll
    for (int b = 0; b < batch; ++b) units[b] = from[i + b * stride];
#pragma unroll
    for (int b = 0; b < batch; ++b) to[i + b * stride] = units[b];
  }
  for (; i < count; i += stride) to[i] = from[i];
}

__device__ void copy_bytes(const unsigned char* from, unsigned char* to, std::int64_t bytes) {
  constexpr std::int64_t wide = sizeof(uint4);
  const bool aligned = (reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to)) % wide == 0;
  const std::int64_t whole = aligned ? bytes / wide : 0;
  copy(reinterpret_cast<const uint4*>(from), reinterpret_cast<uint4*>(to), whole);
  copy(from + whole * wide, to + whole * wide, bytes - whole * wide);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(stream_footprint.threads)
    ovl_stream(const __grid_constant__ StreamArgs args) {
  extern __shared__ volatile std::uint32_t over[];
  const Stamp began = stamp();
  std::uint32_t looks = 0;
  std::int64_t moved = 0;
  for (std::int64_t index = blockIdx.x;; index += gridDim.x) {
    const StreamChunk chunk = stream_chunk_of(args, index);
    if (chunk.bytes == 0) break;
    if (threadIdx.x == 0) {
      const std::uint64_t due = began.nanoseconds + due_ns(args.ns_per_byte, chunk.position);
      *over = is_over_before(due, args.until, began.nanoseconds, looks) ? 1 : 0;
    }
    __syncthreads();
    if (*over != 0) break;
    copy_bytes(static_cast<const unsigned char*>(args.from) + chunk.offset,
               static_cast<unsigned char*>(args.to) + chunk.offset, chunk.bytes);
    moved += chunk.bytes;
    __syncthreads();  // done, and the answer is read
  }
  if (threadIdx.x != 0) return;
  args.moved[blockIdx.x] = static_cast<std::uint64_t>(moved);
  args.reports[blockIdx.x] = {began, stamp()};
}

Status launch_stream(const StreamArgs& args, Stream stream, Event began) {
  const Shape shape{.blocks = args.blocks,
                    .threads = stream_footprint.threads,
                    .shared_bytes = shared_bytes,
                    .all_blocks_began = began};
  return launch(ovl_stream, args, shape, stream);
}

Status read_stream_footprint(Footprint& footprint) {
  return read_footprint(reinterpret_cast<const void*>(ovl_stream), stream_footprint.threads, shared_bytes, footprint);
}

}  // namespace ovl::kernels
