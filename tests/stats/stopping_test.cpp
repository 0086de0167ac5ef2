// SPDX-License-Identifier: Apache-2.0
#include "stats/stopping.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace ovl {
namespace {

constexpr StopRule rule{.precision = 0.02, .min_rounds = 20, .max_rounds = 100, .max_time = Seconds(30)};
constexpr Interval narrow{0.70, 0.71};
constexpr Interval wide{0.60, 0.80};

TEST(StopRule, GoesOnWhileTheIntervalIsWide) {
  EXPECT_EQ(decide(rule, 50, Seconds(10), wide), Stop::go_on);
  EXPECT_EQ(decide(rule, 0, Seconds(0), Interval{}), Stop::go_on);
}

TEST(StopRule, StopsWhenTheIntervalIsNarrow) { EXPECT_EQ(decide(rule, 20, Seconds(10), narrow), Stop::precision); }

TEST(StopRule, DoesNotTrustANarrowIntervalOfFewRounds) {
  EXPECT_EQ(decide(rule, 19, Seconds(10), narrow), Stop::go_on);
}

TEST(StopRule, StopsAtEitherLimit) {
  EXPECT_EQ(decide(rule, 100, Seconds(10), wide), Stop::max_samples);
  EXPECT_EQ(decide(rule, 50, Seconds(30), wide), Stop::max_time);
  EXPECT_EQ(decide(rule, 3, Seconds(31), wide), Stop::max_time);  // below min_rounds too
}

TEST(StopRule, NamesThePrecisionWhenALimitIsReachedAtOnce) {
  EXPECT_EQ(decide(rule, 100, Seconds(31), narrow), Stop::precision);
  EXPECT_EQ(decide(rule, 100, Seconds(31), wide), Stop::max_samples);
}

TEST(StopRule, AWidthEqualToThePrecisionIsNotNarrower) {
  const StopRule quarter{.precision = 0.25, .min_rounds = 20, .max_rounds = 100, .max_time = Seconds(30)};
  EXPECT_EQ(decide(quarter, 50, Seconds(1), {0.25, 0.5}), Stop::go_on);
}

TEST(StopRule, AnUnknownIntervalNeverStopsByPrecision) {
  EXPECT_EQ(decide(rule, 99, Seconds(1), Interval{}), Stop::go_on);
  EXPECT_EQ(decide(rule, 100, Seconds(1), Interval{}), Stop::max_samples);
}

TEST(Stop, IsNamedAsInTheTable) {
  EXPECT_EQ(name(Stop::precision), "precision");
  EXPECT_EQ(name(Stop::max_samples), "max_samples");
  EXPECT_EQ(name(Stop::max_time), "max_time");
}

TEST(Steady, WorkedExample) {
  // Medians 100 and 104: 4 % apart, so steady at 5 % and not at 3 %.
  const std::vector<double> times{100, 99, 101, 100, 100, 104, 103, 105, 104, 104};
  EXPECT_TRUE(steady(times));
  EXPECT_FALSE(steady(times, 0.03));
}

TEST(Steady, SeesADriftEitherWay) {
  EXPECT_FALSE(steady(std::vector<double>{180, 160, 140, 130, 120, 110, 105, 103, 101, 100}));
  EXPECT_FALSE(steady(std::vector<double>{100, 101, 103, 105, 110, 120, 130, 140, 160, 180}));
}

TEST(Steady, IsNotFooledByOneDescheduledRound) {
  EXPECT_TRUE(steady(std::vector<double>{100, 100, 100, 100, 100, 100, 100, 7000, 100, 100}));
}

TEST(Steady, LeavesOutAnOddOldestValue) {
  EXPECT_TRUE(steady(std::vector<double>{9e9, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100}));
}

TEST(Steady, NeedsTenValues) {
  EXPECT_FALSE(steady({}));
  EXPECT_FALSE(steady(std::vector<double>(9, 100)));
  EXPECT_TRUE(steady(std::vector<double>(10, 100)));
}

}  // namespace
}  // namespace ovl
