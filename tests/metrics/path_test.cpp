// SPDX-License-Identifier: Apache-2.0
#include "metrics/path.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "program/builder.hpp"
#include "program/placement.hpp"

namespace ovl {
namespace {

constexpr Busy some{};

// Two lanes and an event:   compute  a ───── b
//                                     └─▶ c ─── d   comm
struct TwoLanes {
  ProgramBuilder p{"two lanes", 1};
  LaneId compute = p.lane({.name = "compute"});
  LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  ClassBuilder all = p.all_ranks();
  OpId a = all.body(compute, some);
  EventId event = all.order(compute, comm);
  OpId b = all.body(compute, some);
  OpId c = all.body(comm, some);
  OpId d = all.body(comm, some);
  Program program = std::move(p).finish();
};

TEST(LongestPath, WorkedExample) {
  const TwoLanes t;
  // a, c, d take 2 + 3 + 4; a, b take 2 + 5.
  EXPECT_EQ(longest_path(t.program, {{{t.a, Seconds(2)}, {t.b, Seconds(5)}, {t.c, Seconds(3)}, {t.d, Seconds(4)}}}),
            Seconds(9));
  EXPECT_EQ(longest_path(t.program, {{{t.a, Seconds(2)}, {t.b, Seconds(8)}, {t.c, Seconds(3)}, {t.d, Seconds(4)}}}),
            Seconds(10));
}

TEST(LongestPath, PlacementsSetIt) {
  const TwoLanes t;
  const std::vector<Durations> durations{{{t.a, Seconds(2)}, {t.b, Seconds(5)}, {t.c, Seconds(3)}, {t.d, Seconds(4)}}};
  const auto placed = [&](const char* placement) {
    return longest_path(place(t.program, parse_placement(placement)), durations);
  };
  EXPECT_EQ(placed("concurrent"), Seconds(9));
  EXPECT_EQ(placed("compute_first"), Seconds(9)) << "a start event orders nothing but what precedes it";
  EXPECT_EQ(placed("serial"), Seconds(14));
  EXPECT_EQ(placed("event_chained"), Seconds(14));
  EXPECT_EQ(placed("global_sync"), Seconds(14));
}

TEST(LongestPath, AHostSyncHoldsAllLanes) {
  ProgramBuilder p("sync", 1);
  const LaneId compute = p.lane({.name = "compute"});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  ClassBuilder all = p.all_ranks();
  const OpId a = all.body(compute, some);
  const OpId b = all.body(comm, some);
  all.body(compute, HostSync{});
  const OpId c = all.body(compute, some);
  const OpId d = all.body(comm, some);
  const Program program = std::move(p).finish();
  EXPECT_EQ(longest_path(program, {{{a, Seconds(1)}, {b, Seconds(2)}, {c, Seconds(3)}, {d, Seconds(1)}}}), Seconds(5));
}

// Both classes number their operations from 0.
TEST(LongestPath, OfTwoClassesIsThatOfTheLonger) {
  ProgramBuilder p("classes", 2);
  const LaneId compute = p.lane({.name = "compute"});
  ClassBuilder first = p.ranks("first", {Rank(0)});
  ClassBuilder second = p.ranks("second", {Rank(1)});
  const OpId a = first.body(compute, some);
  const OpId b = second.body(compute, some);
  const OpId c = second.body(compute, some);
  ASSERT_EQ(a, b);
  const Program program = std::move(p).finish();
  EXPECT_EQ(longest_path(program, {{{a, Seconds(7)}}, {{b, Seconds(1)}, {c, Seconds(2)}}}), Seconds(7));
  EXPECT_EQ(longest_path(program, {{{a, Seconds(2)}}, {{b, Seconds(1)}, {c, Seconds(2)}}}), Seconds(3));
}

TEST(LongestPath, WithAMissingOrUnknownDurationIsUnknown) {
  const TwoLanes t;
  EXPECT_TRUE(std::isnan(longest_path(t.program, {{{t.a, Seconds(2)}}}).value()));
  EXPECT_TRUE(std::isnan(
      longest_path(t.program, {{{t.a, Seconds(9)}, {t.b, unknown_time}, {t.c, Seconds(3)}, {t.d, Seconds(4)}}})
          .value()));
}

TEST(LongestPath, OfNothingIsNothing) {
  ProgramBuilder p("nothing", 1);
  p.lane({.name = "compute"});
  p.all_ranks();
  EXPECT_EQ(longest_path(std::move(p).finish(), {{}}), Seconds(0));
}

}  // namespace
}  // namespace ovl
