// SPDX-License-Identifier: Apache-2.0
//
// The element types of buffers. tf32 is stored as f32 and multiplied with 11 bits of precision.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/enum_names.hpp"
#include "base/units.hpp"

namespace ovl {

enum class DType : std::int32_t { f64, f32, tf32, f16, bf16, f8e4m3 };
template <>
struct EnumNames<DType> {
  static constexpr std::string_view axis = "dtype";
  static constexpr std::pair<DType, std::string_view> table[] = {{DType::f64, "f64"},   {DType::f32, "f32"},
                                                                 {DType::tf32, "tf32"}, {DType::f16, "f16"},
                                                                 {DType::bf16, "bf16"}, {DType::f8e4m3, "f8e4m3"}};
};

constexpr std::int64_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return 8;
    case DType::f32:
    case DType::tf32: return 4;
    case DType::f16:
    case DType::bf16: return 2;
    case DType::f8e4m3: return 1;
  }
  return 0;
}
constexpr Bytes size_of(DType dtype) { return Bytes(bytes_of(dtype)); }

// Significant bits as stored, the hidden one included: integers up to 2^bits are exact.
constexpr int significand_bits(DType dtype) {
  switch (dtype) {
    case DType::f64: return 53;
    case DType::f32:
    case DType::tf32: return 24;
    case DType::f16: return 11;
    case DType::bf16: return 8;
    case DType::f8e4m3: return 4;
  }
  return 0;
}

}  // namespace ovl
