// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace ovl {
namespace {

TEST(Mix64, IsSplitmix64) {
  // The first outputs of splitmix64 for the seeds 0 and 1234567, as published with its reference code.
  static_assert(mix64(0) == 0xe220a8397b1dcdafULL);
  static_assert(mix64(1234567) == 6457827717110365317ULL);
}

TEST(Hash64, IsFnv1a) {
  static_assert(hash64("") == 0xcbf29ce484222325ULL);
  static_assert(hash64("a") == 0xaf63dc4c8601ec8cULL);
  static_assert(hash64("foobar") == 0x85944171f73967e8ULL);
}

TEST(Random, IsDeterminedByItsSeed) {
  Random a(7);
  Random b(7);
  Random c(8);
  const std::uint64_t first = a.next();
  EXPECT_EQ(first, b.next());
  EXPECT_NE(first, c.next());
}

TEST(Random, BelowIsUniform) {
  Random random(1);
  std::array<int, 6> counts{};
  constexpr int throws = 60'000;
  for (int i = 0; i < throws; ++i) ++counts[random.below(6)];
  // Chi-squared with 5 degrees of freedom exceeds 20.5 once in a thousand seeds.
  double chi_squared = 0;
  for (const int count : counts) chi_squared += std::pow(count - 10'000.0, 2) / 10'000.0;
  EXPECT_LT(chi_squared, 20.5);
}

TEST(Random, BelowOneIsZero) { EXPECT_EQ(Random(5).below(1), 0U); }

TEST(Random, UniformStaysInTheUnitInterval) {
  Random random(3);
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double u = random.uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
  }
  EXPECT_NEAR(sum / 10'000, 0.5, 4 * std::sqrt(1.0 / 12 / 10'000));
}

TEST(Random, PermutationHoldsEveryIndexOnce) {
  Random random(11);
  const std::vector<std::size_t> order = random.permutation(5);
  EXPECT_THAT(order, testing::UnorderedElementsAre(0, 1, 2, 3, 4));
  EXPECT_TRUE(random.permutation(0).empty());
}

TEST(Random, PermutationsAreEquallyLikely) {
  Random random(2);
  std::array<int, 3> first{};
  for (int i = 0; i < 30'000; ++i) ++first[random.permutation(3)[0]];
  for (const int count : first) EXPECT_NEAR(count, 10'000, 4 * std::sqrt(30'000 * 2.0 / 9));
}

TEST(Elements, AreAPureFunctionOfSeedAndIndex) {
  static_assert(exact_element(1, 5, DType::f32) == exact_element(1, 5, DType::f32));
  static_assert(random_element(1, 5) != random_element(2, 5));
}

TEST(Elements, ExactAreSmallIntegersAndRandomFillTheInterval) {
  for (const DType dtype : {DType::f64, DType::f32, DType::tf32}) {
    std::array<int, 9> counts{};
    double least = 1;
    double most = -1;
    for (std::int64_t i = 0; i < 9'000; ++i) {
      const double exact = exact_element(42, i, dtype);
      ASSERT_EQ(exact, std::floor(exact));
      ASSERT_LE(std::fabs(exact), 4);
      ++counts[static_cast<std::size_t>(exact + 4)];
      const double random = random_element(42, i);
      ASSERT_GE(random, -1);
      ASSERT_LT(random, 1);
      least = std::fmin(least, random);
      most = std::fmax(most, random);
    }
    for (const int count : counts) EXPECT_NEAR(count, 1'000, 130);
    EXPECT_LT(least, -0.99);
    EXPECT_GT(most, 0.99);
  }
}

// 16'000 elements: 1'000 of each sign, standard deviation 31.
TEST(Elements, ExactInFewBitsAreMostlyZero) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f8e4m3}) {
    std::array<int, 3> counts{};
    for (std::int64_t i = 0; i < 16'000; ++i) ++counts.at(static_cast<std::size_t>(exact_element(42, i, dtype) + 1));
    EXPECT_NEAR(counts[0], 1'000, 125);
    EXPECT_NEAR(counts[1], 14'000, 165);
    EXPECT_NEAR(counts[2], 1'000, 125);
  }
}

// A product of two is not 0 once in 64, so 65536 of them have a variance of 1024: 8 standard deviations of 32 are the
// 256 that bf16 counts to. Of 200 such sums none comes near it, and their mean square is 1024 but for 10 %.
TEST(Elements, SumsOfTheMostExactProductsAreHeld) {
  static_assert(most_exact_products(DType::bf16) == 65536);
  static_assert(most_exact_products(DType::f16) == 1 << 22);
  static_assert(most_exact_products(DType::f32) == 1 << 20);                // 16 · 2^20 = 2^24
  static_assert(most_exact_products(DType::f64) == std::int64_t{1} << 49);  // 16 · 2^49 = 2^53
  double squares = 0;
  constexpr int sums = 200;
  for (std::uint64_t row = 0; row < sums; ++row) {
    double sum = 0;
    for (std::int64_t i = 0; i < most_exact_products(DType::bf16); ++i) {
      sum += exact_element(mix64(row), i, DType::bf16) * exact_element(mix64(~row), i, DType::bf16);
    }
    EXPECT_EQ(round_to(DType::bf16, sum), sum);
    EXPECT_LT(std::fabs(sum), 180);
    squares += sum * sum;
  }
  EXPECT_NEAR(squares / sums, 1024, 4 * 102.4);  // the mean of 200 squares: sqrt(2 / 200) = 10 %
}

TEST(Elements, SumsOverTheMostExactRanksAreHeld) {
  static_assert(most_exact_ranks(DType::f32) == 1 << 22);  // 4 · 2^22 = 2^24
  for (const DType dtype : {DType::f16, DType::bf16, DType::f8e4m3}) {
    const auto n = static_cast<double>(most_exact_ranks(dtype));
    for (double sum = 0; sum <= n; ++sum) ASSERT_EQ(round_to(dtype, sum), sum) << name(dtype);
    EXPECT_NE(round_to(dtype, n + 1), n + 1) << name(dtype);
  }
}

TEST(Elements, RandomAreWhatTheDtypeHolds) {
  for (const DType dtype : {DType::f64, DType::f32, DType::tf32, DType::f16, DType::bf16, DType::f8e4m3}) {
    for (std::int64_t i = 0; i < 1'000; ++i) {
      const double held = random_element(42, i, dtype);
      ASSERT_EQ(held, round_to(dtype, held));
      ASSERT_EQ(held, round_to(dtype, random_element(42, i)));
    }
  }
}

}  // namespace
}  // namespace ovl
