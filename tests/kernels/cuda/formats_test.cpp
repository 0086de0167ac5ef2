// SPDX-License-Identifier: Apache-2.0
//
// Our number formats against CUDA's own conversions, which its headers also offer to the host.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/float_formats.hpp"
#include "base/random.hpp"

namespace ovl {
namespace {

std::uint64_t cuda_bits(float value, DType dtype) {
  switch (dtype) {
    case DType::f16: return __half_as_ushort(__float2half_rn(value));
    case DType::bf16: return __bfloat16_as_ushort(__float2bfloat16_rn(value));
    default: return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
  }
}

float cuda_value(std::uint64_t bits, DType dtype) {
  const auto low = static_cast<unsigned short>(bits);
  switch (dtype) {
    case DType::f16: return __half2float(__ushort_as_half(low));
    case DType::bf16: return __bfloat162float(__ushort_as_bfloat16(low));
    default: {
      __nv_fp8_e4m3 x;
      x.__x = static_cast<__nv_fp8_storage_t>(low);
      return static_cast<float>(x);
    }
  }
}

constexpr DType small_types[] = {DType::f16, DType::bf16, DType::f8e4m3};

TEST(CudaFormats, EveryPatternIsTheSameNumber) {
  for (const DType dtype : small_types) {
    for (std::uint64_t bits = 0; bits < std::uint64_t{1} << (8 * bytes_of(dtype)); ++bits) {
      const double ours = from_bits(bits, dtype);
      const double theirs = cuda_value(bits, dtype);
      ASSERT_TRUE(ours == theirs || (std::isnan(ours) && std::isnan(theirs))) << name(dtype) << " " << bits;
      ASSERT_EQ(std::signbit(ours) || std::isnan(ours), std::signbit(theirs) || std::isnan(theirs));
    }
  }
}

// Every upper half of an f32, with the lower halves around zero and the middle, and random ones: all exponents, ties,
// infinities and NaN.
TEST(CudaFormats, EveryF32IsRoundedToTheSameBits) {
  for (const DType dtype : small_types) {
    for (std::uint32_t high = 0; high < 0x10000; ++high) {
      for (const std::uint32_t low :
           {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU, static_cast<unsigned>(mix64(high) & 0xffffU)}) {
        const auto value = std::bit_cast<float>(high << 16U | low);
        ASSERT_EQ(to_bits(value, dtype), cuda_bits(value, dtype)) << name(dtype) << " " << value;
      }
    }
  }
}

}  // namespace
}  // namespace ovl
