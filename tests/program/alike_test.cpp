// SPDX-License-Identifier: Apache-2.0
#include "program/alike.hpp"

#include <gtest/gtest.h>

#include "program/builder.hpp"

namespace ovl {
namespace {

bool alike(const Program& program) { return members_are_alike(program, RankTable(program)); }

std::vector<Rank> members(std::initializer_list<int> numbers) {
  std::vector<Rank> all;
  for (const int n : numbers) all.emplace_back(n);
  return all;
}

// Two stages of two ranks, {0, 1} and {2, 3}, that exchange in the given pairs.
Program stages(std::vector<std::vector<Rank>> pairs) {
  ProgramBuilder p("stages", 4);
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const CommId edge = p.communicator({.name = "edge", .groups = std::move(pairs), .transport = "shm"});
  const BufferId b = p.buffer({.name = "b", .count = 4});
  ClassBuilder first = p.ranks("first", members({0, 1}));
  first.body(comm, Exchange{.comm = edge, .transfers = {{Direction::send, 1}}}, {p.whole(b)}, {});
  ClassBuilder second = p.ranks("second", members({2, 3}));
  second.body(comm, Exchange{.comm = edge, .transfers = {{Direction::receive, 0}}}, {}, {p.whole(b)});
  return std::move(p).finish();
}

TEST(Alike, RanksOfOneClassInOneGroupAre) {
  ProgramBuilder p("world", 4);
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const CommId world = p.world("world", "shm", 1);
  const BufferId b = p.buffer({.name = "b", .count = 4});
  const BufferId c = p.buffer({.name = "c", .count = 4});
  ClassBuilder all = p.all_ranks();
  all.body(comm, Collective{CollectiveKind::all_reduce, world, DType::f32, 4}, {p.whole(b)}, {p.whole(c)});
  EXPECT_TRUE(alike(std::move(p).finish()));
}

TEST(Alike, StagesAreHoweverTheirPairsLie) {
  EXPECT_TRUE(alike(stages({members({0, 2}), members({1, 3})})));
  EXPECT_TRUE(alike(stages({members({0, 3}), members({1, 2})}))) << "crossed pairs see the same";
  EXPECT_FALSE(alike(stages({members({0, 2}), members({3, 1})}))) << "one stands first, the other second";
}

// Who sends to a rank of its own class is not alone in its place.
TEST(Alike, RanksThatExchangeWithTheirOwnClassAreNot) {
  ProgramBuilder p("ring", 2);
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const CommId world = p.world("world", "shm", 1);
  const BufferId b = p.buffer({.name = "b", .count = 4});
  const BufferId c = p.buffer({.name = "c", .count = 4});
  ClassBuilder all = p.all_ranks();
  all.body(comm, Exchange{.comm = world, .transfers = {{Direction::send, 1}, {Direction::receive, 0}}}, {p.whole(b)},
           {p.whole(c)});
  EXPECT_FALSE(alike(std::move(p).finish()));
}

TEST(Alike, ATableKnowsClassAndGroupOfEachRank) {
  const Program program = stages({members({0, 3}), members({1, 2})});
  const RankTable table(program);
  EXPECT_EQ(table.class_of(Rank(1)), 0U);
  EXPECT_EQ(table.class_of(Rank(2)), 1U);
  EXPECT_EQ(table.group_of(0, Rank(3)), 0U);
  EXPECT_EQ(table.group_of(0, Rank(2)), 1U);
  Program fewer = program;
  fewer.communicators[0].groups.pop_back();
  EXPECT_EQ(RankTable(fewer).group_of(0, Rank(2)), RankTable::nowhere);
  EXPECT_FALSE(alike(fewer)) << "of a class one is in a group and one is not";
}

}  // namespace
}  // namespace ovl
