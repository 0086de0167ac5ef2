// SPDX-License-Identifier: Apache-2.0
#include "measure/samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/units.hpp"
#include "program/placement.hpp"
#include "program/projection.hpp"
#include "support/sample_programs.hpp"

namespace ovl {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::IsEmpty;

const LaneId compute_lane(0);
const LaneId comm_lane(1);

RankTiming rank_timing(int rank, double origin, double end, std::vector<LaneTiming> lanes) {
  return {Rank(rank), Seconds(origin), Seconds(end), std::move(lanes)};
}
LaneTiming lane_timing(LaneId lane, double start, double end) { return {lane, Seconds(start), Seconds(end)}; }

// ---- observe -------------------------------------------------------------------------------------------------------

// Rank 0 was released 1 s before rank 1. Its compute lane works from 1 to 5, its comm lane from 2 to 9; those of rank 1
// from 0 to 6 and from 3 to 8. The step is from the last release, 0, to the last end, 9.
TEST(Observe, WorkedExample) {
  Timings timings;
  timings.ranks = {rank_timing(0, -1, 9, {lane_timing(compute_lane, 1, 5), lane_timing(comm_lane, 2, 9)}),
                   rank_timing(1, 0, 8, {lane_timing(compute_lane, 0, 6), lane_timing(comm_lane, 3, 8)})};
  timings.launch_order = "compute_first";
  const Sample s = observe(sample::pair(), timings);

  EXPECT_EQ(s.step, Seconds(9));
  EXPECT_EQ(s.align_skew, Seconds(1));
  EXPECT_EQ(s.launch_order, "compute_first");
  ASSERT_EQ(s.ranks.size(), 2U);
  EXPECT_EQ(s.ranks[0].own, Seconds(10));
  EXPECT_EQ(s.ranks[0].compute_span, Seconds(4));
  EXPECT_EQ(s.ranks[0].comm_span, Seconds(7));
  EXPECT_EQ(s.ranks[1].own, Seconds(8));
  EXPECT_EQ(s.ranks[1].compute_span, Seconds(6));
  EXPECT_EQ(s.ranks[1].comm_span, Seconds(5));
  EXPECT_EQ(widest_span(s, Role::compute), Seconds(6));
  EXPECT_EQ(widest_span(s, Role::communication), Seconds(7));
}

// Rows and columns of a mesh each have a comm lane: from the first start of either to the last end of either.
TEST(Observe, TheSpanOfARoleIsOverAllItsLanes) {
  const Program mesh = sample::mesh();
  Timings timings;
  for (int r = 0; r < 4; ++r) {
    timings.ranks.push_back(rank_timing(
        r, 0, 9, {lane_timing(LaneId(0), 0, 2), lane_timing(LaneId(1), 2, 5), lane_timing(LaneId(2), 5, 9)}));
  }
  EXPECT_EQ(observe(mesh, timings).ranks[3].comm_span, Seconds(7));
}

// Rank 0 streams 8 bytes in 4 s, rank 1 as many in 2 s: 2 and 4 B/s, 6 together. A rank that does not tell leaves the
// whole unknown.
TEST(Observe, APaceIsWhatStreamsMovedWhileTheyRan) {
  Timings timings;
  timings.ranks = {
      rank_timing(0, 0, 4, {{compute_lane, Seconds(0), Seconds(9)}, {comm_lane, Seconds(1), Seconds(5), Bytes(8)}}),
      rank_timing(1, 0, 4, {{comm_lane, Seconds(1), Seconds(3), Bytes(8)}})};
  const Sample s = observe(sample::pair(), timings);
  EXPECT_EQ(s.ranks[0].pace, BytesPerSecond(2));
  EXPECT_EQ(pace(s), BytesPerSecond(6));
  timings.ranks[1].lanes[0].moved.reset();
  EXPECT_TRUE(std::isnan(pace(observe(sample::pair(), timings)).value()));
}

TEST(Observe, AnArmWithoutARoleHasNoSpanOfIt) {
  Timings timings;
  timings.ranks = {rank_timing(0, 0, 4, {lane_timing(compute_lane, 0, 4), {comm_lane}}),
                   rank_timing(1, 0, 4, {lane_timing(compute_lane, 0, 3), {comm_lane}})};
  const Sample s = observe(project(sample::pair(), Arm::compute), timings);
  EXPECT_EQ(s.ranks[0].compute_span, Seconds(4));
  EXPECT_TRUE(std::isnan(s.ranks[0].comm_span.value()));
  EXPECT_TRUE(std::isnan(widest_span(s, Role::communication).value()));
}

// One lane does both: from its first start to its last end says nothing of either role.
TEST(Observe, ALaneOfBothRolesTellsOfNeither) {
  Timings timings;
  timings.ranks = {rank_timing(0, 0, 9, {lane_timing(compute_lane, 0, 9), {comm_lane}})};
  const Sample s = observe(place(sample::pair(), parse_placement("serial")), timings);
  EXPECT_TRUE(std::isnan(s.ranks[0].compute_span.value()));
  EXPECT_TRUE(std::isnan(s.ranks[0].comm_span.value()));
}

// A serial placement's comm arm runs on the lane that is called compute.
TEST(Observe, TheWorkDecidesTheRoleNotTheLane) {
  Timings timings;
  timings.ranks = {rank_timing(0, 0, 9, {lane_timing(compute_lane, 0, 9), {comm_lane}})};
  const Sample s = observe(project(place(sample::pair(), parse_placement("serial")), Arm::comm), timings);
  EXPECT_EQ(s.ranks[0].comm_span, Seconds(9));
  EXPECT_TRUE(std::isnan(s.ranks[0].compute_span.value()));
}

TEST(Observe, AnUnseenStartLeavesTheSpanUnknown) {
  Timings timings;
  timings.ranks = {rank_timing(0, 0, 9, {{compute_lane, unknown_time, Seconds(5)}, lane_timing(comm_lane, 2, 9)})};
  const Sample s = observe(sample::pair(), timings);
  EXPECT_TRUE(std::isnan(s.ranks[0].compute_span.value()));
  EXPECT_EQ(s.ranks[0].comm_span, Seconds(7));
}

TEST(Timings, AStepWithAnUnseenEndIsUnknownWhicheverRankItIs) {
  for (const std::size_t unseen : {0U, 1U}) {
    Timings timings;
    timings.ranks = {rank_timing(0, 0, 1, {}), rank_timing(1, 0, 2, {})};
    timings.ranks[unseen].end = unknown_time;
    EXPECT_TRUE(std::isnan(timings.step().value())) << unseen;
  }
  EXPECT_TRUE(std::isnan(Timings().step().value()));
  EXPECT_TRUE(std::isnan(Timings().align_skew().value()));
}

// ---- judge ---------------------------------------------------------------------------------------------------------

Reading steal(double value) { return {.name = "steal_share", .unit = "1", .value = value, .limit = 0.01}; }
Reading distance(double ns) {
  return {.name = "core_distance", .unit = "s", .value = ns * 1e-9, .limit = 1e-6, .change = 1.5};
}
Reading frequency(double hz) { return {.name = "frequency", .unit = "Hz", .value = hz, .change = 1.1}; }

TEST(Judge, AboveTheLimitAtEitherEndIsNoiseAndAtTheLimitIsNot) {
  EXPECT_THAT(judge({{steal(0.01)}}, {{steal(0.01)}}), IsEmpty());
  EXPECT_THAT(judge({{steal(0.02)}}, {{steal(0)}}), ElementsAre("steal_share 0.02 above 0.01"));
  EXPECT_THAT(judge({{steal(0)}}, {{steal(0.03)}}), ElementsAre("steal_share 0.03 above 0.01"));
}

TEST(Judge, AChangeByMoreThanTheFactorIsNoiseWhicheverWay) {
  EXPECT_THAT(judge({{distance(40)}}, {{distance(60)}}), IsEmpty()) << "exactly the factor";
  EXPECT_THAT(judge({{distance(40)}}, {{distance(175)}}), ElementsAre("core_distance changed from 40 ns to 175 ns"));
  EXPECT_THAT(judge({{distance(175)}}, {{distance(40)}}), ElementsAre("core_distance changed from 175 ns to 40 ns"));
}

TEST(Judge, TellsEveryReason) {
  EXPECT_THAT(judge({{steal(0.5), distance(40), frequency(2e9)}}, {{steal(0), distance(2000), frequency(3e9)}}),
              ElementsAre("steal_share 0.5 above 0.01", "core_distance 2 us above 1 us",
                          "core_distance changed from 40 ns to 2 us", "frequency changed from 2e+09 Hz to 3e+09 Hz"));
}

TEST(Judge, WhatIsUnknownIsNoReason) {
  EXPECT_THAT(judge({{steal(unknown_number), distance(unknown_number)}}, {{steal(0), distance(40)}}), IsEmpty());
  EXPECT_THAT(judge({{steal(0), distance(40)}}, {{steal(unknown_number), distance(unknown_number)}}), IsEmpty());
  EXPECT_THAT(judge({}, {}), IsEmpty());
}

TEST(Judge, AReadingOfOneEndIsHeldToItsLimitAlone) {
  EXPECT_THAT(judge({}, {{steal(0.03), distance(40)}}), ElementsAre("steal_share 0.03 above 0.01"));
}

// ---- judge_all -----------------------------------------------------------------------------------------------------

Block block(int rounds, Conditions both) { return {both, both, rounds, {}}; }

// Two rounds at 40 ns, five at 150: the three blocks cannot be told apart each by itself, but the first is of another
// machine than most rounds.
TEST(JudgeAll, WorkedExample) {
  const auto reasons =
      judge_all({block(2, {{distance(40)}}), block(3, {{distance(150)}}), block(2, {{distance(180)}})});
  EXPECT_THAT(reasons,
              ElementsAre(ElementsAre("core_distance 40 ns, most rounds had 150 ns to 225 ns"), IsEmpty(), IsEmpty()));
}

TEST(JudgeAll, RoundsCountNotBlocks) {
  const auto reasons =
      judge_all({block(5, {{distance(40)}}), block(1, {{distance(150)}}), block(1, {{distance(150)}})});
  EXPECT_THAT(reasons[0], IsEmpty());
  EXPECT_THAT(reasons[1], ElementsAre("core_distance 150 ns, most rounds had 40 ns to 60 ns"));
}

TEST(JudgeAll, OfEqualBandsTheEarliestHolds) {
  const auto reasons = judge_all({block(3, {{distance(150)}}), block(3, {{distance(40)}})});
  EXPECT_THAT(reasons[0], IsEmpty());
  EXPECT_THAT(reasons[1], ElementsAre("core_distance 40 ns, most rounds had 150 ns to 225 ns"));
}

// 40 to 60 holds two blocks and 55 to 82.5 holds three: a band is chosen by what it holds, not by where it starts.
TEST(JudgeAll, OverlappingBandsAreTriedFromEveryBlock) {
  const auto reasons = judge_all(
      {block(1, {{distance(40)}}), block(1, {{distance(55)}}), block(1, {{distance(70)}}), block(1, {{distance(80)}})});
  EXPECT_THAT(reasons, ElementsAre(ElementsAre("core_distance 40 ns, most rounds had 55 ns to 82.5 ns"), IsEmpty(),
                                   IsEmpty(), IsEmpty()));
}

TEST(JudgeAll, SpoiltBlocksDoNotVoteAndKeepTheirOwnReason) {
  const auto reasons = judge_all({block(9, {{steal(0.2), distance(150)}}), block(1, {{steal(0), distance(40)}})});
  EXPECT_THAT(reasons, ElementsAre(ElementsAre("steal_share 0.2 above 0.01",
                                               "core_distance 150 ns, most rounds had 40 ns to 60 ns"),
                                   IsEmpty()));
}

TEST(JudgeAll, EveryReadingHasItsOwnBand) {
  const auto reasons =
      judge_all({block(1, {{distance(40), frequency(2e9)}}), block(1, {{distance(40), frequency(2e9)}}),
                 block(1, {{distance(150), frequency(2e9)}}), block(1, {{distance(40), frequency(3e9)}})});
  EXPECT_THAT(reasons,
              ElementsAre(IsEmpty(), IsEmpty(), ElementsAre("core_distance 150 ns, most rounds had 40 ns to 60 ns"),
                          ElementsAre("frequency 3e+09 Hz, most rounds had 2e+09 Hz to 2.2e+09 Hz")));
}

TEST(JudgeAll, ABlockWithoutAReadingIsNotJudgedByIt) {
  const auto reasons = judge_all(
      {block(1, {}), block(1, {{distance(unknown_number)}}), block(2, {{distance(40)}}), block(1, {{distance(150)}})});
  EXPECT_THAT(reasons, ElementsAre(IsEmpty(), IsEmpty(), IsEmpty(),
                                   ElementsAre("core_distance 150 ns, most rounds had 40 ns to 60 ns")));
}

TEST(JudgeAll, WithoutAnyQuietBlockThereIsNoBand) {
  EXPECT_THAT(judge_all({block(1, {{steal(0.2), distance(40)}}), block(1, {{steal(0.2), distance(150)}})}),
              ElementsAre(ElementsAre("steal_share 0.2 above 0.01"), ElementsAre("steal_share 0.2 above 0.01")));
  EXPECT_THAT(judge_all({}), IsEmpty());
}

TEST(Readings, AreThoseOfBothEndsOfEveryBlockThatAreKnown) {
  const std::vector<Block> blocks{{{{distance(40), steal(0)}}, {{distance(unknown_number)}}, 1, {}},
                                  {{{distance(50)}}, {{distance(60)}}, 1, {}}};
  EXPECT_THAT(readings(blocks, "core_distance"), ElementsAre(DoubleEq(40e-9), DoubleEq(50e-9), DoubleEq(60e-9)));
  EXPECT_THAT(readings(blocks, "steal_share"), ElementsAre(0));
  EXPECT_THAT(readings(blocks, "temperature"), IsEmpty());
}

}  // namespace
}  // namespace ovl
