// SPDX-License-Identifier: Apache-2.0
#include "backend/model/model.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "backend/model/costs.hpp"
#include "backend/model/plan.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "program/builder.hpp"
#include "program/placement.hpp"
#include "program/projection.hpp"
#include "schedule/pair.hpp"
#include "support/sample_programs.hpp"

namespace ovl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// 100 units of 1 TFLOP/s each, memory of 1 TB/s; between two ranks an all_reduce takes 100 us and 10 ps a byte.
model::Rates machine() {
  model::Rates rates;
  rates.name = "made-up";
  rates.gemm[DType::f32] = FlopsPerSecond(100e12);
  rates.memory = BytesPerSecond(1e12);
  rates.collectives.push_back({CollectiveKind::all_reduce, 2, std::nullopt, {}, 0});
  rates.collectives.back().cost.segments = {{0, {100e-6, 1e-11}}};
  return rates;
}

Timings play(Program program, model::Rates rates = machine(), const ReplayOptions& options = {}) {
  const auto backend = open_model(std::move(rates));
  std::vector<Program> arms;
  arms.push_back(std::move(program));
  return backend->prepare(std::move(arms), Data::random, 1)->run(0, options);
}

Timings recorded(Program program, model::Rates rates = machine()) {
  return play(std::move(program), std::move(rates), {.recording = Recording::operations});
}

const OperationTiming& find(const Timings& timings, int rank, OpId op) {
  const auto found = std::find_if(timings.operations.begin(), timings.operations.end(),
                                  [&](const auto& t) { return t.rank == Rank(rank) && t.op == op; });
  require(found != timings.operations.end(), "the operation is recorded");
  return *found;
}

Program pair(Bytes bytes, std::int64_t gemm_repeat = 1, int ranks = 2) {
  return pair_program(
      {.ranks = ranks, .m = 1280, .n = 1280, .k = 1280, .gemm_repeat = gemm_repeat, .bytes = bytes, .channels = 0});
}

// ---- given durations -----------------------------------------------------------------------------------------------

struct TwoLanes {
  ProgramBuilder p{"busy", 2};
  LaneId compute = p.lane({.name = "compute"});
  LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  ClassBuilder all = p.all_ranks();
};

TEST(Model, GivenDurationsNeedNoMachineAndAreExact) {
  TwoLanes t;
  t.all.body(t.compute, Busy{milliseconds(100)});
  t.all.order(t.compute, t.comm);
  t.all.body(t.comm, Busy{milliseconds(186.6667)});
  t.all.body(t.compute, Busy{milliseconds(30)});
  const Timings timings = play(std::move(t.p).finish(), {});
  EXPECT_EQ(timings.step(), milliseconds(100) + milliseconds(186.6667));
  EXPECT_EQ(timings.align_skew(), Seconds(0));
  ASSERT_EQ(timings.ranks.size(), 2U);
  EXPECT_EQ(timings.ranks[1].rank, Rank(1));
  EXPECT_EQ(timings.ranks[1].lanes[0].end, milliseconds(100) + milliseconds(30));
  EXPECT_EQ(timings.ranks[1].lanes[1].start, milliseconds(100));
}

TEST(Model, AHostSyncHoldsWhatFollowsOnAllLanes) {
  TwoLanes t;
  t.all.body(t.compute, Busy{Seconds(3)});
  t.all.body(t.compute, HostSync{});
  t.all.body(t.comm, Busy{Seconds(1)});
  EXPECT_EQ(play(std::move(t.p).finish(), {}).step(), Seconds(4));
}

TEST(Model, AStartEventFiresAtTheStart) {
  TwoLanes t;
  const EventId begun = t.p.event("begun");
  t.all.body(t.comm, Busy{Seconds(2)});
  t.all.body(t.comm, Record{begun, Moment::start});
  t.all.body(t.comm, Busy{Seconds(10)});
  t.all.body(t.compute, Wait{begun});
  t.all.body(t.compute, Busy{Seconds(1)});
  const Timings timings = play(std::move(t.p).finish(), {});
  EXPECT_EQ(timings.ranks[0].lanes[0].start, Seconds(2));
  EXPECT_EQ(timings.launch_order, "comm_first");
}

// Every rank computes at its own pace, within the skew and the same every time; given communication stays as given.
TEST(Model, SkewedRanksComputeEachAtTheirOwnPace) {
  constexpr int ranks = 1000;
  ProgramBuilder p("busy", ranks);
  const LaneId compute = p.lane({.name = "compute"});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  ClassBuilder all = p.all_ranks();
  all.body(compute, Busy{milliseconds(100)});
  all.body(comm, Busy{milliseconds(10)});
  const Program program = std::move(p).finish();
  model::Rates rates;
  rates.skew = 0.05;
  rates.seed = 7;
  const Timings timings = play(program, rates);
  ASSERT_EQ(timings.ranks.size(), std::size_t{ranks});
  double sum = 0;
  double least = 1;
  double most = 0;
  for (const RankTiming& rank : timings.ranks) {
    const double seconds = rank.lanes[0].end.value();
    sum += seconds;
    least = std::min(least, seconds);
    most = std::max(most, seconds);
    EXPECT_DOUBLE_EQ(rank.lanes[1].end.value(), 0.01);
  }
  // Evenly spread over 95 to 105 ms: of 1000 the mean is within 0.1 ms x 4 of the middle, the ends are near the limits.
  EXPECT_NEAR(sum / ranks, 0.1, 0.0004);
  EXPECT_GE(least, 0.095);
  EXPECT_LE(most, 0.105);
  EXPECT_LT(least, 0.0952);
  EXPECT_GT(most, 0.1048);
  EXPECT_EQ(play(program, rates).step(), timings.step()) << "the same seed, the same ranks";
  rates.seed = 8;
  EXPECT_NE(play(program, rates).step(), timings.step());
}

// The slowest rank decides when a collective starts, so a skewed pair cannot end before the unskewed one's slowest.
TEST(Model, ACollectiveWaitsForTheSlowestOfSkewedRanks) {
  model::Rates rates = machine();
  rates.skew = 0.2;
  ProgramBuilder p("meet", 2);
  const LaneId compute = p.lane({.name = "compute"});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const CommId world = p.communicator({.name = "world", .groups = {{Rank(0), Rank(1)}}, .transport = "nccl"});
  const BufferId in = p.buffer({.name = "in", .count = 1 << 20});
  const BufferId out = p.buffer({.name = "out", .count = 1 << 20});
  ClassBuilder all = p.all_ranks();
  all.body(compute, Busy{milliseconds(100)});
  all.order(compute, comm);
  const OpId reduced =
      all.body(comm, Collective{CollectiveKind::all_reduce, world, DType::f32, 1 << 20}, {p.whole(in)}, {p.whole(out)});
  const Timings t = recorded(std::move(p).finish(), rates);
  const double slowest = std::max(t.ranks[0].lanes[0].end.value(), t.ranks[1].lanes[0].end.value());
  EXPECT_NE(t.ranks[0].lanes[0].end, t.ranks[1].lanes[0].end);
  for (const int rank : {0, 1}) {
    EXPECT_DOUBLE_EQ(find(t, rank, reduced).start.value(), slowest);
    EXPECT_DOUBLE_EQ(find(t, rank, reduced).end.value(), slowest + 100e-6 + (1 << 22) * 1e-11);
  }
}

// Measured between the two ranks of a node: between nodes of two it says nothing, on a node of four it is scaled.
TEST(Model, WhatANodeDidTellsNothingOfRanksOnSeveral) {
  model::Rates rates = machine();
  rates.node_ranks = 2;
  EXPECT_THAT(open_model(rates)->supports(pair(mebibytes(1), 1, 4)).reason,
              HasSubstr("machine made-up does not say what all_reduce of 4 ranks on 2 nodes takes"));
  rates.node_ranks = 4;
  EXPECT_EQ(open_model(rates)->supports(pair(mebibytes(1), 1, 4)).reason, "");
}

// ---- what contends -------------------------------------------------------------------------------------------------

// 10 GB move at 1 TB/s for 10 ms alone.
struct Streams {
  ProgramBuilder p{"streams", 1};
  LaneId compute = p.lane({.name = "compute"});
  LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  BufferId a = p.buffer({.name = "a", .count = 1'250'000'000});
  BufferId b = p.buffer({.name = "b", .count = 1'250'000'000});
  EventId started = p.event("started");
  EventId done = p.event("done");
  ClassBuilder all = p.all_ranks();

  // 5 GB read and 5 GB written on the compute lane, covered by a stream on the other.
  Program covered(BytesPerSecond pace) {
    const BufferId x = p.buffer({.name = "x", .count = 1'250'000'000});
    const BufferId y = p.buffer({.name = "y", .count = 1'250'000'000});
    all.body(comm, Record{started, Moment::start});
    all.body(comm, Stream{.pace = pace, .until = done}, {p.whole(a)}, {p.whole(b)});
    all.body(compute, Wait{started});
    all.body(compute, Copy{}, {p.whole(x)}, {p.whole(y)});
    all.body(compute, Record{done});
    return std::move(p).finish();
  }
};

TEST(Model, AStreamAloneTakesItsBytesByItsPace) {
  for (const auto& [pace, seconds] : {std::pair{0.0, 0.01}, {0.5e12, 0.02}, {4e12, 0.01}}) {
    Streams s;
    const Slice from = s.p.whole(s.a);
    const Slice to = s.p.whole(s.b);
    s.all.body(s.comm, Stream{.pace = BytesPerSecond(pace), .bytes = Bytes(10'000'000'000)}, {from}, {to});
    const Timings timings = play(std::move(s.p).finish());
    EXPECT_DOUBLE_EQ(timings.step().value(), seconds) << pace;
    EXPECT_EQ(timings.ranks[0].lanes[0].moved, Bytes(10'000'000'000));
  }
}

TEST(Model, AStreamUntilAnEventTakesItsPartOfTheMemoryAsLongAsItsVictimRuns) {
  // A copy of 10 GB takes 10 ms alone. Beside a stream that takes all, each has half: 20 ms, in which the stream moved
  // as much. Beside one of 0.25 TB/s there is more asked than there is; both are slowed by the same 1.25.
  Streams greedy;
  const Timings all = play(greedy.covered(BytesPerSecond(0)));
  EXPECT_DOUBLE_EQ(all.step().value(), 0.02);
  EXPECT_EQ(all.ranks[0].lanes[1].moved, Bytes(10'000'000'000));
  EXPECT_EQ(all.ranks[0].lanes[1].end, all.ranks[0].lanes[0].end);
  EXPECT_EQ(all.ranks[0].lanes[0].moved, std::nullopt) << "a copy is no stream";

  Streams paced;
  const Timings part = play(paced.covered(BytesPerSecond(0.25e12)));
  EXPECT_DOUBLE_EQ(part.step().value(), 0.0125);
  EXPECT_NEAR(static_cast<double>(part.ranks[0].lanes[1].moved->value()), 0.25e12 / 1.25 * 0.0125, 2);
}

TEST(Model, AnOccupierTakesUnitsFromAGemm) {
  // 100 units of which 50 are held: a GEMM of 100 tiles needs two waves instead of one.
  model::Rates rates = machine();
  rates.units = 100;
  rates.memory = BytesPerSecond(1e15);
  ProgramBuilder p("occupied", 1);
  const LaneId compute = p.lane({.name = "compute"});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const BufferId a = p.buffer({.name = "a", .count = 2560 * 1280});
  const BufferId b = p.buffer({.name = "b", .count = 1280 * 1280});
  const BufferId c = p.buffer({.name = "c", .count = 2560 * 1280});
  const EventId started = p.event("started");
  const EventId done = p.event("done");
  ClassBuilder all = p.all_ranks();
  all.body(comm, Record{started, Moment::start});
  all.body(comm, Occupy{.count = 50, .until = done});
  all.body(compute, Wait{started});
  all.body(compute, Gemm{2560, 1280, 1280}, {p.whole(a), p.whole(b)}, {p.whole(c)});
  all.body(compute, Record{done});
  const Program program = std::move(p).finish();
  const double alone = play(project(program, Arm::compute), rates).step().value();
  EXPECT_NEAR(play(program, rates).step().value() / alone, 2, 1e-9);
}

TEST(Model, SaysHowManyUnitsItHasToHold) {
  model::Rates rates = machine();
  rates.units = 4;
  TwoLanes t;
  t.all.body(t.compute, Occupy{.count = 5, .duration = Seconds(1)});
  const auto backend = open_model(rates);
  EXPECT_EQ(backend->supports(std::move(t.p).finish()).reason,
            "occupy of 5 SMs: its part of the machine has 4; ask for fewer");
}

TEST(Model, TheEmptyArmTakesNoTime) { EXPECT_EQ(play(project(sample::ddp(), Arm::empty), {}).step(), Seconds(0)); }

// Gradients become ready evenly over 100 ms in n equal buckets, reduced one after the other in 50 us + W / n each.
// Independently computed steps, in ms, of the recurrence F_k = max(F_{k-1}, k 100 / n) + 0.05 + W / n.
TEST(Model, BucketsOfGivenDurationsFollowTheRecurrence) {
  struct Row {
    double wire;
    int buckets;
    double step;
  };
  const double slow = 28 / 0.15;  // 28 GB at 150 GB/s
  const double fast = 28 / 0.36;
  for (const Row& row : {Row{slow, 1, 286.7167},
                         {slow, 8, 199.5667},
                         {slow, 45, 191.1389},
                         {slow, 535, 213.6036},
                         {slow, 4096, 391.4911},
                         {fast, 45, 101.7784},
                         {fast, 256, 100.3538},
                         {fast, 1024, 129.0754}}) {
    TwoLanes t;
    for (int k = 0; k < row.buckets; ++k) {
      t.all.body(t.compute, Busy{milliseconds(100.0 / row.buckets)});
      t.all.order(t.compute, t.comm);
      t.all.body(t.comm, Busy{milliseconds(0.05 + row.wire / row.buckets)});
    }
    EXPECT_NEAR(play(std::move(t.p).finish(), {}).step().value() * 1e3, row.step, 5e-5) << row.buckets;
  }
}

TEST(Model, WithoutAMachineItSaysWhatItCannotKnow) {
  const auto backend = open_model({});
  EXPECT_THAT(backend->supports(pair(mebibytes(1))).reason,
              HasSubstr("without a machine the model cannot know what a GEMM in f32 takes: only busy operations have a "
                        "duration of their own; add --machine FILE"));
  EXPECT_THAT(backend->supports(project(pair(mebibytes(1)), Arm::comm)).reason,
              HasSubstr("cannot know what all_reduce of 2 ranks takes"));
}

// ---- a machine -----------------------------------------------------------------------------------------------------

// The GEMM: 2 · 1280³ FLOP at 100 TFLOP/s, 41.943 us, and 3 · 1280² · 4 B of memory at 1 TB/s, 19.661 us: 0.46875 of
// its bandwidth. Ten of them: 419.43 us. The all_reduce of 64 MiB: 100 us + 671.09 us = 771.09 us, in which 2 · 64 MiB
// pass memory: 134.22 us, 0.17406 of its bandwidth. Together 0.64: nobody is slowed.
TEST(Model, AGemmBesideAnAllReduceThatFit) {
  const Timings timings = play(pair(mebibytes(64), 10));
  const double gemm = 10 * 2 * 1280.0 * 1280 * 1280 / 100e12;
  const double reduce = 100e-6 + 67108864 * 1e-11;
  EXPECT_NEAR(timings.step().value(), reduce, 1e-12);
  EXPECT_NEAR(timings.ranks[0].lanes[0].end.value(), gemm, 1e-12);
  EXPECT_NEAR(timings.ranks[1].lanes[1].end.value(), reduce, 1e-12);
}

// On half the memory bandwidth the GEMM takes 0.9375 of it and the all_reduce 0.34812: 1.28562 together. Both run at
// 1 / 1.28562 until the GEMM ends at 419.43 · 1.28562 = 539.23 us; the all_reduce has then done 419.43 us of its work
// and does the other 351.66 us alone: 890.89 us.
TEST(Model, AGemmBesideAnAllReduceThatShareMemory) {
  model::Rates rates = machine();
  rates.memory = BytesPerSecond(0.5e12);
  const double gemm = 10 * 2 * 1280.0 * 1280 * 1280 / 100e12;
  const double reduce = 100e-6 + 67108864 * 1e-11;
  const double gemm_share = 10 * 3 * 1280.0 * 1280 * 4 / 0.5e12 / gemm;
  const double reduce_share = 2 * 67108864 / 0.5e12 / reduce;
  const double slowed = gemm_share + reduce_share;
  EXPECT_NEAR(slowed, 1.28562, 1e-5);
  const Timings timings = play(pair(mebibytes(64), 10), rates);
  EXPECT_NEAR(timings.ranks[0].lanes[0].end.value(), gemm * slowed, 1e-12);
  EXPECT_NEAR(timings.step().value(), reduce + gemm * slowed * (1 - 1 / slowed), 1e-12);
  EXPECT_NEAR(timings.step().value() * 1e6, 890.89, 0.01);
}

// What was measured of contention says more than what is shared: it stands for it.
TEST(Model, MeasuredSlowdownsStandForSharing) {
  model::Rates rates = machine();
  rates.memory = BytesPerSecond(0.5e12);
  rates.compute_slowdown = 2.5;
  rates.comm_slowdown = 2;
  const Timings timings = play(pair(mebibytes(64), 10), rates);
  const double gemm = 10 * 2 * 1280.0 * 1280 * 1280 / 100e12;
  const double reduce = 100e-6 + 67108864 * 1e-11;
  EXPECT_NEAR(timings.ranks[0].lanes[0].end.value(), gemm * 2.5, 1e-12);
  EXPECT_NEAR(timings.step().value(), reduce + gemm * 2.5 * (1 - 1.0 / 2), 1e-12);
  EXPECT_NEAR(play(project(pair(mebibytes(64), 10), Arm::comm), rates).step().value(), reduce, 1e-12) << "alone";
}

TEST(Model, ArmsAddUpWhereNothingContends) {
  const Program whole = pair(mebibytes(64), 10);
  const auto step = [&](Arm arm) { return play(project(whole, arm)).step(); };
  EXPECT_EQ(step(Arm::empty), Seconds(0));
  EXPECT_EQ(step(Arm::overlapped), std::max(step(Arm::compute), step(Arm::comm)));
  EXPECT_NEAR((step(Arm::serial) - step(Arm::compute) - step(Arm::comm)).value(), 0, 1e-15);
}

// An all_reduce that is issued behind a GEMM of all units waits for a kernel's end; one with priority for a block's.
TEST(Model, UnitsAndPrioritiesDelayACollective) {
  model::Rates rates = machine();
  rates.units = 100;
  rates.comm_units = 10;
  // 1280 x 1280 are 100 tiles of 128 x 128: one wave of 2 · 128² · 1280 FLOP on 1 TFLOP/s.
  const double kernel = 2 * 128.0 * 128 * 1280 / 1e12;
  const Program whole = pair(mebibytes(64), 10);
  const Timings normal = recorded(whole, rates);
  const OpId reduction = whole.classes[0].body.back().id;
  EXPECT_NEAR(find(normal, 0, reduction).start.value(), kernel, 1e-12);
  EXPECT_EQ(find(normal, 0, reduction).ready, Seconds(0));
  EXPECT_EQ(normal.launch_order, "compute_first");
  const Program urgent = place(whole, parse_placement("priority_comm"));
  EXPECT_EQ(find(recorded(urgent, rates), 0, reduction).start, Seconds(0)) << "it is there first";
  // On the 90 units that are left 100 tiles are two waves.
  EXPECT_GT(normal.ranks[0].lanes[0].end.value(), 1.5 * 10 * kernel);
}

TEST(Model, ACopyEngineTakesNoUnitsButCannotAdd) {
  model::Rates rates = machine();
  rates.units = 100;
  rates.comm_units = 10;
  rates.collectives[0].kind = CollectiveKind::all_gather;
  const auto program = [](CollectiveKind kind, const std::string& transport) {
    return pair_program({.m = 1280,
                         .n = 1280,
                         .k = 1280,
                         .collective = kind,
                         .bytes = mebibytes(64),
                         .transport = transport,
                         .channels = 0});
  };
  const Timings copied = play(program(CollectiveKind::all_gather, "copy"), rates);
  EXPECT_EQ(copied.ranks[0].lanes[1].start, Seconds(0));
  EXPECT_GT(play(program(CollectiveKind::all_gather, "nccl"), rates).ranks[0].lanes[1].start, Seconds(0));
  EXPECT_EQ(open_model(rates)->supports(program(CollectiveKind::all_reduce, "copy")).reason,
            "all_reduce over copy engines: they move bytes and cannot add them up");
}

TEST(Model, APartitionKeepsComputeOffTheUnitsOfCommunication) {
  model::Rates rates = machine();
  rates.units = 100;
  rates.comm_units = 50;
  const Program whole = place(pair(mebibytes(64), 10), parse_placement("partitioned"));
  const Timings timings = play(whole, rates);
  const double kernel = 2 * 128.0 * 128 * 1280 / 1e12;
  EXPECT_EQ(timings.ranks[0].lanes[1].start, Seconds(0));
  EXPECT_NEAR(timings.ranks[0].lanes[0].end.value(), 10 * 2 * kernel, 1e-12) << "100 tiles on 50 units";
  EXPECT_NEAR(play(project(whole, Arm::compute), rates).step().value(), 10 * 2 * kernel, 1e-12) << "alone too";
}

// ---- ranks ---------------------------------------------------------------------------------------------------------

TEST(Model, EqualRanksArePlayedAsOne) {
  const auto players = [](const Program& program) { return model::players_of(program, {}).size(); };
  EXPECT_EQ(players(pair(mebibytes(1), 1, 1024)), 1U);
  EXPECT_EQ(players(sample::ddp()), 1U);
  EXPECT_EQ(players(sample::pipeline()), 2U);
  EXPECT_EQ(players(sample::mesh()), 1U);
}

TEST(Model, RanksThatMeetOthersAreToldApart) {
  // Two classes; the second communicator puts a's first member with b's, and a's second alone.
  ProgramBuilder p("uneven", 3);
  const LaneId lane = p.lane({.name = "comm", .role = Role::communication});
  const CommId some = p.communicator({.name = "some", .groups = {{Rank(0), Rank(2)}, {Rank(1)}}, .transport = "shm"});
  const BufferId x = p.buffer({.name = "x", .count = 4});
  const BufferId y = p.buffer({.name = "y", .count = 4});
  ClassBuilder a = p.ranks("a", {Rank(0), Rank(1)});
  ClassBuilder b = p.ranks("b", {Rank(2)});
  b.body(lane, Busy{Seconds(7)});
  for (ClassBuilder* c : {&a, &b}) {
    c->body(lane, Collective{CollectiveKind::all_reduce, some, DType::f32, 4, 0}, {p.whole(x)}, {p.whole(y)});
  }
  const Program program = std::move(p).finish();
  EXPECT_EQ(model::players_of(program, {}).size(), 3U);
  const Timings timings = play(program);
  EXPECT_NEAR(timings.ranks[0].end.value(), 7 + 100e-6 + 16e-11, 1e-12);
  EXPECT_EQ(timings.ranks[1].end, Seconds(0)) << "alone, it communicates nothing";
}

TEST(Model, WaitingForTheLastRankIsNotTransfer) {
  ProgramBuilder p("late", 2);
  const LaneId lane = p.lane({.name = "comm", .role = Role::communication});
  const CommId world = p.world("world", "shm", 1);
  const BufferId x = p.buffer({.name = "x", .count = 4});
  const BufferId y = p.buffer({.name = "y", .count = 4});
  OpId reduction;
  for (const int r : {0, 1}) {
    ClassBuilder rank = p.ranks("rank" + std::to_string(r), {Rank(r)});
    if (r == 1) rank.body(lane, Busy{Seconds(1)});
    reduction =
        rank.body(lane, Collective{CollectiveKind::all_reduce, world, DType::f32, 4, 0}, {p.whole(x)}, {p.whole(y)});
  }
  const Program program = std::move(p).finish();
  const Timings timings = recorded(program);
  const OperationTiming& early = find(timings, 0, program.classes[0].body.front().id);
  EXPECT_EQ(early.ready, Seconds(0));
  EXPECT_EQ(early.start, Seconds(1));
  EXPECT_NEAR((early.end - early.start).value(), 100e-6 + 16e-11, 1e-12);
  EXPECT_EQ(timings.ranks[0].lanes[0].start, Seconds(0)) << "the lane was taken from then on";
}

TEST(Model, ManyRanksAreOnlyTheTimeOfTheirCollective) {
  model::Rates rates = machine();
  rates.collectives[0].ranks = 1024;
  EXPECT_EQ(play(pair(mebibytes(64), 10, 1024), rates).step(), play(pair(mebibytes(64), 10)).step());
  EXPECT_EQ(play(pair(mebibytes(64), 10, 1024), rates).ranks.size(), 1024U);
}

TEST(Model, AnExchangeWithoutAMachineOnlyOrders) {
  Program program = sample::pipeline();
  for (RankClass& c : program.classes) {
    for (Operation& op : c.body) {
      if (op.role == Role::compute && !is_ordering(op.work)) op.work = Busy{Seconds(1)};
    }
  }
  // First stage, then the second, then what comes back.
  const Timings timings = play(program, {});
  EXPECT_EQ(timings.ranks[1].lanes[0].start, Seconds(1));
}

// ---- what the host adds --------------------------------------------------------------------------------------------

TEST(Model, ALiveLaunchHandsOverOneAfterAnother) {
  model::Rates rates = machine();
  rates.launch = microseconds(5);
  TwoLanes t;
  for (int i = 0; i < 3; ++i) t.all.body(t.compute, Busy{microseconds(1)});
  const Program program = std::move(t.p).finish();
  EXPECT_NEAR(play(program, rates).step().value() * 1e6, 3, 1e-9) << "gated: all is there before the clock starts";
  const Timings live = play(program, rates, {.launch = Launch::live, .recording = Recording::operations});
  EXPECT_NEAR(live.step().value() * 1e6, 16, 1e-9);
  EXPECT_NEAR(live.operations[2].enqueued.value() * 1e6, 15, 1e-9);
}

// Two operations of 1 s on one lane, due at once and after 3 s, one of 2 s on another lane that is issued last.
Program timed() {
  TwoLanes t;
  t.all.body(t.comm, Busy{Seconds(1)});
  t.all.submit(Seconds(3), t.comm, Busy{Seconds(1)});
  t.all.body(t.compute, Busy{Seconds(2)});
  return std::move(t.p).finish();
}

TEST(Model, WhatHasATimeIsNotSubmittedBeforeNorWhatIsIssuedAfterIt) {
  const Timings t = recorded(timed(), {});
  EXPECT_EQ(find(t, 0, OpId(0)).end, Seconds(1));
  EXPECT_EQ(find(t, 1, OpId(1)).enqueued, Seconds(3));
  EXPECT_EQ(find(t, 1, OpId(1)).start, Seconds(3));
  EXPECT_EQ(find(t, 1, OpId(2)).enqueued, Seconds(3));
  EXPECT_EQ(t.step(), Seconds(5));
}

TEST(Model, ABusyLaneServesWhatWasSubmittedMeanwhile) {
  TwoLanes t;
  t.all.body(t.comm, Busy{Seconds(4)});
  t.all.submit(Seconds(3), t.comm, Busy{Seconds(1)});
  const Timings timings = recorded(std::move(t.p).finish(), {});
  EXPECT_EQ(find(timings, 0, OpId(1)).enqueued, Seconds(3));
  EXPECT_EQ(find(timings, 0, OpId(1)).start, Seconds(4));
}

TEST(Model, SubmittingOverTimeIsLiveInAllArmsOfACase) {
  model::Rates rates = machine();
  rates.launch = milliseconds(500);
  const Program program = timed();
  EXPECT_EQ(find(recorded(program, rates), 0, OpId(1)).enqueued, Seconds(3.5)) << "due at 3 s, then handed over";
  TwoLanes t;
  t.all.body(t.comm, Busy{Seconds(1)});
  const auto backend = open_model(rates);
  const auto prepared = backend->prepare({std::move(t.p).finish(), program}, Data::random, 1);
  EXPECT_EQ(prepared->run(0, {}).step(), Seconds(1.5)) << "asked for gated";
}

// ---- costs ---------------------------------------------------------------------------------------------------------

std::vector<Rank> ranks(int n) {
  std::vector<Rank> all;
  for (int r = 0; r < n; ++r) all.emplace_back(r);
  return all;
}

Collective reduce(std::int64_t count) { return {CollectiveKind::all_reduce, CommId(0), DType::f32, count, 0}; }

TEST(ModelCosts, WhatWasMeasuredComesFirst) {
  const model::Cost cost = model::collective_cost(machine(), reduce(1'000'000), ranks(2));
  EXPECT_EQ(cost.how, "measured");
  EXPECT_NEAR(cost.time.value(), 100e-6 + 4e6 * 1e-11, 1e-15);
}

TEST(ModelCosts, AFitThatReachesNothingStaysWhereItWasMeasured) {
  model::Rates rates = machine();
  rates.collectives[0].cost.segments[0].line.alpha = -1e-6;
  rates.collectives[0].least_bytes = 1e6;
  EXPECT_NEAR(model::collective_cost(rates, reduce(4), ranks(2)).time.value(), 1e6 * 1e-11 - 1e-6, 1e-15);
  EXPECT_NEAR(model::collective_cost(rates, reduce(1'000'000), ranks(2)).time.value(), 4e6 * 1e-11 - 1e-6, 1e-15);
}

TEST(ModelCosts, OtherNumbersOfRanksAreScaledAsARing) {
  // Of 2 ranks: 2 steps of 50 us, and bytes at 1 / 10 ps on the bus. Of 4: 6 steps, and 1.5 times the bytes.
  const model::Cost cost = model::collective_cost(machine(), reduce(1'000'000), ranks(4));
  EXPECT_EQ(cost.how, "scaled from all_reduce of 2 ranks");
  EXPECT_NEAR(cost.time.value(), 6 * 50e-6 + 1.5 * 4e6 * 1e-11, 1e-15);
  // Half of an all_reduce.
  const model::Cost half =
      model::collective_cost(machine(), {CollectiveKind::all_gather, CommId(0), DType::f32, 1'000'000, 0}, ranks(4));
  EXPECT_NEAR(half.time.value(), cost.time.value() / 2, 1e-15);
}

TEST(ModelCosts, LinksAreTakenWithTheirFastestAlgorithm) {
  model::Rates rates;
  rates.name = "links";
  rates.link = {microseconds(10), BytesPerSecond(100e9)};
  rates.network = {microseconds(20), BytesPerSecond(50e9)};
  rates.node_ranks = 4;
  EXPECT_EQ(model::collective_cost(rates, reduce(100'000'000), ranks(4)).how, "recursive");
  const model::Cost across = model::collective_cost(rates, reduce(100'000'000), ranks(8));
  EXPECT_EQ(across.how, "hierarchical");
  EXPECT_EQ(across.links.size(), 2U);
  EXPECT_NEAR(across.time.value() * 1e6, 2 * 3 * (10 + 1000) + 2 * (20 + 1000), 1e-6);
  EXPECT_NEAR(model::message_cost(rates, Bytes(1'000'000), Rank(3), Rank(4)).time.value() * 1e6, 40, 1e-9);
  EXPECT_NEAR(model::message_cost(rates, Bytes(1'000'000), Rank(2), Rank(3)).time.value() * 1e6, 20, 1e-9);
}

TEST(ModelCosts, NcclChoosesWhereItsGraphIsKnown) {
  model::Rates rates;
  rates.name = "h100";
  rates.nccl = {GpuGeneration::hopper, 12, BytesPerSecond(30e9)};
  const model::Cost small = model::collective_cost(rates, reduce(2048), ranks(8));
  EXPECT_EQ(small.how, "NCCL ring LL");
  EXPECT_NEAR(small.time.value() * 1e6, 15.1, 0.05);
  EXPECT_EQ(model::collective_cost(rates, reduce(1 << 28), ranks(8)).how, "NCCL ring Simple");
}

TEST(ModelCosts, WhatTheMachineDoesNotSayIsNamed) {
  model::Rates rates;
  rates.name = "bare";
  const auto reason = [](auto call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::impossible);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(reason([&] {
              model::gemm_cost(rates, {64, 64, 64, DType::bf16});
            }),
            "machine bare does not say what a GEMM in bf16 takes; add it to the machine description, or take another "
            "one");
  EXPECT_THAT(reason([&] { model::collective_cost(rates, reduce(8), ranks(3)); }),
              HasSubstr("does not say what all_reduce of 3 ranks takes"));
  EXPECT_THAT(reason([&] { model::message_cost(rates, Bytes(8), Rank(0), Rank(1)); }), HasSubstr("a message"));
  EXPECT_THAT(reason([&] { model::memory_cost(rates, "copy", Bytes(8)); }), HasSubstr("copy"));
}

// ---- what must hold ------------------------------------------------------------------------------------------------

// Random chains: a machine with a faster resource never makes the step longer.
TEST(Model, OnAChainAFasterResourceIsNeverSlower) {
  int faster = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Random random(mix64(seed));
    ProgramBuilder p("chain", 2);
    const LaneId lane = p.lane({.name = "compute"});
    const CommId world = p.world("world", "shm", 1);
    const BufferId x = p.buffer({.name = "x", .count = 1 << 20});
    const BufferId y = p.buffer({.name = "y", .count = 1 << 20});
    ClassBuilder all = p.all_ranks();
    for (int i = 0; i < 20; ++i) {
      const auto size = static_cast<std::int64_t>(1 + random.below(1000));
      switch (random.below(3)) {
        case 0: all.body(lane, Gemm{size, size, size}, {}, {}); break;
        case 1: all.body(lane, Elementwise{}, {{x, 0, size}}, {{y, 0, size}}); break;
        default:
          all.body(lane, Collective{CollectiveKind::all_reduce, world, DType::f32, size, 0}, {{x, 0, size}},
                   {{y, 0, size}});
      }
    }
    const Program program = std::move(p).finish();
    model::Rates rates = machine();
    rates.units = 16;
    const auto step = [&](auto change) {
      model::Rates changed = rates;
      change(changed);
      return play(program, changed).step();
    };
    const Seconds before = step([](model::Rates&) {});
    EXPECT_GT(before, Seconds(0));
    const Seconds arithmetic = step([](model::Rates& r) { r.gemm[DType::f32] = FlopsPerSecond(200e12); });
    const Seconds memory = step([](model::Rates& r) { r.memory = BytesPerSecond(2e12); });
    const Seconds latency = step([](model::Rates& r) { r.collectives[0].cost.segments[0].line.alpha = 50e-6; });
    for (const Seconds after : {arithmetic, memory, latency}) EXPECT_LE(after, before) << seed;
    faster += (arithmetic < before ? 1 : 0) + (memory < before ? 1 : 0) + (latency < before ? 1 : 0);
  }
  EXPECT_GT(faster, 100) << "or the bound says little";
}

TEST(Model, ReplaysAreTheSameToTheBit) {
  const auto backend = open_model(machine());
  std::vector<Program> arms;
  arms.push_back(pair(mebibytes(64), 10));
  const auto prepared = backend->prepare(std::move(arms), Data::random, 1);
  const Seconds first = prepared->run(0, {}).step();
  for (std::int64_t slot = 1; slot < 5; ++slot) EXPECT_EQ(prepared->run(0, {.slot = slot}).step(), first);
}

// ---- the backend ---------------------------------------------------------------------------------------------------

TEST(Model, SaysWhatItIs) {
  const Description d = open_model(machine(), 8)->describe();
  EXPECT_EQ(d.backend, "model");
  EXPECT_EQ(d.source, "model");
  EXPECT_EQ(d.device, "made-up");
  EXPECT_EQ(d.default_ranks, 8);
  model::Rates of_sixteen = machine();
  of_sixteen.collectives[0].ranks = 16;
  EXPECT_EQ(open_model(of_sixteen)->describe().default_ranks, 16);
  EXPECT_EQ(open_model({})->describe().device, "no machine: given durations only");
}

TEST(Model, SaysHowItPredicted) {
  const auto backend = open_model(machine());
  std::vector<Program> arms;
  arms.push_back(pair(mebibytes(64)));
  const auto prepared = backend->prepare(std::move(arms), Data::random, 1);
  const auto observed = prepared->observed();
  const auto fact = [&](const std::string& name) {
    return std::find_if(observed.begin(), observed.end(), [&](const Fact& f) { return f.name == name; })->value;
  };
  EXPECT_EQ(fact("path"), "measured");
  EXPECT_EQ(fact("layout"), "virtual: 1 of 2 ranks played; not known: units");
}

TEST(Model, HasNoDataToVerify) {
  const auto backend = open_model(machine());
  std::vector<Program> arms;
  arms.push_back(pair(mebibytes(1)));
  const auto prepared = backend->prepare(std::move(arms), Data::exact, 1);
  EXPECT_THROW((void)prepared->contents(BufferId(0), Rank(0), 0), Error);
  EXPECT_THROW((void)prepared->fingerprint(BufferId(0), Rank(0), 0), Error);
}

TEST(Model, WrongNumbersOfRanksAreAUsageError) {
  EXPECT_THROW(open_model(machine(), -1), Error);
  try {
    open_model(machine(), 65'537);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_STREQ(error.what(), "ranks 65537: the model plays 1 to 65536; type a number in this range");
  }
}

TEST(Model, IsNeverTakenUnasked) {
  BackendRegistry registry;
  registry.add(model_entry());
  registry.add({"other", 1, [] { return std::string(); }, {}});
  EXPECT_EQ(registry.choose("auto").name, "other");
  EXPECT_EQ(registry.choose("model").name, "model");
}

}  // namespace
}  // namespace ovl
