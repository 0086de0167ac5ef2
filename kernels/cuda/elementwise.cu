// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/device_kernels.hpp"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch_impl.cuh"

namespace ovl::kernels {
namespace {

template <class T, class Unit>
__device__ void accumulate(Unit* out, const void* const* in, int inputs, std::int64_t i) {
  constexpr int width = sizeof(Unit) / sizeof(T);
  using Sum = decltype(widen(T{}));
  Unit unit = out[i];
  T* values = reinterpret_cast<T*>(&unit);
  Sum sum[width];
#pragma unroll
  for (int w = 0; w < width; ++w) sum[w] = widen(values[w]);
  for (int j = 0; j < inputs; ++j) {
    const Unit other = static_cast<const Unit*>(in[j])[i];
    const T* add = reinterpret_cast<const T*>(&other);
#pragma unroll
    for (int w = 0; w < width; ++w) sum[w] += widen(add[w]);
  }
#pragma unroll
  for (int w = 0; w < width; ++w) narrow(values[w], sum[w]);
  out[i] = unit;
}

template <class T>
__device__ void accumulate_all(const ElementwiseArgs& args) {
  std::uintptr_t addresses = reinterpret_cast<std::uintptr_t>(args.out);
  for (int j = 0; j < args.inputs; ++j) addresses |= reinterpret_cast<std::uintptr_t>(args.in[j]);
  const std::int64_t packs = addresses % sizeof(Pack<T>) == 0 ? args.count / Pack<T>::width : 0;
  for (std::int64_t i = first_element(); i < packs; i += element_stride()) {
    accumulate<T>(static_cast<Pack<T>*>(args.out), args.in, args.inputs, i);
  }
  for (std::int64_t i = packs * Pack<T>::width + first_element(); i < args.count; i += element_stride()) {
    accumulate<T>(static_cast<T*>(args.out), args.in, args.inputs, i);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(array_threads)
    ovl_elementwise(const __grid_constant__ ElementwiseArgs args) {
  with_element(args.dtype, [&](auto element) { accumulate_all<decltype(element)>(args); });
}

Status launch_elementwise(const ElementwiseArgs& args, Stream stream, Event began) {
  Shape shape = array_shape(args.count * bytes_of(args.dtype) / 16);
  shape.all_blocks_began = began;
  return launch(ovl_elementwise, args, shape, stream);
}

}  // namespace ovl::kernels
