// SPDX-License-Identifier: Apache-2.0
#include "stats/summary.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace ovl {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
const std::vector<double> unsorted{5, 1, 4, 2, 3};

std::vector<double> one_to(int n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.rbegin(), values.rend(), 1.0);  // descending, so that order must not matter
  return values;
}

TEST(Summary, WorkedExample) {
  // 1 2 3 4 5: the deviations from 3 are 2 1 0 1 2; squares sum to 10, over 4.
  EXPECT_DOUBLE_EQ(mean(unsorted), 3);
  EXPECT_DOUBLE_EQ(median(unsorted), 3);
  EXPECT_DOUBLE_EQ(standard_deviation(unsorted), std::sqrt(2.5));
  EXPECT_DOUBLE_EQ(coefficient_of_variation(unsorted), std::sqrt(2.5) / 3);
  EXPECT_DOUBLE_EQ(median_absolute_deviation(unsorted), 1);
}

TEST(Median, OfAnEvenNumberIsHalfway) { EXPECT_DOUBLE_EQ(median(std::vector<double>{4, 1, 3, 2}), 2.5); }

TEST(Median, IsNotMovedByOneOutlier) { EXPECT_DOUBLE_EQ(median(std::vector<double>{1, 2, 3, 4, 700}), 3); }

TEST(Median, LeavesTheSampleAsItWas) {
  const std::vector<double> before = unsorted;
  (void)median(unsorted);
  EXPECT_EQ(unsorted, before);
}

TEST(MedianAt, TakesIndicesThatRepeat) {
  EXPECT_DOUBLE_EQ(median_at(unsorted, std::vector<std::size_t>{0, 0, 1}), 5);
  EXPECT_DOUBLE_EQ(median_at(unsorted, std::vector<std::size_t>{0, 1}), 3);
  EXPECT_TRUE(std::isnan(median_at(unsorted, {})));
}

TEST(Quantile, IsTypeSeven) {
  // Position p (n - 1) from 0 in 1 2 3 4 5: 0.1 · 4 = 0.4, so 1.4. NumPy and R give the same.
  EXPECT_DOUBLE_EQ(quantile(unsorted, 0.1), 1.4);
  EXPECT_DOUBLE_EQ(quantile(unsorted, 0.25), 2);
  EXPECT_DOUBLE_EQ(quantile(unsorted, 0.95), 4.8);
  EXPECT_DOUBLE_EQ(quantile(unsorted, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(unsorted, 1), 5);
}

TEST(Quantile, OutsideZeroToOneIsUnknown) {
  EXPECT_TRUE(std::isnan(quantile(unsorted, 1.1)));
  EXPECT_TRUE(std::isnan(quantile(unsorted, nan)));
}

TEST(Summary, OfNothingIsUnknown) {
  EXPECT_TRUE(std::isnan(mean({})));
  EXPECT_TRUE(std::isnan(median({})));
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
  EXPECT_TRUE(std::isnan(standard_deviation({})));
  EXPECT_TRUE(std::isnan(coefficient_of_variation({})));
  EXPECT_TRUE(std::isnan(median_absolute_deviation({})));
  EXPECT_TRUE(std::isnan(median_interval({}).width()));
}

TEST(Summary, OfOneValueHasNoSpread) {
  const std::vector<double> one{7};
  EXPECT_DOUBLE_EQ(median(one), 7);
  EXPECT_TRUE(std::isnan(standard_deviation(one)));
  EXPECT_DOUBLE_EQ(median_absolute_deviation(one), 0);
}

TEST(Summary, OfAnUnknownValueIsUnknown) {
  const std::vector<double> holed{1, nan, 3};
  EXPECT_TRUE(std::isnan(mean(holed)));
  EXPECT_TRUE(std::isnan(median(holed)));
  EXPECT_TRUE(std::isnan(median_absolute_deviation(holed)));
  EXPECT_TRUE(std::isnan(median_interval(holed).low));
}

TEST(MedianInterval, WorkedExample) {
  // n = 10: P(Binomial < 2) = (1 + 10) / 1024 = 1.07 %, P(Binomial < 3) = 5.5 %. So ranks 2 and 9.
  const Interval interval = median_interval(one_to(10));
  EXPECT_DOUBLE_EQ(interval.low, 2);
  EXPECT_DOUBLE_EQ(interval.high, 9);
}

TEST(MedianInterval, AgreesWithTheNormalApproximationForLargeSamples) {
  // Ranks (n - 1.96 sqrt n) / 2 and 1 + (n + 1.96 sqrt n) / 2, rounded outwards.
  const Interval hundred = median_interval(one_to(100));
  EXPECT_DOUBLE_EQ(hundred.low, 40);
  EXPECT_DOUBLE_EQ(hundred.high, 61);
  const Interval ten_thousand = median_interval(one_to(10'000));
  EXPECT_NEAR(ten_thousand.low, 4902, 1);
  EXPECT_NEAR(ten_thousand.high, 5099, 1);
}

TEST(MedianInterval, NeedsSixValuesForNinetyFivePercent) {
  // The whole range of n values misses the median with probability 2 / 2^n: 6.25 % of five, 3.1 % of six.
  EXPECT_TRUE(std::isnan(median_interval(one_to(5)).width()));
  EXPECT_DOUBLE_EQ(median_interval(one_to(6)).low, 1);
  EXPECT_DOUBLE_EQ(median_interval(one_to(6)).high, 6);
  EXPECT_DOUBLE_EQ(median_interval(one_to(5), 0.90).width(), 4);
}

}  // namespace
}  // namespace ovl
