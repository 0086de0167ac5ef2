// SPDX-License-Identifier: Apache-2.0
//
// Fabrics of several levels: what a collective costs on them, and who slows whom where a level is oversubscribed.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/model/costs.hpp"
#include "backend/model/model.hpp"
#include "backend/model/plan.hpp"
#include "program/builder.hpp"

namespace ovl {
namespace {

using model::FabricLevel;

// Nodes of 4 at 100 GB/s, racks of 2 nodes at 50, any number of racks at 50; a rack has half of that upwards.
model::Rates racks(double oversubscription = 2) {
  model::Rates rates;
  rates.name = "racks";
  rates.node_ranks = 4;
  rates.link = {microseconds(10), BytesPerSecond(100e9)};
  rates.beyond = {{8, {microseconds(20), BytesPerSecond(50e9)}, 1},
                  {0, {microseconds(30), BytesPerSecond(50e9)}, oversubscription}};
  return rates;
}

std::vector<Rank> strided_ranks(int begin, int end, int stride = 1) {
  std::vector<Rank> all;
  for (int r = begin; r < end; r += stride) all.emplace_back(r);
  return all;
}

Collective reduce_of_bytes(std::int64_t bytes, CollectiveKind kind = CollectiveKind::all_reduce) {
  return {kind, CommId(0), DType::f32, bytes / 4};
}

double us(const model::Cost& cost) { return cost.time.value() * 1e6; }

TEST(Fabric, AGroupHasAShapeOnEveryLevelUpToItsOwn) {
  const auto fabric = model::fabric_of(racks());
  ASSERT_EQ(fabric.size(), 3U);
  const model::GroupShape whole = model::shape_of(fabric, strided_ranks(0, 16));
  EXPECT_EQ(whole.level(), 2U);
  EXPECT_EQ(whole.units, (std::vector<int>{4, 2, 1}));
  EXPECT_EQ(whole.ranks, (std::vector<int>{4, 8, 16}));
  EXPECT_TRUE(whole.even);
  const model::GroupShape strided = model::shape_of(fabric, strided_ranks(0, 16, 4));
  EXPECT_EQ(strided.ranks, (std::vector<int>{1, 2, 4}));
  EXPECT_EQ(model::shape_of(fabric, strided_ranks(4, 8)).level(), 0U);
  EXPECT_FALSE(model::shape_of(fabric, strided_ranks(2, 8)).even) << "2 on one node and 4 on the other";
  EXPECT_EQ(model::fabric_of({}).size(), 1U) << "without nodes all are on one";
}

// 16 MB over 2 racks of 2 nodes of 4: 3 steps of 4 MB within, 1 of 2 MB in the rack, all_reduce of 2 MB of two across:
// 2 steps of 1 MB, each rank at half of its 50 GB/s because all 8 of the rack go up at once.
TEST(Fabric, AHierarchyOfThreeLevelsByHand) {
  const model::Cost cost = model::collective_cost(racks(), reduce_of_bytes(16'000'000), strided_ranks(0, 16));
  EXPECT_EQ(cost.how, "hierarchical");
  const double within = 2 * 3 * (10 + 40);
  const double rack = 2 * (20 + 40);
  const double across = 2 * (30 + 40);
  EXPECT_NEAR(us(cost), within + rack + across, 1e-9);
  // What passes each link: 24 MB the node's; 4 stay in the rack, and the 2 that go further pass that link too.
  ASSERT_EQ(cost.links.size(), 3U);
  EXPECT_NEAR(cost.links[0], 24e6 / 100e9 / cost.time.value(), 1e-12);
  EXPECT_NEAR(cost.links[1], 6e6 / 50e9 / cost.time.value(), 1e-12);
  EXPECT_NEAR(cost.links[2], 2e6 / 50e9 / cost.time.value(), 1e-12);
}

// One way of it.
TEST(Fabric, GatheringAndScatteringAreHierarchicalToo) {
  for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
    const model::Cost cost = model::collective_cost(racks(), reduce_of_bytes(16'000'000, kind), strided_ranks(0, 16));
    EXPECT_EQ(cost.how, "hierarchical");
    EXPECT_NEAR(us(cost), 3 * (10 + 40) + (20 + 40) + (30 + 40), 1e-9);
  }
}

// Of one rank a rack there is enough; of all of them a half for each.
TEST(Fabric, OversubscriptionIsOfThoseWhoGoUpTogether) {
  const Bytes size(50'000'000);
  EXPECT_NEAR(us(model::message_cost(racks(), size, Rank(0), Rank(8))), 30 + 1000, 1e-9);
  EXPECT_NEAR(us(model::message_cost(racks(16), size, Rank(0), Rank(8))), 30 + 2000, 1e-9)
      << "8 links of 50 GB/s over 16: 25 for one alone";
  EXPECT_NEAR(us(model::message_cost(racks(16), size, Rank(0), Rank(4))), 20 + 1000, 1e-9) << "in the rack";
  EXPECT_NEAR(us(model::message_cost(racks(16), size, Rank(0), Rank(3))), 10 + 500, 1e-9) << "in the node";
}

// Twice as much oversubscribed is never faster, and 1 is none.
TEST(Fabric, MoreOversubscriptionIsNeverFaster) {
  for (const int end : {16, 24, 64}) {
    for (const auto bytes : {std::int64_t{4'000}, std::int64_t{4'000'000}, std::int64_t{4'000'000'000}}) {
      double before = 0;
      for (const double ratio : {1.0, 2.0, 4.0, 8.0, 16.0, 64.0}) {
        const double time = us(model::collective_cost(racks(ratio), reduce_of_bytes(bytes), strided_ranks(0, end)));
        EXPECT_GE(time, before) << end << " " << bytes << " " << ratio;
        before = time;
      }
    }
  }
}

// A hierarchy of two levels is the node and its network, as without levels.
TEST(Fabric, TwoLevelsAreTheNodeAndItsNetwork) {
  model::Rates two = racks();
  two.beyond.resize(1);
  two.beyond[0].ranks = 0;
  model::Rates plain = two;
  plain.network = plain.beyond[0].link;
  plain.beyond.clear();
  for (const std::int64_t bytes : {400, 4'000'000}) {
    EXPECT_EQ(model::collective_cost(two, reduce_of_bytes(bytes), strided_ranks(0, 16)).time,
              model::collective_cost(plain, reduce_of_bytes(bytes), strided_ranks(0, 16)).time);
  }
}

// ---- who slows whom ------------------------------------------------------------------------------------------------

// All ranks reduce with those of the same place in the other rack: 8 groups of 2, 4 MB each.
Program across_racks() {
  ProgramBuilder p("across", 16);
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  std::vector<std::vector<Rank>> groups;
  for (int r = 0; r < 8; ++r) groups.push_back({Rank(r), Rank(r + 8)});
  const CommId world = p.communicator({.name = "across", .groups = groups, .transport = "nccl"});
  const BufferId in = p.buffer({.name = "in", .count = 1'000'000});
  const BufferId out = p.buffer({.name = "out", .count = 1'000'000});
  ClassBuilder all = p.all_ranks();
  all.body(comm, Collective{CollectiveKind::all_reduce, world, DType::f32, 1'000'000}, {p.whole(in)}, {p.whole(out)});
  return std::move(p).finish();
}

double step_us(const Program& program, const model::Rates& rates) {
  return open_model(rates, program.ranks)->prepare({program}, Data::random, 1)->run(0, {}).step().value() * 1e6;
}

// One group alone has 50 GB/s: 2 steps of 30 us and 2 MB. Eight at once want 8 x 50 of the 400 / r that a rack has:
// the share of 80 / 140 that each has of its link, times r.
TEST(Fabric, GroupsThatGoUpTogetherShareWhatLeavesTheRack) {
  const double alone = 2 * (30 + 40);
  EXPECT_NEAR(us(model::collective_cost(racks(1), reduce_of_bytes(4'000'000), strided_ranks(0, 16, 8))), alone, 1e-9);
  EXPECT_NEAR(step_us(across_racks(), racks(1)), alone, 1e-9);
  EXPECT_NEAR(step_us(across_racks(), racks(1.5)), alone, 1e-9) << "there is room: 80 / 140 x 1.5 < 1";
  for (const double ratio : {2.0, 4.0}) EXPECT_NEAR(step_us(across_racks(), racks(ratio)), 80 * ratio, 1e-9);
}

// Ranks that are played as one share with those of their unit as if each were played: a skew that nobody computes by.
TEST(Fabric, OnePlayerForAllIsTheSameAsEach) {
  const Program program = across_racks();
  for (const double ratio : {1.0, 2.0, 3.0, 8.0}) {
    const model::Rates together = racks(ratio);
    model::Rates each = together;
    each.skew = 0.5;
    EXPECT_EQ(model::players_of(program, together).size(), 1U);
    EXPECT_EQ(model::players_of(program, each).size(), 16U);
    EXPECT_NEAR(step_us(program, together), step_us(program, each), 1e-9) << ratio;
  }
}

// Where units that have ranks of a class differ, one does not stand for all.
TEST(Fabric, UnequalUnitsArePlayedEach) {
  ProgramBuilder p("unequal", 16);
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  ClassBuilder few = p.ranks("few", strided_ranks(0, 2));
  few.body(comm, Busy{Seconds(1)});
  ClassBuilder many = p.ranks("many", strided_ranks(2, 16));
  many.body(comm, Busy{Seconds(1)});
  const Program program = std::move(p).finish();
  EXPECT_EQ(model::players_of(program, racks(1)).size(), 2U);
  EXPECT_EQ(model::players_of(program, racks(2)).size(), 16U) << "a rack of 2 and 6, another of 8";
}

}  // namespace
}  // namespace ovl
