// SPDX-License-Identifier: Apache-2.0
#include "program/projection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.hpp"
#include "program/builder.hpp"
#include "program/check.hpp"
#include "program/order.hpp"
#include "program/print.hpp"
#include "support/errors.hpp"
#include "support/sample_programs.hpp"

namespace ovl {
namespace {

using testing::IsEmpty;

constexpr Arm arms[] = {Arm::empty, Arm::compute, Arm::comm, Arm::serial, Arm::overlapped};

// The printed lines from the first class on: what an arm changes, but for its name and events.
std::string classes_of(const Program& program) {
  const std::string text = print(program);
  return "\n" + text.substr(text.find("class "));
}

const Operation& with_id(const std::vector<Operation>& body, OpId id) {
  return *std::find_if(body.begin(), body.end(), [&](const Operation& op) { return op.id == id; });
}

// ---- a worked example ----------------------------------------------------------------------------------------------

TEST(Projection, EmptyDoesNothingOnTheSameLanesWithTheSameEvents) {
  EXPECT_EQ(classes_of(project(sample::ddp(), Arm::empty)), R"(
class all ranks={0..1}
  prologue
    %0 @compute fill -> a[0:16], b[0:16], weights[0:48]
  body
    %1 @compute busy 0 s
    %2 @compute record e0
    %3 @comm wait e0
    %4 @comm busy 0 s
    %5 @compute busy 0 s
    %6 @compute record e1
    %7 @comm wait e1
    %8 @comm busy 0 s
    %9 @compute busy 0 s
    %10 @compute record e2
    %11 @comm wait e2
    %12 @comm busy 0 s
    %13 @comm record e3
    %14 @compute wait e3
    %15 @compute busy 0 s
)");
}

TEST(Projection, ComputeKeepsComputeWhichIsOneLaneHere) {
  EXPECT_EQ(classes_of(project(sample::ddp(), Arm::compute)), R"(
class all ranks={0..1}
  prologue
    %0 @compute fill -> a[0:16], b[0:16], weights[0:48]
  body
    %1 @compute gemm 4x4x4 f32 <- a[0:16], b[0:16] -> gradients[0:16]
    %5 @compute gemm 4x4x4 f32 <- a[0:16], b[0:16] -> gradients[16:32]
    %9 @compute gemm 4x4x4 f32 <- a[0:16], b[0:16] -> gradients[32:48]
    %15 @compute elementwise <- reduced[0:48] -> weights[0:48]
  epilogue
    %17 @compute verify %15
)");
}

TEST(Projection, CommKeepsCommunication) {
  EXPECT_EQ(classes_of(project(sample::ddp(), Arm::comm)), R"(
class all ranks={0..1}
  prologue
    %0 @compute fill -> a[0:16], b[0:16], weights[0:48]
  body
    %4 @comm all_reduce 64 f32 comm=0 <- gradients[0:16] -> reduced[0:16]
    %8 @comm all_reduce 64 f32 comm=0 <- gradients[16:32] -> reduced[16:32]
    %12 @comm all_reduce 64 f32 comm=0 <- gradients[32:48] -> reduced[32:48]
  epilogue
    %16 @comm verify %12
)");
}

TEST(Projection, SerialIsOneLaneWithoutEvents) {
  EXPECT_EQ(classes_of(project(sample::ddp(), Arm::serial)), R"(
class all ranks={0..1}
  prologue
    %0 @compute fill -> a[0:16], b[0:16], weights[0:48]
  body
    %1 @compute gemm 4x4x4 f32 <- a[0:16], b[0:16] -> gradients[0:16]
    %4 @compute all_reduce 64 f32 comm=0 role=comm <- gradients[0:16] -> reduced[0:16]
    %5 @compute gemm 4x4x4 f32 <- a[0:16], b[0:16] -> gradients[16:32]
    %8 @compute all_reduce 64 f32 comm=0 role=comm <- gradients[16:32] -> reduced[16:32]
    %9 @compute gemm 4x4x4 f32 <- a[0:16], b[0:16] -> gradients[32:48]
    %12 @compute all_reduce 64 f32 comm=0 role=comm <- gradients[32:48] -> reduced[32:48]
    %15 @compute elementwise <- reduced[0:48] -> weights[0:48]
  epilogue
    %16 @comm verify %12
    %17 @compute verify %15
)");
}

TEST(Projection, OverlappedIsTheProgramItself) {
  for (const Program& program : sample::all()) EXPECT_EQ(print(project(program, Arm::overlapped)), print(program));
}

TEST(Projection, OrderThroughDroppedOperationsBecomesAnEvent) {
  // The mesh's lanes `across` and `down` keep their edge in the comm arm; the pipeline's compute arm has one lane.
  EXPECT_EQ(classes_of(project(sample::mesh(), Arm::comm)), R"(
class all ranks={0..3}
  prologue
    %0 @compute fill -> a[0:16], b[0:16]
  body
    %4 @across all_reduce 64 f32 comm=0 <- c[0:16] -> reduced[0:16]
    %8 @across record e0
    %9 @down wait e0
    %7 @down all_gather 128 f32 comm=1 <- reduced[0:16] -> gathered[0:32]
)");
}

TEST(Projection, AHostSyncLeavesTheOrderThatItImplied) {
  ProgramBuilder p("joined", 1);
  const LaneId x = p.lane({.name = "x"});
  const LaneId y = p.lane({.name = "y"});
  ClassBuilder all = p.all_ranks();
  all.body(x, Busy{Seconds(1)});
  all.body(x, HostSync{});
  all.body(y, Busy{Seconds(2)});
  EXPECT_EQ(classes_of(project(std::move(p).finish(), Arm::compute)), R"(
class all ranks={0}
  body
    %0 @x busy 1 s
    %3 @x record e0
    %4 @y wait e0
    %2 @y busy 2 s
)");
}

TEST(Projection, SerialRunsOnTheFirstComputeLaneOfEveryClass) {
  const Program serial = project(sample::pipeline(), Arm::serial);
  ASSERT_EQ(serial.classes[1].body.size(), 3U) << "receive, gemm, send";
  for (const RankClass& c : serial.classes) {
    for (const Operation& op : c.body) EXPECT_EQ(op.lane, LaneId(0)) << c.name << " %" << op.id.value;
  }
  const Program comm = project(project(sample::pair(), Arm::comm), Arm::serial);
  ASSERT_EQ(comm.classes[0].body.size(), 1U);
  EXPECT_EQ(comm.classes[0].body[0].lane, LaneId(1)) << "no compute: its own lane";
}

// ---- what holds for all ---------------------------------------------------------------------------------------------

TEST(Projection, ArmsOfCorrectProgramsAreCorrect) {
  for (const Program& program : sample::all()) {
    for (const Arm arm : arms) {
      const auto findings = check(project(program, arm));
      EXPECT_TRUE(findings.empty()) << program.name << " " << name(arm) << ": " << findings[0].message;
    }
  }
}

TEST(Projection, OperationsThatStayAreUnchangedAndTablesAreKept) {
  for (const Program& program : sample::all()) {
    for (const Arm arm : {Arm::compute, Arm::comm, Arm::serial}) {
      const Program projected = project(program, arm);
      EXPECT_EQ(projected.name, program.name + ":" + std::string(name(arm)));
      EXPECT_EQ(projected.lanes.size(), program.lanes.size());
      EXPECT_EQ(projected.buffers.size(), program.buffers.size()) << "arms of a case share their buffers";
      EXPECT_EQ(projected.communicators.size(), program.communicators.size());
      for (std::size_t c = 0; c < program.classes.size(); ++c) {
        std::vector<OpId> expected;
        for (const Operation& op : program.classes[c].body) {
          const bool stays = arm == Arm::serial || (op.role == Role::compute) == (arm == Arm::compute);
          if (!is_ordering(op.work) && stays) expected.push_back(op.id);
        }
        std::vector<OpId> ids;
        for (const Operation& op : projected.classes[c].body) {
          if (is_ordering(op.work)) continue;
          ids.push_back(op.id);
          const Operation& original = with_id(program.classes[c].body, op.id);
          EXPECT_EQ(describe(op), describe(original));
          EXPECT_EQ(op.role, original.role);
          EXPECT_EQ(op.reads, original.reads);
          EXPECT_EQ(op.writes, original.writes);
        }
        EXPECT_EQ(ids, expected) << program.name << " " << name(arm);
      }
    }
  }
}

// ---- contraction on random programs ---------------------------------------------------------------------------------

// One rank, three lanes of each role, operations and edges at random; now and then a start event or a host_sync.
Program random_program(std::uint64_t seed) {
  Random random(seed);
  ProgramBuilder p("random", 1);
  std::vector<LaneId> lanes;
  for (int i = 0; i < 6; ++i) {
    lanes.push_back(p.lane({.name = "l" + std::to_string(i), .role = i < 3 ? Role::compute : Role::communication}));
  }
  ClassBuilder all = p.all_ranks();
  const auto some_lane = [&] { return lanes[random.below(lanes.size())]; };
  for (int i = 0; i < 60; ++i) {
    const std::uint64_t dice = random.below(20);
    if (dice < 10) {
      all.body(some_lane(), Busy{Seconds(i)});
    } else if (dice < 18) {
      all.order(some_lane(), some_lane());
    } else if (dice == 18) {
      const LaneId marked = some_lane();
      const EventId event = p.event("start");
      all.body(marked, Record{event, Moment::start});
      all.body(marked, Busy{Seconds(i)});
      all.body(some_lane(), Wait{event});
    } else {
      all.body(some_lane(), HostSync{});
    }
  }
  return std::move(p).finish();
}

std::vector<OpId> working(const std::vector<Operation>& body) {
  std::vector<OpId> ids;
  for (const Operation& op : body) {
    if (!is_ordering(op.work)) ids.push_back(op.id);
  }
  return ids;
}

// All pairs of `ids` of which the first is before the second.
std::vector<std::pair<OpId, OpId>> relation(const std::vector<Operation>& body, std::size_t lanes,
                                            const std::vector<OpId>& ids) {
  const HappensBefore order(body, lanes);
  const auto position = [&](OpId id) { return static_cast<std::size_t>(&with_id(body, id) - body.data()); };
  std::vector<std::pair<OpId, OpId>> pairs;
  for (const OpId a : ids) {
    for (const OpId b : ids) {
      if (order.before(position(a), position(b))) pairs.emplace_back(a, b);
    }
  }
  return pairs;
}

TEST(Projection, ContractionKeepsExactlyTheOrderWithNoEdgeTooMany) {
  std::size_t edges = 0;
  std::size_t related = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Program program = random_program(seed);
    ASSERT_THAT(check(program), IsEmpty()) << seed;
    for (const Arm arm : {Arm::compute, Arm::comm}) {
      const std::vector<Operation> body = project(program, arm).classes[0].body;
      const std::vector<OpId> kept = working(body);
      const auto wanted = relation(program.classes[0].body, program.lanes.size(), kept);
      ASSERT_EQ(relation(body, program.lanes.size(), kept), wanted) << seed << " " << name(arm);
      related += wanted.size();
      for (const Operation& wait : body) {
        if (!std::holds_alternative<Wait>(wait.work)) continue;
        std::vector<Operation> fewer = body;
        std::erase_if(fewer, [&](const Operation& op) { return op.id == wait.id; });
        ASSERT_NE(relation(fewer, program.lanes.size(), kept), wanted) << seed << " %" << wait.id.value;
        ++edges;
      }
    }
  }
  EXPECT_GT(edges, 300U) << "the random programs are too loose to test anything";
  EXPECT_GT(related, 10U * edges);
}

TEST(Projection, ArmsOfRandomProgramsKeepIdsUniqueAndEventsSound) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (const Arm arm : arms) {
      const Program projected = project(random_program(seed), arm);
      EXPECT_THAT(check(projected), IsEmpty()) << seed << " " << name(arm);
      std::vector<OpId> ids;
      for (const Operation& op : projected.classes[0].body) ids.push_back(op.id);
      std::sort(ids.begin(), ids.end());
      EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end()) << seed << " " << name(arm);
    }
  }
}

// A body as text, without the ids of the records and waits that a projection adds anew.
std::vector<std::string> text_of(const Program& program) {
  std::vector<std::string> lines;
  for (const RankClass& c : program.classes) {
    for (const Operation& op : c.body) {
      const std::string id = is_ordering(op.work) ? "" : "%" + std::to_string(op.id.value) + " ";
      lines.push_back(c.name + " " + id + program.lanes[op.lane.index()].name + " " + describe(op));
    }
  }
  return lines;
}

TEST(Projection, WhatLastsUntilAnEventHasNoArmWithoutIt) {
  ProgramBuilder p("loaded", 1);
  const LaneId victim = p.lane({.name = "victim"});
  const LaneId aggressor = p.lane({.name = "aggressor", .role = Role::communication});
  const EventId done = p.event("victim done");
  ClassBuilder all = p.all_ranks();
  all.body(aggressor, Occupy{.until = done});
  const OpId work = all.body(victim, Busy{Seconds(1)});
  all.body(victim, Record{done});
  const Program program = std::move(p).finish();

  const Program alone = project(program, Arm::compute);
  ASSERT_EQ(alone.classes[0].body.size(), 1U) << "the victim alone";
  EXPECT_EQ(alone.classes[0].body[0].id, work);
  EXPECT_THAT(check(project(program, Arm::empty)), IsEmpty());
  for (const Arm arm : {Arm::comm, Arm::serial}) {
    EXPECT_EQ(test::error_text(ErrorKind::failure, [&] { project(program, arm); }),
              "program loaded has no arm " + std::string(name(arm)) +
                  ": %0 occupy lasts until an event that only the whole program has; give the case arms of its own");
  }
}

TEST(Projection, AnArmOfItselfIsItself) {
  std::vector<Program> programs = sample::all();
  for (std::uint64_t seed = 0; seed < 50; ++seed) programs.push_back(random_program(seed));
  for (const Program& program : programs) {
    for (const Arm arm : arms) {
      const Program once = project(program, arm);
      EXPECT_EQ(text_of(project(once, arm)), text_of(once)) << program.name << " " << name(arm);
    }
  }
}

TEST(Projection, OfOneRoleTheOtherArmHasNothingLeft) {
  EXPECT_THAT(project(project(sample::ddp(), Arm::compute), Arm::comm).classes[0].body, IsEmpty());
  EXPECT_THAT(project(project(sample::ddp(), Arm::comm), Arm::compute).classes[0].body, IsEmpty());
  EXPECT_THAT(
      project(Program{.name = "none", .classes = {{"all", {Rank(0)}, {}, {}, {}}}}, Arm::serial).classes[0].body,
      IsEmpty());
}

TEST(Projection, ArmsKeepTheTimesOfSubmission) {
  ProgramBuilder p("timed", 1);
  const LaneId lane = p.lane({.name = "comm", .role = Role::communication});
  p.all_ranks().submit(Seconds(0.25), lane, Busy{Seconds(0.5)});
  const Program program = std::move(p).finish();
  for (const Arm arm : {Arm::empty, Arm::comm, Arm::serial, Arm::overlapped}) {
    EXPECT_TRUE(submitted_over_time(project(program, arm))) << name(arm);
  }
  EXPECT_FALSE(submitted_over_time(project(program, Arm::compute)));
}

}  // namespace
}  // namespace ovl
