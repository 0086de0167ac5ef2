// SPDX-License-Identifier: Apache-2.0
#include "program/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/random.hpp"
#include "program/builder.hpp"
#include "program/order.hpp"
#include "program/projection.hpp"
#include "support/sample_programs.hpp"

namespace ovl {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

using Texts = std::vector<std::string>;
using Slices = std::vector<Slice>;

// "kind: message" of every finding.
Texts found(const Program& program) {
  Texts texts;
  for (const Finding& f : check(program)) texts.push_back(std::string(name(f.kind)) + ": " + f.message);
  return texts;
}

Operation& operation(Program& program, std::size_t rank_class, int id) {
  RankClass& c = program.classes.at(rank_class);
  for (auto* part : {&c.prologue, &c.body, &c.epilogue}) {
    for (Operation& op : *part) {
      if (op.id == OpId(id)) return op;
    }
  }
  throw std::out_of_range("no such operation");
}

Program without(Program program, std::size_t rank_class, OpId id) {
  std::erase_if(program.classes[rank_class].body, [&](const Operation& op) { return op.id == id; });
  return program;
}

// A program of two ranks in one class, or in a class each, for what a sample does not have.
struct TwoRanks {
  ProgramBuilder builder{"two", 2};
  LaneId compute = builder.lane({.name = "compute"});
  LaneId left = builder.lane({.name = "left", .role = Role::communication});
  LaneId right = builder.lane({.name = "right", .role = Role::communication});
  CommId x = builder.world("x", "shm", 1);
  CommId y = builder.world("y", "shm", 1);
  BufferId buffers[4] = {builder.buffer({.name = "in", .count = 8}), builder.buffer({.name = "out", .count = 8}),
                         builder.buffer({.name = "in2", .count = 8}), builder.buffer({.name = "out2", .count = 8})};

  [[nodiscard]] Slice in() const { return builder.whole(buffers[0]); }
  [[nodiscard]] Slice out() const { return builder.whole(buffers[1]); }
  [[nodiscard]] Slice in2() const { return builder.whole(buffers[2]); }
  [[nodiscard]] Slice out2() const { return builder.whole(buffers[3]); }
  ClassBuilder rank(int r) { return builder.ranks("r" + std::to_string(r), {Rank(r)}); }
  Texts findings() { return found(std::move(builder).finish()); }
};

Exchange send(CommId comm, int peer) { return {.comm = comm, .transfers = {{Direction::send, peer}}}; }
Exchange receive(CommId comm, int peer) { return {.comm = comm, .transfers = {{Direction::receive, peer}}}; }
Collective all_reduce(CommId comm) { return {.comm = comm, .count = 8}; }

// ---- correct programs ----------------------------------------------------------------------------------------------

TEST(Check, CorrectProgramsHaveNoFindings) {
  for (const Program& program : sample::all()) EXPECT_THAT(found(program), IsEmpty()) << program.name;
}

TEST(Check, DeletingAnyWaitOrRecordOfACorrectProgramIsFound) {
  int tried = 0;
  for (const Program& program : sample::all()) {
    for (std::size_t c = 0; c < program.classes.size(); ++c) {
      for (const Operation& op : program.classes[c].body) {
        if (!is_ordering(op.work)) continue;
        const bool is_wait = std::holds_alternative<Wait>(op.work);
        const Texts texts = found(without(program, c, op.id));
        EXPECT_THAT(texts, Not(IsEmpty())) << program.name << " without %" << op.id.value;
        EXPECT_THAT(texts, Each(StartsWith(is_wait ? "race: " : "event: "))) << program.name << " %" << op.id.value;
        ++tried;
      }
    }
  }
  EXPECT_EQ(tried, 2 * (0 + 4 + 4 + 2)) << "both ends of every edge of pair, ddp, pipeline and mesh";
}

TEST(Check, AThousandEqualRanksAreCheckedOneByOne) {
  constexpr int ranks = 1024;
  constexpr int layers = 84;  // 6 operations each: about 500
  ProgramBuilder p("wide", ranks);
  const LaneId compute = p.lane({.name = "compute"});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const CommId world = p.world("world", "shm", 1);
  const BufferId gradients = p.buffer({.name = "gradients", .count = 4 * layers});
  const BufferId reduced = p.buffer({.name = "reduced", .count = 4 * layers});
  ClassBuilder all = p.all_ranks();
  for (int layer = 0; layer < layers; ++layer) {
    const Slice gradient{gradients, 4 * layer, 4};
    const Slice sum{reduced, 4 * layer, 4};
    all.body(compute, Gemm{2, 2, 2}, {gradient, gradient}, {gradient});
    all.order(compute, comm);
    all.body(comm, Collective{.comm = world, .count = 4}, {gradient}, {sum});
    all.order(comm, compute);
  }
  Program program = std::move(p).finish();
  EXPECT_THAT(found(program), IsEmpty());

  program.classes[0].members.pop_back();
  program.classes.push_back({"silent", {Rank(ranks - 1)}, {}, {}, {}});
  EXPECT_THAT(
      found(program),
      ElementsAre("mismatch: communicator world, collective 0: rank 0 has all_reduce of 4 f32 root 0, rank 1023 "
                  "has nothing",
                  "deadlock: no lane can go on: ranks {0..1022} at %3 all_reduce 16 f32 comm=0 @comm; ranks "
                  "{0..1022} at %5 wait e1 @compute"));
}

// ---- shape ---------------------------------------------------------------------------------------------------------

TEST(Check, ShapeNamesTheOperationAndWhatItNeeds) {
  const auto pair_with = [](int id, const std::function<void(Operation&)>& change) {
    Program program = sample::pair();
    change(operation(program, 0, id));
    return found(program);
  };
  const std::string gemm = "shape: %1 gemm 4x4x4 f32 @compute of class all: ";
  EXPECT_THAT(pair_with(1, [](Operation& op) { op.reads[0].count = 15; }),
              ElementsAre(gemm + "reads elements {15, 16}, needs {16, 16}"));
  EXPECT_THAT(pair_with(1, [](Operation& op) { op.reads.pop_back(); }),
              ElementsAre(gemm + "reads elements {16}, needs {16, 16}"));
  EXPECT_THAT(pair_with(1, [](Operation& op) { op.writes.clear(); }),
              ElementsAre(gemm + "writes elements {}, needs {16}"));
  EXPECT_THAT(pair_with(1, [](Operation& op) { op.writes[0].offset = 1; }),
              ElementsAre(gemm + "slice c[1:17] is outside its 16 elements"));
  EXPECT_THAT(pair_with(1, [](Operation& op) { op.writes[0].offset = -1; }),
              ElementsAre(gemm + "slice c[-1:15] is outside its 16 elements"));
  EXPECT_THAT(pair_with(1, [](Operation& op) { op.writes[0].buffer = BufferId(9); }),
              ElementsAre(gemm + "buffer 9 is not declared"));
  EXPECT_THAT(pair_with(1, [](Operation& op) { std::get<Gemm>(op.work).dtype = DType::f64; }),
              ElementsAre("shape: %1 gemm 4x4x4 f64 @compute of class all: buffer a holds f32",
                          "shape: %1 gemm 4x4x4 f64 @compute of class all: buffer b holds f32",
                          "shape: %1 gemm 4x4x4 f64 @compute of class all: buffer c holds f32"));
  EXPECT_THAT(pair_with(1, [](Operation& op) { std::get<Gemm>(op.work).dtype = DType::tf32; }), IsEmpty())
      << "tf32 multiplies what is stored as f32";
  EXPECT_THAT(pair_with(1, [](Operation& op) { std::get<Gemm>(op.work).dtype = DType::f8e4m3; }),
              ElementsAre("shape: %1 gemm 4x4x4 f8e4m3 @compute of class all: buffer a holds f32",
                          "shape: %1 gemm 4x4x4 f8e4m3 @compute of class all: buffer b holds f32",
                          "shape: %1 gemm 4x4x4 f8e4m3 @compute of class all: buffer c holds f32"));
  EXPECT_THAT(pair_with(0,
                        [](Operation& op) {
                          op.reads = {{BufferId(0), 0, 1}};
                        }),
              ElementsAre("shape: %0 fill @compute of class all: reads elements {1}, needs {}"));
  EXPECT_THAT(pair_with(3, [](Operation& op) { op.work = Verify{OpId(7)}; }),
              ElementsAre("shape: %3 verify %7 @compute of class all: the body has no such operation"));
}

TEST(Check, ShapeOfCollectivesFollowsTheirKind) {
  const auto texts = [](Collective collective, std::int64_t reads, std::int64_t writes) {
    TwoRanks two;
    two.builder.all_ranks().body(two.left, collective, {{two.buffers[0], 0, reads}}, {{two.buffers[1], 0, writes}});
    return two.findings();
  };
  const CommId x(0);
  using enum CollectiveKind;
  EXPECT_THAT(texts({all_reduce, x, DType::f32, 8}, 8, 8), IsEmpty());
  EXPECT_THAT(texts({all_gather, x, DType::f32, 8}, 4, 8), IsEmpty());
  EXPECT_THAT(texts({reduce_scatter, x, DType::f32, 8}, 8, 4), IsEmpty());
  EXPECT_THAT(texts({broadcast, x, DType::f32, 8, 1}, 8, 8), IsEmpty());
  EXPECT_THAT(texts({all_to_all, x, DType::f32, 8}, 8, 8), IsEmpty());
  EXPECT_THAT(texts({all_reduce, x, DType::f32, 7}, 7, 7), IsEmpty()) << "need not divide";
  EXPECT_THAT(texts({broadcast, x, DType::f32, 7}, 7, 7), IsEmpty());

  EXPECT_THAT(texts({all_gather, x, DType::f32, 8}, 8, 8),
              ElementsAre("shape: %0 all_gather 32 f32 comm=0 @left of class all: reads elements {8}, needs {4}"));
  EXPECT_THAT(texts({reduce_scatter, x, DType::f32, 8}, 8, 8),
              ElementsAre("shape: %0 reduce_scatter 32 f32 comm=0 @left of class all: writes elements {8}, needs {4}"));
  EXPECT_THAT(
      texts({all_to_all, x, DType::f32, 7}, 7, 7),
      ElementsAre("shape: %0 all_to_all 28 f32 comm=0 @left of class all: 7 elements do not divide by 2 ranks"));
  EXPECT_THAT(texts({broadcast, x, DType::f32, 8, 2}, 8, 8),
              ElementsAre("shape: %0 broadcast 32 f32 comm=0 root=2 @left of class all: root 2 is outside its group of "
                          "2"));
  EXPECT_THAT(texts({all_gather, CommId(5), DType::f32, 8}, 4, 8),
              ElementsAre("shape: %0 all_gather 32 f32 comm=5 @left of class all: rank 0 is in no group of "
                          "communicator 5"));
  EXPECT_THAT(texts({all_gather, CommId(), DType::f32, 8}, 4, 8),
              ElementsAre("shape: %0 all_gather 32 f32 comm=-1 @left of class all: rank 0 is in no group of "
                          "communicator -1"));
}

TEST(Check, RanksOfAClassAreInGroupsOfOneSize) {
  ProgramBuilder p("uneven", 3);
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const CommId uneven = p.communicator({"uneven", {{Rank(0), Rank(1)}, {Rank(2)}}, "shm", 1});
  const BufferId in = p.buffer({.name = "in", .count = 8});
  const BufferId out = p.buffer({.name = "out", .count = 8});
  p.all_ranks().body(comm, all_reduce(uneven), {p.whole(in)}, {p.whole(out)});
  EXPECT_THAT(found(std::move(p).finish()), ElementsAre("shape: %0 all_reduce 32 f32 comm=0 @comm of class all: its "
                                                        "ranks are in groups of different sizes"));
}

TEST(Check, AClassWithoutRanksMeetsNobody) {
  TwoRanks two;
  two.builder.all_ranks();
  two.builder.ranks("none", {})
      .body(two.left, Collective{CollectiveKind::all_to_all, two.x, DType::f32, 8}, {two.in()}, {two.out()});
  EXPECT_THAT(two.findings(), IsEmpty());
}

TEST(Check, ShapeOfExchanges) {
  TwoRanks two;
  two.builder.all_ranks().body(two.left, send(two.x, 2), {two.in()}, {two.out()});
  EXPECT_THAT(two.findings(),
              ElementsAre("shape: %0 exchange f32 comm=0 to:2 @left of class all: 1 sends and 0 receives with 1 reads "
                          "and 1 writes",
                          "shape: %0 exchange f32 comm=0 to:2 @left of class all: peer 2 is outside its group of 2"));
}

TEST(Check, ShapeOfCopiesAndElementwise) {
  TwoRanks two;
  ClassBuilder all = two.builder.all_ranks();
  const Slice half{two.buffers[2], 0, 4};
  all.body(two.compute, Copy{}, {two.in()}, {two.out()});
  all.body(two.compute, Elementwise{}, {two.in(), two.in2()}, {two.out()});
  all.body(two.compute, Copy{}, {two.in(), two.in2()}, {two.out()});
  all.body(two.compute, Copy{}, {half}, {two.out()});
  all.body(two.compute, Elementwise{}, {two.in(), half}, {two.out()});
  all.body(two.compute, Elementwise{}, {}, {two.out()});
  EXPECT_THAT(
      two.findings(),
      ElementsAre("shape: %2 copy @compute of class all: reads elements {8, 8}, writes {8}, needs one write and "
                  "as many elements in one read",
                  "shape: %3 copy @compute of class all: reads elements {4}, writes {8}, needs one write and as "
                  "many elements in one read",
                  "shape: %4 elementwise @compute of class all: reads elements {8, 4}, writes {8}, needs one "
                  "write and as many elements in each read",
                  "shape: %5 elementwise @compute of class all: reads elements {}, writes {8}, needs one write "
                  "and as many elements in each read"));
}

// ---- event ---------------------------------------------------------------------------------------------------------

TEST(Check, EventsAreRecordedOnceAndBeforeTheyAreWaitedFor) {
  TwoRanks two;
  ClassBuilder all = two.builder.all_ranks();
  const EventId e = two.builder.event("e");
  const EventId never = two.builder.event("never");
  all.body(two.left, Wait{e});
  all.body(two.compute, Record{e});
  all.body(two.compute, Record{e});
  all.body(two.left, Wait{never});
  all.body(two.compute, Record{EventId(2)});
  EXPECT_THAT(
      two.findings(),
      ElementsAre("event: %0 wait e0 @left of class all: no record of the event comes before it in issue order, "
                  "so on a device it would not wait",
                  "event: %2 record e0 @compute of class all: the event is recorded already by %1",
                  "event: %3 wait e1 @left of class all: no record of the event comes before it in issue order, "
                  "so on a device it would not wait",
                  "event: %4 record e2 @compute of class all: the event is not declared"));
}

TEST(Check, EventsAreEachRanksOwn) {
  TwoRanks two;
  const EventId e = two.builder.event("e");
  for (int r = 0; r < 2; ++r) {
    ClassBuilder one = two.rank(r);
    one.body(two.compute, Record{e});
    one.body(two.left, Wait{e});
  }
  EXPECT_THAT(two.findings(), IsEmpty());
}

TEST(Check, AStartRecordIsFollowedAtOnceByTheOperationThatItMarks) {
  const auto texts = [](const std::vector<std::pair<int, Work>>& listed) {
    TwoRanks two;
    two.builder.event("e");
    two.builder.event("f");
    ClassBuilder all = two.builder.all_ranks();
    for (const auto& [lane, work] : listed) all.body(LaneId(lane), work);
    return two.findings();
  };
  const Record e{EventId(0), Moment::start};
  const Record f{EventId(1), Moment::start};
  const auto unmarked = ElementsAre(
      "event: %0 record e0 at start @compute of class all: the next operation in issue order is not work on its lane, "
      "so it marks no start");
  EXPECT_THAT(texts({{0, e}, {0, Busy{}}}), IsEmpty());
  EXPECT_THAT(texts({{0, e}, {0, f}, {0, Busy{}}}), IsEmpty()) << "two events mark one operation";
  EXPECT_THAT(texts({{0, e}}), unmarked);
  EXPECT_THAT(texts({{0, e}, {1, Busy{}}}), unmarked) << "on another lane";
  EXPECT_THAT(texts({{0, e}, {1, Busy{}}, {0, Busy{}}}), unmarked) << "not at once";
  EXPECT_THAT(texts({{0, e}, {0, HostSync{}}, {0, Busy{}}}), unmarked) << "the host may wait for what waits for e";
}

// ---- what contends -------------------------------------------------------------------------------------------------

// A victim on "compute" between the start of an aggressor on "left" and its end, as a schedule of contention has it.
struct Victim {
  TwoRanks two;
  EventId started = two.builder.event("aggressor started");
  EventId done = two.builder.event("victim done");
  ClassBuilder all = two.builder.all_ranks();

  void aggressor(Work work, Slices reads = {}, Slices writes = {}) {
    all.body(two.left, Record{started, Moment::start});
    all.body(two.left, std::move(work), std::move(reads), std::move(writes));
  }
  void victim() {
    all.body(two.compute, Wait{started});
    all.body(two.compute, Busy{Seconds(1)});
    all.body(two.compute, Record{done});
  }
};

TEST(Check, WhatLastsUntilAnEventIsThereBeforeItsVictimAndOutlivesIt) {
  Victim occupied;
  occupied.aggressor(Occupy{.count = 1, .duration = {}, .until = occupied.done});
  occupied.victim();
  EXPECT_THAT(occupied.two.findings(), IsEmpty());

  Victim streamed;
  const Slice from = streamed.two.in();
  const Slice to = streamed.two.builder.whole(streamed.two.buffers[1]);
  streamed.aggressor(Stream{.pace = {}, .bytes = {}, .until = streamed.done}, {from}, {to});
  streamed.victim();
  EXPECT_THAT(streamed.two.findings(), IsEmpty());
}

TEST(Check, AnEventThatCannotFireBeforeWhatLastsUntilItEndsIsADeadlock) {
  // Recorded on the aggressor's own lane, so after its end.
  Victim own;
  own.aggressor(Occupy{.until = own.done});
  own.all.body(own.two.left, Record{own.done});
  EXPECT_THAT(own.two.findings(),
              ElementsAre("deadlock: no lane can go on: ranks {0..1} at %1 occupy 1 until e1 @left"));

  // Recorded on another lane, but by what waits for the aggressor's end.
  Victim waits;
  waits.aggressor(Occupy{.until = waits.done});
  waits.all.order(waits.two.left, waits.two.compute);
  waits.victim();
  EXPECT_THAT(waits.two.findings(), ElementsAre(AllOf(StartsWith("deadlock: no lane can go on: "),
                                                      HasSubstr("at %1 occupy 1 until e1 @left"))));
}

TEST(Check, WhatLastsUntilAnEventHasOneLaterRecordOfIt) {
  Victim nowhere;
  nowhere.aggressor(Occupy{.until = nowhere.done});
  EXPECT_THAT(nowhere.two.findings(),
              ElementsAre("event: %1 occupy 1 until e1 @left of class all: it lasts until e1, which nothing records"));

  Victim earlier;
  earlier.all.body(earlier.two.compute, Record{earlier.done});
  earlier.aggressor(Occupy{.until = earlier.done});
  EXPECT_THAT(earlier.two.findings(),
              ElementsAre("event: %2 occupy 1 until e1 @left of class all: it lasts until e1, which is recorded before "
                          "it begins"));
}

TEST(Check, WhatContendsHasOneEndAndSomethingToDoItWith) {
  const auto texts = [](const Work& work, const Slices& reads, const Slices& writes) {
    TwoRanks two;
    two.builder.all_ranks().body(two.left, work, reads, writes);
    return two.findings();
  };
  const Slice four{BufferId(0), 0, 4};
  const Slice other{BufferId(1), 0, 4};
  EXPECT_THAT(texts(Occupy{.count = 2, .duration = Seconds(1)}, {}, {}), IsEmpty());
  EXPECT_THAT(texts(Occupy{.count = 0, .duration = Seconds(1)}, {}, {}),
              ElementsAre("shape: %0 occupy 0 for 1 s @left of class all: 0 SMs or cores to hold, needs one or more"));
  EXPECT_THAT(texts(Occupy{}, {}, {}), ElementsAre(HasSubstr("needs either a duration or an event to last until")));
  EXPECT_THAT(texts(Occupy{.duration = Seconds(1)}, {four}, {}),
              ElementsAre(HasSubstr("reads elements {4}, needs {}")));
  EXPECT_THAT(texts(Stream{.bytes = Bytes(64)}, {four}, {other}), IsEmpty());
  EXPECT_THAT(texts(Stream{.bytes = Bytes(64)}, {four}, {}), ElementsAre(HasSubstr("needs one write")));
  EXPECT_THAT(texts(Stream{.bytes = Bytes(64)}, {{BufferId(0), 0, 0}}, {{BufferId(1), 0, 0}}),
              ElementsAre(HasSubstr("no element to move")));
  EXPECT_THAT(texts(Stream{.pace = BytesPerSecond(-1), .workers = 0, .bytes = Bytes(64)}, {four}, {other}),
              ElementsAre(HasSubstr("0 workers, needs one or more"), HasSubstr("a pace of -1 B/s")));
  EXPECT_THAT(texts(Stream{}, {four}, {other}),
              ElementsAre(HasSubstr("needs either an amount of bytes or an event to last until")));
}

// ---- race ----------------------------------------------------------------------------------------------------------

TEST(Check, ARaceNamesBothOperationsAndTheMissingEdge) {
  EXPECT_THAT(found(without(sample::ddp(), 0, OpId(14))),
              ElementsAre("race: %4 all_reduce 64 f32 comm=0 @comm and %15 elementwise @compute of class all touch "
                          "reduced and nothing orders them: record after %4 on comm, wait before %15 on compute",
                          "race: %8 all_reduce 64 f32 comm=0 @comm and %15 elementwise @compute of class all touch "
                          "reduced and nothing orders them: record after %8 on comm, wait before %15 on compute",
                          "race: %12 all_reduce 64 f32 comm=0 @comm and %15 elementwise @compute of class all touch "
                          "reduced and nothing orders them: record after %12 on comm, wait before %15 on compute"));
}

TEST(Check, OnlyOverlappingSlicesWithAWriteRace) {
  const auto races = [](Slice first, bool first_writes, Slice second, bool second_writes) {
    ProgramBuilder p("race", 1);
    const LaneId a = p.lane({.name = "a"});
    const LaneId b = p.lane({.name = "b"});
    p.buffer({.name = "x", .count = 8});
    p.buffer({.name = "y", .count = 8});
    ClassBuilder all = p.all_ranks();
    const auto touch = [&](LaneId lane, Slice slice, bool writes) {
      all.body(lane, Busy{}, writes ? Slices{} : Slices{slice}, writes ? Slices{slice} : Slices{});
    };
    touch(a, first, first_writes);
    touch(b, second, second_writes);
    return found(std::move(p).finish()).size();
  };
  const BufferId x(0);
  const BufferId y(1);
  EXPECT_EQ(races({x, 0, 8}, true, {x, 0, 8}, true), 1U);
  EXPECT_EQ(races({x, 0, 8}, true, {x, 0, 8}, false), 1U);
  EXPECT_EQ(races({x, 0, 8}, false, {x, 0, 8}, true), 1U);
  EXPECT_EQ(races({x, 0, 8}, false, {x, 0, 8}, false), 0U) << "both read";
  EXPECT_EQ(races({x, 0, 5}, true, {x, 4, 4}, true), 1U) << "one element in common";
  EXPECT_EQ(races({x, 0, 4}, true, {x, 4, 4}, true), 0U) << "side by side";
  EXPECT_EQ(races({x, 4, 4}, true, {x, 0, 4}, true), 0U);
  EXPECT_EQ(races({x, 2, 2}, true, {x, 0, 8}, true), 1U) << "one within the other";
  EXPECT_EQ(races({x, 0, 8}, true, {y, 0, 8}, true), 0U) << "other buffers";
  EXPECT_EQ(races({x, 0, 0}, true, {x, 0, 8}, true), 0U) << "no elements";
}

TEST(Check, AStartEventDoesNotProtectTheResultOfWhatItMarks) {
  TwoRanks two;
  ClassBuilder all = two.builder.all_ranks();
  const EventId e = two.builder.event("e");
  all.body(two.compute, Record{e, Moment::start});
  all.body(two.compute, Copy{}, {two.in()}, {two.out()});
  all.body(two.left, Wait{e});
  all.body(two.left, all_reduce(two.x), {two.out()}, {two.out2()});
  EXPECT_THAT(two.findings(), ElementsAre(StartsWith("race: %1 copy @compute and %3 all_reduce")));
}

TEST(Check, AHostSyncInTheMiddleOrdersAllLanes) {
  const auto texts = [](bool sync) {
    TwoRanks two;
    ClassBuilder all = two.builder.all_ranks();
    all.body(two.compute, Copy{}, {two.in()}, {two.out()});
    if (sync) all.body(two.right, HostSync{});
    all.body(two.left, all_reduce(two.x), {two.out()}, {two.out2()});
    return two.findings();
  };
  EXPECT_THAT(texts(true), IsEmpty());
  EXPECT_THAT(texts(false), ElementsAre(StartsWith("race: %0 copy @compute and %1 all_reduce")));
}

// ---- mismatch ------------------------------------------------------------------------------------------------------

// What is found when rank 0 issues `first` on communicator x and rank 1 `second`.
Texts met(const std::vector<Collective>& first, const std::vector<Collective>& second) {
  TwoRanks two;
  int rank = 0;
  for (const auto* list : {&first, &second}) {
    ClassBuilder one = two.rank(rank++);
    for (const Collective& c : *list) {
      const bool gathers = c.kind == CollectiveKind::all_gather;
      one.body(two.left, c, {{two.buffers[0], 0, gathers ? c.count / 2 : c.count}}, {{two.buffers[1], 0, c.count}});
    }
  }
  return two.findings();
}

TEST(Check, RanksAgreeAboutEveryCollective) {
  const CommId x(0);
  const Collective reduce = all_reduce(x);
  const Collective gather{CollectiveKind::all_gather, x, DType::f32, 8};
  const Collective cast{CollectiveKind::broadcast, x, DType::f32, 8};
  EXPECT_THAT(met({reduce, gather}, {reduce, gather}), IsEmpty());
  const std::string at0 = "mismatch: communicator x, collective 0: rank 0 has ";
  const std::string at1 = "mismatch: communicator x, collective 1: rank 0 has ";
  EXPECT_THAT(met({reduce, gather}, {gather, reduce}),
              ElementsAre(at0 + "all_reduce of 8 f32 root 0, rank 1 has all_gather of 8 f32 root 0"));
  EXPECT_THAT(met({reduce, gather}, {reduce, reduce}),
              ElementsAre(at1 + "all_gather of 8 f32 root 0, rank 1 has all_reduce of 8 f32 root 0"));
  EXPECT_THAT(met({reduce}, {{CollectiveKind::all_reduce, x, DType::f32, 6}}),
              ElementsAre(at0 + "all_reduce of 8 f32 root 0, rank 1 has all_reduce of 6 f32 root 0"));
  EXPECT_THAT(met({cast}, {{CollectiveKind::broadcast, x, DType::f32, 8, 1}}),
              ElementsAre(at0 + "broadcast of 8 f32 root 0, rank 1 has broadcast of 8 f32 root 1"));
}

TEST(Check, RanksAgreeAboutTheType) {
  TwoRanks two;
  const BufferId wide = two.builder.buffer({.name = "wide", .dtype = DType::f64, .count = 8});
  const BufferId sum = two.builder.buffer({.name = "sum", .dtype = DType::f64, .count = 8});
  two.rank(0).body(two.left, all_reduce(two.x), {two.in()}, {two.out()});
  two.rank(1).body(two.left, Collective{.comm = two.x, .dtype = DType::f64, .count = 8}, {two.builder.whole(wide)},
                   {two.builder.whole(sum)});
  EXPECT_THAT(two.findings(), ElementsAre("mismatch: communicator x, collective 0: rank 0 has all_reduce of 8 f32 root "
                                          "0, rank 1 has all_reduce of 8 f64 root 0"));
}

TEST(Check, AMissingCollectiveIsAMismatchAndHangs) {
  const Collective reduce = all_reduce(CommId(0));
  EXPECT_THAT(met({reduce, reduce}, {reduce}),
              ElementsAre("mismatch: communicator x, collective 1: rank 0 has all_reduce of 8 f32 root 0, rank 1 has "
                          "nothing",
                          "deadlock: no lane can go on: ranks {0} at %1 all_reduce 32 f32 comm=0 @left"));
  EXPECT_THAT(met({}, {reduce}), Contains("mismatch: communicator x, collective 0: rank 0 has nothing, rank 1 has "
                                          "all_reduce of 8 f32 root 0"));
}

TEST(Check, EverySendIsReceivedWithItsCountAndType) {
  EXPECT_THAT(found(without(sample::pipeline(), 1, OpId(7))),
              ElementsAre("mismatch: communicator world: rank 1 sends {} to rank 0, which receives {16 f32}",
                          "deadlock: no lane can go on: ranks {0} at %5 exchange f32 comm=0 from:1 @comm; ranks {0} at "
                          "%7 wait e1 @compute"));
  Program shorter = sample::pipeline();
  operation(shorter, 1, 1).writes[0].count = 15;
  EXPECT_THAT(found(shorter),
              ElementsAre("mismatch: communicator world: rank 0 sends {16 f32} to rank 1, which receives {15 f32}"));
  Program other = sample::pipeline();
  other.buffers.push_back({.name = "half", .dtype = DType::f16, .count = 16});
  operation(other, 0, 4).work = Exchange{CommId(0), DType::f16, {{Direction::send, 1}}};
  operation(other, 0, 4).reads = {{BufferId(other.buffers.size() - 1), 0, 16}};
  EXPECT_THAT(found(other),
              ElementsAre("mismatch: communicator world: rank 0 sends {16 f16} to rank 1, which receives {16 f32}"));
}

// ---- deadlock ------------------------------------------------------------------------------------------------------

TEST(Check, WaitsThatCrossThroughCollectivesHang) {
  // Rank 0 reduces on x, then on y; rank 1 the other way round.
  TwoRanks two;
  for (int r = 0; r < 2; ++r) {
    ClassBuilder one = two.rank(r);
    const LaneId first = r == 0 ? two.left : two.right;
    const LaneId second = r == 0 ? two.right : two.left;
    const auto reduce = [&](LaneId lane) {
      const bool on_x = lane == two.left;
      one.body(lane, all_reduce(on_x ? two.x : two.y), {on_x ? two.in() : two.in2()}, {on_x ? two.out() : two.out2()});
    };
    reduce(first);
    one.order(first, second);
    reduce(second);
  }
  EXPECT_THAT(two.findings(), ElementsAre("deadlock: no lane can go on: "
                                          "ranks {0} at %0 all_reduce 32 f32 comm=0 @left; ranks {0} at %2 wait e0 "
                                          "@right; ranks {1} at %0 all_reduce 32 f32 comm=1 @right; ranks {1} at %2 "
                                          "wait e1 @left"));
}

TEST(Check, CollectivesOfTwoCommunicatorsInOppositeOrderHangADeviceThatRunsOneAtATime) {
  const auto texts = [](bool opposite) {
    TwoRanks two;
    for (int r = 0; r < 2; ++r) {
      ClassBuilder one = two.rank(r);
      const auto on_x = [&] { one.body(two.left, all_reduce(two.x), {two.in()}, {two.out()}); };
      const auto on_y = [&] { one.body(two.right, all_reduce(two.y), {two.in2()}, {two.out2()}); };
      if (opposite && r == 1) {
        on_y();
        on_x();
      } else {
        on_x();
        on_y();
      }
    }
    return two.findings();
  };
  EXPECT_THAT(texts(false), IsEmpty());
  EXPECT_THAT(texts(true),
              ElementsAre("deadlock: a device that runs one collective at a time hangs: ranks {0} at %0 all_reduce 32 "
                          "f32 comm=0 @left; ranks {0} at %1 all_reduce 32 f32 comm=1 @right; ranks {1} at %0 "
                          "all_reduce 32 f32 comm=1 @right; ranks {1} at %1 all_reduce 32 f32 comm=0 @left: issue the "
                          "collectives of all communicators in one order on all ranks"));
}

TEST(Check, ThreeRanksThatShareACommunicatorEachMayCrossToo) {
  // 0 and 1 share a, 1 and 2 share b, 2 and 0 share c; each begins with another one.
  ProgramBuilder p("ring", 3);
  const LaneId left = p.lane({.name = "left", .role = Role::communication});
  const LaneId right = p.lane({.name = "right", .role = Role::communication});
  const BufferId in = p.buffer({.name = "in", .count = 8});
  const BufferId out = p.buffer({.name = "out", .count = 8});
  const BufferId out2 = p.buffer({.name = "out2", .count = 8});
  std::vector<CommId> comms;
  for (int r = 0; r < 3; ++r) {
    comms.push_back(
        p.communicator({std::string(1, static_cast<char>('a' + r)), {{Rank(r), Rank((r + 1) % 3)}}, "shm", 1}));
  }
  for (int r = 0; r < 3; ++r) {
    ClassBuilder one = p.ranks("r" + std::to_string(r), {Rank(r)});
    one.body(left, all_reduce(comms[static_cast<std::size_t>(r)]), {p.whole(in)}, {p.whole(out)});
    one.body(right, all_reduce(comms[static_cast<std::size_t>((r + 2) % 3)]), {p.whole(in)}, {p.whole(out2)});
  }
  EXPECT_THAT(found(std::move(p).finish()),
              ElementsAre(StartsWith("deadlock: a device that runs one collective at a time hangs: ranks {0} at %0")));
}

TEST(Check, SendsThatMeetSendsHang) {
  const auto texts = [](bool grouped) {
    TwoRanks two;
    for (int r = 0; r < 2; ++r) {
      ClassBuilder one = two.rank(r);
      if (grouped) {
        one.body(two.left,
                 Exchange{.comm = two.x, .transfers = {{Direction::send, 1 - r}, {Direction::receive, 1 - r}}},
                 {two.in()}, {two.out()});
      } else {
        one.body(two.left, send(two.x, 1 - r), {two.in()});
        one.body(two.left, receive(two.x, 1 - r), {}, {two.out()});
      }
    }
    return two.findings();
  };
  EXPECT_THAT(texts(true), IsEmpty()) << "proceed together";
  EXPECT_THAT(texts(false), ElementsAre("deadlock: no lane can go on: ranks {0} at %0 exchange f32 comm=0 to:1 @left; "
                                        "ranks {1} at %0 exchange f32 comm=0 to:0 @left"));
}

TEST(Check, TheSecondSendMeetsTheSecondReceive) {
  // Rank 0 cannot receive on y before its second send, which rank 1 meets only after it has sent on y.
  TwoRanks two;
  ClassBuilder zero = two.rank(0);
  zero.body(two.left, send(two.x, 1), {two.in()});
  zero.body(two.left, send(two.x, 1), {two.in()});
  zero.body(two.left, receive(two.y, 1), {}, {two.out()});
  ClassBuilder one = two.rank(1);
  one.body(two.left, receive(two.x, 0), {}, {two.out()});
  one.body(two.left, send(two.y, 0), {two.in()});
  one.body(two.left, receive(two.x, 0), {}, {two.out()});
  EXPECT_THAT(two.findings(),
              ElementsAre("deadlock: no lane can go on: ranks {0} at %1 exchange f32 comm=0 to:1 @left; "
                          "ranks {1} at %1 exchange f32 comm=1 to:0 @left"));
}

TEST(Check, GroupsOfACommunicatorMeetApart) {
  // Ranks 0 and 1 cross; that ranks 2 and 3 meet in their group of the same communicator does not help them.
  ProgramBuilder p("apart", 4);
  const LaneId lane = p.lane({.name = "lane", .role = Role::communication});
  const CommId rows = p.communicator({"rows", {{Rank(0), Rank(1)}, {Rank(2), Rank(3)}}, "shm", 1});
  const CommId first = p.communicator({"first", {{Rank(0), Rank(1)}}, "shm", 1});
  const BufferId in = p.buffer({.name = "in", .count = 8});
  const BufferId out = p.buffer({.name = "out", .count = 8});
  const auto reduce = [&](ClassBuilder& c, CommId comm) {
    c.body(lane, all_reduce(comm), {p.whole(in)}, {p.whole(out)});
  };
  ClassBuilder zero = p.ranks("zero", {Rank(0)});
  reduce(zero, rows);
  reduce(zero, first);
  ClassBuilder one = p.ranks("one", {Rank(1)});
  reduce(one, first);
  reduce(one, rows);
  ClassBuilder others = p.ranks("others", {Rank(2), Rank(3)});
  reduce(others, rows);
  EXPECT_THAT(
      found(std::move(p).finish()),
      ElementsAre("deadlock: no lane can go on: ranks {0} at %0 all_reduce 32 f32 comm=0 @lane; ranks {1} at %0 "
                  "all_reduce 32 f32 comm=1 @lane"));
}

TEST(Check, SendsAndReceivesOnLanesSideBySideHaveNoSerialArm) {
  TwoRanks two;
  for (int r = 0; r < 2; ++r) {
    ClassBuilder one = two.rank(r);
    one.body(two.left, send(two.x, 1 - r), {two.in()});
    one.body(two.right, receive(two.x, 1 - r), {}, {two.out()});
  }
  const Program program = std::move(two.builder).finish();
  EXPECT_THAT(found(program), IsEmpty());
  EXPECT_THAT(found(project(program, Arm::serial)), ElementsAre(StartsWith("deadlock: no lane can go on")));
}

TEST(Check, MeetingsAreMatchedInIssueOrderWhicheverLaneIsFirst) {
  // Rank 0's second all_reduce could arrive first, but it is the second of the communicator all the same.
  TwoRanks two;
  for (int r = 0; r < 2; ++r) {
    ClassBuilder one = two.rank(r);
    one.body(two.compute, Busy{});
    if (r == 0) one.order(two.compute, two.left);
    one.body(two.left, all_reduce(two.x), {two.in()}, {two.out()});
    one.body(two.right, all_reduce(two.x), {two.in2()}, {two.out2()});
  }
  EXPECT_THAT(two.findings(), IsEmpty());
}

TEST(Check, AHostSyncHoldsWhatIsIssuedAfterIt) {
  // Rank 0 joins before it receives, rank 1 joins before it sends: fine. Rank 0 joining between the send that rank 1
  // waits for and a receive that rank 1 has to send first is not.
  const auto texts = [](bool crossed) {
    TwoRanks two;
    ClassBuilder zero = two.rank(0);
    zero.body(two.left, send(two.x, 1), {two.in()});
    zero.body(two.compute, HostSync{});
    zero.body(two.right, receive(two.y, 1), {}, {two.out()});
    ClassBuilder one = two.rank(1);
    if (crossed) {
      one.body(two.right, send(two.y, 0), {two.in()});
      one.body(two.compute, HostSync{});
      one.body(two.left, receive(two.x, 0), {}, {two.out()});
    } else {
      one.body(two.left, receive(two.x, 0), {}, {two.out()});
      one.body(two.compute, HostSync{});
      one.body(two.right, send(two.y, 0), {two.in()});
    }
    return two.findings();
  };
  EXPECT_THAT(texts(false), IsEmpty());
  EXPECT_THAT(texts(true), ElementsAre(AllOf(StartsWith("deadlock: no lane can go on: ranks {0} at %0"),
                                             HasSubstr("ranks {0} at %1 host_sync @compute"))));
}

// ---- submission ----------------------------------------------------------------------------------------------------

TEST(Check, TimesOfSubmissionDoNotDecrease) {
  TwoRanks two;
  ClassBuilder all = two.builder.all_ranks();
  all.submit(Seconds(2), two.left, Busy{Seconds(1)});
  all.body(two.right, Busy{Seconds(1)});  // without a time: after what was issued before it
  all.submit(Seconds(2), two.left, Busy{Seconds(1)});
  EXPECT_THAT(two.findings(), IsEmpty());

  TwoRanks back;
  ClassBuilder rank = back.builder.all_ranks();
  rank.submit(Seconds(2), back.left, Busy{Seconds(1)});
  rank.submit(Seconds(1.5), back.right, Busy{Seconds(1)});
  EXPECT_THAT(back.findings(),
              ElementsAre("shape: %1 busy 1 s @right of class all: it is to be submitted after 1.5 s, and %0, which is "
                          "issued before it, after 2 s"));
}

TEST(Check, ATimeOfSubmissionIsFiniteAndNotNegative) {
  for (const double time : {-1.0, std::nan(""), HUGE_VAL}) {
    TwoRanks two;
    two.builder.all_ranks().submit(Seconds(time), two.left, Busy{Seconds(1)});
    EXPECT_THAT(two.findings(),
                ElementsAre(StartsWith("shape: %0 busy 1 s @left of class all: it is to be submitted ")))
        << time;
  }
}

TEST(Check, OnlyWorkOfTheBodyIsSubmittedAtATime) {
  TwoRanks two;
  ClassBuilder all = two.builder.all_ranks();
  all.prologue(two.left, Fill{}, {}, {two.in()});
  all.order(two.left, two.right);
  Program program = std::move(two.builder).finish();
  program.classes[0].prologue[0].not_before = Seconds(1);
  program.classes[0].body[1].not_before = Seconds(1);
  EXPECT_THAT(found(program), ElementsAre(HasSubstr("only what is in the body is submitted at a time"),
                                          HasSubstr("wait e0 @right of class all: only work is submitted at a time")));
}

// ---- all of them, and no more --------------------------------------------------------------------------------------

// Every pair that touches the same elements, one of them writing, and that nothing orders, by trying all pairs.
std::size_t races_by_hand(const Program& program) {
  const std::vector<Operation>& body = program.classes[0].body;
  const HappensBefore order(body, program.lanes.size());
  const auto touches = [](const std::vector<Slice>& a, const std::vector<Slice>& b) {
    return std::any_of(a.begin(), a.end(), [&](const Slice& x) {
      return std::any_of(b.begin(), b.end(), [&](const Slice& y) {
        return x.buffer == y.buffer && x.offset < y.offset + y.count && y.offset < x.offset + x.count;
      });
    });
  };
  std::size_t races = 0;
  for (std::size_t j = 0; j < body.size(); ++j) {
    for (std::size_t i = 0; i < j; ++i) {
      const bool conflict = touches(body[i].writes, body[j].writes) || touches(body[i].writes, body[j].reads) ||
                            touches(body[i].reads, body[j].writes);
      if (conflict && !order.before(i, j)) ++races;
    }
  }
  return races;
}

TEST(Check, FindsTheRacesThatTryingAllPairsFinds) {
  std::size_t all = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(mix64(seed));
    ProgramBuilder p("random", 1);
    std::vector<LaneId> lanes;
    for (const char* name : {"a", "b", "c"}) lanes.push_back(p.lane({.name = name}));
    const BufferId x = p.buffer({.name = "x", .count = 16});
    const BufferId y = p.buffer({.name = "y", .count = 16});
    ClassBuilder c = p.all_ranks();
    const auto slice = [&](BufferId buffer) { return Slice{buffer, static_cast<std::int64_t>(random.below(12)), 4}; };
    for (int i = 0; i < 60; ++i) {
      const LaneId lane = lanes[random.below(3)];
      if (random.below(3) == 0) {
        c.order(lane, lanes[random.below(3)]);
      } else {
        c.body(lane, Copy{}, {slice(random.below(2) == 0 ? x : y)}, {slice(random.below(2) == 0 ? x : y)});
      }
    }
    const Program program = std::move(p).finish();
    const std::vector<Finding> findings = check(program);
    EXPECT_EQ(findings.size(), races_by_hand(program)) << seed;
    all += findings.size();
  }
  EXPECT_GT(all, 1000U);
}

}  // namespace
}  // namespace ovl
