// SPDX-License-Identifier: Apache-2.0
#include "measure/contention.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "backend/model/model.hpp"
#include "backend/model/rates.hpp"
#include "measure/clock.hpp"
#include "measure/rows.hpp"
#include "measure/runner.hpp"
#include "results/schema.hpp"
#include "support/rows.hpp"
#include "support/scripted.hpp"

namespace ovl {
namespace {

using test::real;
using testing::HasSubstr;

// In virtual time everything is an equality: 100 units of 1 TFLOP/s each, memory of 1 TB/s.
model::Rates contention_machine() {
  model::Rates rates;
  rates.name = "made-up";
  rates.units = 100;
  rates.gemm[DType::f32] = FlopsPerSecond(100e12);
  rates.memory = BytesPerSecond(1e12);
  return rates;
}

struct MeasuredContention {
  CaseSpec spec;
  CaseResult result;
  Row row;
};

CaseSpec spec_of(const ContentionSpec& contention, Role victim, int units) {
  CaseSpec spec;
  spec.name = spec.key = "contention";
  spec.placement_name = "concurrent";
  spec.build = [contention](const Tuning& tuning) {
    ContentionSpec tuned = contention;
    tuned.compute_repeat = tuning.gemm_repeat;
    tuned.comm_repeat = tuning.comm_repeat;
    return contention_program(tuned);
  };
  ask_who_slows_whom(spec, {.contention = contention, .victim = victim, .units = units});
  return spec;
}

const Schema& contention_schema() {
  static const Schema all = summary_schema(contention_columns());
  return all;
}

MeasuredContention measure(const ContentionSpec& contention, Role victim = Role::compute,
                           model::Rates rates = contention_machine(), Launch launch = Launch::gated) {
  const auto backend = open_model(std::move(rates), contention.ranks);
  test::ScriptedClock clock;
  const std::atomic<bool> interrupted{false};
  MeasureOptions options;
  options.window = milliseconds(10);
  options.launch = launch;
  Runner runner(*backend, clock, options, interrupted);
  CaseSpec spec = spec_of(contention, victim, 100);
  CaseResult result = runner.run(spec);
  Row row =
      summary_row(contention_schema(), spec, result, {.bench = "contention", .source = "model", .backend = "model"});
  return {std::move(spec), std::move(result), std::move(row)};
}

ContentionSpec beside(std::string_view compute, std::string_view comm) {
  return {.ranks = 1, .compute = parse_load(compute), .comm = parse_load(comm)};
}

// Both want all of the memory: each has half of it, so each takes twice as long, and together is as good as in turn.
TEST(ContentionCase, TwoThatWantTheWholeMemorySlowEachOtherTwofold) {
  const MeasuredContention m = measure(beside("copy:1GiB", "stream:max@1GiB"));
  ASSERT_TRUE(m.result.has_numbers()) << m.result.reason;
  EXPECT_DOUBLE_EQ(real(m.row, "victim_slowdown"), 2);
  EXPECT_DOUBLE_EQ(real(m.row, "victim_slowdown_low"), 2);
  EXPECT_DOUBLE_EQ(real(m.row, "aggressor_slowdown"), 2);
  EXPECT_NEAR(real(m.row, "overlap_gain"), 0, 1e-9);
  EXPECT_NEAR(real(m.row, "hidden_share"), 0, 1e-9);
  EXPECT_EQ(real(m.row, "victim_coverage"), 1);
  EXPECT_EQ(real(m.row, "aggressor_coverage"), 1);
  EXPECT_NEAR(real(m.row, "pace_alone"), 1e12, 1e6);
  EXPECT_NEAR(real(m.row, "pace_loaded"), 0.5e12, 1e6);
  EXPECT_EQ(std::get<std::string>(m.row.at("slowdown_source")), "covered");
  EXPECT_THAT(std::get<std::string>(m.row.at("verdict")), HasSubstr("the victim takes 2.00x as long [2.00, 2.00]"));
}

TEST(ContentionCase, AStreamThatLeavesEnoughSlowsNobody) {
  model::Rates rates = contention_machine();
  rates.units = 0;
  const MeasuredContention m = measure(beside("gemm:2560x1280x12800", "stream:10GB/s@1GiB"), Role::compute, rates);
  ASSERT_TRUE(m.result.has_numbers()) << m.result.reason;
  EXPECT_DOUBLE_EQ(real(m.row, "victim_slowdown"), 1);
  EXPECT_DOUBLE_EQ(real(m.row, "aggressor_slowdown"), 1);
  EXPECT_EQ(real(m.row, "pace_asked"), 10e9);
  EXPECT_NEAR(real(m.row, "pace_loaded"), 10e9, 1e4);
  EXPECT_NEAR(real(m.row, "overlap_gain"), 1, 1e-9);
}

// The stream's one unit is one that a GEMM of 100 tiles needs for its only wave.
TEST(ContentionCase, LosingOneUnitCanDoubleAGemmOfOneWave) {
  const MeasuredContention m = measure(beside("gemm:2560x1280x12800", "stream:10GB/s@1GiB"));
  EXPECT_DOUBLE_EQ(real(m.row, "victim_slowdown"), 2);
}

// 50 of 100 units are held: a GEMM of 100 tiles runs in two waves instead of one, which is what the share model says.
TEST(ContentionCase, WhatOnlyHoldsHasNoSlowdownOfItsOwn) {
  model::Rates rates = contention_machine();
  rates.memory = BytesPerSecond(1e15);
  const MeasuredContention m = measure(beside("gemm:2560x1280x1280", "occupy:50"), Role::compute, rates);
  ASSERT_TRUE(m.result.has_numbers()) << m.result.reason;
  EXPECT_NEAR(real(m.row, "victim_slowdown"), 2, 1e-9);
  EXPECT_EQ(real(m.row, "share_model"), 2);
  EXPECT_EQ(std::get<std::int64_t>(m.row.at("gemm_waves")), 1);
  for (const char* column : {"aggressor_slowdown", "aggressor_coverage", "overlap_gain", "pace_alone"}) {
    EXPECT_EQ(m.row.at(column), Value()) << column;
  }
}

// A collective is on the communication lane: as the victim it is covered by what computes.
TEST(ContentionCase, ACollectiveCanBeTheVictim) {
  model::Rates rates = contention_machine();
  rates.units = 0;
  rates.collectives.push_back({CollectiveKind::all_reduce, 2, std::nullopt, {}, 0});
  rates.collectives.back().cost.segments = {{0, {100e-6, 1e-11}}};
  ContentionSpec contention = beside("copy:1GiB", "all_reduce:16MiB");
  contention.ranks = 2;
  const MeasuredContention m = measure(contention, Role::communication, rates);
  ASSERT_TRUE(m.result.has_numbers()) << m.result.reason;
  EXPECT_EQ(real(m.row, "victim_slowdown"), real(m.row, "comm_slowdown"));
  EXPECT_EQ(real(m.row, "aggressor_slowdown"), real(m.row, "compute_slowdown"));
  EXPECT_GT(real(m.row, "victim_slowdown"), 1);
  EXPECT_GT(real(m.row, "bus_bandwidth"), real(m.row, "bus_bandwidth_loaded"));
}

TEST(ContentionCase, BothSidesFillAboutOneWindow) {
  const MeasuredContention m = measure(beside("copy:1GiB", "stream:max@64MiB"));
  // 1 GiB read and written takes 1.07 ms, 64 MiB a sixteenth of that.
  EXPECT_EQ(std::get<std::int64_t>(m.row.at("compute_repeat")), 9);
  EXPECT_EQ(std::get<std::int64_t>(m.row.at("comm_repeat")), 149);
  EXPECT_NEAR(real(m.row, "t_compute"), 0.01, 0.001);
}

TEST(ContentionCase, APaceThatTheMachineDoesNotReachIsNoIntensity) {
  const MeasuredContention m = measure(beside("gemm:2560x1280x1280", "stream:5000GB/s@1GiB"));
  EXPECT_EQ(m.result.status, Status::unsupported);
  EXPECT_EQ(m.result.reason,
            "a stream at 5e+03 GB/s: here it reaches 1e+03 GB/s alone; ask for less, for stream:max, or for more "
            "--workers");
}

// A pass reads 2 arrays of half a GiB and writes one: 1.5 GiB of 1 TB/s' worth in 1.61 ms. Beside a stream at 0.5 TB/s
// 1.5 TB/s are wanted of 1 TB/s: the model says 1.5 for both.
TEST(ContentionCase, TheBandwidthModelIsWhatIsWantedOfWhatThereIs) {
  const MeasuredContention m = measure(beside("elementwise:1GiB", "stream:500GB/s@1GiB"));
  ASSERT_TRUE(m.result.has_numbers()) << m.result.reason;
  EXPECT_NEAR(real(m.row, "memory_bandwidth"), 1e12, 1e7);
  EXPECT_NEAR(real(m.row, "bandwidth_model"), 1.5, 1e-4);
  EXPECT_EQ(m.row.at("share_model"), Value());
}

// The host hands over each operation in 2 us, and 500 more take 1 ms more. What is handed over before the clock starts
// costs the step nothing.
TEST(ContentionCase, LaunchCostIsWhatOneOperationMoreCosts) {
  model::Rates rates = contention_machine();
  rates.launch = microseconds(2);
  const MeasuredContention live = measure(beside("copy:1GiB", "stream:max@1GiB"), Role::compute, rates, Launch::live);
  ASSERT_TRUE(live.result.has_numbers()) << live.result.reason;
  EXPECT_NEAR(real(live.row, "launch_cost"), 2e-6, 1e-12);
  EXPECT_NEAR(real(live.row, "launch_cost_low"), 2e-6, 1e-12);
  EXPECT_NEAR(real(live.row, "launch_cost_high"), 2e-6, 1e-12);
  const MeasuredContention gated = measure(beside("copy:1GiB", "stream:max@1GiB"), Role::compute, rates);
  EXPECT_NEAR(real(gated.row, "launch_cost"), 0, 1e-12);
}

TEST(ContentionCase, WhereNotBothWalkThroughArraysThereIsNoBandwidthModel) {
  for (const char* victim : {"gemm:2560x1280x12800", "copy:1GiB"}) {
    const MeasuredContention m = measure(beside(victim, victim[0] == 'g' ? "stream:10GB/s@1GiB" : "occupy:50"));
    ASSERT_TRUE(m.result.has_numbers()) << m.result.reason;
    EXPECT_EQ(m.row.at("bandwidth_model"), Value()) << victim;
    EXPECT_EQ(m.row.at("memory_bandwidth"), Value()) << victim;
  }
}

TEST(ContentionCase, WhatTheStepLostIsToldTermByTerm) {
  const MeasuredContention m = measure(beside("copy:1GiB", "stream:max@1GiB"));
  // Both begin together and slow each other twofold: 10 ms of each take 20 ms, all of it the critical side's.
  const double lost = real(m.row, "lost");
  EXPECT_NEAR(lost, real(m.row, "t_step") - real(m.row, "t_ideal"), 1e-12);
  EXPECT_NEAR(real(m.row, "lost_compute_slowdown") + real(m.row, "lost_comm_slowdown"), lost, 1e-6);
  EXPECT_NEAR(real(m.row, "lost_remainder"), 0, 1e-6);
  EXPECT_NEAR(real(m.row, "lost_start_delay"), 0, 1e-12);
  EXPECT_NEAR(real(m.row, "lost_waiting"), 0, 1e-12);
  EXPECT_EQ(m.row.at("lost_clock_drop"), Value()) << "no instrument";
}

// In virtual time every round is the same: the interval of each term is a point, and the points are the terms.
TEST(ContentionCase, EachTermHasTheIntervalOfItsRounds) {
  const MeasuredContention m = measure(beside("copy:1GiB", "stream:max@1GiB"));
  for (const std::string term : {"lost", "lost_dependencies", "lost_compute_slowdown", "lost_comm_slowdown",
                                 "lost_start_delay", "lost_waiting", "lost_remainder"}) {
    EXPECT_NEAR(real(m.row, term + "_low"), real(m.row, term), 1e-12) << term;
    EXPECT_NEAR(real(m.row, term + "_high"), real(m.row, term), 1e-12) << term;
  }
}

// Twenty rounds of 10 ms each side: in half of them the step takes 14 ms, in the other half 16 ms. What is lost is in
// between 4 and 6 ms, and what did not vary does not: the victim covered always took 13 ms, s = 1.3.
TEST(ContentionCase, ATermIsAsUncertainAsWhatItIsMadeOf) {
  CaseSpec spec = spec_of(beside("copy:1GiB", "occupy:1"), Role::compute, 100);
  std::vector<Sample> samples;
  const auto add = [&](int round, std::string_view arm, double ms, double compute, double comm) {
    Sample s;
    s.round = round;
    s.arm = arm;
    s.step = milliseconds(ms);
    s.ranks = {{Rank(0), milliseconds(ms), milliseconds(compute), milliseconds(comm), Seconds(0), Seconds(0)}};
    samples.push_back(std::move(s));
  };
  for (int round = 0; round < 20; ++round) {
    const double step = round % 4 < 2 ? 14 : 16;
    add(round, "compute", 10, 10, std::nan(""));
    add(round, "comm", 10, std::nan(""), 10);
    add(round, "compute_loaded", 13, 13, 13);
    add(round, "overlapped", step, step, 10);
  }
  const auto term = [&](const std::string& column) {
    for (const OwnEstimate& own : spec.estimates) {
      if (own.column == column) return estimate(samples, own.statistic, 1);
    }
    ADD_FAILURE() << column;
    return Estimate{};
  };
  const Estimate lost = term("lost");
  EXPECT_NEAR(lost.value, 5e-3, 1e-12);
  EXPECT_NEAR(lost.interval.low, 4e-3, 0.1e-3);
  EXPECT_NEAR(lost.interval.high, 6e-3, 0.1e-3);
  const Estimate slowed = term("lost_compute_slowdown");
  EXPECT_NEAR(slowed.value, 10e-3 * (1 - 1 / 1.3), 1e-12) << "both ran for 10 ms";
  EXPECT_NEAR(slowed.interval.width(), 0, 1e-12);
  EXPECT_NEAR(term("lost_remainder").interval.width(), lost.interval.width(), 1e-9);
}

// Compute decides. Alone its three ranks begin after 1, 2 and 3 us, beside the other side after 1, 7 and 12 us: the
// middle one 5 us later, and the last one, which was 1 us behind the middle, 5 us: 4 more. Nothing else slows.
TEST(ContentionCase, ALateStartAndALateRankAreTermsOfTheirOwn) {
  CaseSpec spec = spec_of(beside("copy:1GiB", "occupy:1"), Role::compute, 100);
  std::vector<Sample> samples;
  const auto add = [&](std::string_view arm, double us, const std::vector<double>& starts, double compute) {
    Sample s;
    s.arm = arm;
    s.step = Seconds(us * 1e-6);
    for (std::size_t r = 0; r < starts.size(); ++r) {
      s.ranks.push_back({Rank(static_cast<int>(r)), s.step, Seconds(compute * 1e-6), Seconds(5e-6),
                         Seconds(starts[r] * 1e-6), Seconds(0)});
    }
    samples.push_back(std::move(s));
  };
  add("compute", 103, {1, 2, 3}, 100);
  add("comm", 5, {0, 0, 0}, std::nan(""));
  add("compute_loaded", 103, {1, 2, 3}, 100);
  add("overlapped", 112, {1, 7, 12}, 100);
  const auto term = [&](const std::string& column) {
    for (const OwnEstimate& own : spec.estimates) {
      if (own.column == column) return estimate(samples, own.statistic, 1).value;
    }
    ADD_FAILURE() << column;
    return std::nan("");
  };
  EXPECT_NEAR(term("lost"), 9e-6, 1e-15);
  EXPECT_NEAR(term("lost_start_delay"), 5e-6, 1e-15);
  EXPECT_NEAR(term("lost_waiting"), 4e-6, 1e-15);
  EXPECT_NEAR(term("lost_remainder"), 0, 1e-15);
}

}  // namespace
}  // namespace ovl
