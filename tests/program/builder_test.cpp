// SPDX-License-Identifier: Apache-2.0
#include "program/builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

#include "support/sample_programs.hpp"

namespace ovl {
namespace {

using testing::ElementsAre;

std::string broken(const auto& act) {
  try {
    act();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "nothing thrown";
}

TEST(Builder, TablesAreIndexedByTheIdsThatItGives) {
  ProgramBuilder p("tables", 3);
  EXPECT_EQ(p.lane({.name = "compute"}), LaneId(0));
  EXPECT_EQ(p.lane({.name = "comm", .role = Role::communication}), LaneId(1));
  EXPECT_EQ(p.buffer({.name = "x", .count = 64}), BufferId(0));
  EXPECT_EQ(p.buffer({.name = "y", .count = 32}), BufferId(1));
  EXPECT_EQ(p.event("first"), EventId(0));
  EXPECT_EQ(p.world("world", "shm", 2), CommId(0));
  EXPECT_EQ(p.whole(BufferId(1)), (Slice{BufferId(1), 0, 32}));
  p.all_ranks();
  const Program program = std::move(p).finish();
  EXPECT_EQ(program.lanes[1].name, "comm");
  EXPECT_EQ(program.buffers[1].name, "y");
  EXPECT_EQ(program.events[0].name, "first");
  EXPECT_THAT(program.communicators[0].groups, ElementsAre(ElementsAre(Rank(0), Rank(1), Rank(2))));
  EXPECT_THAT(program.classes[0].members, ElementsAre(Rank(0), Rank(1), Rank(2)));
}

TEST(Builder, IdsAreUniqueWithinAClassOverAllParts) {
  for (const Program& program : sample::all()) {
    for (const RankClass& c : program.classes) {
      std::set<OpId> ids;
      std::size_t operations = 0;
      for (const auto* part : {&c.prologue, &c.body, &c.epilogue}) {
        for (const Operation& op : *part) ids.insert(op.id);
        operations += part->size();
      }
      EXPECT_EQ(ids.size(), operations) << program.name << " " << c.name;
      EXPECT_EQ(free_id(c), OpId(operations)) << "ids count from 0";
    }
  }
}

TEST(Builder, ACopyOfAClassBuilderGoesOnWithTheSameIds) {
  ProgramBuilder p("copies", 1);
  const LaneId lane = p.lane({.name = "lane"});
  ClassBuilder all = p.all_ranks();
  ClassBuilder copy = all;
  EXPECT_EQ(all.body(lane, Busy{}), OpId(0));
  EXPECT_EQ(copy.body(lane, Busy{}), OpId(1));
}

TEST(Builder, TheRoleOfAnOperationIsItsLanes) {
  ProgramBuilder p("roles", 1);
  const LaneId compute = p.lane({.name = "compute"});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  ClassBuilder all = p.all_ranks();
  all.body(compute, Busy{});
  all.body(comm, Busy{});
  const Program program = std::move(p).finish();
  EXPECT_EQ(program.classes[0].body[0].role, Role::compute);
  EXPECT_EQ(program.classes[0].body[1].role, Role::communication);
}

TEST(Builder, OrderIsARecordOnOneLaneAndAWaitOnTheOther) {
  ProgramBuilder p("order", 1);
  const LaneId from = p.lane({.name = "from"});
  const LaneId to = p.lane({.name = "to"});
  ClassBuilder all = p.all_ranks();
  const EventId event = all.order(from, to);
  const Program program = std::move(p).finish();
  ASSERT_EQ(program.classes[0].body.size(), 2U);
  const Operation& record = program.classes[0].body[0];
  const Operation& wait = program.classes[0].body[1];
  EXPECT_EQ(record.lane, from);
  EXPECT_EQ(std::get<Record>(record.work).event, event);
  EXPECT_EQ(std::get<Record>(record.work).moment, Moment::completion);
  EXPECT_EQ(wait.lane, to);
  EXPECT_EQ(std::get<Wait>(wait.work).event, event);
}

TEST(Builder, ClassesCoverEveryRankExactlyOnce) {
  const auto finish = [](std::vector<std::vector<Rank>> classes) {
    return broken([&] {
      ProgramBuilder p("cover", 2);
      for (auto& members : classes) p.ranks("some", members);
      std::move(p).finish();
    });
  };
  const std::string why = "broken invariant: every rank of a program is in exactly one class";
  EXPECT_EQ(finish({{Rank(1)}, {Rank(0)}}), "nothing thrown");
  EXPECT_EQ(finish({{Rank(0)}}), why) << "rank 1 is in none";
  EXPECT_EQ(finish({{Rank(0), Rank(0)}}), why) << "as many as there are ranks, but one twice";
  EXPECT_EQ(finish({{Rank(0), Rank(1)}, {Rank(1)}}), why);
  EXPECT_EQ(finish({{Rank(0), Rank(2)}}), why) << "there is no rank 2";
}

TEST(Builder, GroupsAreDisjointAndOfTheProgramsRanks) {
  const auto declare = [](std::vector<std::vector<Rank>> groups) {
    return broken([&] { ProgramBuilder("groups", 2).communicator({"some", groups, "shm", 1}); });
  };
  EXPECT_EQ(declare({{Rank(0)}, {Rank(1)}}), "nothing thrown");
  EXPECT_EQ(declare({{Rank(1)}}), "nothing thrown") << "a rank may be in none";
  EXPECT_EQ(declare({{Rank(0)}, {}}), "broken invariant: a group of a communicator has a rank");
  EXPECT_EQ(declare({{Rank(0)}, {Rank(1), Rank(0)}}), "broken invariant: the groups of a communicator are disjoint");
  EXPECT_EQ(declare({{Rank(2)}}), "broken invariant: the groups of a communicator are of the program's ranks");
}

TEST(Builder, LanesAndBuffersHaveNamesOfTheirOwn) {
  ProgramBuilder p("names", 1);
  p.lane({.name = "x"});
  p.buffer({.name = "x"});
  EXPECT_EQ(broken([&] { p.lane({.name = "x"}); }), "broken invariant: the lanes of a program have different names");
  EXPECT_EQ(broken([&] { p.buffer({.name = "x"}); }),
            "broken invariant: the buffers of a program have different names");
}

TEST(Program, MemoryIsTheDeclaredBuffersWithAllCopies) {
  Program program;
  EXPECT_EQ(memory_per_rank(program), Bytes(0));
  program.buffers = {{.name = "x", .dtype = DType::f64, .count = 10, .copies = 3},  // 8 · 10 · 3 = 240
                     {.name = "y", .dtype = DType::f8e4m3, .count = 7}};            // 1 · 7 · 1 = 7
  EXPECT_EQ(memory_per_rank(program), Bytes(247));
}

TEST(Program, SizesOfTheTypes) {
  EXPECT_EQ(size_of(DType::f64), Bytes(8));
  EXPECT_EQ(size_of(DType::f32), Bytes(4));
  EXPECT_EQ(size_of(DType::tf32), Bytes(4));
  EXPECT_EQ(size_of(DType::f16), Bytes(2));
  EXPECT_EQ(size_of(DType::bf16), Bytes(2));
  EXPECT_EQ(size_of(DType::f8e4m3), Bytes(1));
  EXPECT_EQ(gemm_output(DType::f8e4m3), DType::bf16);
  EXPECT_EQ(gemm_output(DType::tf32), DType::tf32);
}

TEST(Program, AGemmIsTwoFlopsAProduct) {
  EXPECT_EQ(flops_of({.m = 2, .n = 3, .k = 5, .repeat = 7}), Flops(420));  // 2 · 2·3·5 · 7
  EXPECT_EQ(flops_of({.m = 1 << 20, .n = 1 << 20, .k = 1 << 20, .repeat = 16}), Flops(0x1.0p65)) << "beyond 64 bits";
}

TEST(Program, EveryRankHasAClass) {
  const Program program = sample::pipeline();
  EXPECT_EQ(program.class_of(Rank(1)).name, "last");
  EXPECT_EQ(broken([&] { (void)program.class_of(Rank(2)); }),
            "broken invariant: rank 2 belongs to no class of pipeline");
}

}  // namespace
}  // namespace ovl
