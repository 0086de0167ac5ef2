// SPDX-License-Identifier: Apache-2.0
//
// What kernels that add do with elements of each dtype: sums are in f32 (f64 for f64), rounded once.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "base/dtype.hpp"

namespace ovl::kernels {

__device__ inline double widen(double x) { return x; }
__device__ inline float widen(float x) { return x; }
__device__ inline float widen(__half x) { return __half2float(x); }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float widen(__nv_fp8_e4m3 x) { return static_cast<float>(x); }

__device__ inline void narrow(double& out, double x) { out = x; }
__device__ inline void narrow(float& out, float x) { out = x; }
__device__ inline void narrow(__half& out, float x) { out = __float2half_rn(x); }
__device__ inline void narrow(__nv_bfloat16& out, float x) { out = __float2bfloat16_rn(x); }
__device__ inline void narrow(__nv_fp8_e4m3& out, float x) {
  out.__x = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
}

// 16 bytes, the widest load and store.
template <class T>
struct alignas(16) Pack {
  static constexpr int width = 16 / sizeof(T);
  T values[width];
};

// Calls `each` with a value of the type that stores the dtype.
template <class Each>
__device__ void with_element(DType dtype, Each each) {
  switch (dtype) {
    case DType::f64: return each(double{});
    case DType::f32:
    case DType::tf32: return each(float{});
    case DType::f16: return each(__half{});
    case DType::bf16: return each(__nv_bfloat16{});
    case DType::f8e4m3: return each(__nv_fp8_e4m3{});
  }
}

}  // namespace ovl::kernels
