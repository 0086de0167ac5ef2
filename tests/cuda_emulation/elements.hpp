// SPDX-License-Identifier: Apache-2.0
//
// Elements of device memory as doubles. The conversions are those of CUDA's own headers, round to nearest even; f8e4m3
// saturates, as on a device. Storing rounds once, from double.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ovl::emulation {

enum class Element { i8, u8, i32, u32, i64, u64, f16, f32, f64, bf16, f8e4m3, f8e5m2 };

constexpr std::size_t size_of(Element element) {
  switch (element) {
    case Element::i8:
    case Element::u8:
    case Element::f8e4m3:
    case Element::f8e5m2: return 1;
    case Element::f16:
    case Element::bf16: return 2;
    case Element::i32:
    case Element::u32:
    case Element::f32: return 4;
    case Element::i64:
    case Element::u64:
    case Element::f64: return 8;
  }
  return 0;
}

// Sums of these are emulated: the floating point types that the harness knows.
constexpr bool is_summed(Element element) {
  return element == Element::f64 || element == Element::f32 || element == Element::f16 || element == Element::bf16 ||
         element == Element::f8e4m3;
}

template <class T>
T load_as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// Element `index` of the memory at `data`; of the summed types only.
inline double load(Element element, const std::byte* data, std::size_t index) {
  const std::byte* at = data + index * size_of(element);
  switch (element) {
    case Element::f64: return load_as<double>(at);
    case Element::f32: return static_cast<double>(load_as<float>(at));
    case Element::f16: return static_cast<double>(__half2float(__half(load_as<__half_raw>(at))));
    case Element::bf16: return static_cast<double>(__bfloat162float(__nv_bfloat16(load_as<__nv_bfloat16_raw>(at))));
    case Element::f8e4m3:
      return static_cast<double>(__half2float(__half(__nv_cvt_fp8_to_halfraw(load_as<std::uint8_t>(at), __NV_E4M3))));
    default: return 0.0;
  }
}

inline void store(Element element, std::byte* data, std::size_t index, double value) {
  std::byte* at = data + index * size_of(element);
  switch (element) {
    case Element::f64: std::memcpy(at, &value, sizeof value); break;
    case Element::f32: {
      const auto rounded = static_cast<float>(value);
      std::memcpy(at, &rounded, sizeof rounded);
      break;
    }
    case Element::f16: {
      const __half_raw rounded = __double2half(value);
      std::memcpy(at, &rounded, sizeof rounded);
      break;
    }
    case Element::bf16: {
      const __nv_bfloat16_raw rounded = __double2bfloat16(value);
      std::memcpy(at, &rounded, sizeof rounded);
      break;
    }
    case Element::f8e4m3: {
      const std::uint8_t rounded = __nv_cvt_double_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
      std::memcpy(at, &rounded, sizeof rounded);
      break;
    }
    default: break;
  }
}

}  // namespace ovl::emulation
