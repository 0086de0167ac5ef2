// SPDX-License-Identifier: Apache-2.0
#include "metrics/bus_bandwidth.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace ovl {
namespace {

using enum CollectiveKind;

TEST(BusFactor, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(all_reduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(bus_factor(all_gather, 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor(reduce_scatter, 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor(all_to_all, 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor(broadcast, 8), 1);
}

TEST(BusFactor, OfAnAllReduceIsThatOfItsTwoHalves) {
  for (const int ranks : {1, 2, 3, 8, 64, 1024}) {
    EXPECT_DOUBLE_EQ(bus_factor(all_reduce, ranks), bus_factor(reduce_scatter, ranks) + bus_factor(all_gather, ranks));
  }
}

TEST(BusFactor, OfOneRankIsZeroButForBroadcast) {
  EXPECT_DOUBLE_EQ(bus_factor(all_reduce, 1), 0);
  EXPECT_DOUBLE_EQ(bus_factor(all_to_all, 1), 0);
  EXPECT_DOUBLE_EQ(bus_factor(broadcast, 1), 1);
  EXPECT_THROW(bus_factor(all_reduce, 0), std::logic_error);
}

TEST(BusBandwidth, WorkedExample) {
  // 16 MiB in 1 ms on 4 ranks: 16.777 GB/s for the caller, 1.5 times that on the links of an all_reduce.
  EXPECT_DOUBLE_EQ(algorithm_bandwidth(mebibytes(16), milliseconds(1)).value(), 16'777'216e3);
  EXPECT_TRUE(std::isnan(algorithm_bandwidth(mebibytes(16), Seconds(0)).value())) << "one rank sends nothing";
  EXPECT_DOUBLE_EQ(bus_bandwidth(all_reduce, 4, mebibytes(16), milliseconds(1)).value(), 25'165'824e3);
  EXPECT_DOUBLE_EQ(bus_bandwidth(all_gather, 4, mebibytes(16), milliseconds(1)).value(), 12'582'912e3);
}

TEST(BusBandwidth, FourteenGigabytesOfGradientsOnARing) {
  const Bytes gradients = Bytes(2) * 7'000'000'000;
  struct Row {
    int ranks;
    double wire_gigabytes;
    double milliseconds_at_150_gigabytes_per_second;
  };
  for (const auto& [ranks, wire, time] : {Row{8, 24.5, 163.33}, Row{16, 26.25, 175.0}, Row{64, 27.5625, 183.75}}) {
    EXPECT_NEAR(bus_factor(all_reduce, ranks) * static_cast<double>(gradients.value()) / 1e9, wire, 1e-9) << ranks;
    EXPECT_NEAR(time_at_bus_bandwidth(all_reduce, ranks, gradients, BytesPerSecond(150e9)).value() * 1e3, time, 5e-3)
        << ranks;
  }
  // Were the 150 GB/s the caller's, the time would be half of the ring's limit.
  EXPECT_NEAR((gradients / BytesPerSecond(150e9)).value() * 1e3, 93.33, 5e-3);
}

TEST(BusBandwidth, OfATimeAtThatBandwidthIsThatBandwidth) {
  for (const CollectiveKind kind : {all_reduce, all_gather, reduce_scatter, broadcast, all_to_all}) {
    const Seconds time = time_at_bus_bandwidth(kind, 5, mebibytes(3), BytesPerSecond(7e9));
    EXPECT_NEAR(bus_bandwidth(kind, 5, mebibytes(3), time).value(), 7e9, 1) << name(kind);
  }
}

}  // namespace
}  // namespace ovl
