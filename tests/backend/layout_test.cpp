// SPDX-License-Identifier: Apache-2.0
#include "backend/host/layout.hpp"

#include <gtest/gtest.h>

namespace ovl::host {
namespace {

constexpr auto compute = Role::compute;
constexpr auto comm = Role::communication;

std::vector<LaneWish> pair_wishes(Partition partition) {
  return {{"compute", compute, partition, 0}, {"comm", comm, partition, 0}};
}

struct Row {
  std::string what;
  std::vector<int> cores;
  int ranks;
  std::vector<LaneWish> lanes;
  std::string text;
  bool shared;
  bool oversubscribed;
};

TEST(Layout, Table) {
  using enum Partition;
  const Row rows[] = {
      {"two cores: all compute on one, all communication on the other",
       {0, 1},
       2,
       pair_wishes(automatic),
       "compute@0,0 comm@1,1",
       true,
       true},
      {"the same, asked for", {0, 1}, 2, pair_wishes(by_role), "compute@0,0 comm@1,1", true, true},
      {"everything of a rank on one core", {0, 1}, 2, pair_wishes(by_rank), "compute@0,1 comm@0,1", true, true},
      {"a core each while there are enough",
       {0, 1, 2, 3},
       2,
       pair_wishes(automatic),
       "compute@0,2 comm@1,3",
       false,
       false},
      {"sharing on purpose is not for lack of cores",
       {0, 1, 2, 3},
       2,
       pair_wishes(by_rank),
       "compute@0,1 comm@0,1",
       true,
       false},
      {"half of the cores for each role", {0, 1, 2, 3}, 2, pair_wishes(by_role), "compute@0,1 comm@2,3", false, false},
      {"the middle core computes", {4, 6, 8}, 3, pair_wishes(by_role), "compute@4,6,4 comm@8,8,8", true, true},
      {"one lane a rank: rank r on core r", {0, 1}, 2, {{"comm", comm, automatic, 0}}, "comm@0,1", false, false},
      {"more ranks than cores take turns", {0, 1}, 3, {{"comm", comm, automatic, 0}}, "comm@0,1,0", true, true},
      {"a compute lane alone runs where it does beside communication",
       {0, 1},
       2,
       {{"compute", compute, by_role, 0}},
       "compute@0,0",
       true,
       false},
      {"without second hardware threads, one core", {0, 1}, 1, pair_wishes(siblings), "compute@0 comm@0", true, false},
      {"one core for all", {5}, 2, pair_wishes(automatic), "compute@5,5 comm@5,5", true, true},
  };
  for (const Row& row : rows) {
    const Layout layout = make_layout(row.cores, row.ranks, row.lanes);
    EXPECT_EQ(layout.text, row.text) << row.what;
    EXPECT_EQ(layout.shared, row.shared) << row.what;
    EXPECT_EQ(layout.oversubscribed, row.oversubscribed) << row.what;
  }
}

// Two cores of two threads each, 0 with 4 and 1 with 5: a rank has a core, compute and communication a thread each.
TEST(Layout, HardwareThreadsOfOneCore) {
  const Layout layout = make_layout({0, 1}, 2, pair_wishes(Partition::siblings), {4, 5});
  EXPECT_EQ(layout.text, "compute@0,1 comm@4,5");
  EXPECT_FALSE(layout.shared) << "no thread has two lanes";
}

TEST(Layout, HelpersTakeCoresThatNoLaneUses) {
  const Layout layout = make_layout({0, 1, 2, 3}, 2, {{"comm", comm, Partition::automatic, 1}});
  EXPECT_EQ(layout.text, "comm@0,1");
  EXPECT_EQ(layout.helpers[0][0], std::vector<int>{2});
  EXPECT_EQ(layout.helpers[1][0], std::vector<int>{3});
  EXPECT_FALSE(layout.shared);
}

TEST(Layout, WhatHoldsCoresIsOnDifferentOnesWhoeverIsThere) {
  const auto lanes = [](int helpers) {
    return std::vector<LaneWish>{{"compute", compute, Partition::by_role, 0},
                                 {"comm", comm, Partition::by_role, helpers, true}};
  };
  EXPECT_EQ(make_layout({0, 1}, 1, lanes(1)).helpers[0][1], std::vector<int>{0})
      << "the victim's core is the other one";
  EXPECT_EQ(make_layout({0, 1, 2, 3}, 1, lanes(3)).helpers[0][1], (std::vector<int>{1, 3, 0}))
      << "compute@0 comm@2: first the cores that nobody uses";
  EXPECT_EQ(make_layout({5}, 1, lanes(0)).lanes[0][1], 5);
}

TEST(Layout, HelpersShareTheirLanesCoreWhereNoneIsLeft) {
  const Layout layout = make_layout({0, 1}, 2, {{"comm", comm, Partition::automatic, 2}});
  EXPECT_EQ(layout.helpers[1][0], (std::vector<int>{1, 1}));
  EXPECT_TRUE(layout.oversubscribed);
}

}  // namespace
}  // namespace ovl::host
