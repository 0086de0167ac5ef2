// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/launch_impl.cuh"
#include "kernels/cuda/resident.cuh"

namespace ovl::kernels {
namespace {

constexpr int held = 46;  // with what the loop needs: more than 56 and at most 64, all that 1024 threads can have
constexpr unsigned nap_ns = 200;

}  // namespace

// One thread looks; the others sleep at a barrier, which issues nothing and keeps their registers.
extern "C" __global__ void __launch_bounds__(occupy_footprint.threads, 1)
    ovl_occupy(const __grid_constant__ OccupyArgs args) {
  extern __shared__ volatile std::uint32_t shared[];
  const HeldRegisters<held> registers(shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    const Stamp began = stamp();
    for (std::uint32_t looks = 0; !is_over(args.until, began.nanoseconds, looks); ++looks) __nanosleep(nap_ns);
    const Stamp ended = stamp();
    args.reports[blockIdx.x] = {began, ended};
    shared[0] = static_cast<std::uint32_t>(ended.nanoseconds);
  }
  __syncthreads();
  registers.fold(shared[0], shared + 1);
}

Status launch_occupy(const OccupyArgs& args, std::size_t shared_bytes, Stream stream, Event began) {
  const Shape shape{.blocks = args.blocks,
                    .threads = occupy_footprint.threads,
                    .shared_bytes = shared_bytes,
                    .all_blocks_began = began};
  return launch(ovl_occupy, args, shape, stream);
}

Status read_occupy_footprint(std::size_t shared_bytes, Footprint& footprint) {
  return read_footprint(reinterpret_cast<const void*>(ovl_occupy), occupy_footprint.threads, shared_bytes, footprint);
}

}  // namespace ovl::kernels
