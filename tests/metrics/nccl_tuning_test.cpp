// SPDX-License-Identifier: Apache-2.0
#include "metrics/nccl_tuning.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/tsv.hpp"

namespace ovl {
namespace {

constexpr NcclGraph h100x8{.generation = GpuGeneration::hopper,
                           .ranks = 8,
                           .nodes = 1,
                           .channels = 12,
                           .channel_bandwidth = BytesPerSecond(30e9)};

TEST(NcclTuning, EightRanksOfOneNodeByHand) {
  // Ring, Simple: 14 steps of 3.4 us over a base of 8.4 us; 12 · 30 GB/s on the bus are 360 · 8 / 14 of the array.
  const NcclCost cost =
      nccl_cost(h100x8, CollectiveKind::all_reduce, NcclAlgorithm::ring, NcclProtocol::simple, mebibytes(25));
  EXPECT_NEAR(cost.latency.value(), 56e-6, 1e-12);
  EXPECT_NEAR(cost.bandwidth.value(), 360e9 * 8 / 14, 1);
  EXPECT_NEAR(cost.time.value(), 56e-6 + 25 * 1048576 / (360e9 * 8 / 14), 1e-12);
}

TEST(NcclTuning, PublishedFormulasEvaluatedIndependently) {
  double worst = 0;
  for (const test::TsvRow& row : test::golden_rows("nccl_model_vectors.tsv")) {
    NcclGraph graph{.ranks = std::stoi(row.at("nRanks")),
                    .nodes = std::stoi(row.at("nNodes")),
                    .channels = std::stoi(row.at("nChannels")),
                    .channel_bandwidth = BytesPerSecond(std::stod(row.at("bw_per_channel_GBs")) * 1e9)};
    graph.generation = row.at("preset").starts_with("A100") ? GpuGeneration::ampere : GpuGeneration::hopper;
    const auto algorithm = row.at("algo") == "Ring" ? NcclAlgorithm::ring : NcclAlgorithm::tree;
    const auto protocol = parse_enum<NcclProtocol>(row.at("proto"));
    SCOPED_TRACE(row.at("preset") + " " + row.at("algo") + " " + row.at("proto"));
    const auto at = [&](std::int64_t bytes) {
      return nccl_cost(graph, CollectiveKind::all_reduce, algorithm, protocol, Bytes(bytes));
    };
    EXPECT_NEAR(at(1).latency.value() * 1e6, std::stod(row.at("lat_us")), 0.005);
    EXPECT_NEAR(at(1).bandwidth.value() * 1e-9, std::stod(row.at("algbw_GBs")), 0.005);
    for (const auto& [column, text] : row) {
      if (!column.starts_with("t_us_")) continue;
      const double printed = std::stod(text);
      const double time = at(std::stoll(column.substr(5))).time.value() * 1e6;
      // Printed to a tenth of a microsecond.
      EXPECT_LE(std::fabs(time - printed), std::max(0.051, 0.005 * printed)) << column << " " << time;
      worst = std::max(worst, std::fabs(time - printed) / printed);
    }
  }
  RecordProperty("worst_relative_error", std::to_string(worst));
  EXPECT_LE(worst, 0.005);
}

TEST(NcclTuning, TakesTheSmallestPredictedTime) {
  const auto choice = [](Bytes size) { return nccl_choice(h100x8, CollectiveKind::all_reduce, size); };
  EXPECT_EQ(choice(kibibytes(8)).protocol, NcclProtocol::ll);
  EXPECT_EQ(choice(mebibytes(1)).protocol, NcclProtocol::ll);  // 28.0 us, LL128 by tree 45.1, by ring 46.1
  EXPECT_EQ(choice(mebibytes(25)).protocol, NcclProtocol::ll128);
  EXPECT_EQ(choice(mebibytes(128)).protocol, NcclProtocol::simple);
  for (const Bytes size : {kibibytes(8), mebibytes(1), mebibytes(25), mebibytes(1024)}) {
    EXPECT_EQ(choice(size).algorithm, NcclAlgorithm::ring);
  }
  // Over two nodes small arrays are faster by a tree: 25.8 us beside 40.4.
  NcclGraph two = h100x8;
  two = {.generation = GpuGeneration::hopper,
         .ranks = 16,
         .nodes = 2,
         .channels = 8,
         .channel_bandwidth = BytesPerSecond(45e9)};
  EXPECT_EQ(nccl_choice(two, CollectiveKind::all_reduce, kibibytes(8)).algorithm, NcclAlgorithm::tree);
}

TEST(NcclTuning, HalvesOfAnAllReduceHaveItsBandwidthTwiceAndHalfItsSteps) {
  const auto ring = [](CollectiveKind kind) {
    return nccl_cost(h100x8, kind, NcclAlgorithm::ring, NcclProtocol::simple, mebibytes(1));
  };
  const NcclCost whole = ring(CollectiveKind::all_reduce);
  for (const CollectiveKind half : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
    EXPECT_NEAR(ring(half).bandwidth.value(), 2 * whole.bandwidth.value(), 1);
    EXPECT_NEAR(ring(half).latency.value() * 1e6, 8.4 + 7 * 3.4, 1e-9);
  }
}

TEST(NcclTuning, WhatNcclDoesNotOfferIsUnknown) {
  const auto time = [](CollectiveKind kind, NcclAlgorithm algorithm) {
    return nccl_cost(h100x8, kind, algorithm, NcclProtocol::simple, mebibytes(1)).time.value();
  };
  EXPECT_TRUE(std::isnan(time(CollectiveKind::all_gather, NcclAlgorithm::tree)));
  EXPECT_TRUE(std::isnan(time(CollectiveKind::all_to_all, NcclAlgorithm::ring)));
  EXPECT_TRUE(std::isnan(nccl_choice(h100x8, CollectiveKind::all_to_all, mebibytes(1)).cost.time.value()));
}

TEST(NcclTuning, OneRankCommunicatesNothing) {
  NcclGraph one = h100x8;
  one.ranks = 1;
  EXPECT_EQ(nccl_choice(one, CollectiveKind::all_reduce, mebibytes(1)).cost.time, Seconds(0));
}

}  // namespace
}  // namespace ovl
