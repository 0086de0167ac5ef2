// SPDX-License-Identifier: Apache-2.0
#include "cuda_emulation/cublaslt_gemm.hpp"

#include <cublasLt.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace ovl::emulation::blas {
namespace {

const std::byte* bytes(const std::vector<float>& values) {
  return static_cast<const std::byte*>(static_cast<const void*>(values.data()));
}
std::byte* bytes(std::vector<float>& values) { return static_cast<std::byte*>(static_cast<void*>(values.data())); }

Product product(std::int64_t m, std::int64_t n, std::int64_t k, Element in = Element::f32, Element out = Element::f32) {
  return {.a = {.element = in, .rows = m, .columns = k, .stride = m},
          .b = {.element = in, .rows = k, .columns = n, .stride = k},
          .c = {.element = out, .rows = m, .columns = n, .stride = m},
          .d = {.element = out, .rows = m, .columns = n, .stride = m}};
}

std::vector<float> random(std::size_t count) {
  std::mt19937 engine(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float& value : values) {
    value = uniform(engine);
  }
  return values;
}

std::vector<float> multiplied(const Product& p, int id, const std::vector<float>& a, const std::vector<float>& b,
                              std::uint64_t call = 0) {
  std::vector<float> d(static_cast<std::size_t>(p.m() * p.n()));
  multiply(p, *algorithm(id), bytes(a), bytes(b), nullptr, bytes(d), call);
  return d;
}

// a = | 1 3 5 |   b = | 1 0 |   a*b = |  1+6+20  3+0  |  = | 27 3 |
//     | 2 4 6 |       | 2 1 |         |  2+8+24  4+0  |    | 34 4 |
//                     | 4 0 |
const std::vector<float> a23{1, 2, 3, 4, 5, 6};
const std::vector<float> b32{1, 2, 4, 0, 1, 0};

TEST(CublasLtGemm, MultipliesColumnMajor) {
  EXPECT_EQ(multiplied(product(2, 2, 3), 68, a23, b32), (std::vector<float>{27, 34, 3, 4}));
}

TEST(CublasLtGemm, TransposesEitherOperand) {
  const std::vector<float> a_transposed{1, 3, 5, 2, 4, 6};  // 3x2
  const std::vector<float> b_transposed{1, 0, 2, 1, 4, 0};  // 2x3
  Product p = product(2, 2, 3);
  p.a = {.rows = 3, .columns = 2, .stride = 3, .transposed = true};
  EXPECT_EQ(mistake(p), "");
  EXPECT_EQ(multiplied(p, 68, a_transposed, b32), (std::vector<float>{27, 34, 3, 4}));
  p.b = {.rows = 2, .columns = 3, .stride = 2, .transposed = true};
  EXPECT_EQ(mistake(p), "");
  EXPECT_EQ(multiplied(p, 68, a_transposed, b_transposed), (std::vector<float>{27, 34, 3, 4}));
}

TEST(CublasLtGemm, HonoursLeadingDimensionsAlphaAndBeta) {
  Product p = product(2, 2, 3);
  p.a.stride = 3;
  p.d.stride = 4;
  p.alpha = 2;
  p.beta = 10;
  const std::vector<float> a{1, 2, -9, 3, 4, -9, 5, 6, -9};
  const std::vector<float> c{1, 2, 3, 4};
  std::vector<float> d(8, -1);
  multiply(p, *algorithm(68), bytes(a), bytes(b32), bytes(c), bytes(d), 0);
  EXPECT_EQ(d, (std::vector<float>{64, 88, -1, -1, 36, 48, -1, -1}));  // 2*27+10, 2*34+20, 2*3+30, 2*4+40
}

TEST(CublasLtGemm, RoundsTheResultToItsType) {
  // 1*1 + 1*2^-8 in bf16 is between 1 and 1 + 2^-7 and goes to the even one, 1; as f32 it is exact.
  const std::vector<std::uint16_t> a{0x3f80, 0x3f80};
  const std::vector<std::uint16_t> b{0x3f80, 0x3b80};
  const auto at = [](const auto& values) {
    return static_cast<const std::byte*>(static_cast<const void*>(values.data()));
  };
  std::uint16_t narrow = 0;
  multiply(product(1, 1, 2, Element::bf16, Element::bf16), *algorithm(68), at(a), at(b), nullptr,
           static_cast<std::byte*>(static_cast<void*>(&narrow)), 0);
  EXPECT_EQ(narrow, 0x3f80);
  float wide = 0;
  multiply(product(1, 1, 2, Element::bf16, Element::f32), *algorithm(68), at(a), at(b), nullptr,
           static_cast<std::byte*>(static_cast<void*>(&wide)), 0);
  EXPECT_EQ(wide, 1.00390625F);
}

TEST(CublasLtGemm, Tf32DropsTheLast13BitsOfTheInputs) {
  const std::vector<float> a{1 + 0x1p-10F, 1 + 0x1p-12F};
  const std::vector<float> b{1, 1};
  Product p = product(1, 1, 2);
  EXPECT_EQ(multiplied(p, 68, a, b)[0], 2 + 0x1p-10F + 0x1p-12F);
  p.accumulator = Accumulator::tf32;
  EXPECT_EQ(multiplied(p, 68, a, b)[0], 2 + 0x1p-10F);
}

TEST(CublasLtGemm, AnotherAlgorithmGivesOtherBitsOfRandomData) {
  const Product p = product(8, 8, 64);
  const std::vector<float> a = random(8 * 64);
  const std::vector<float> b = random(64 * 8);
  EXPECT_EQ(multiplied(p, 66, a, b), multiplied(p, 66, a, b, 1));  // but the same ones from call to call
  EXPECT_NE(multiplied(p, 66, a, b), multiplied(p, 67, a, b));
  EXPECT_NE(multiplied(p, 67, a, b), multiplied(p, 68, a, b));
  const std::vector<float> exact_a(8 * 64, 3);
  const std::vector<float> exact_b(64 * 8, -2);
  EXPECT_EQ(multiplied(p, 66, exact_a, exact_b), multiplied(p, 68, exact_a, exact_b));
}

TEST(CublasLtGemm, SplitKIsNotTheSameFromCallToCall) {
  const Product p = product(8, 8, 64);
  const std::vector<float> a = random(8 * 64);
  const std::vector<float> b = random(64 * 8);
  EXPECT_NE(multiplied(p, 70, a, b, 0), multiplied(p, 70, a, b, 1));
}

TEST(CublasLtGemm, TheHeuristicPutsSplitKFirstUnlessForbidden) {
  const Product p = product(1024, 1024, 1024);
  EXPECT_EQ(candidates(p, 132, {.workspace = 1 << 20}).front().split_k, 4);
  for (const Algorithm& algorithm : candidates(p, 132, {.workspace = 1 << 20, .reductions = 0})) {
    EXPECT_EQ(algorithm.split_k, 1);
  }
}

TEST(CublasLtGemm, TheHeuristicKeepsToWorkspaceAndAlignment) {
  const auto ids = [](const std::vector<Algorithm>& all) {
    std::vector<int> found;
    for (const Algorithm& algorithm : all) {
      found.push_back(algorithm.id);
    }
    return found;
  };
  const Product p = product(1024, 1024, 1024);
  // 64 tiles of 128x128 are 1 wave (16384), 256 of 64x64 are 2 (2*4096); what needs a workspace is left out.
  EXPECT_EQ(ids(candidates(p, 132, {.workspace = 0})), (std::vector<int>{68, 67}));
  EXPECT_EQ(ids(candidates(p, 132, {.workspace = 1 << 20, .alignment = 4})), (std::vector<int>{68}));
  EXPECT_EQ(ids(candidates(product(5, 5, 5), 132, {.workspace = 1 << 20})), (std::vector<int>{68}));  // 20 byte columns
}

TEST(CublasLtGemm, FewerMultiprocessorsMayMeanAnotherTile) {
  // 2048x2048 is 256 tiles of 128x128 (2 waves of 132: 2*16384), 128 of 128x256 (1 wave: 32768), 1024 of 64x64
  // (8 waves: 32768). All alike, so the order stands. On 64: 4*16384, 2*32768, 16*4096: alike again. On 100: 3*16384,
  // 2*32768, 11*4096.
  const Product p = product(2048, 2048, 256);
  const Preference preference{.workspace = 1 << 20, .reductions = 0};
  EXPECT_EQ(candidates(p, 132, preference).front().id, 66);
  EXPECT_EQ(candidates(p, 100, preference).front().id, 68);
  EXPECT_FLOAT_EQ(waves_of(*algorithm(66), p, 132), 128.0F / 132.0F);
}

TEST(CublasLtGemm, SaysWhatDoesNotFit) {
  EXPECT_EQ(mistake(product(2, 3, 4)), "");
  Product p = product(2, 3, 4);
  p.b.rows = 3;
  EXPECT_EQ(mistake(p), "the shapes do not fit each other");
  p = product(2, 3, 4);
  p.a.stride = 1;
  EXPECT_EQ(mistake(p), "a matrix is empty, or its leading dimension is less than its rows");
}

TEST(CublasLtGemm, KnowsWhatADeviceHas) {
  EXPECT_EQ(unsupported(product(16, 16, 16, Element::bf16, Element::bf16), 80), "");
  EXPECT_EQ(unsupported(product(16, 16, 16, Element::bf16, Element::bf16), 75), "bf16 begins with 8.0");
  Product f8 = product(16, 16, 16, Element::f8e4m3, Element::bf16);
  EXPECT_EQ(unsupported(f8, 90), "f8e4m3 is multiplied as TN");
  f8.a.transposed = true;
  EXPECT_EQ(unsupported(f8, 90), "");
  EXPECT_EQ(unsupported(f8, 80), "f8e4m3 begins with 8.9");
  f8.b.columns = f8.c.columns = f8.d.columns = 8;
  EXPECT_EQ(unsupported(f8, 90), "f8e4m3 is multiplied in multiples of 16");
  Product f64 = product(2, 2, 2, Element::f64, Element::f64);
  f64.accumulator = Accumulator::f64;
  EXPECT_EQ(unsupported(f64, 75), "");
}

}  // namespace
}  // namespace ovl::emulation::blas
