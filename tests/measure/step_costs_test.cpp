// SPDX-License-Identifier: Apache-2.0
#include "measure/step_costs.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace ovl {
namespace {

constexpr LaneId compute{0};
constexpr LaneId comm{1};

// A step of two gradients, their two reductions and an optimizer, `steps` times. Operations of a step: 0 and 1 compute
// gradients, 2 and 3 reduce them, 4 updates; ids go on from step to step.
Program program(int steps = 1, int ranks = 1) {
  Program p;
  p.ranks = ranks;
  p.lanes = {{.name = "compute", .role = Role::compute}, {.name = "comm", .role = Role::communication}};
  RankClass c;
  for (int r = 0; r < ranks; ++r) c.members.push_back(Rank(r));
  for (int s = 0; s < steps; ++s) {
    c.body.push_back({OpId(5 * s), compute, Role::compute, Gemm{}, {}, {}});
    c.body.push_back({OpId(5 * s + 2), comm, Role::communication, Collective{}, {}, {}});
    c.body.push_back({OpId(5 * s + 1), compute, Role::compute, Gemm{}, {}, {}});
    c.body.push_back({OpId(5 * s + 3), comm, Role::communication, Collective{}, {}, {}});
    c.body.push_back({OpId(5 * s + 4), compute, Role::compute, Elementwise{}, {}, {}});
  }
  p.classes = {c};
  return p;
}

OperationTiming timing(int op, LaneId lane, double ready, double start, double end, Rank rank = Rank(0)) {
  return {.rank = rank,
          .op = OpId(op),
          .lane = lane,
          .ready = Seconds(ready),
          .start = Seconds(start),
          .end = Seconds(end)};
}

// On a clock of seconds, from `at` on:
//   compute  0 ─ 4 gradient 0, 5 ─ 9 gradient 1 (ready at 4: a gap of 1), 16 ─ 17 optimizer (ready at 15)
//   comm         4.5 ─ 7 reduction 0 (ready at 4), 9.5 ─ 15 reduction 1 (ready at 9)
std::vector<OperationTiming> step(double at = 0, int first = 0, Rank rank = Rank(0)) {
  return {timing(first + 0, compute, at, at, at + 4, rank), timing(first + 1, compute, at + 4, at + 5, at + 9, rank),
          timing(first + 2, comm, at + 4, at + 4.5, at + 7, rank),
          timing(first + 3, comm, at + 9, at + 9.5, at + 15, rank),
          timing(first + 4, compute, at + 15, at + 16, at + 17, rank)};
}

TEST(StepCosts, WorkedExample) {
  const StepCosts costs = step_costs(program(), {.operations = step()}, 1);
  // Alone are 4.5 to 5, between two GEMMs, and 9.5 to 15.
  EXPECT_DOUBLE_EQ(costs.exposed.value(), 6);
  EXPECT_DOUBLE_EQ(costs.tail.value(), 6) << "from 9, where the last gradient is there, to 15";
  EXPECT_DOUBLE_EQ(costs.launch.value(), 1) << "half a second each";
  EXPECT_DOUBLE_EQ(costs.event_wait.value(), 6) << "the optimizer, from 9 to 15";
  EXPECT_DOUBLE_EQ(costs.gap.value(), 2) << "before the second GEMM and before the optimizer";
  EXPECT_TRUE(std::isnan(costs.rank_spread.value())) << "one rank";
}

// Two steps in one window, the second like the first: per step the same, but for the first operation of the second,
// which begins 3 after the optimizer has ended, ready all the time.
TEST(StepCosts, ArePerStepOfAWindow) {
  std::vector<OperationTiming> both = step();
  for (OperationTiming t : step(20, 5)) {
    if (t.op == OpId(5)) t.ready = Seconds(17);
    both.push_back(t);
  }
  const StepCosts costs = step_costs(program(2), {.operations = both}, 2);
  EXPECT_DOUBLE_EQ(costs.exposed.value(), 6);
  EXPECT_DOUBLE_EQ(costs.tail.value(), 6);
  EXPECT_DOUBLE_EQ(costs.launch.value(), 1);
  EXPECT_DOUBLE_EQ(costs.event_wait.value(), 6);
  EXPECT_DOUBLE_EQ(costs.gap.value(), (2 + 3 + 2) / 2.0);
}

// The second rank is a second later everywhere, and its last reduction ends 2 later still.
TEST(StepCosts, AreOfTheWorstRankAndSayHowFarRanksAreApart) {
  std::vector<OperationTiming> both = step();
  for (OperationTiming t : step(1, 0, Rank(1))) {
    if (t.op == OpId(3)) t.end += Seconds(2);
    both.push_back(t);
  }
  const StepCosts costs = step_costs(program(1, 2), {.operations = both}, 1);
  EXPECT_DOUBLE_EQ(costs.tail.value(), 8);
  EXPECT_DOUBLE_EQ(costs.rank_spread.value(), 1);
}

TEST(StepCosts, OfAStartThatWasNotSeenAreUnknown) {
  std::vector<OperationTiming> blind = step();
  blind[3].start = unknown_time;
  const StepCosts costs = step_costs(program(), {.operations = blind}, 1);
  EXPECT_TRUE(std::isnan(costs.exposed.value()));
  EXPECT_TRUE(std::isnan(costs.launch.value()));
  EXPECT_DOUBLE_EQ(costs.tail.value(), 6) << "which takes ends alone";
  blind.pop_back();
  EXPECT_TRUE(std::isnan(step_costs(program(), {.operations = blind}, 1).tail.value())) << "an operation is missing";
  EXPECT_TRUE(std::isnan(step_costs(program(), {}, 1).tail.value())) << "nothing was recorded";
}

TEST(StepCosts, EstimateIsTheMedianWithAnIntervalFromSixReplaysOn) {
  std::vector<StepCosts> replays;
  for (int i = 0; i < 7; ++i) replays.push_back({.exposed = Seconds(i), .tail = Seconds(10 + i)});
  const StepCostEstimates e = estimate(replays);
  EXPECT_DOUBLE_EQ(e.medians.tail.value(), 13);
  EXPECT_DOUBLE_EQ(e.tail.low, 10);
  EXPECT_DOUBLE_EQ(e.tail.high, 16);
  EXPECT_TRUE(std::isnan(e.medians.launch.value()));
  replays.resize(5);
  EXPECT_TRUE(std::isnan(estimate(replays).tail.low));
  EXPECT_TRUE(std::isnan(estimate({}).medians.tail.value()));
}

}  // namespace
}  // namespace ovl
