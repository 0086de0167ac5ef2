// SPDX-License-Identifier: Apache-2.0
#include "metrics/collective_cost.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace ovl {
namespace {

using enum CollectiveAlgorithm;
using enum CollectiveKind;

constexpr LinkCost link{.latency = microseconds(10), .bandwidth = BytesPerSecond(100e9)};

double us(CollectiveAlgorithm algorithm, CollectiveKind kind, int ranks, Bytes size, const LinkCost& over = link) {
  return collective_time(algorithm, kind, ranks, size, over).value() * 1e6;
}

TEST(CollectiveCost, ARingOfFourByHand) {
  // 400 MB in blocks of 100 MB: 6 steps of 10 us + 1 ms.
  EXPECT_NEAR(us(ring, all_reduce, 4, Bytes(400'000'000)), 6060, 1e-6);
  EXPECT_NEAR(us(ring, reduce_scatter, 4, Bytes(400'000'000)), 3030, 1e-6);
  EXPECT_NEAR(us(ring, all_gather, 4, Bytes(400'000'000)), 3030, 1e-6);
  EXPECT_NEAR(us(direct, all_to_all, 4, Bytes(400'000'000)), 3030, 1e-6);
}

TEST(CollectiveCost, AddingUpCostsAlgorithmsThatAddTheirPart) {
  LinkCost adding = link;
  adding.reduce = 1e-11;  // 100 GB/s
  EXPECT_NEAR(us(ring, all_reduce, 4, Bytes(400'000'000), adding), 6060 + 3000, 1e-6);
  EXPECT_NEAR(us(ring, all_gather, 4, Bytes(400'000'000), adding), 3030, 1e-6);
  EXPECT_NEAR(us(in_network, all_reduce, 4, Bytes(400'000'000), adding), 20 + 4000, 1e-6);
}

TEST(CollectiveCost, HalvingAndDoublingMovesARingsBytesInFewerSteps) {
  EXPECT_NEAR(us(recursive, all_reduce, 4, Bytes(400'000'000)), 4 * 10 + 6000, 1e-6);
  EXPECT_NEAR(us(recursive, all_gather, 8, Bytes(0)), 30, 1e-9);
  EXPECT_TRUE(std::isnan(us(recursive, all_reduce, 6, Bytes(8)))) << "powers of two only";
  EXPECT_NEAR(us(recursive, broadcast, 5, Bytes(1'000'000)), 3 * (10 + 10), 1e-9) << "a binomial tree takes any number";
}

TEST(CollectiveCost, APipelinedTreeHasABestNumberOfChunks) {
  // 8 ranks, 3 hops: 2 (2 + k) (10 us + 8 MB / k / 100 GB/s) = 2 (2 + k) (10 + 80 / k) us: 360 at k = 4, its best.
  EXPECT_NEAR(us(tree, all_reduce, 8, Bytes(8'000'000)), 360, 1e-6);
  EXPECT_NEAR(us(tree, broadcast, 8, Bytes(8'000'000)), 180, 1e-6);
  EXPECT_TRUE(std::isnan(us(tree, all_gather, 8, Bytes(8))));
}

TEST(CollectiveCost, TheFastestIsShortForSmallAndLeanForLarge) {
  const auto fastest = [](Bytes size) { return fastest_collective(all_reduce, 64, size, link, false).algorithm; };
  EXPECT_EQ(fastest(Bytes(8)), recursive);
  // Of 6 ranks there is no halving: small arrays take the tree, large ones the ring.
  EXPECT_EQ(fastest_collective(all_reduce, 6, Bytes(8), link, false).algorithm, tree);
  EXPECT_EQ(fastest_collective(all_reduce, 6, mebibytes(1024), link, false).algorithm, ring);
  EXPECT_EQ(fastest_collective(all_to_all, 6, mebibytes(1), link, false).algorithm, direct);
  EXPECT_EQ(fastest_collective(all_reduce, 64, mebibytes(1024), link, true).algorithm, in_network);
}

TEST(CollectiveCost, AcrossNodesAHierarchyCarriesOnlyAPart) {
  // 2 nodes of 4: within, 3 steps each way of 100 MB on the fast link; across, 2 steps of 50 MB on the slow one.
  const LinkCost slow{.latency = microseconds(20), .bandwidth = BytesPerSecond(50e9)};
  const std::array<HierarchyLevel, 2> levels{{{4, link}, {2, slow}}};
  const HierarchicalCost cost = hierarchical_collective(all_reduce, levels, Bytes(400'000'000));
  EXPECT_NEAR(cost.time.value() * 1e6, 2 * 3 * (10 + 1000) + 2 * (20 + 1000), 1e-6);
  EXPECT_EQ(cost.bytes, (std::vector<double>{600e6, 100e6}));
}

TEST(CollectiveCost, AHierarchyOfThreeLevelsByHand) {
  // Nodes of 4, racks of 2 nodes, 3 racks: 300 MB stay 300, 75 and 37.5 MB for a rank. Within, 3 steps of 75 MB; in the
  // rack 1 step of 37.5 MB, both there and back; across racks, 4 steps of 12.5 MB.
  const LinkCost rack{.latency = microseconds(20), .bandwidth = BytesPerSecond(50e9)};
  const LinkCost spine{.latency = microseconds(30), .bandwidth = BytesPerSecond(25e9)};
  const std::array<HierarchyLevel, 3> levels{{{4, link}, {2, rack}, {3, spine}}};
  const double out = 3 * (10 + 750) + (20 + 750);
  const auto us = [&](CollectiveKind kind) {
    return hierarchical_collective(kind, levels, Bytes(300'000'000)).time.value() * 1e6;
  };
  EXPECT_NEAR(us(all_reduce), 2 * out + 4 * (30 + 500), 1e-6);
  EXPECT_NEAR(us(reduce_scatter), out + 2 * (30 + 500), 1e-6);
  EXPECT_EQ(us(all_gather), us(reduce_scatter));
  EXPECT_TRUE(std::isnan(us(broadcast)));
  EXPECT_EQ(hierarchical_collective(all_gather, levels, Bytes(300'000'000)).bytes,
            (std::vector<double>{225e6, 37.5e6, 25e6}));
}

// One level is the algorithm itself, and members of one take no time.
TEST(CollectiveCost, AHierarchyOfOneLevelIsNone) {
  const std::array<HierarchyLevel, 1> one{{{6, link}}};
  const std::array<HierarchyLevel, 3> alone{{{1, link}, {6, link}, {1, link}}};
  EXPECT_EQ(hierarchical_collective(all_reduce, one, mebibytes(64)).time,
            fastest_collective(all_reduce, 6, mebibytes(64), link, false).time);
  EXPECT_EQ(hierarchical_collective(all_reduce, alone, mebibytes(60)).time,
            collective_time(ring, all_reduce, 6, mebibytes(60), link));
}

TEST(CollectiveCost, OneRankTakesNoTime) {
  for (const auto& [algorithm, text] : EnumNames<CollectiveAlgorithm>::table) {
    EXPECT_EQ(us(algorithm, all_reduce, 1, mebibytes(1)), 0);
  }
}

// Gradients of 7e9 parameters in bf16 at 150 GB/s on the bus: what a ring's wire carries, whatever its latency.
TEST(CollectiveCost, WorkedNumbersOfAllReducingSevenBillionGradients) {
  const Bytes gradients(14'000'000'000);
  const LinkCost bus{.latency = Seconds(0), .bandwidth = BytesPerSecond(150e9)};
  const auto ms = [&](int ranks) { return us(ring, all_reduce, ranks, gradients, bus) * 1e-3; };
  EXPECT_NEAR(ms(8), 163.33, 0.005);
  EXPECT_NEAR(ms(16), 175.0, 0.05);
  EXPECT_NEAR(ms(64), 183.75, 0.005);
  EXPECT_NEAR(collective_steps(ring, all_reduce, 8).bytes * 14, 24.5, 1e-9);
  EXPECT_NEAR(collective_steps(ring, all_reduce, 16).bytes * 14, 26.25, 1e-9);
  EXPECT_NEAR(collective_steps(ring, all_reduce, 1024).bytes * 14, 27.973, 0.0005);
  // An all_reduce is a reduce_scatter and an all_gather of the same array.
  EXPECT_NEAR(us(ring, all_reduce, 64, gradients),
              us(ring, reduce_scatter, 64, gradients) + us(ring, all_gather, 64, gradients), 1e-6);
}

}  // namespace
}  // namespace ovl
