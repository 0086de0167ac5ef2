// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/stamps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "program/builder.hpp"

namespace ovl::cuda {
namespace {

using testing::DoubleNear;

constexpr double tolerance = 1e-12;

// One rank: `first` on one lane, then `second` on the other, ordered by an event.
struct Two {
  Plan plan;
  OpId first;
  OpId second;
};

Two two(int ranks = 1) {
  ProgramBuilder p("two", ranks);
  const LaneId compute = p.lane({.name = "compute", .role = Role::compute});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  ClassBuilder all = p.all_ranks();
  const OpId first = all.body(compute, Busy{microseconds(1)});
  all.order(compute, comm);
  const OpId second = all.body(comm, Busy{microseconds(1)});
  const Program program = std::move(p).finish();
  return {make_plan(program, {}, Rank(0), ranks, 0), first, second};
}

TEST(Timings, ZeroIsTheLatestOriginAndTheStepRunsFromThere) {
  // Rank 0 starts 2 us before rank 1; both lanes of both run from 1 to 5 and from 5 to 9 us.
  std::vector<RankStamps> stamps(2);
  for (RankStamps& s : stamps) {
    s.joined = microseconds(10);
    s.lanes = {{LaneId(0), microseconds(1), microseconds(5)}, {LaneId(1), microseconds(5), microseconds(9)}};
  }
  stamps[0].origin = 1'000'000;
  stamps[1].origin = 1'002'000;
  const Timings t = timings_of(two(2).plan, stamps);
  EXPECT_THAT(t.ranks[0].origin.value(), DoubleNear(-2e-6, tolerance));
  EXPECT_EQ(t.ranks[1].origin, Seconds(0));
  EXPECT_THAT(t.ranks[0].lanes[0].start.value(), DoubleNear(-1e-6, tolerance));
  EXPECT_THAT(t.ranks[1].end.value(), DoubleNear(9e-6, tolerance)) << "not when the lanes were joined";
  EXPECT_THAT(t.step().value(), DoubleNear(9e-6, tolerance));
  EXPECT_THAT(t.align_skew().value(), DoubleNear(2e-6, tolerance));
  EXPECT_EQ(t.launch_order, "unverified");
  EXPECT_EQ(t.start_source, "");
  EXPECT_EQ(latest_origin(stamps), 1'002'000);
}

TEST(Timings, OfAnEmptyArmEndWhenItsLanesAreJoined) {
  std::vector<RankStamps> stamps(1);
  stamps[0].joined = microseconds(3);
  Plan plan;
  plan.ranks = {RankPlan{.rank = Rank(0)}};
  EXPECT_THAT(timings_of(plan, stamps).step().value(), DoubleNear(3e-6, tolerance));
}

TEST(Timings, AnOperationIsReadyWhenWhatItWaitedForEnded) {
  const Two p = two();
  std::vector<RankStamps> stamps(1);
  stamps[0].origin = 50'000;
  stamps[0].joined = microseconds(20);
  stamps[0].lanes = {{LaneId(0), microseconds(0), microseconds(6)}, {LaneId(1), microseconds(6), microseconds(11)}};
  stamps[0].steps.assign(4, {.enqueued = 40'000, .host_return = 41'000});
  stamps[0].steps[0].end = microseconds(6);
  stamps[0].steps[3].end = microseconds(11);
  const Timings t = timings_of(p.plan, stamps);
  ASSERT_EQ(t.operations.size(), 4U) << "busy, record, wait, busy";
  const OperationTiming& first = t.operations[0];
  const OperationTiming& second = t.operations[3];
  EXPECT_EQ(first.op, p.first);
  EXPECT_EQ(first.ready, Seconds(0));
  EXPECT_TRUE(std::isnan(first.start.value())) << "nobody saw it";
  EXPECT_THAT(first.enqueued.value(), DoubleNear(-10e-6, tolerance)) << "before the gate opened";
  EXPECT_THAT(first.host_return.value(), DoubleNear(-9e-6, tolerance));
  EXPECT_EQ(second.op, p.second);
  EXPECT_THAT(second.ready.value(), DoubleNear(6e-6, tolerance));
  EXPECT_THAT(second.end.value(), DoubleNear(11e-6, tolerance));
}

TEST(Timings, AHostSyncMakesAllLanesReadyAtOnce) {
  ProgramBuilder p("sync", 1);
  const LaneId a = p.lane({.name = "a"});
  const LaneId b = p.lane({.name = "b"});
  ClassBuilder all = p.all_ranks();
  all.body(a, Busy{microseconds(1)});
  all.body(b, HostSync{});
  all.body(b, Busy{microseconds(1)});
  const Plan plan = make_plan(std::move(p).finish(), {}, Rank(0), 1, 0);
  std::vector<RankStamps> stamps(1);
  stamps[0].steps.resize(3);
  stamps[0].steps[0].end = microseconds(7);
  stamps[0].steps[2].end = microseconds(9);
  EXPECT_THAT(timings_of(plan, stamps).operations[2].ready.value(), DoubleNear(7e-6, tolerance));
}

// CUPTI's clock is another one: the marker ended at 1000 ns of it, where the origin is.
std::vector<KernelRecord> records() {
  return {{.tag = marker_tag(Rank(0)), .name = "ovl_marker", .start_ns = 900, .end_ns = 1000},
          {.tag = tag_of(Rank(0), 0), .name = "gemm", .start_ns = 4000, .end_ns = 5000},
          {.tag = tag_of(Rank(0), 0), .name = "gemm", .start_ns = 3000, .end_ns = 4000},
          {.tag = tag_of(Rank(0), 3), .name = "ncclDevKernel_AllReduce", .start_ns = 2500, .end_ns = 9000, .blocks = 4},
          {.tag = tag_of(Rank(1), 0), .name = "other rank", .start_ns = 1, .end_ns = 2},
          {.tag = 0, .name = "evict", .start_ns = 1, .end_ns = 2}};
}

TEST(Timings, StartsComeFromTheFirstKernelOfAnOperation) {
  std::vector<StepStamps> steps(4);
  set_starts(Rank(0), records(), steps);
  EXPECT_THAT(steps[0].start.value(), DoubleNear(2e-6, tolerance));
  EXPECT_THAT(steps[3].start.value(), DoubleNear(1.5e-6, tolerance));
  EXPECT_TRUE(std::isnan(steps[1].start.value())) << "a record is no kernel";

  std::vector<RankStamps> stamps(1);
  stamps[0].steps = steps;
  const Timings t = timings_of(two().plan, stamps);
  EXPECT_EQ(t.start_source, "cupti");
  EXPECT_EQ(t.launch_order, "comm_first");
  EXPECT_THAT(t.operations[0].start.value(), DoubleNear(2e-6, tolerance));
}

TEST(Timings, ClocksAreRelatedByTheEventThatFiredSoonestAfterItsKernel) {
  // The GEMM's last kernel ended at CUPTI's 5000 ns and its event fired at 2 us: CUPTI's 3000 ns are the origin, whose
  // own event fired 2 us after its marker had ended.
  std::vector<StepStamps> steps(4);
  steps[0].end = microseconds(2);
  set_starts(Rank(0), records(), steps);
  EXPECT_THAT(steps[0].start.value(), DoubleNear(0, tolerance));
  EXPECT_LE(steps[0].start, steps[0].end);
  EXPECT_THAT(steps[3].start.value(), DoubleNear(-0.5e-6, tolerance));
}

TEST(Timings, WithoutAnEndThatBothClocksSawNoStartIsKnown) {
  std::vector<KernelRecord> dropped = records();
  dropped.erase(dropped.begin());
  std::vector<StepStamps> steps(4);
  set_starts(Rank(0), dropped, steps);
  for (const StepStamps& s : steps) EXPECT_TRUE(std::isnan(s.start.value()));
}

TEST(Timings, OneUnseenStartLeavesTheOrderUnverified) {
  std::vector<RankStamps> stamps(1);
  stamps[0].steps.resize(4);
  stamps[0].steps[0].start = microseconds(1);
  EXPECT_EQ(timings_of(two().plan, stamps).launch_order, "unverified");
}

TEST(Observed, TellsCtasAndPathOfCommunicationOnly) {
  ProgramBuilder p("both", 2);
  const LaneId compute = p.lane({.name = "compute", .role = Role::compute});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const CommId world = p.world("world", "nccl", 4);
  const BufferId x = p.buffer({.name = "x", .count = 8});
  const BufferId y = p.buffer({.name = "y", .count = 8});
  ClassBuilder all = p.all_ranks();
  all.body(compute, Busy{microseconds(1)});
  all.body(comm, Collective{CollectiveKind::all_reduce, world, DType::f32, 8, 0}, {p.whole(x)}, {p.whole(y)});
  const Program program = std::move(p).finish();
  const Plan plan = make_plan(program, comm_configs({program}), Rank(0), 1, 0);
  const auto seen = [&](const char* name, int blocks) {
    return observed_in(plan,
                       {{.tag = tag_of(Rank(0), 0), .name = "ovl_busy", .blocks = 99},
                        {.tag = tag_of(Rank(0), 1), .name = name, .blocks = blocks}},
                       {});
  };
  EXPECT_EQ(seen("ncclDevKernel_AllReduce_RING_LL", 4).ctas, 4);
  EXPECT_EQ(seen("ncclDevKernel_AllReduce_RING_LL", 4).path, "kernel");
  EXPECT_EQ(seen("ncclSymkDevKernel_AllGather", 2).path, "symmetric");
  EXPECT_EQ(seen("memcpy", 0).path, "copy_engine");
  EXPECT_EQ(seen("memcpy", 0).ctas, 0);
  EXPECT_EQ(observed_in(plan, {}, {}).path, "") << "nobody looked";
}

// What our own kernels tell needs no CUPTI.
TEST(Stamps, KernelsThatStayTellWhereTheyWere) {
  using Kind = StayStamps::Kind;
  const auto seen = [](Kind kind, int blocks, std::set<std::uint64_t> sms) {
    RankStamps rank;
    rank.stays = {{LaneId(0), kind, {blocks, std::move(sms), 0}}};
    return observed_in({}, {}, {rank});
  };
  EXPECT_EQ(seen(Kind::proxy, 3, {0, 1, 2}).ctas, 3);
  EXPECT_EQ(seen(Kind::proxy, 3, {0, 1, 2}).path, "proxy");
  EXPECT_EQ(seen(Kind::occupy, 2, {5, 7}).sms, (std::set<std::uint64_t>{5, 7}));
  EXPECT_EQ(seen(Kind::occupy, 2, {5, 7}).ctas, 0);
  EXPECT_EQ(seen(Kind::occupy, 2, {5, 7}).shared, "");
  EXPECT_EQ(seen(Kind::occupy, 3, {5, 7}).shared, "occupy: 3 blocks that hold an SM each ran on 2");
  EXPECT_EQ(seen(Kind::stream, 3, {5, 7}).shared, "") << "streams may share one";
}

// 300 bytes copied were read and written; the occupier of another lane moves none.
TEST(Stamps, LanesTellWhatTheirStreamsMoved) {
  using Kind = StayStamps::Kind;
  RankStamps rank;
  rank.lanes = {{LaneId(0), Seconds(0), Seconds(1), std::nullopt}, {LaneId(1), Seconds(0), Seconds(1), std::nullopt}};
  rank.stays = {{LaneId(0), Kind::occupy, {1, {0}, 0}},
                {LaneId(1), Kind::stream, {1, {1}, 100}},
                {LaneId(1), Kind::stream, {1, {1}, 200}}};
  note_moved(rank);
  EXPECT_EQ(rank.lanes[0].moved, std::nullopt);
  EXPECT_EQ(rank.lanes[1].moved, Bytes(600));
}

}  // namespace
}  // namespace ovl::cuda
