// SPDX-License-Identifier: Apache-2.0
#include "metrics/change.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ovl {
namespace {

ComparedValue of_rounds(double value, double low, double high) {
  return {.value = value, .interval = {low, high}, .basis = Basis::rounds};
}
ComparedValue of_points(double value) { return {.value = value}; }

TEST(Change, WorkedExample) {
  // 100 ± 3 against 120 ± 4: on the logarithmic scale the distances to the near ends are log(120/116) = 0.0339 and
  // log(103/100) = 0.0296, together hypot = 0.0450; to the far ends log(124/120) = 0.0328 and log(100/97) = 0.0305,
  // together 0.0447. log(1.2) = 0.1823, so the ratio lies in [exp(0.1373), exp(0.2270)].
  const Comparison c = compare_ratios(of_rounds(100, 97, 103), of_rounds(120, 116, 124), Better::lower, 0.05);
  EXPECT_DOUBLE_EQ(c.ratio, 1.2);
  EXPECT_NEAR(c.ratio_interval.low, 1.1472, 1e-4);
  EXPECT_NEAR(c.ratio_interval.high, 1.2549, 1e-4);
  EXPECT_EQ(c.change, Change::slower);
  EXPECT_EQ(c.basis, Basis::rounds);
  EXPECT_EQ(c.reason, "intervals are within one launch: how launches differ is not in them");
}

TEST(Change, MoreBandwidthIsFaster) {
  const auto before = of_rounds(100, 97, 103);
  const auto after = of_rounds(120, 116, 124);
  EXPECT_EQ(compare_ratios(before, after, Better::higher, 0.05).change, Change::faster);
  EXPECT_EQ(compare_ratios(after, before, Better::higher, 0.05).change, Change::slower);
}

TEST(Change, SameNeedsTheWholeIntervalInsideTheMargin) {
  const auto before = of_rounds(100, 100, 100);
  EXPECT_EQ(compare_ratios(before, of_rounds(102, 100, 104), Better::lower, 0.05).change, Change::same);
  // A difference that is certain and smaller than the margin is none.
  EXPECT_EQ(compare_ratios(before, of_rounds(102, 101.9, 102.1), Better::lower, 0.05).change, Change::same);
  const Comparison wide = compare_ratios(before, of_rounds(102, 98, 107), Better::lower, 0.05);
  EXPECT_EQ(wide.change, Change::unclear);
  EXPECT_EQ(wide.reason, "the interval lies on both sides of a margin of 5 %");
  EXPECT_EQ(compare_ratios(before, of_rounds(106, 104, 108), Better::lower, 0.05).change, Change::unclear);
}

TEST(Change, TheMarginIsTheSameBothWays) {
  // 1 / 1.05 = 0.952: 0.953 is the same, 0.951 is faster.
  EXPECT_EQ(compare_ratios(of_points(1), of_points(0.953), Better::lower, 0.05).change, Change::same);
  EXPECT_EQ(compare_ratios(of_points(1), of_points(0.951), Better::lower, 0.05).change, Change::faster);
}

TEST(Change, WithoutIntervalsPointsAreComparedAndItIsSaid) {
  const Comparison c = compare_ratios(of_points(1), of_points(2), Better::lower, 0.05);
  EXPECT_EQ(c.change, Change::slower);
  EXPECT_EQ(c.basis, Basis::points);
  EXPECT_TRUE(std::isnan(c.ratio_interval.low));
  EXPECT_EQ(c.reason, "no interval: single numbers are compared");
  const Comparison one = compare_ratios(of_points(1), of_rounds(2, 1.9, 2.1), Better::lower, 0.05);
  EXPECT_EQ(one.basis, Basis::points);
  EXPECT_EQ(one.reason, "only one of the runs has an interval");
}

TEST(Change, FitsThatDifferByLessThanTheyMissTheirPointsAreUnclear) {
  const ComparedValue before{.value = 1, .basis = Basis::fit, .spread = 0.2};
  const ComparedValue near{.value = 1.15, .basis = Basis::fit, .spread = 0.01};
  const ComparedValue far{.value = 1.3, .basis = Basis::fit, .spread = 0.01};
  const Comparison c = compare_ratios(before, near, Better::lower, 0.05);
  EXPECT_EQ(c.change, Change::unclear);
  EXPECT_EQ(c.reason, "half of the points lie more than 20 % off their fit, and the fits differ by less");
  EXPECT_EQ(compare_ratios(before, far, Better::lower, 0.05).change, Change::slower);
}

TEST(Change, WhatIsNeitherBetterNorWorseIsTheSameOrUnclear) {
  EXPECT_EQ(compare_ratios(of_points(1), of_points(1.01), Better::neither, 0.05).change, Change::same);
  const Comparison c = compare_ratios(of_points(1), of_points(3), Better::neither, 0.05);
  EXPECT_EQ(c.change, Change::unclear);
  EXPECT_EQ(c.reason, "not certainly the same, which is neither faster nor slower by itself");
}

TEST(Change, SignedQuantitiesAreComparedByTheirDifference) {
  // A hidden share from 0.90 to 0.35, of a whole of 1.
  const Comparison share =
      compare_differences(of_rounds(0.90, 0.88, 0.92), of_rounds(0.35, 0.30, 0.40), Better::higher, 0.05, 1);
  EXPECT_EQ(share.change, Change::slower);
  // -0.55 with distances hypot(0.05, 0.02) to either side.
  EXPECT_NEAR(share.difference, -0.55, 1e-12);
  EXPECT_NEAR(share.difference_interval.low, -0.55 - std::hypot(0.05, 0.02), 1e-12);
  EXPECT_NEAR(share.difference_interval.high, -0.55 + std::hypot(0.05, 0.02), 1e-12);
  // Exposed time from -1 to 1 ms of a step of 100 ms: within 5 % of the step, and no ratio.
  const Comparison exposed = compare_differences(of_points(-1e-3), of_points(1e-3), Better::lower, 0.05, 0.1);
  EXPECT_EQ(exposed.change, Change::same);
  EXPECT_TRUE(std::isnan(exposed.ratio));
  EXPECT_EQ(compare_differences(of_points(-1e-3), of_points(9e-3), Better::lower, 0.05, 0.1).change, Change::slower);
}

TEST(Change, UnknownIsNeverAVerdict) {
  const double nan = std::nan("");
  for (const Comparison& c : {compare_ratios(of_points(nan), of_points(1), Better::lower, 0.05),
                              compare_differences(of_points(1), of_points(nan), Better::lower, 0.05, 1)}) {
    EXPECT_EQ(c.change, Change::unclear);
    EXPECT_EQ(c.reason, "not known in both runs");
    EXPECT_TRUE(std::isnan(c.ratio));
  }
  EXPECT_EQ(compare_ratios(of_points(0), of_points(1), Better::lower, 0.05).reason,
            "not positive in both runs: no ratio");
  EXPECT_EQ(compare_ratios(of_rounds(1, -1, 3), of_points(1), Better::lower, 0.05).reason,
            "an interval reaches zero: no ratio is certain");
  EXPECT_EQ(compare_differences(of_points(1), of_points(2), Better::lower, 0.05, nan).change, Change::unclear);
}

TEST(ComparedValue, OfLaunchesIsTheirMeanWithStudentsInterval) {
  // 10, 12, 14: mean 12, standard deviation 2, t(0.975, 2) = 4.3027, half-width 4.3027 · 2 / sqrt(3) = 4.968.
  const ComparedValue v = compared_value(std::vector<double>{10, 12, 14});
  EXPECT_DOUBLE_EQ(v.value, 12);
  EXPECT_NEAR(v.interval.low, 12 - 4.968, 1e-3);
  EXPECT_NEAR(v.interval.high, 12 + 4.968, 1e-3);
  EXPECT_EQ(v.basis, Basis::launches);
  EXPECT_EQ(v.launches, 3);
  const auto five = compared_value(std::vector<double>{10, 10.1, 10, 9.9, 10});
  EXPECT_EQ(compare_ratios(v, five, Better::lower, 0.05).reason.substr(0, 12), "the interval");
  EXPECT_EQ(compare_ratios(five, five, Better::lower, 0.05).reason, "");
}

TEST(ComparedValue, OfOneLaunchHasTheIntervalOfItsRounds) {
  EXPECT_EQ(compared_value(std::vector<double>{10}, {9, 11}).basis, Basis::rounds);
  EXPECT_EQ(compared_value(std::vector<double>{10}).basis, Basis::points);
  EXPECT_TRUE(std::isnan(compared_value({}).value));
}

TEST(ComparedValue, FewerThanFiveLaunchesSaySo) {
  const auto three = compared_value(std::vector<double>{10, 10.01, 10.02});
  const Comparison c = compare_ratios(three, three, Better::lower, 0.05);
  EXPECT_EQ(c.change, Change::same);
  EXPECT_EQ(c.reason, "3 launches: a claim between runs needs five");
}

}  // namespace
}  // namespace ovl
