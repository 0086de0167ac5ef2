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

// ---- spans over all ranks ------------------------------------------------------------------------------------------

// Rank 0 computes for 3 and sends, rank 1 computes for 1 and then on what it received, which takes 1 to arrive.
TEST(EarliestSpans, ATransferStartsWhenBothSidesAreThere) {
  ProgramBuilder p("transfer", 2);
  const LaneId compute = p.lane({.name = "compute"});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const CommId world = p.world("world", "shm", 1);
  const BufferId x = p.buffer({.name = "x", .count = 1});
  ClassBuilder first = p.ranks("first", {Rank(0)});
  first.body(compute, Busy{Seconds(3)}, {}, {p.whole(x)});
  first.order(compute, comm);
  first.body(comm, Exchange{world, DType::f32, {{Direction::send, 1}}}, {p.whole(x)}, {});
  ClassBuilder second = p.ranks("second", {Rank(1)});
  second.body(compute, Busy{Seconds(1)});
  second.body(comm, Exchange{world, DType::f32, {{Direction::receive, 0}}}, {}, {p.whole(x)});
  second.body(comm, Busy{Seconds(1)}, {}, {p.whole(x)});
  second.order(comm, compute);
  second.body(compute, Busy{Seconds(2)}, {p.whole(x)}, {});
  const Program program = std::move(p).finish();
  const Spans spans = earliest_spans(program, given_durations(program));
  EXPECT_EQ(spans[1][1].start, Seconds(3)) << "the receive is posted at 0";
  EXPECT_EQ(spans[1].back().start, Seconds(4));
  EXPECT_EQ(makespan(spans), Seconds(6));
  EXPECT_EQ(longest_compute_span(program, spans), Seconds(6)) << "of rank 1, from 0; rank 0 is there for 3";
}

// A collective starts when the last rank comes, and everyone then takes as long as its duration says.
TEST(EarliestSpans, ACollectiveWaitsForTheLastRank) {
  ProgramBuilder p("collective", 2);
  const LaneId lane = p.lane({.name = "lane"});
  const CommId world = p.world("world", "shm", 1);
  const BufferId x = p.buffer({.name = "x", .count = 1});
  const BufferId y = p.buffer({.name = "y", .count = 1});
  std::vector<Durations> durations;
  for (const int r : {0, 1}) {
    ClassBuilder rank = p.ranks("r" + std::to_string(r), {Rank(r)});
    const OpId before = rank.body(lane, Busy{});
    const OpId sum = rank.body(lane, Collective{.comm = world, .count = 1}, {p.whole(x)}, {p.whole(y)});
    durations.push_back({{before, Seconds(1 + 4 * r)}, {sum, Seconds(2)}});
  }
  const Program program = std::move(p).finish();
  const Spans spans = earliest_spans(program, durations);
  EXPECT_EQ(spans[0][1].start, Seconds(5));
  EXPECT_EQ(spans[0][1].end, Seconds(7));
  EXPECT_EQ(spans[1][1].end, Seconds(7));
}

// Without meetings it is the longest path.
TEST(EarliestSpans, OfRanksThatNeverMeetEndWithTheLongestPath) {
  const TwoLanes t;
  const std::vector<Durations> durations{{{t.a, Seconds(2)}, {t.b, Seconds(5)}, {t.c, Seconds(3)}, {t.d, Seconds(4)}}};
  for (const char* placement : {"concurrent", "serial", "event_chained", "global_sync"}) {
    const Program placed = place(t.program, parse_placement(placement));
    EXPECT_EQ(makespan(earliest_spans(placed, durations)), longest_path(placed, durations)) << placement;
  }
}

TEST(EarliestSpans, NeedsEveryDuration) {
  const TwoLanes t;
  EXPECT_THROW((void)earliest_spans(t.program, {{{t.a, Seconds(2)}}}), std::logic_error);
}

}  // namespace
}  // namespace ovl
