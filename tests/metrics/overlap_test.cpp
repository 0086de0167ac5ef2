// SPDX-License-Identifier: Apache-2.0
#include "metrics/overlap.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "metrics/bus_bandwidth.hpp"

namespace ovl {
namespace {

constexpr ArmTimes in_milliseconds(double compute, double comm, double serial, double step) {
  return {milliseconds(compute), milliseconds(comm), milliseconds(serial), milliseconds(step)};
}

TEST(Overlap, WorkedExample) {
  // 100 ms of compute and 80 ms of communication take 190 ms in turn and 124 ms together.
  const Overlap o = overlap(in_milliseconds(100, 80, 190, 124));
  EXPECT_DOUBLE_EQ(o.t_ideal.value(), 0.100);
  EXPECT_DOUBLE_EQ(o.speedup_bound, 1.8);
  EXPECT_NEAR(o.t_overlap.value(), 0.056, 1e-15);
  EXPECT_NEAR(o.t_exposed.value(), 0.024, 1e-15);
  EXPECT_NEAR(o.hidden_share, 0.7, 1e-14);  // 56 of 80
  EXPECT_NEAR(o.hidden_fraction, 0.7, 1e-14);
  EXPECT_DOUBLE_EQ(o.speedup, 180.0 / 124);
  EXPECT_DOUBLE_EQ(o.speedup_measured, 190.0 / 124);
  EXPECT_NEAR(o.serial_gap.value(), 0.010, 1e-15);
}

TEST(Overlap, FourteenGigabytesOfGradients) {
  // 14 GB over an infinitely long ring, 150 GB/s on the bus, beside a backward pass of 100 ms. 2^31 - 1 ranks are as
  // good as infinitely many: the factor is 2 to nine digits.
  const Seconds comm =
      time_at_bus_bandwidth(CollectiveKind::all_reduce, 2'147'483'647, Bytes(14'000'000'000), BytesPerSecond(150e9));
  const Seconds compute = milliseconds(100);
  const Overlap o = overlap({.compute = compute, .comm = comm, .serial = compute + comm, .step = comm});
  EXPECT_NEAR(comm.value(), 0.18667, 5e-6);
  EXPECT_NEAR((compute + comm).value(), 0.28667, 5e-6);
  EXPECT_NEAR(o.t_ideal.value(), 0.18667, 5e-6);
  EXPECT_NEAR(o.t_exposed.value(), 0.08667, 5e-6);
  EXPECT_NEAR(o.speedup_bound, 1.536, 5e-4);
  EXPECT_DOUBLE_EQ(o.hidden_share, 1);
  EXPECT_NEAR((compute + comm) / compute, 2.867, 5e-4);  // "nearly triples"
  // Hidden altogether from 280 GB/s on.
  EXPECT_NEAR(
      time_at_bus_bandwidth(CollectiveKind::all_reduce, 2'147'483'647, Bytes(14'000'000'000), BytesPerSecond(280e9))
          .value(),
      0.1, 1e-9);
}

TEST(Overlap, BalancedPartsGainMost) {
  EXPECT_DOUBLE_EQ(overlap(in_milliseconds(100, 100, 200, 100)).speedup_bound, 2);
  EXPECT_DOUBLE_EQ(overlap(in_milliseconds(100, 100, 200, 100)).speedup, 2);
}

TEST(Overlap, PublishedVectors) {
  struct Row {
    const char* name;
    double compute, comm, serial, step;                        // ms
    double speedup_measured, ideal, exposed, hidden_fraction;  // exposed in ms
  };
  for (const Row& r : {Row{"ring, perfect", 100, 186.6667, 286.6667, 186.6667, 1.5357, 1.5357, 86.6667, 0.5357},
                       Row{"ring, none", 100, 186.6667, 286.6667, 286.6667, 1.0000, 1.5357, 186.6667, 0.0000},
                       Row{"balanced, perfect", 100, 100, 200, 100, 2.0000, 2.0000, 0.0000, 1.0000},
                       Row{"balanced, 1.3x both", 100, 100, 200, 130, 1.5385, 2.0000, 30.0000, 0.7000},
                       Row{"1.3x, short compute", 50, 100, 150, 115, 1.3043, 1.5000, 65.0000, 0.3500},
                       // parasailteam/coconet issue 6: worse together than in turn
                       Row{"coconet", 48.984436, 106.608643, 157.270889, 207.144745, 0.7592, 1.4752, 158.1603, -0.4836},
                       Row{"worse than serial", 100, 100, 200, 220, 0.9091, 2.0000, 120.0000, -0.2000}}) {
    const ArmTimes times = in_milliseconds(r.compute, r.comm, r.serial, r.step);
    const Overlap o = overlap(times);
    EXPECT_NEAR(o.speedup_measured, r.speedup_measured, 5e-5) << r.name;
    EXPECT_NEAR(times.serial / o.t_ideal, r.ideal, 5e-5) << r.name;  // the ideal over the measured serial run
    EXPECT_NEAR(o.t_exposed.value() * 1e3, r.exposed, 5e-5) << r.name;
    EXPECT_NEAR(o.hidden_fraction, r.hidden_fraction, 5e-5) << r.name;
  }
}

TEST(Overlap, IsSignedAndNeverClamped) {
  EXPECT_NEAR(overlap(in_milliseconds(100, 50, 150, 190)).hidden_share, -0.8, 1e-14);
  EXPECT_NEAR(overlap(in_milliseconds(100, 50, 150, 190)).t_overlap.value(), -0.040, 1e-15);
  // Faster than the longer part: the parts were measured in a worse state than the whole.
  EXPECT_NEAR(overlap(in_milliseconds(100, 50, 150, 90)).hidden_share, 1.2, 1e-14);
  EXPECT_NEAR(overlap(in_milliseconds(100, 50, 150, 90)).t_exposed.value(), -0.010, 1e-15);
  EXPECT_NEAR(overlap(in_milliseconds(100, 50, 140, 90)).serial_gap.value(), -0.010, 1e-15);
}

TEST(Overlap, UnknownInUnknownOut) {
  const Overlap no_comm = overlap({.compute = Seconds(1), .serial = Seconds(2), .step = Seconds(1)});
  EXPECT_TRUE(std::isnan(no_comm.t_ideal.value()));
  EXPECT_TRUE(std::isnan(no_comm.hidden_share));
  EXPECT_DOUBLE_EQ(no_comm.t_exposed.value(), 0);  // what does not need it stays known
  EXPECT_DOUBLE_EQ(no_comm.speedup_measured, 2);
  const Overlap no_compute = overlap({.comm = Seconds(1), .serial = Seconds(2), .step = Seconds(1)});
  EXPECT_TRUE(std::isnan(no_compute.t_ideal.value()));
  EXPECT_TRUE(std::isnan(no_compute.t_exposed.value()));
}

TEST(Overlap, AShareOfNothingIsUnknown) {
  const Overlap one_rank = overlap({Seconds(1), Seconds(0), Seconds(1), Seconds(1)});
  EXPECT_TRUE(std::isnan(one_rank.hidden_share));
  EXPECT_TRUE(std::isnan(one_rank.hidden_fraction));
  EXPECT_DOUBLE_EQ(one_rank.speedup_bound, 1);
  // Not even where the step took longer than it should, which would give an infinity.
  EXPECT_TRUE(std::isnan(overlap({Seconds(1), Seconds(0), Seconds(1), Seconds(2)}).hidden_share));
}

TEST(WatchedStatistic, IsTheHiddenShareWhereThereIsSomethingToHide) {
  const ArmTimes times = in_milliseconds(100, 80, 190, 124);
  EXPECT_EQ(watched_statistic(times), Watched::hidden_share);
  EXPECT_DOUBLE_EQ(precision_statistic(times, Watched::hidden_share), overlap(times).hidden_share);
}

TEST(WatchedStatistic, IsTheExposedPartOfTheStepWhereThereIsLittle) {
  // 4 of 102 ms are 3.9 %; half a millisecond of noise would move the hidden share by 12 %, and the step by 0.5 %.
  const ArmTimes times = in_milliseconds(100, 4, 104, 102);
  EXPECT_EQ(watched_statistic(times), Watched::exposed_fraction);
  EXPECT_NEAR(precision_statistic(times, Watched::exposed_fraction), 2.0 / 102, 1e-15);
  EXPECT_EQ(watched_statistic(in_milliseconds(4, 100, 104, 102)), Watched::exposed_fraction);
}

TEST(WatchedStatistic, ChangesAtFivePercentOfTheStep) {
  EXPECT_EQ(watched_statistic({Seconds(20), Seconds(1), Seconds(21), Seconds(20)}), Watched::hidden_share);
  EXPECT_EQ(watched_statistic({Seconds(20), Seconds(0.99), Seconds(21), Seconds(20)}), Watched::exposed_fraction);
}

TEST(WatchedStatistic, StaysAsChosenInEveryResample) {
  // A resample in which the shorter part is under 5 % is still judged by the share that was chosen.
  const ArmTimes resample = in_milliseconds(100, 4, 104, 102);
  EXPECT_NEAR(precision_statistic(resample, Watched::hidden_share), 0.5, 1e-13);
}

}  // namespace
}  // namespace ovl
