// SPDX-License-Identifier: Apache-2.0
#include "metrics/periods.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.hpp"

namespace ovl {
namespace {

PeriodSet set(std::vector<std::pair<double, double>> ends) {
  std::vector<Period> periods;
  for (const auto& [begin, end] : ends) periods.push_back({Seconds(begin), Seconds(end)});
  return PeriodSet(std::move(periods));
}

// Communication runs from 2 to 6 and from 8 to 10, compute from 0 to 5 and from 9 to 12:
//
//   compute  #####----###   0..5, 9..12
//   comm     --####--##--   2..6, 8..10
TEST(Intervals, WorkedExample) {
  const PeriodSet compute = set({{0, 5}, {9, 12}});
  const PeriodSet comm = set({{2, 6}, {8, 10}});
  EXPECT_EQ(unite(compute, comm), set({{0, 6}, {8, 12}}));
  EXPECT_EQ(intersect(compute, comm), set({{2, 5}, {9, 10}}));
  EXPECT_EQ(subtract(comm, compute), set({{5, 6}, {8, 9}}));
  EXPECT_EQ(subtract(compute, comm), set({{0, 2}, {10, 12}}));
  EXPECT_EQ(comm.length(), Seconds(6));
  EXPECT_EQ(subtract(comm, compute).length(), Seconds(2));
}

TEST(Intervals, NormalFormJoinsWhatOverlapsOrTouches) {
  EXPECT_EQ(set({{4, 5}, {0, 2}, {2, 3}, {1, 1.5}}), set({{0, 3}, {4, 5}}));
  EXPECT_EQ(set({{0, 3}, {4, 5}}).periods().size(), 2U);
}

TEST(Intervals, AnEmptyIntervalVanishes) {
  EXPECT_EQ(set({{1, 1}, {3, 2}}), PeriodSet{});
  EXPECT_EQ(PeriodSet{}.length(), Seconds(0));
}

TEST(Intervals, OneHoleMayCoverSeveralAndOneMayHaveSeveral) {
  EXPECT_EQ(subtract(set({{0, 2}, {3, 5}, {6, 8}}), set({{1, 7}})), set({{0, 1}, {7, 8}}));
  EXPECT_EQ(subtract(set({{0, 10}}), set({{1, 2}, {4, 5}, {9, 12}})), set({{0, 1}, {2, 4}, {5, 9}}));
  EXPECT_EQ(subtract(set({{0, 1}}), set({{0, 1}})), PeriodSet{});
}

TEST(Intervals, TouchingSetsShareNothing) { EXPECT_EQ(intersect(set({{0, 1}}), set({{1, 2}})), PeriodSet{}); }

TEST(Intervals, TimesBeforeTheOriginAreTimes) {
  EXPECT_EQ(subtract(set({{-3, 1}}), set({{-2, -1}})), set({{-3, -2}, {-1, 1}}));
}

TEST(Intervals, RefusesAnUnknownTime) {
  EXPECT_THROW(PeriodSet({{Seconds(0), unknown_time}}), std::logic_error);
  EXPECT_THROW(PeriodSet({{unknown_time, Seconds(0)}}), std::logic_error);
}

// Against the definition, moment by moment, on a grid.
TEST(Intervals, AgreeWithMembershipOnRandomSets) {
  constexpr int moments = 30;
  Random random(4);
  const auto draw = [&] {
    std::vector<std::pair<double, double>> ends(random.below(6));
    for (auto& [begin, end] : ends) {
      begin = static_cast<double>(random.below(moments));
      end = begin + static_cast<double>(random.below(8));
    }
    return set(ends);
  };
  const auto contains = [](const PeriodSet& s, double moment) {
    for (const Period& i : s.periods()) {
      if (i.begin.value() <= moment && moment < i.end.value()) return true;
    }
    return false;
  };
  for (int trial = 0; trial < 2000; ++trial) {
    const PeriodSet a = draw();
    const PeriodSet b = draw();
    for (double t = 0.5; t < moments + 10; ++t) {
      ASSERT_EQ(contains(unite(a, b), t), contains(a, t) || contains(b, t));
      ASSERT_EQ(contains(intersect(a, b), t), contains(a, t) && contains(b, t));
      ASSERT_EQ(contains(subtract(a, b), t), contains(a, t) && !contains(b, t));
    }
    ASSERT_EQ(subtract(a, b).length() + intersect(a, b).length(), a.length());
  }
}

}  // namespace
}  // namespace ovl
