// SPDX-License-Identifier: Apache-2.0
#include "base/float_formats.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace ovl {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST(Half, HandValues) {
  static_assert(to_bits(1, DType::f16) == 0x3c00);
  static_assert(to_bits(-2, DType::f16) == 0xc000);
  static_assert(to_bits(1.0 / 3, DType::f16) == 0x3555);  // 0x1.554p-2
  static_assert(to_bits(65504, DType::f16) == 0x7bff);    // the largest
  static_assert(to_bits(65519.99, DType::f16) == 0x7bff);
  static_assert(to_bits(65520, DType::f16) == 0x7c00);  // half way to 65536: the even one is infinity
  static_assert(to_bits(inf, DType::f16) == 0x7c00);
  static_assert(to_bits(-inf, DType::f16) == 0xfc00);
  static_assert(to_bits(nan, DType::f16) == 0x7fff);
  static_assert(to_bits(0x1p-14, DType::f16) == 0x0400);  // the smallest normal
  static_assert(to_bits(0x1p-24, DType::f16) == 0x0001);  // the smallest subnormal
  static_assert(to_bits(0x1p-25, DType::f16) == 0x0000);  // half of it: the even one is zero
  static_assert(to_bits(0x1.001p-25, DType::f16) == 0x0001);
  static_assert(to_bits(-0.0, DType::f16) == 0x8000);
  static_assert(to_bits(2049, DType::f16) == to_bits(2048, DType::f16));  // 11 bits
  static_assert(from_bits(0x3555, DType::f16) == 0x1.554p-2);
  static_assert(from_bits(0x0001, DType::f16) == 0x1p-24);
  static_assert(from_bits(0x8001, DType::f16) == -0x1p-24);
  static_assert(from_bits(0xfc00, DType::f16) == -inf);
  EXPECT_TRUE(std::isnan(from_bits(0x7c01, DType::f16)));
}

TEST(Bfloat16, HandValues) {
  static_assert(to_bits(1, DType::bf16) == 0x3f80);
  static_assert(to_bits(256, DType::bf16) == 0x4380);
  static_assert(to_bits(257, DType::bf16) == 0x4380);  // half way between 256 and 258
  static_assert(to_bits(259, DType::bf16) == 0x4382);  // half way between 258 and 260
  static_assert(to_bits(0x1.fep127, DType::bf16) == 0x7f7f);
  static_assert(to_bits(0x1.fffffep127, DType::bf16) == 0x7f80);  // the largest f32 is nearer to infinity
  static_assert(to_bits(0x1p-133, DType::bf16) == 0x0001);
  static_assert(to_bits(0x1p-134, DType::bf16) == 0x0000);
  static_assert(to_bits(0x1.8p-133, DType::bf16) == 0x0002);
  static_assert(to_bits(-nan, DType::bf16) == 0x7fff);
  static_assert(to_bits(0x1p-1074, DType::bf16) == 0);  // the smallest double
  static_assert(to_bits(-0x1p-1060, DType::bf16) == 0x8000);
  static_assert(from_bits(0x3f81, DType::bf16) == 1.0078125);
  static_assert(from_bits(0x7f80, DType::bf16) == inf);
}

TEST(F8e4m3, HandValues) {
  static_assert(to_bits(1, DType::f8e4m3) == 0x38);
  static_assert(to_bits(448, DType::f8e4m3) == 0x7e);  // the largest: there is no infinity
  static_assert(to_bits(464, DType::f8e4m3) == 0x7e);
  static_assert(to_bits(465, DType::f8e4m3) == 0x7e);
  static_assert(to_bits(1e300, DType::f8e4m3) == 0x7e);
  static_assert(to_bits(-inf, DType::f8e4m3) == 0xfe);
  static_assert(to_bits(nan, DType::f8e4m3) == 0x7f);
  static_assert(to_bits(17, DType::f8e4m3) == 0x58);  // half way between 16 and 18
  static_assert(to_bits(19, DType::f8e4m3) == 0x5a);  // half way between 18 and 20
  static_assert(to_bits(0x1p-6, DType::f8e4m3) == 0x08);
  static_assert(to_bits(0x1p-9, DType::f8e4m3) == 0x01);
  static_assert(to_bits(0x1p-10, DType::f8e4m3) == 0x00);
  static_assert(from_bits(0x7e, DType::f8e4m3) == 448);
  static_assert(from_bits(0x78, DType::f8e4m3) == 256);  // the largest exponent holds numbers
  static_assert(from_bits(0x81, DType::f8e4m3) == -0x1p-9);
  EXPECT_TRUE(std::isnan(from_bits(0x7f, DType::f8e4m3)));
  EXPECT_TRUE(std::isnan(from_bits(0xff, DType::f8e4m3)));
}

constexpr DType small_types[] = {DType::f16, DType::bf16, DType::f8e4m3};

TEST(SmallFormats, EveryPatternComesBack) {
  for (const DType dtype : small_types) {
    const std::uint64_t patterns = std::uint64_t{1} << (8 * bytes_of(dtype));
    std::uint64_t nans = 0;
    for (std::uint64_t bits = 0; bits < patterns; ++bits) {
      const double value = from_bits(bits, dtype);
      if (std::isnan(value)) {
        ++nans;
        EXPECT_EQ(to_bits(value, dtype), patterns / 2 - 1);
      } else {
        ASSERT_EQ(to_bits(value, dtype), bits) << name(dtype);
      }
    }
    // All fractions but 0 of the largest exponent; one pattern where there are no infinities. Of both signs.
    EXPECT_EQ(nans, dtype == DType::f8e4m3 ? 2U : 2 * ((std::uint64_t{1} << (significand_bits(dtype) - 1)) - 1));
  }
}

// Between each number and the next: to the nearer one, from half way to the even one.
TEST(SmallFormats, EveryNumberBetweenTwoIsRounded) {
  for (const DType dtype : small_types) {
    const std::uint64_t sign = std::uint64_t{1} << (8 * bytes_of(dtype) - 1);
    for (std::uint64_t bits = 0; std::isfinite(from_bits(bits + 1, dtype)); ++bits) {
      const double below = from_bits(bits, dtype);
      const double above = from_bits(bits + 1, dtype);
      ASSERT_LT(below, above);
      const double middle = below + (above - below) / 2;  // exact: one bit more
      const std::uint64_t even = bits % 2 == 0 ? bits : bits + 1;
      ASSERT_EQ(to_bits(middle, dtype), even) << name(dtype) << " " << middle;
      ASSERT_EQ(to_bits(std::nextafter(middle, 0), dtype), bits) << name(dtype) << " " << middle;
      ASSERT_EQ(to_bits(std::nextafter(middle, inf), dtype), bits + 1) << name(dtype) << " " << middle;
      ASSERT_EQ(to_bits(-middle, dtype), even | sign) << name(dtype) << " " << middle;
    }
  }
}

TEST(LargeFormats, AreTheLanguagesOwnWithOneNan) {
  static_assert(to_bits(1, DType::f32) == 0x3f800000);
  static_assert(to_bits(1, DType::tf32) == 0x3f800000);  // as stored
  static_assert(to_bits(-1, DType::f64) == 0xbff0000000000000);
  static_assert(to_bits(-nan, DType::f32) == 0x7fffffff);
  static_assert(to_bits(-nan, DType::f64) == 0x7fffffffffffffff);
  static_assert(round_to(DType::f32, 0.1) == static_cast<double>(0.1F));
  static_assert(round_to(DType::f64, 0.1) == 0.1);
  static_assert(round_to(DType::bf16, 0.1) == 0.10009765625);
}

TEST(Elements, AreStoredAndLoadedAtAnyAlignment) {
  for (const DType dtype : {DType::f64, DType::f32, DType::tf32, DType::f16, DType::bf16, DType::f8e4m3}) {
    std::array<unsigned char, 32> memory{};
    void* array = memory.data() + 1;
    store_element(array, 1, dtype, -1.5);
    EXPECT_EQ(load_element(array, 0, dtype), 0) << name(dtype);
    EXPECT_EQ(load_element(array, 1, dtype), -1.5) << name(dtype);
    EXPECT_EQ(load_element(array, 2, dtype), 0) << name(dtype);
  }
}

}  // namespace
}  // namespace ovl
