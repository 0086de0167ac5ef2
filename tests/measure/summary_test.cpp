// SPDX-License-Identifier: Apache-2.0
#include "measure/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "program/builder.hpp"
#include "program/placement.hpp"
#include "support/sample_programs.hpp"

namespace ovl {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint64_t seed = 7;

// A sample of one rank with both spans as long as the step.
Sample sample_of(int round, Arm arm, double step) {
  Sample s;
  s.round = round;
  s.arm = name(arm);
  s.step = Seconds(step);
  s.align_skew = Seconds(0.25);
  s.launch_order = "compute_first";
  const bool computes = arm == Arm::compute || arm == Arm::overlapped;
  const bool communicates = arm == Arm::comm || arm == Arm::overlapped;
  s.ranks = {{Rank(0), s.step, computes ? s.step : unknown_time, communicates ? s.step : unknown_time}};
  return s;
}

// Steps of all arms, as a round of --interleave sample has them.
std::vector<Sample> round_of(int round, double empty, double compute, double comm, double serial, double step) {
  return {sample_of(round, Arm::empty, empty), sample_of(round, Arm::compute, compute),
          sample_of(round, Arm::comm, comm), sample_of(round, Arm::serial, serial),
          sample_of(round, Arm::overlapped, step)};
}

std::vector<Sample> operator+(std::vector<Sample> a, const std::vector<Sample>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void set_spans(Sample& s, double compute, double comm) {
  s.ranks[0].compute_span = Seconds(compute);
  s.ranks[0].comm_span = Seconds(comm);
}

// ---- the numbers of a row ------------------------------------------------------------------------------------------

// Three rounds, whose medians are empty 1, compute 10, comm 4, serial 15 and overlapped 11.
std::vector<Sample> three_rounds() {
  return round_of(0, 1, 9, 4, 15, 11) + round_of(4, 2, 10, 5, 14, 12) + round_of(7, 1, 12, 3, 18, 10);
}

TEST(Summarise, WorkedExample) {
  const Summary s = summarise(sample::pair(), {}, three_rounds(), seed);
  EXPECT_EQ(s.rounds, 3);
  EXPECT_DOUBLE_EQ(s.t_empty.value, 1);
  EXPECT_DOUBLE_EQ(s.t_compute.value, 10);
  EXPECT_DOUBLE_EQ(s.t_comm.value, 4);
  EXPECT_DOUBLE_EQ(s.t_serial.value, 15);
  EXPECT_DOUBLE_EQ(s.t_step.value, 11);
  EXPECT_DOUBLE_EQ(s.t_exposed.value, 1);           // 11 - 10
  EXPECT_DOUBLE_EQ(s.hidden_share.value, 3.0 / 4);  // 10 + 4 - 11 of the shorter part, 4
  EXPECT_DOUBLE_EQ(s.speedup.value, 14.0 / 11);
  EXPECT_DOUBLE_EQ(s.overlap.t_ideal.value(), 10);
  EXPECT_DOUBLE_EQ(s.overlap.speedup_bound, 1.4);
  EXPECT_DOUBLE_EQ(s.overlap.t_overlap.value(), 3);
  EXPECT_DOUBLE_EQ(s.overlap.hidden_fraction, 0.75);
  EXPECT_DOUBLE_EQ(s.overlap.speedup_measured, 15.0 / 11);
  EXPECT_DOUBLE_EQ(s.overlap.serial_gap.value(), 1);
  EXPECT_DOUBLE_EQ(s.compute_stretch, 1.1);    // spans are the steps here: 11 / 10
  EXPECT_DOUBLE_EQ(s.comm_stretch, 11.0 / 4);  // and 11 / 4
  EXPECT_DOUBLE_EQ(s.align_skew.value(), 0.25);
  EXPECT_EQ(s.launch_order, "compute_first");
  EXPECT_TRUE(std::isnan(s.t_path.value()));
  EXPECT_TRUE(std::isnan(s.observer_ratio));
}

TEST(Summarise, TimesArePerOperationOfTheWindowButTheEmptyArmIsPerWindow) {
  std::vector<Sample> twice = three_rounds();  // six make an interval
  for (Sample s : three_rounds()) {
    s.round += 10;
    twice.push_back(std::move(s));
  }
  const Summary one = summarise(sample::pair(), {}, twice, seed);
  const Summary s = summarise(sample::pair(), {.repeats = 4}, twice, seed);
  EXPECT_DOUBLE_EQ(s.t_empty.value, 1);
  EXPECT_DOUBLE_EQ(s.t_compute.value, 2.5);
  EXPECT_DOUBLE_EQ(s.t_comm.value, 1);
  EXPECT_DOUBLE_EQ(s.t_serial.value, 3.75);
  EXPECT_DOUBLE_EQ(s.t_step.value, 2.75);
  EXPECT_DOUBLE_EQ(s.t_exposed.value, 0.25);
  EXPECT_DOUBLE_EQ(s.t_step.interval.low, one.t_step.interval.low / 4);
  EXPECT_DOUBLE_EQ(s.t_step.interval.high, one.t_step.interval.high / 4);
  EXPECT_GT(s.t_step.interval.width(), 0);
  // Ratios do not know the window.
  EXPECT_DOUBLE_EQ(s.hidden_share.value, one.hidden_share.value);
  EXPECT_DOUBLE_EQ(s.comm_stretch, one.comm_stretch);
  EXPECT_DOUBLE_EQ(s.slowdowns.comm, one.slowdowns.comm);
}

// --interleave block: two rounds with three samples of the overlapped arm each, whose median is that of all six.
TEST(Summarise, ARoundMayHoldManySamplesOfAnArm) {
  std::vector<Sample> samples = round_of(0, 0, 10, 10, 20, 11) + round_of(1, 0, 10, 10, 20, 14);
  for (const double step : {12.0, 13.0}) samples.push_back(sample_of(0, Arm::overlapped, step));
  for (const double step : {15.0, 16.0}) samples.push_back(sample_of(1, Arm::overlapped, step));
  const Summary s = summarise(sample::pair(), {}, samples, seed);
  EXPECT_EQ(s.rounds, 2);
  EXPECT_DOUBLE_EQ(s.t_step.value, 13.5);
  EXPECT_DOUBLE_EQ(s.t_exposed.value, 3.5);
}

TEST(Summarise, WithoutAnArmItsNumbersAreUnknownAndTheOthersStay) {
  std::vector<Sample> samples = three_rounds();
  std::erase_if(samples, [](const Sample& s) { return s.arm == name(Arm::comm); });
  const Summary s = summarise(sample::pair(), {}, samples, seed);
  EXPECT_TRUE(std::isnan(s.t_comm.value));
  EXPECT_TRUE(std::isnan(s.t_comm.interval.width()));
  EXPECT_TRUE(std::isnan(s.hidden_share.value));
  EXPECT_TRUE(std::isnan(s.hidden_share.interval.width()));
  EXPECT_TRUE(std::isnan(s.comm_stretch));
  EXPECT_TRUE(std::isnan(s.slowdowns.compute));
  EXPECT_TRUE(std::isnan(s.slowdowns.comm));
  EXPECT_DOUBLE_EQ(s.t_compute.value, 10);
  EXPECT_DOUBLE_EQ(s.t_exposed.value, 1);
  EXPECT_EQ(s.verdict, "unknown: a part was not measured or took no time");
}

TEST(Summarise, WithoutSamplesEverythingIsUnknown) {
  const Summary s = summarise(sample::pair(), {}, {}, seed);
  EXPECT_EQ(s.rounds, 0);
  for (const Estimate* e : {&s.t_empty, &s.t_compute, &s.t_comm, &s.t_serial, &s.t_step, &s.hidden_share}) {
    EXPECT_TRUE(std::isnan(e->value));
    EXPECT_TRUE(std::isnan(e->interval.width()));
  }
  EXPECT_TRUE(std::isnan(s.align_skew.value()));
  EXPECT_EQ(s.launch_order, "unverified");
}

// ---- intervals -----------------------------------------------------------------------------------------------------

std::vector<Sample> scattered_rounds(int rounds) {
  std::vector<Sample> samples;
  for (int r = 0; r < rounds; ++r) {
    const double drift = 1 + 0.01 * ((r * 7) % 11);
    samples = std::move(samples) + round_of(r, 1, 10 * drift, 6 * drift, 16 * drift, (11 + r % 3) * drift);
  }
  return samples;
}

TEST(Summarise, IntervalsAreAFunctionOfSamplesAndSeed) {
  const auto samples = scattered_rounds(30);
  const Summary a = summarise(sample::pair(), {}, samples, 1);
  const Summary b = summarise(sample::pair(), {}, samples, 1);
  const Summary c = summarise(sample::pair(), {}, samples, 2);
  EXPECT_EQ(a.hidden_share.interval.low, b.hidden_share.interval.low);
  EXPECT_EQ(a.hidden_share.interval.high, b.hidden_share.interval.high);
  EXPECT_NE(std::pair(a.hidden_share.interval.low, a.hidden_share.interval.high),
            std::pair(c.hidden_share.interval.low, c.hidden_share.interval.high));
  for (const Estimate* e : {&a.t_compute, &a.t_comm, &a.t_serial, &a.t_step, &a.t_exposed, &a.hidden_share}) {
    EXPECT_TRUE(e->interval.contains(e->value));
    EXPECT_GT(e->interval.width(), 0);
  }
}

// A clock that slows every arm of every other round by a half changes no ratio: rounds stay in one piece.
TEST(Summarise, WhatHitsAWholeRoundCancelsInRatios) {
  std::vector<Sample> samples;
  for (int r = 0; r < 40; ++r) {
    const double clock = r % 2 == 0 ? 1 : 1.5;
    samples = std::move(samples) + round_of(r, 0, 10 * clock, 10 * clock, 20 * clock, 13 * clock);
  }
  const Summary s = summarise(sample::pair(), {}, samples, seed);
  EXPECT_GT(s.t_step.interval.width(), 1);
  EXPECT_NEAR(s.hidden_share.interval.low, 0.7, 1e-12);
  EXPECT_NEAR(s.hidden_share.interval.high, 0.7, 1e-12);
}

TEST(WatchedInterval, IsOfTheHiddenShare) {
  const auto samples = scattered_rounds(30);
  const Summary s = summarise(sample::pair(), {}, samples, seed);
  const Interval watched = watched_interval(samples, 1, seed);
  EXPECT_TRUE(watched.contains(s.hidden_share.value));
  EXPECT_EQ(watched.low, watched_interval(samples, 1, seed).low);
  EXPECT_NEAR(watched.low, watched_interval(samples, 8, seed).low, 1e-12) << "a ratio does not know the window";
}

// Communication of a hundredth of the step: its hidden share may be anything while nothing that matters is uncertain.
TEST(WatchedInterval, IsOfTheExposedPartOfTheStepWhereTheShorterPartIsSmall) {
  std::vector<Sample> samples;
  for (int r = 0; r < 20; ++r) samples = std::move(samples) + round_of(r, 0, 99, 1, 100, r % 2 == 0 ? 99 : 100);
  EXPECT_GT(summarise(sample::pair(), {}, samples, seed).hidden_share.interval.width(), 0.9);
  const Interval watched = watched_interval(samples, 1, seed);
  EXPECT_GT(watched.width(), 0);
  EXPECT_LE(watched.width(), 0.015);
}

TEST(WatchedInterval, IsUnknownBeforeTheSecondRound) {
  EXPECT_TRUE(std::isnan(watched_interval({}, 1, seed).width()));
  EXPECT_TRUE(std::isnan(watched_interval(round_of(0, 0, 1, 1, 2, 1), 1, seed).width()));
}

// ---- who slowed whom -----------------------------------------------------------------------------------------------

// The fluid's own example: compute 100 and communication 50, each 1.3 times slower beside the other, end at 115 and 65.
std::vector<Sample> contention() {
  std::vector<Sample> samples = round_of(0, 0, 100, 50, 150, 115);
  set_spans(samples[1], 100, std::nan(""));
  set_spans(samples[2], std::nan(""), 50);
  set_spans(samples[4], 115, 65);
  return samples;
}

TEST(Summarise, SlowdownsAreTheInverseOfTheFluidFormula) {
  const Summary s = summarise(sample::pair(), {}, contention(), seed);
  EXPECT_DOUBLE_EQ(s.compute_stretch, 1.15);
  EXPECT_DOUBLE_EQ(s.comm_stretch, 1.3);
  EXPECT_DOUBLE_EQ(s.slowdowns.compute, 1.3);
  EXPECT_DOUBLE_EQ(s.slowdowns.comm, 1.3);
}

// Spans are of the whole window on both sides of the ratio, whatever it holds.
TEST(Summarise, SlowdownsOfAWindowOfManyAreTheSame) {
  const Summary s = summarise(sample::pair(), {.repeats = 10}, contention(), seed);
  EXPECT_DOUBLE_EQ(s.slowdowns.compute, 1.3);
  EXPECT_DOUBLE_EQ(s.slowdowns.comm, 1.3);
}

TEST(Summarise, TheSlowestRankDecides) {
  std::vector<Sample> samples = contention();
  for (Sample& s : samples) s.ranks.push_back({Rank(1), Seconds(1), Seconds(1), Seconds(1)});
  const Summary s = summarise(sample::pair(), {}, samples, seed);
  EXPECT_DOUBLE_EQ(s.slowdowns.compute, 1.3);
  EXPECT_DOUBLE_EQ(s.comm_stretch, 1.3);
}

// Where one waits for the other, long spans are waiting: they say nothing of rates, and the row blames nobody.
TEST(Summarise, AProgramThatOrdersOneRoleAfterTheOtherHasNoSlowdowns) {
  for (const char* placement : {"event_chained", "global_sync", "serial"}) {
    const Program program = place(sample::pair(), parse_placement(placement));
    std::vector<Sample> samples;
    for (int r = 0; r < 20; ++r) {
      auto round = contention();
      for (Sample& s : round) s.round = r;
      round[4].step = Seconds(150);
      set_spans(round[4], 140, 140);
      samples = std::move(samples) + round;
    }
    const Summary s = summarise(program, {}, samples, seed);
    EXPECT_TRUE(std::isnan(s.slowdowns.compute)) << placement;
    EXPECT_TRUE(std::isnan(s.slowdowns.comm)) << placement;
    EXPECT_DOUBLE_EQ(s.compute_stretch, 1.4);
    const bool one_lane = std::string(placement) == "serial";
    EXPECT_THAT(s.verdict, StartsWith(one_lane ? "no overlap: one lane does one after the other"
                                               : "no overlap: one runs after the other"))
        << placement;
  }
  for (const char* placement : {"concurrent", "comm_first", "compute_first", "partitioned"}) {
    const Summary s = summarise(place(sample::pair(), parse_placement(placement)), {}, contention(), seed);
    EXPECT_DOUBLE_EQ(s.slowdowns.compute, 1.3) << placement;
  }
  EXPECT_TRUE(std::isnan(summarise(sample::ddp(), {}, contention(), seed).slowdowns.compute));
  EXPECT_TRUE(std::isnan(summarise(sample::mesh(), {}, contention(), seed).slowdowns.compute));
}

TEST(Summarise, TheVerdictNamesWhoSlowsWhom) {
  std::vector<Sample> samples;
  for (int r = 0; r < 20; ++r) {
    auto round = contention();
    for (Sample& s : round) s.round = r;
    samples = std::move(samples) + round;
  }
  EXPECT_THAT(summarise(sample::pair(), {}, samples, seed).verdict,
              HasSubstr("each slows the other (compute 1.15x, communication 1.30x as long as alone)"));
}

// ---- launch order --------------------------------------------------------------------------------------------------

TEST(Summarise, TheLaunchOrderIsThatOfAllOverlappedReplaysOrMixed) {
  std::vector<Sample> samples = three_rounds();
  for (Sample& s : samples) s.launch_order = s.arm == name(Arm::overlapped) ? "comm_first" : "unverified";
  EXPECT_EQ(summarise(sample::pair(), {}, samples, seed).launch_order, "comm_first");
  samples.back().launch_order = "compute_first";
  EXPECT_EQ(summarise(sample::pair(), {}, samples, seed).launch_order, "mixed");
  for (Sample& s : samples) s.launch_order = "unverified";
  EXPECT_EQ(summarise(sample::pair(), {}, samples, seed).launch_order, "unverified");
}

// ---- the path ------------------------------------------------------------------------------------------------------

// What a replay of an arm records of these operations on one rank.
Timings recorded(std::vector<std::pair<OpId, double>> durations, int rank = 0) {
  Timings t;
  for (const auto& [op, duration] : durations) {
    t.operations.push_back({.rank = Rank(rank), .op = op, .start = Seconds(100), .end = Seconds(100 + duration)});
  }
  return t;
}

OpId id_of(const Program& program, std::string_view kind) {
  for (const Operation& op : program.classes[0].body) {
    if (kind_name(op.work) == kind) return op.id;
  }
  return {};
}

ArmTimes times_of(double compute, double comm) { return {.compute = Seconds(compute), .comm = Seconds(comm)}; }

TEST(IsolatedPath, WorkedExample) {
  const Program pair = sample::pair();
  const OpId gemm = id_of(pair, "gemm");
  const OpId reduction = id_of(pair, "all_reduce");
  // Medians over three replays each: a GEMM of 5, an all_reduce of 3.
  const std::vector<Timings> isolated{recorded({{gemm, 5}}), recorded({{reduction, 3}}),
                                      recorded({{gemm, 9}}), recorded({{reduction, 2}}),
                                      recorded({{gemm, 4}}), recorded({{reduction, 8}})};
  const auto path = [&](const char* placement) {
    return isolated_path(place(pair, parse_placement(placement)), times_of(5, 3), isolated).value();
  };
  EXPECT_DOUBLE_EQ(path("concurrent"), 5);
  EXPECT_DOUBLE_EQ(path("event_chained"), 8);
  EXPECT_DOUBLE_EQ(path("global_sync"), 8);
  EXPECT_DOUBLE_EQ(path("serial"), 8);
}

// Two GEMMs of 1 and 3 s on record, one after the other, where the arm's median is 8: they count as 2 and 6. The
// collective took 5 on record and 4 in the median. It may begin after the first GEMM: 2 + 4 < 2 + 6.
TEST(IsolatedPath, TheRecordTellsOnlyEachOperationsPartOfTheArmsMedian) {
  ProgramBuilder p("bucket", 1);
  const LaneId compute = p.lane({.name = "compute", .role = Role::compute});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  ClassBuilder all = p.all_ranks();
  const OpId first = all.body(compute, Busy{});
  const OpId second = all.body(compute, Busy{});
  all.order(compute, comm);
  const OpId last = all.body(comm, Busy{});
  const Program after_both = std::move(p).finish();
  const std::vector<Timings> isolated{recorded({{first, 1}, {second, 3}}), recorded({{last, 5}})};
  EXPECT_DOUBLE_EQ(isolated_path(after_both, times_of(8, 4), isolated).value(), 12);
  EXPECT_DOUBLE_EQ(isolated_path(place(after_both, parse_placement("serial")), times_of(8, 4), isolated).value(), 12);
}

// However the record scatters: medians of single operations add up to less than the median of their sum.
TEST(IsolatedPath, IsNeverShorterThanTheIdeal) {
  const Program pair = sample::pair();
  const OpId gemm = id_of(pair, "gemm");
  const OpId reduction = id_of(pair, "all_reduce");
  const std::vector<Timings> quick{recorded({{gemm, 1}}), recorded({{reduction, 2}})};
  EXPECT_DOUBLE_EQ(isolated_path(pair, times_of(5, 3), quick).value(), 5);
  EXPECT_DOUBLE_EQ(isolated_path(pair, times_of(5, 7), quick).value(), 7);
}

TEST(IsolatedPath, AnOperationTakesAsLongAsOnItsSlowestRank) {
  const Program pair = sample::pair();
  Timings both = recorded({{id_of(pair, "all_reduce"), 7}}, 0);
  for (const OperationTiming& op : recorded({{id_of(pair, "all_reduce"), 2}}, 1).operations) {
    both.operations.push_back(op);
  }
  EXPECT_DOUBLE_EQ(isolated_path(pair, times_of(5, 14), {recorded({{id_of(pair, "gemm"), 5}}), both}).value(), 14);
}

TEST(IsolatedPath, WithoutAStampIsUnknown) {
  const Program pair = sample::pair();
  const OpId gemm = id_of(pair, "gemm");
  const OpId reduction = id_of(pair, "all_reduce");
  EXPECT_TRUE(std::isnan(isolated_path(pair, times_of(5, 3), {}).value()));
  EXPECT_TRUE(std::isnan(isolated_path(pair, times_of(5, 3), {recorded({{gemm, 5}})}).value()));
  EXPECT_TRUE(
      std::isnan(isolated_path(pair, times_of(5, 3), {recorded({{gemm, 5}, {reduction, std::nan("")}})}).value()));
  EXPECT_TRUE(std::isnan(
      isolated_path(pair, times_of(5, 3), {recorded({{gemm, 5}, {reduction, 3}, {reduction, std::nan("")}})}).value()));
}

// Stage 0 and stage 1 of a pipeline number their operations alike; each has durations of its own.
TEST(IsolatedPath, EveryClassHasItsOwnDurations) {
  ProgramBuilder p("stages", 2);
  const LaneId lane = p.lane({.name = "compute"});
  const OpId a = p.ranks("first", {Rank(0)}).body(lane, Busy{});
  const OpId b = p.ranks("second", {Rank(1)}).body(lane, Busy{});
  ASSERT_EQ(a, b);
  const Program program = std::move(p).finish();
  EXPECT_DOUBLE_EQ(
      isolated_path(program, times_of(6, std::nan("")), {recorded({{a, 2}}, 0), recorded({{b, 6}}, 1)}).value(), 6);
}

}  // namespace
}  // namespace ovl
