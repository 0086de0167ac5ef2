// SPDX-License-Identifier: Apache-2.0
#include "stats/student.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace ovl {
namespace {

TEST(StudentT, QuantilesArePublishedOnes) {
  struct Row {
    double p;
    int degrees;
    double t;
  };
  // Standard tables of Student's t.
  for (const auto& [p, degrees, t] :
       {Row{0.975, 1, 12.706205}, Row{0.975, 2, 4.302653}, Row{0.975, 3, 3.182446}, Row{0.975, 4, 2.776445},
        Row{0.975, 5, 2.570582}, Row{0.975, 9, 2.262157}, Row{0.975, 10, 2.228139}, Row{0.975, 30, 2.042272},
        Row{0.995, 4, 4.604095}, Row{0.95, 7, 1.894579}, Row{0.975, 120, 1.979930}}) {
    EXPECT_NEAR(student_t_quantile(p, degrees), t, 5e-7 * t) << "p " << p << ", " << degrees << " degrees";
  }
}

TEST(StudentT, IsSymmetric) {
  EXPECT_DOUBLE_EQ(student_t_quantile(0.025, 4), -student_t_quantile(0.975, 4));
  EXPECT_NEAR(student_t_quantile(0.5, 4), 0, 1e-12);
}

TEST(StudentT, QuantileInvertsTheDistribution) {
  for (int degrees = 1; degrees <= 40; ++degrees) {
    EXPECT_NEAR(student_t_within(student_t_quantile(0.9, degrees), degrees), 0.8, 1e-12) << degrees;
  }
}

TEST(StudentT, OneDegreeIsCauchyAndManyAreNormal) {
  EXPECT_NEAR(student_t_within(1, 1), 0.5, 1e-15);
  EXPECT_NEAR(student_t_quantile(0.975, 100'000), 1.959964, 5e-5);
}

TEST(PredictionInterval, WorkedExample) {
  // 1 2 3 4 5: mean 3, s = sqrt(2.5), t = 2.776445, sqrt(1 + 1/5): 3 ± 4.808944.
  const Interval interval = prediction_interval(std::vector<double>{5, 1, 4, 2, 3});
  EXPECT_NEAR(interval.low, 3 - 4.808944, 1e-5);
  EXPECT_NEAR(interval.high, 3 + 4.808944, 1e-5);
}

// The same for five further values together: t(1 - 0.05 / 10) with 4 degrees = 4.604095: 3 ± 7.974526.
TEST(PredictionInterval, IsWiderForSeveralTogether) {
  const Interval interval = prediction_interval(std::vector<double>{5, 1, 4, 2, 3}, 5);
  EXPECT_NEAR(interval.low, 3 - 7.974526, 1e-5);
  EXPECT_NEAR(interval.high, 3 + 7.974526, 1e-5);
}

// 5,000 cases of five normal launches and five more: all five lie inside in at least 95 % of them, and in less than
// 99 %, so that the bound is not empty either. The seed is fixed: this is arithmetic, not chance.
TEST(PredictionInterval, HoldsAsOftenAsItSays) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> launch(0.9, 0.02);
  int held = 0;
  for (int i = 0; i < 5'000; ++i) {
    std::vector<double> first(5);
    std::vector<double> second(5);
    for (double& value : first) value = launch(random);
    for (double& value : second) value = launch(random);
    const Interval interval = prediction_interval(first, second.size());
    held += std::all_of(second.begin(), second.end(), [&](double value) { return interval.contains(value); }) ? 1 : 0;
  }
  EXPECT_GE(held, 4'750);
  EXPECT_LT(held, 4'950);
}

TEST(PredictionInterval, OfEqualValuesIsAPoint) {
  const Interval interval = prediction_interval(std::vector<double>{2, 2, 2});
  EXPECT_DOUBLE_EQ(interval.low, 2);
  EXPECT_DOUBLE_EQ(interval.width(), 0);
}

TEST(PredictionInterval, NeedsTwoValues) {
  EXPECT_TRUE(std::isnan(prediction_interval({}).width()));
  EXPECT_TRUE(std::isnan(prediction_interval(std::vector<double>{1}).width()));
}

}  // namespace
}  // namespace ovl
