// SPDX-License-Identifier: Apache-2.0
#include "program/reference.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "program/builder.hpp"

namespace ovl {
namespace {

using testing::HasSubstr;
using Array = std::vector<double>;

const double none = std::numeric_limits<double>::quiet_NaN();

// (1 2; 3 4) · (5 6; 7 8), then the product onto a sum, and a copy of that.
TEST(Reference, WorkedExample) {
  ProgramBuilder p("one", 1);
  const LaneId lane = p.lane({.name = "lane"});
  const BufferId a = p.buffer({.name = "a", .count = 8});
  const BufferId c = p.buffer({.name = "c", .count = 4});
  const BufferId sum = p.buffer({.name = "sum", .count = 4});
  ClassBuilder all = p.all_ranks();
  all.body(lane, Gemm{2, 2, 2}, {{a, 0, 4}, {a, 4, 4}}, {{c, 0, 4}});
  all.body(lane, Elementwise{}, {{c, 0, 4}, {a, 0, 4}}, {{sum, 0, 4}});
  all.body(lane, Copy{}, {{sum, 0, 2}}, {{a, 6, 2}});
  const Reference r =
      run_serially(std::move(p).finish(), {{{1, 2, 3, 4, 5, 6, 7, 8}, {none, none, none, none}, {100, 200, 300, 400}}});
  EXPECT_EQ(r.contents[0][1], (Array{19, 22, 43, 50}));
  EXPECT_EQ(r.contents[0][2], (Array{120, 224, 346, 454}));
  EXPECT_EQ(r.contents[0][0], (Array{1, 2, 3, 4, 5, 6, 120, 224}));
  EXPECT_EQ(r.inexact, "");
}

// Two ranks hold 1 2 3 4 and 10 20 30 40.
TEST(Reference, Collectives) {
  const auto result = [](CollectiveKind kind, std::int64_t in, std::int64_t out) {
    ProgramBuilder p("collective", 2);
    const LaneId lane = p.lane({.name = "lane", .role = Role::communication});
    const CommId world = p.world("world", "shm", 1);
    const BufferId x = p.buffer({.name = "x", .count = 4});
    const BufferId y = p.buffer({.name = "y", .count = 4});
    p.all_ranks().body(lane, Collective{kind, world, DType::f32, 4, 1}, {{x, 0, in}}, {{y, 0, out}});
    const Array empty(4, 0);
    const Reference r = run_serially(std::move(p).finish(), {{{1, 2, 3, 4}, empty}, {{10, 20, 30, 40}, empty}});
    return std::pair(r.contents[0][1], r.contents[1][1]);
  };
  EXPECT_EQ(result(CollectiveKind::all_reduce, 4, 4), std::pair(Array{11, 22, 33, 44}, Array{11, 22, 33, 44}));
  EXPECT_EQ(result(CollectiveKind::all_gather, 2, 4), std::pair(Array{1, 2, 10, 20}, Array{1, 2, 10, 20}));
  EXPECT_EQ(result(CollectiveKind::reduce_scatter, 4, 2), std::pair(Array{11, 22, 0, 0}, Array{33, 44, 0, 0}));
  EXPECT_EQ(result(CollectiveKind::broadcast, 4, 4), std::pair(Array{10, 20, 30, 40}, Array{10, 20, 30, 40}));
  EXPECT_EQ(result(CollectiveKind::all_to_all, 4, 4), std::pair(Array{1, 2, 10, 20}, Array{3, 4, 30, 40}));
}

// Both ranks receive first and send after: on lanes side by side that is no deadlock.
TEST(Reference, TransfersMeetInTheirOrder) {
  ProgramBuilder p("exchange", 2);
  const LaneId in = p.lane({.name = "in", .role = Role::communication});
  const LaneId out = p.lane({.name = "out", .role = Role::communication});
  const BufferId x = p.buffer({.name = "x", .count = 2});
  const BufferId y = p.buffer({.name = "y", .count = 2});
  const CommId there = p.world("there", "shm", 1);
  const CommId back = p.world("back", "shm", 1);
  for (const int r : {0, 1}) {
    ClassBuilder rank = p.ranks("r" + std::to_string(r), {Rank(r)});
    const CommId send = r == 0 ? there : back;
    const CommId receive = r == 0 ? back : there;
    for (const std::int64_t i : {0, 1}) {
      rank.body(in, Exchange{receive, DType::f32, {{Direction::receive, 1 - r}}}, {}, {{y, i, 1}});
      rank.body(out, Exchange{send, DType::f32, {{Direction::send, 1 - r}}}, {{x, i, 1}}, {});
    }
  }
  const Reference r = run_serially(std::move(p).finish(), {{{1, 2}, {0, 0}}, {{3, 4}, {0, 0}}});
  EXPECT_EQ(r.contents[0][1], (Array{3, 4}));
  EXPECT_EQ(r.contents[1][1], (Array{1, 2}));
}

TEST(Reference, SaysWhereSumsAreNoLongerExact) {
  ProgramBuilder p("large", 2);
  const LaneId lane = p.lane({.name = "lane", .role = Role::communication});
  const CommId world = p.world("world", "shm", 1);
  const BufferId x = p.buffer({.name = "x", .dtype = DType::bf16, .count = 1});
  const BufferId y = p.buffer({.name = "y", .dtype = DType::bf16, .count = 1});
  p.all_ranks().body(lane, Collective{.comm = world, .dtype = DType::bf16, .count = 1}, {{x, 0, 1}}, {{y, 0, 1}});
  const Program program = std::move(p).finish();
  EXPECT_EQ(run_serially(program, {{{128}, {0}}, {{-128}, {0}}}).inexact, "");
  // Rank 1 comes last and is the first to sum up.
  EXPECT_EQ(run_serially(program, {{{128}, {0}}, {{-129}, {0}}}).inexact,
            "%0 all_reduce 2 bf16 comm=0 on rank 1: terms of 257 together, and integers up to 2^8 are exact");
}

TEST(Reference, RanksThatNeverMeetAreOurMistake) {
  ProgramBuilder p("alone", 2);
  const LaneId lane = p.lane({.name = "lane", .role = Role::communication});
  const CommId world = p.world("world", "shm", 1);
  const BufferId x = p.buffer({.name = "x", .count = 1});
  p.ranks("one", {Rank(0)}).body(lane, Collective{.comm = world, .count = 1}, {{x, 0, 1}}, {{x, 0, 1}});
  p.ranks("other", {Rank(1)});
  EXPECT_THROW(run_serially(std::move(p).finish(), {{{1}}, {{1}}}), std::logic_error);
}

TEST(Reference, CompareCountsAndNamesTheFirst) {
  ProgramBuilder p("two", 2);
  p.lane({.name = "lane"});
  p.buffer({.name = "x", .count = 2});
  p.buffer({.name = "scratch", .count = 1});
  p.all_ranks();
  const Program program = std::move(p).finish();
  const Contents expected{{{1, none}, {0}}, {{3, 4}, {0}}};
  EXPECT_EQ(compare(program, {{{1, none}, {7}}, {{3, 4}, {8}}}, expected, {"x"}).first, "")
      << "scratch is not asked for";
  const Difference d = compare(program, {{{1, 2}, {0}}, {{none, 5}, {0}}}, expected, {"x", "scratch"});
  EXPECT_EQ(d.elements, 3);
  EXPECT_EQ(d.first, "x[1] on rank 0 is 2, expected nan");
}

}  // namespace
}  // namespace ovl
