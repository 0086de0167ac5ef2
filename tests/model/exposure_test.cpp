// SPDX-License-Identifier: Apache-2.0
#include "backend/model/exposure.hpp"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/model/model.hpp"
#include "base/random.hpp"
#include "program/builder.hpp"
#include "program/projection.hpp"
#include "schedule/pipeline.hpp"

namespace ovl {
namespace {

// An all_reduce of two ranks takes 1 ms and 1 ns a byte; memory 1 TB/s; a GEMM of f32 1 TFLOP/s.
model::Rates exposing_machine() {
  model::Rates rates;
  rates.name = "made-up";
  rates.gemm[DType::f32] = FlopsPerSecond(1e12);
  rates.memory = BytesPerSecond(1e12);
  rates.collectives.push_back({CollectiveKind::all_reduce, 2, std::nullopt, {}, 0});
  rates.collectives.back().cost.segments = {{0, {1e-3, 1e-9}}};
  rates.link = {Seconds(1e-3), BytesPerSecond(1e9)};
  return rates;
}

Timings recorded_on(const Program& program, const model::Rates& rates, Launch launch = Launch::gated) {
  const auto backend = open_model(rates, program.ranks);
  return backend->prepare({program}, Data::random, 1)->run(0, {.launch = launch, .recording = Recording::operations});
}

// Milliseconds by "op cause" or "op cause beside".
std::map<std::string, double> parts(const ExposedTime& exposed) {
  std::map<std::string, double> all;
  for (const ExposedPart& part : exposed.parts) {
    std::string key = std::to_string(part.op.value) + " " + std::string(name(part.cause));
    if (part.beside.valid()) key += " " + std::to_string(part.beside.value);
    all[key] += part.time.value() * 1e3;
  }
  return all;
}

// The step is what the rank computes alone and the parts, to the rounding of a sum.
void expect_whole(const Timings& t) {
  ASSERT_TRUE(t.exposed.has_value());
  double sum = t.exposed->computed.value();
  for (const ExposedPart& part : t.exposed->parts) {
    sum += part.time.value();
    EXPECT_GT(part.time, Seconds(0));
  }
  EXPECT_NEAR(sum, t.step().value(), 1e-12 * t.step().value());
}

struct Lanes {
  explicit Lanes(int ranks) : p("lanes", ranks) {
    std::vector<Rank> members;
    for (int r = 0; r < ranks; ++r) members.emplace_back(r);
    world = p.communicator({.name = "world", .groups = {members}, .transport = "nccl", .channels = 0});
  }
  OpId reduce(ClassBuilder& c, std::int64_t bytes) {
    const std::string nth = std::to_string(reductions++);
    const BufferId in = p.buffer({.name = "in" + nth, .count = bytes / 4});
    const BufferId out = p.buffer({.name = "out" + nth, .count = bytes / 4});
    return c.body(comm, Collective{CollectiveKind::all_reduce, world, DType::f32, bytes / 4}, {p.whole(in)},
                  {p.whole(out)});
  }
  ProgramBuilder p;
  LaneId compute = p.lane({.name = "compute"});
  LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  CommId world;
  int reductions = 0;
};

using Parts = std::map<std::string, double>;
void expect_parts(const Timings& t, const Parts& expected) {
  expect_whole(t);
  const Parts found = parts(*t.exposed);
  for (const auto& [key, ms] : expected) {
    const auto part = found.find(key);
    ASSERT_TRUE(part != found.end()) << key;
    EXPECT_NEAR(part->second, ms, 1e-9) << key;
  }
  for (const auto& [key, ms] : found) EXPECT_TRUE(expected.contains(key)) << key << " " << ms;
}

// 3 ms, then 1 ms + 1 MB that its successor of 2 ms waits for: both, and what hides behind it not.
TEST(Exposure, WaitingForATransferIsTheTransfers) {
  Lanes l(2);
  ClassBuilder all = l.p.all_ranks();
  all.body(l.compute, Busy{milliseconds(3)});
  all.order(l.compute, l.comm);
  const OpId first = l.reduce(all, 1'000'000);
  all.order(l.comm, l.compute);
  all.body(l.compute, Busy{milliseconds(2)});
  const OpId hidden = l.reduce(all, 400'000);
  const Timings t = recorded_on(std::move(l.p).finish(), exposing_machine());
  EXPECT_NEAR(t.step().value(), 7e-3, 1e-15);
  EXPECT_EQ(t.exposed->computed, milliseconds(5));
  expect_parts(t, {{std::to_string(first.value) + " transfer", 2}});
  EXPECT_NE(first, hidden);
}

// The tail: two reductions one after the other, of which the first still hides for a while.
TEST(Exposure, ATailIsThatOfEveryOperationInIt) {
  Lanes l(2);
  ClassBuilder all = l.p.all_ranks();
  all.body(l.compute, Busy{milliseconds(3)});
  const OpId a = l.reduce(all, 3'000'000);
  const OpId b = l.reduce(all, 1'000'000);
  const Timings t = recorded_on(std::move(l.p).finish(), exposing_machine());
  expect_parts(t, {{std::to_string(a.value) + " transfer", 1}, {std::to_string(b.value) + " transfer", 2}});
}

// Rank 1 computes 5 ms before it reduces, rank 0 2 ms before and 4 after: it computes longest, and waits for its peer.
TEST(Exposure, ALatePeerIsNoTransfer) {
  Lanes l(2);
  ClassBuilder early = l.p.ranks("early", {Rank(0)});
  early.body(l.compute, Busy{milliseconds(2)});
  early.order(l.compute, l.comm);
  const OpId reduced = l.reduce(early, 1'000'000);
  early.order(l.comm, l.compute);
  early.body(l.compute, Busy{milliseconds(4)});
  ClassBuilder late = l.p.ranks("late", {Rank(1)});
  late.body(l.compute, Busy{milliseconds(5)});
  late.order(l.compute, l.comm);
  l.reduce(late, 1'000'000);
  const Timings t = recorded_on(std::move(l.p).finish(), exposing_machine());
  EXPECT_EQ(t.exposed->rank, Rank(0));
  expect_parts(t, {{std::to_string(reduced.value) + " peer", 3}, {std::to_string(reduced.value) + " transfer", 2}});
}

// A rank that is done waits for one that still computes.
TEST(Exposure, AfterItsOwnEndAnotherRanksComputingIsAPeer) {
  Lanes l(2);
  ClassBuilder first = l.p.ranks("first", {Rank(0)});
  first.body(l.compute, Busy{milliseconds(4)});
  ClassBuilder second = l.p.ranks("second", {Rank(1)});
  second.body(l.comm, Busy{milliseconds(2)});
  second.order(l.comm, l.compute);
  const OpId later = second.body(l.compute, Busy{milliseconds(3)});
  const Timings t = recorded_on(std::move(l.p).finish(), {});
  EXPECT_EQ(t.exposed->rank, Rank(0));
  expect_parts(t, {{std::to_string(later.value) + " peer", 1}});
}

// A copy of 1 GB moves 2 GB, 2 ms. A reduction of 0.5 GB takes 1.5 ms, of which moving 1 GB would take 1: together they
// want 5/3 of the memory, so both go at 3/5. The reduction ends after 2.5 ms, when 0.5 ms of copying are left.
TEST(Exposure, SharedMemoryIsWhoseItIsSharedWith) {
  model::Rates rates = exposing_machine();
  rates.collectives.back().cost.segments = {{0, {1e-3, 1e-12}}};
  Lanes l(2);
  ClassBuilder all = l.p.all_ranks();
  const BufferId x = l.p.buffer({.name = "x", .count = 250'000'000});
  const BufferId y = l.p.buffer({.name = "y", .count = 250'000'000});
  const OpId copy = all.body(l.compute, Copy{}, {l.p.whole(x)}, {l.p.whole(y)});
  const OpId reduced = l.reduce(all, 500'000'000);
  const Timings t = recorded_on(std::move(l.p).finish(), rates);
  EXPECT_NEAR(t.step().value(), 3e-3, 1e-12);
  expect_parts(t, {{std::to_string(reduced.value) + " shared " + std::to_string(copy.value), 1}});
}

// The reduction takes 4 ms where it is alone; what was measured says that beside a GEMM it takes 1.5 times as long.
TEST(Exposure, WhatSlowsATransferIsPartOfItsOwn) {
  model::Rates rates = exposing_machine();
  rates.comm_slowdown = 1.5;
  Lanes l(2);
  ClassBuilder all = l.p.all_ranks();
  const BufferId a = l.p.buffer({.name = "a", .count = 1000 * 1000});
  const BufferId c = l.p.buffer({.name = "c", .count = 1000 * 1000});
  all.body(l.compute, Gemm{1000, 1000, 1000}, {l.p.whole(a), l.p.whole(a)}, {l.p.whole(c)});
  const OpId reduced = l.reduce(all, 3'000'000);
  const Timings t = recorded_on(std::move(l.p).finish(), rates);
  const double gemm = t.exposed->computed.value() * 1e3;
  // While the GEMM runs, a third of the reduction's time is lost, hidden; the tail goes as fast as alone.
  EXPECT_NEAR(t.step().value() * 1e3, 4 + gemm / 3, 1e-9);
  expect_parts(t, {{std::to_string(reduced.value) + " transfer", 4 + gemm / 3 - gemm}});
}

// 10 units, 5 of which a reduction holds for 4 ms: a GEMM of 10 tiles in one wave of 2 ms runs in two waves.
TEST(Exposure, UnitsThatAreHeldAreTheHolders) {
  model::Rates rates = exposing_machine();
  rates.units = 10;
  rates.comm_units = 5;
  rates.memory = BytesPerSecond(1e18);
  rates.gemm[DType::f32] = FlopsPerSecond(2.0 * 1280 * 1280 * 1280 / 2e-3);
  Lanes l(2);
  ClassBuilder all = l.p.all_ranks();
  const BufferId a = l.p.buffer({.name = "a", .count = 1280 * 1280});
  const BufferId c = l.p.buffer({.name = "c", .count = 1280 * 1280});
  const OpId reduced = l.reduce(all, 30'000'000);
  const OpId gemm = all.body(l.compute, Gemm{1280, 1280, 1280}, {l.p.whole(a), l.p.whole(a)}, {l.p.whole(c)});
  const Program program = std::move(l.p).finish();
  const double alone = recorded_on(project(program, Arm::compute), rates).step().value();
  const Timings t = recorded_on(program, rates);
  const auto found = parts(*t.exposed);
  expect_whole(t);
  const std::string key = std::to_string(reduced.value) + " units " + std::to_string(gemm.value);
  ASSERT_TRUE(found.contains(key));
  EXPECT_NEAR(found.at(key), alone * 1e3, 1e-9) << "twice the time: as much again is lost";
  EXPECT_NEAR(found.at(std::to_string(reduced.value) + " transfer"), 31 - 2 * alone * 1e3, 1e-9);
}

// Three operations handed over 1 ms apart, of 0.2 ms: the host is what is waited for.
TEST(Exposure, WhatIsNotHandedOverIsTheHosts) {
  model::Rates rates = exposing_machine();
  rates.launch = Seconds(1e-3);
  Lanes l(2);
  ClassBuilder all = l.p.all_ranks();
  std::vector<OpId> ops;
  ops.reserve(3);
  for (int i = 0; i < 3; ++i) ops.push_back(all.body(l.compute, Busy{milliseconds(0.2)}));
  const Timings t = recorded_on(std::move(l.p).finish(), rates, Launch::live);
  EXPECT_NEAR(t.step().value(), 3.2e-3, 1e-15);
  expect_parts(t, {{std::to_string(ops[0].value) + " launch", 1},
                   {std::to_string(ops[1].value) + " launch", 0.8},
                   {std::to_string(ops[2].value) + " launch", 0.8}});
}

TEST(Exposure, WhereNobodyComputesOrTwoDoOnOneRankNothingIsSaid) {
  Lanes l(2);
  ClassBuilder all = l.p.all_ranks();
  l.reduce(all, 1'000'000);
  EXPECT_FALSE(recorded_on(std::move(l.p).finish(), exposing_machine()).exposed.has_value());
  Lanes two(2);
  const LaneId second = two.p.lane({.name = "second"});
  ClassBuilder both = two.p.all_ranks();
  both.body(two.compute, Busy{milliseconds(2)});
  both.body(second, Busy{milliseconds(2)});
  EXPECT_FALSE(recorded_on(std::move(two.p).finish(), exposing_machine()).exposed.has_value());
}

// Without waits of other kinds a bubble is waiting for the neighbour: of p stages and m microbatches of F + B + W = 3
// the last stage waits (p - 1) times for the first activation, and the others at the end: in all (p - 1) 3.
TEST(Exposure, ABubbleIsLatePeers) {
  const Program program = pipeline_program(PipelineWhatIf{.shape = {PipelineSchedule::one_f_one_b, 4, 8, 1},
                                                          .forward = Seconds(1),
                                                          .backward_input = Seconds(1),
                                                          .backward_weight = Seconds(1)});
  const Timings t = recorded_on(program, {});
  expect_whole(t);
  double peer = 0;
  for (const ExposedPart& part : t.exposed->parts) {
    EXPECT_EQ(part.cause, ExposedCause::peer);
    peer += part.time.value();
  }
  EXPECT_NEAR(peer, 3 * 3, 1e-12);
  EXPECT_EQ(t.exposed->computed, Seconds(8 * 3));
}

// Random programs of two ranks, with everything that contends: the parts are the whole, every time.
TEST(Exposure, IsTheWholeOfRandomSteps) {
  int exposed = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(mix64(seed));
    Lanes l(2);
    const LaneId other = l.p.lane({.name = "other", .role = Role::communication});
    const BufferId x = l.p.buffer({.name = "x", .count = 1 << 20});
    const BufferId y = l.p.buffer({.name = "y", .count = 1 << 20});
    ClassBuilder all = l.p.all_ranks();
    for (int i = 0; i < 40; ++i) {
      const auto size = static_cast<std::int64_t>(1 + random.below(1 << 18));
      switch (random.below(6)) {
        case 0: all.body(l.compute, Gemm{256, 512, 1 + size % 512}, {}, {}); break;
        case 1: all.body(l.compute, Elementwise{}, {{x, 0, size}}, {{y, 0, size}}); break;
        case 2: l.reduce(all, 4 * size); break;
        case 3: all.body(other, Copy{}, {{x, 0, size}}, {{y, 0, size}}); break;
        case 4: all.order(random.below(2) == 0 ? l.comm : other, l.compute); break;
        default: all.order(l.compute, random.below(2) == 0 ? l.comm : other);
      }
    }
    all.body(l.compute, Busy{Seconds(1e-4)});
    const Program program = std::move(l.p).finish();
    model::Rates rates = exposing_machine();
    rates.collectives.back().cost.segments = {{0, {1e-5, 1e-10}}};
    rates.units = random.below(2) == 0 ? 0 : 16;
    rates.comm_units = 4;
    rates.kernel = Seconds(1e-6);
    rates.skew = random.below(2) == 0 ? 0 : 0.2;
    if (random.below(3) == 0) rates.compute_slowdown = rates.comm_slowdown = 1.3;
    const Timings t = recorded_on(program, rates);
    SCOPED_TRACE(seed);
    expect_whole(t);
    exposed += t.exposed && !t.exposed->parts.empty() ? 1 : 0;
  }
  EXPECT_GT(exposed, 30) << "or the sums say little";
}

}  // namespace
}  // namespace ovl
