// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/bodies.hpp"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch_impl.cuh"
#include "kernels/cuda/resident.cuh"

namespace ovl::kernels {
namespace {

// With what the loops need more than 88 and at most 96, as NCCL's kernels have.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int held = 58;
#else
constexpr int held = 40;
#endif

// to[i] = also[i] = from[i] (+ plus[i]), in units of several elements or of one.
template <class T, bool adds, class Unit>
__device__ void move_units(Unit* to, Unit* also, const Unit* from, const Unit* plus, std::int64_t count) {
  constexpr int width = sizeof(Unit) / sizeof(T);
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    Unit unit = from[i];
    if constexpr (adds) {
      const Unit other = plus[i];
      T* values = reinterpret_cast<T*>(&unit);
      const T* add = reinterpret_cast<const T*>(&other);
#pragma unroll
      for (int w = 0; w < width; ++w) narrow(values[w], widen(values[w]) + widen(add[w]));
    }
    to[i] = unit;
    if (also != nullptr) also[i] = unit;
  }
}

// The FIFO's places are aligned, slices of buffers need not be.
template <class T, bool adds>
__device__ void move(T* to, T* also, const T* from, const T* plus, std::int64_t count) {
  using Wide = Pack<T>;
  const bool aligned =
      (reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) % sizeof(Wide) == 0;
  const std::int64_t done = aligned ? count / Wide::width * Wide::width : 0;
  move_units<T, adds>(reinterpret_cast<Wide*>(to), reinterpret_cast<Wide*>(also), reinterpret_cast<const Wide*>(from),
                      reinterpret_cast<const Wide*>(plus), done / Wide::width);
  move_units<T, adds>(to + done, also == nullptr ? nullptr : also + done, from + done, adds ? plus + done : nullptr,
                      count - done);
}

// What a block has in memory: of the arrays, and its places in the FIFO.
struct Places {
  unsigned char* in;
  unsigned char* out;
  unsigned char* received;
  unsigned char* sums;
  unsigned char* sent;
};

template <class T>
__device__ void reduce(const Places& at, unsigned char* to, unsigned char* also, std::int64_t count) {
  move<T, true>(reinterpret_cast<T*>(to), reinterpret_cast<T*>(also), reinterpret_cast<const T*>(at.in),
                reinterpret_cast<const T*>(at.received), count);
}

__device__ void gather(const Places& at, const unsigned char* from, std::int64_t bytes) {
  move<unsigned char, false>(at.out, at.sent, from, nullptr, bytes);
}

__device__ void move_slice(const RingProxyArgs& args, std::int64_t begin, std::int64_t count) {
  const std::int64_t size = bytes_of(args.dtype);
  unsigned char* fifo = static_cast<unsigned char*>(args.fifo) + blockIdx.x * ring_fifo;
  const Places at{const_cast<unsigned char*>(static_cast<const unsigned char*>(args.in)) + begin * size,
                  static_cast<unsigned char*>(args.out) + begin * size, fifo, fifo + ring_slice, fifo + 2 * ring_slice};
  const bool both = args.steps == RingSteps::both;
  if (args.steps == RingSteps::gather) return gather(at, at.in, count * size);
  with_element(args.dtype, [&](auto element) {
    reduce<decltype(element)>(at, both ? at.sums : at.out, both ? nullptr : at.sent, count);
  });
  if (!both) return;
  __syncthreads();
  gather(at, at.sums, count * size);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(ring_proxy_footprint.threads, 1)
    ovl_ring_proxy(const __grid_constant__ RingProxyArgs args) {
  extern __shared__ volatile std::uint32_t shared[];
  const HeldRegisters<held> registers(shared);
  __syncthreads();
  const Stamp began = stamp();
  const std::int64_t most = ring_slice_elements(args);
  const int factor = ring_link_factor(args.steps);
  std::uint32_t looks = 0;
  std::int64_t moved = 0;
  for (std::int64_t begin = blockIdx.x * most; begin < args.count; begin += gridDim.x * most) {
    if (threadIdx.x == 0) {
      const std::uint64_t due = began.nanoseconds + due_ns(args.ns_per_byte, begin * bytes_of(args.dtype) * factor);
      shared[0] = is_over_before(due, args.until, began.nanoseconds, looks) ? 1 : 0;
    }
    __syncthreads();
    if (shared[0] != 0) break;
    const std::int64_t count = args.count - begin < most ? args.count - begin : most;
    move_slice(args, begin, count);
    moved += count * bytes_of(args.dtype) * factor;
    __syncthreads();  // done, and the answer is read
  }
  // A collective that is paced ends when its last byte would be there.
  if (threadIdx.x == 0) {
    const std::uint64_t due = began.nanoseconds + due_ns(args.ns_per_byte, args.count * bytes_of(args.dtype) * factor);
    static_cast<void>(is_over_before(due, args.until, began.nanoseconds, looks));
    args.moved[blockIdx.x] = static_cast<std::uint64_t>(moved);
    const Stamp ended = stamp();
    args.reports[blockIdx.x] = {began, ended};
    shared[1] = static_cast<std::uint32_t>(ended.nanoseconds);
  }
  __syncthreads();
  registers.fold(shared[1], shared + 2);
}

Status launch_ring_proxy(const RingProxyArgs& args, std::size_t shared_bytes, Stream stream, Event began) {
  const Shape shape{.blocks = args.blocks,
                    .threads = ring_proxy_footprint.threads,
                    .shared_bytes = shared_bytes,
                    .all_blocks_began = began};
  return launch(ovl_ring_proxy, args, shape, stream);
}

Status read_ring_proxy_footprint(std::size_t shared_bytes, Footprint& footprint) {
  return read_footprint(reinterpret_cast<const void*>(ovl_ring_proxy), ring_proxy_footprint.threads, shared_bytes,
                        footprint);
}

}  // namespace ovl::kernels
