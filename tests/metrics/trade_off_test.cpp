// SPDX-License-Identifier: Apache-2.0
#include "metrics/trade_off.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ovl {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

// Channels 1, 2, 4 and 8: the GEMM takes 1.0, 1.1, 1.5 and 2.0 times as long, the bus carries 10, 18, 20 and 19 GB/s.
// Eight cost more than four and give less. From (1.0, 10) to (1.5, 20) two channels are 0.2 of the way in cost and 0.8
// in gain: 0.6 above the line.
const std::vector<TradeOff> channels{{1.0, 10}, {1.1, 18}, {1.5, 20}, {2.0, 19}};

TEST(TradeOff, TheFrontLeavesOutWhatAnotherSettingBeats) {
  EXPECT_THAT(pareto_front(channels), ElementsAre(0, 1, 2));
  EXPECT_THAT(knee(channels), Optional(std::size_t{1}));
}

TEST(TradeOff, OfEqualSettingsTheFirstStays) {
  const std::vector<TradeOff> equal{{1, 5}, {1, 5}, {1, 7}, {2, 7}};
  EXPECT_THAT(pareto_front(equal), ElementsAre(2)) << "the best of one cost, and nothing dearer that gives no more";
}

TEST(TradeOff, AKneeNeedsABulge) {
  EXPECT_EQ(knee(std::vector<TradeOff>{{1, 10}, {2, 20}}), std::nullopt) << "two settings have no middle";
  EXPECT_EQ(knee(std::vector<TradeOff>{{0, 0}, {1, 1}, {2, 2}}), std::nullopt) << "a straight line";
  EXPECT_EQ(knee(std::vector<TradeOff>{{0, 0}, {1, 0.5}, {2, 2}}), std::nullopt) << "hanging below it";
}

TEST(TradeOff, WhatWasNotMeasuredIsNoSetting) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(pareto_front(std::vector<TradeOff>{{unknown, 5}, {1, unknown}}), IsEmpty());
  EXPECT_THAT(pareto_front({}), IsEmpty());
}

// At 2 GB/s half is still won, at 4 GB/s a quarter is lost: linear in between, nothing is won at 2 + 2 · 0.5 / 0.75.
TEST(BreakEven, IsWhereTheGainFallsToNothing) {
  EXPECT_THAT(break_even({{4, -0.25}, {1, 0.8}, {2, 0.5}}), Optional(testing::DoubleEq(2 + 2 * 0.5 / 0.75)));
  EXPECT_THAT(break_even({{1, 0.5}, {2, 0}}), Optional(2.0));
}

TEST(BreakEven, IsNowhereWhereItAlwaysPaysOrNeverDid) {
  EXPECT_EQ(break_even({{1, 0.8}, {2, 0.5}}), std::nullopt);
  EXPECT_EQ(break_even({{1, -0.1}, {2, 0.5}, {3, -0.5}}), std::nullopt) << "it did not pay to begin with";
  EXPECT_EQ(break_even({{1, 0.5}}), std::nullopt);
  EXPECT_EQ(break_even({{1, 0.5}, {2, std::nan("")}}), std::nullopt);
}

}  // namespace
}  // namespace ovl
