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
  static_assert(exact_element(1, 5) == exact_element(1, 5));
  static_assert(random_element(1, 5) != random_element(2, 5));
}

TEST(Elements, ExactAreSmallIntegersAndRandomFillTheInterval) {
  std::array<int, 9> counts{};
  double least = 1;
  double most = -1;
  for (std::int64_t i = 0; i < 9'000; ++i) {
    const double exact = exact_element(42, i);
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

}  // namespace
}  // namespace ovl
