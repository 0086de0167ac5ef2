// SPDX-License-Identifier: Apache-2.0
#include "metrics/calibration.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace ovl {
namespace {

// A machine whose GEMMs take 2 us and 1 TFLOP/s, whose all_reduce of two ranks takes 10 us and 100 ps a byte, and where
// while both run compute takes 1.25 times as long and communication 1.5.
constexpr double kernel = 2e-6;
constexpr double rate = 1e12;
constexpr Slowdowns planted{1.25, 1.5};

PairObservation planted_case(std::int64_t n, double repeat, double bytes, bool together = true) {
  PairObservation o;
  o.gemm = std::to_string(n);
  o.flops = Flops(2 * static_cast<double>(n * n * n));
  o.repeat = repeat;
  o.bytes = bytes;
  o.compute = Seconds(repeat * (kernel + o.flops.value() / rate));
  o.comm = Seconds(10e-6 + 100e-12 * bytes);
  o.together = together;
  o.step = together ? fluid_step(o.compute, o.comm, planted) : o.compute + o.comm;
  return o;
}

std::vector<PairObservation> planted_grid() {
  std::vector<PairObservation> all;
  for (const std::int64_t n : {128, 256, 512}) {
    for (const double bytes : {65536.0, 262144.0, 1048576.0, 4194304.0}) {
      for (const bool together : {true, false}) all.push_back(planted_case(n, 3, bytes, together));
    }
  }
  return all;
}

TEST(Calibration, FindsWhatWasPlanted) {
  const Calibration c = calibrated(planted_grid());
  ASSERT_EQ(c.gemms.size(), 1U);
  EXPECT_EQ(c.gemms[0].dtype, DType::f32);
  EXPECT_NEAR(c.gemms[0].kernel.value(), kernel, 1e-12);
  EXPECT_NEAR(c.gemms[0].rate.value() / rate, 1, 1e-9);
  ASSERT_EQ(c.shapes.size(), 3U);
  ASSERT_EQ(c.comms.size(), 1U);
  ASSERT_EQ(c.comms[0].fit.segments.size(), 1U);
  EXPECT_NEAR(c.comms[0].fit.alpha(), 10e-6, 1e-12);
  EXPECT_NEAR(c.comms[0].fit.beta(), 100e-12, 1e-18);
  // The grid ends at steps of 8^(1 / 24) / 6^4, which is 0.01 %.
  EXPECT_NEAR(c.slowdown.compute, planted.compute, 0.002);
  EXPECT_NEAR(c.slowdown.comm, planted.comm, 0.002);
}

TEST(Calibration, PredictsWhatItHasNotSeen) {
  const Calibration c = calibrated(planted_grid());
  const PairObservation asked = planted_case(384, 5, 2e6);
  const PairPrediction p = predicted(c, asked);
  EXPECT_NEAR(p.compute / asked.compute, 1, 1e-9);
  EXPECT_NEAR(p.comm / asked.comm, 1, 1e-9);
  EXPECT_NEAR(p.step / asked.step, 1, 2e-3);
  const PairObservation serial = planted_case(384, 5, 2e6, false);
  EXPECT_NEAR(predicted(c, serial).step / serial.step, 1, 1e-9);
}

// Small GEMMs at half the rate look like an overhead of 33 us to a line; one that was measured by itself stays.
TEST(Calibration, AnOverheadThatIsKnownIsNotLearnt) {
  std::vector<PairObservation> grid = planted_grid();
  for (PairObservation& o : grid) {
    if (o.gemm != "512") o.compute = o.compute * 2;
  }
  EXPECT_GT(calibrated(grid).gemms.at(0).kernel.value(), 2 * kernel);
  const Calibration c = calibrated(grid, Seconds(kernel));
  ASSERT_EQ(c.gemms.size(), 1U);
  EXPECT_EQ(c.gemms[0].kernel.value(), kernel);
  // The middle rate is that of 256: 33.55 MFLOP in twice 2 + 33.55 us, of which the overhead leaves 2 x 33.55 + 2 us.
  EXPECT_NEAR(c.gemms[0].rate.value(), 33.554432e6 / (2 * 33.554432e-6 + kernel), 1);
}

// A shape with a rate of its own is believed before the line.
TEST(Calibration, AShapeThatWasSeenTakesWhatItTook) {
  std::vector<PairObservation> grid = planted_grid();
  for (PairObservation& o : grid) {
    if (o.gemm == "256") o.compute = o.compute * 1.1;
  }
  const PairObservation asked = planted_case(256, 3, 65536);
  EXPECT_NEAR(predicted(calibrated(grid), asked).compute / asked.compute, 1.1, 1e-9);
}

TEST(Calibration, HeldOutErrorsAreOfWhatWasLeftOut) {
  std::vector<PairObservation> grid = planted_grid();
  for (const HeldOut what : {HeldOut::one_case, HeldOut::shape, HeldOut::size}) {
    const HeldOutErrors e = held_out_errors(grid, what);
    EXPECT_EQ(e.step.size(), grid.size());
    for (const double error : e.compute) EXPECT_NEAR(error, 0, 1e-6);
    for (const double error : e.comm) EXPECT_NEAR(error, 0, 1e-6);
    for (const double error : e.step) EXPECT_NEAR(error, 0, 5e-3);
  }
  // 512 takes twice as long as the line of the others says: unseen it is predicted at about half.
  for (PairObservation& o : grid) {
    if (o.gemm == "512") o.compute = o.compute * 2;
  }
  double least = 1;
  for (const double error : held_out_errors(grid, HeldOut::shape).compute) least = std::min(least, error);
  EXPECT_NEAR(least, -0.5, 1e-6);
  for (const double error : held_out_errors(grid, HeldOut::one_case).compute) EXPECT_NEAR(error, 0, 1e-6);
}

TEST(Calibration, OfOneSizeOrShapeThereIsARateAndNoCostOfDoingNothing) {
  const std::vector<PairObservation> one{planted_case(256, 1, 1048576)};
  const Calibration c = calibrated(one);
  EXPECT_EQ(c.gemms[0].kernel.value(), 0);
  EXPECT_NEAR(c.gemms[0].rate.value(), one[0].flops.value() / one[0].compute.value(), 1);
  EXPECT_EQ(c.comms[0].fit.alpha(), 0);
  EXPECT_NEAR(c.comms[0].fit.beta(), one[0].comm.value() / 1048576, 1e-18);
}

TEST(Calibration, KnowsNothingOfOtherDtypesCollectivesAndRanks) {
  const Calibration c = calibrated(planted_grid());
  PairObservation other = planted_case(100, 1, 1000);
  other.dtype = DType::f64;
  EXPECT_TRUE(std::isnan(predicted(c, other).compute.value()));
  other = planted_case(100, 1, 1000);
  other.collective = CollectiveKind::all_gather;
  EXPECT_TRUE(std::isnan(predicted(c, other).comm.value()));
  EXPECT_TRUE(std::isnan(predicted(c, other).step.value()));
  other = planted_case(100, 1, 1000);
  other.ranks = 4;
  EXPECT_TRUE(std::isnan(predicted(c, other).comm.value()));
}

TEST(Calibration, LeavesOutWhatHasNoTimes) {
  std::vector<PairObservation> grid = planted_grid();
  PairObservation unknown = planted_case(1024, 1, 1e6);
  unknown.comm = unknown_time;
  grid.push_back(unknown);
  EXPECT_EQ(calibrated(grid).shapes.size(), 3U);
  EXPECT_EQ(held_out_errors(grid, HeldOut::one_case).step.size(), grid.size() - 1);
  const Calibration nothing = calibrated({});
  EXPECT_TRUE(nothing.gemms.empty());
  EXPECT_TRUE(nothing.comms.empty());
  EXPECT_EQ(nothing.slowdown.compute, 1);
}

}  // namespace
}  // namespace ovl
