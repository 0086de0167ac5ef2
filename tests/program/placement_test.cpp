// SPDX-License-Identifier: Apache-2.0
#include "program/placement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "program/builder.hpp"
#include "program/check.hpp"
#include "program/order.hpp"
#include "program/print.hpp"
#include "program/projection.hpp"
#include "support/sample_programs.hpp"

namespace ovl {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Program placed(const Program& program, std::string_view placement) {
  return place(program, parse_placement(placement));
}

std::string body_of(const Program& program, std::size_t rank_class = 0) {
  std::string text = "\n";
  for (const Operation& op : program.classes[rank_class].body) {
    text += "%" + std::to_string(op.id.value) + " @" + program.lanes[op.lane.index()].name + " " + describe(op) + "\n";
  }
  return text;
}

std::pair<ErrorKind, std::string> error(const auto& act) {
  try {
    act();
  } catch (const Error& e) {
    return {e.kind(), e.what()};
  }
  return {ErrorKind::failure, "nothing thrown"};
}

// ---- names ---------------------------------------------------------------------------------------------------------

TEST(Placement, EachNameSetsOneAxis) {
  EXPECT_THAT(placement_names(), ElementsAre("concurrent", "serial", "comm_first", "compute_first", "event_chained",
                                             "global_sync", "priority_comm", "priority_compute", "partitioned",
                                             "shared_core", "smt_siblings", "copy_engine", "graph"));
  EXPECT_EQ(parse_placement("concurrent").order, LaunchOrder::concurrent);
  EXPECT_EQ(parse_placement("serial").order, LaunchOrder::serial);
  EXPECT_EQ(parse_placement("comm_first").order, LaunchOrder::comm_first);
  EXPECT_EQ(parse_placement("compute_first").order, LaunchOrder::compute_first);
  EXPECT_EQ(parse_placement("event_chained").order, LaunchOrder::event_chained);
  EXPECT_EQ(parse_placement("global_sync").order, LaunchOrder::global_sync);
  EXPECT_EQ(parse_placement("priority_comm").priority, Role::communication);
  EXPECT_EQ(parse_placement("priority_compute").priority, Role::compute);
  EXPECT_EQ(parse_placement("partitioned").partition, Partition::by_role);
  EXPECT_EQ(parse_placement("shared_core").partition, Partition::by_rank);
  EXPECT_EQ(parse_placement("smt_siblings").partition, Partition::siblings);
  EXPECT_EQ(parse_placement("copy_engine").transport, "copy");
  EXPECT_TRUE(parse_placement("graph").graph);
}

TEST(Placement, WhatIsNotNamedIsLeftAlone) {
  const Placement none = parse_placement("concurrent");
  EXPECT_EQ(none.priority, std::nullopt);
  EXPECT_EQ(none.partition, Partition::automatic);
  EXPECT_EQ(none.transport, std::nullopt);
  EXPECT_FALSE(none.graph);
}

TEST(Placement, AxesCombineInAnyOrder) {
  for (const char* text : {"comm_first+priority_comm+partitioned+copy_engine+graph",
                           "graph+copy_engine+partitioned+priority_comm+comm_first"}) {
    const Placement all = parse_placement(text);
    EXPECT_EQ(all.order, LaunchOrder::comm_first);
    EXPECT_EQ(all.priority, Role::communication);
    EXPECT_EQ(all.partition, Partition::by_role);
    EXPECT_EQ(all.transport, "copy");
    EXPECT_TRUE(all.graph);
  }
}

TEST(Placement, AnUnknownNameIsAUsageErrorThatOffersTheNearest) {
  const std::string known =
      "known are concurrent, serial, comm_first, compute_first, event_chained, global_sync, priority_comm, "
      "priority_compute, partitioned, shared_core, smt_siblings, copy_engine, graph; did you mean ";
  const auto parse = [](std::string_view text) { return error([&] { (void)parse_placement(text); }); };
  EXPECT_EQ(parse("partitoned"),
            std::pair(ErrorKind::usage, "placement \"partitoned\" is unknown: " + known + "partitioned?"));
  EXPECT_EQ(parse("graph+com_first"),
            std::pair(ErrorKind::usage, "placement \"com_first\" is unknown: " + known + "comm_first?"));
  for (const char* text : {"", "+", "graph+", "+graph", "graph++serial", "graph serial", "Graph"}) {
    EXPECT_EQ(parse(text).first, ErrorKind::usage) << text;
  }
}

TEST(Placement, AnAxisSetTwiceIsAUsageError) {
  const auto parse = [](std::string_view text) { return error([&] { (void)parse_placement(text); }); };
  EXPECT_EQ(parse("comm_first+partitioned+serial"),
            std::pair(ErrorKind::usage, std::string("placement \"comm_first+partitioned+serial\" sets one axis twice: "
                                                    "comm_first and serial exclude each other; keep one of them")));
  EXPECT_EQ(parse("graph+graph").second,
            "placement \"graph+graph\" sets one axis twice: graph and graph exclude each other; keep one of them");
  EXPECT_EQ(parse("partitioned+shared_core").first, ErrorKind::usage);
  EXPECT_EQ(parse("priority_comm+priority_compute").first, ErrorKind::usage);
  EXPECT_EQ(parse("concurrent+serial").first, ErrorKind::usage);
}

// ---- fields --------------------------------------------------------------------------------------------------------

TEST(Placement, ConcurrentIsTheProgramItself) {
  for (Program program : sample::all()) {
    EXPECT_EQ(print(placed(program, "concurrent")), print(program));
    program.graph = true;
    EXPECT_EQ(print(placed(program, "concurrent")), print(program)) << "replay is an axis that it does not set";
  }
}

TEST(Placement, FieldsAreSetAndNothingElse) {
  const auto expect = [](std::string_view placement, const auto& change) {
    Program expected = sample::ddp();
    change(expected);
    EXPECT_EQ(print(placed(sample::ddp(), placement)), print(expected)) << placement;
  };
  expect("priority_comm", [](Program& p) { p.lanes[1].priority = Priority::high; });
  expect("priority_compute", [](Program& p) { p.lanes[0].priority = Priority::high; });
  expect("partitioned", [](Program& p) { p.lanes[0].partition = p.lanes[1].partition = Partition::by_role; });
  expect("shared_core", [](Program& p) { p.lanes[0].partition = p.lanes[1].partition = Partition::by_rank; });
  expect("smt_siblings", [](Program& p) { p.lanes[0].partition = p.lanes[1].partition = Partition::siblings; });
  expect("copy_engine", [](Program& p) { p.communicators[0].transport = "copy"; });
  expect("graph", [](Program& p) { p.graph = true; });
  expect("graph+priority_comm", [](Program& p) {
    p.graph = true;
    p.lanes[1].priority = Priority::high;
  });
}

// ---- order ---------------------------------------------------------------------------------------------------------

TEST(Placement, SerialIsTheSerialArmUnderTheProgramsName) {
  for (const Program& program : sample::all()) {
    Program arm = project(program, Arm::serial);
    arm.name = program.name;
    EXPECT_EQ(print(placed(program, "serial")), print(arm));
  }
}

TEST(Placement, CommFirstOpensComputeWhenTheFirstCommunicationStarts) {
  EXPECT_EQ(body_of(placed(sample::pair(), "comm_first")), R"(
%5 @comm record e0 at start
%2 @comm all_reduce 64 f32 comm=0
%6 @compute wait e0
%1 @compute gemm 4x4x4 f32
)");
}

TEST(Placement, ComputeFirstOpensEveryCommunicationLane) {
  EXPECT_EQ(body_of(placed(sample::mesh(), "compute_first")), R"(
%8 @compute record e2 at start
%1 @compute gemm 4x4x4 f32
%9 @across wait e2
%10 @down wait e2
%2 @compute record e0
%3 @across wait e0
%4 @across all_reduce 64 f32 comm=0
%5 @across record e1
%6 @down wait e1
%7 @down all_gather 128 f32 comm=1
)");
}

TEST(Placement, AFirstOperationThatWaitsForTheOtherRoleCannotBeFirst) {
  EXPECT_EQ(error([] { (void)placed(sample::ddp(), "partitioned+comm_first"); }),
            std::pair(ErrorKind::impossible, std::string("placement comm_first is not possible for program ddp: its "
                                                         "first communication waits for compute; use concurrent")));
  EXPECT_EQ(
      error([] { (void)placed(sample::pipeline(), "compute_first"); }),
      std::pair(ErrorKind::impossible, std::string("placement compute_first is not possible for program pipeline: "
                                                   "its first compute waits for communication; use concurrent")))
      << "on its second stage";
}

// One rank with a lane of each role.
struct OneRank {
  ProgramBuilder builder{"one", 1};
  LaneId compute = builder.lane({.name = "compute"});
  LaneId comm = builder.lane({.name = "comm", .role = Role::communication});
  ClassBuilder all = builder.all_ranks();
  Program finish() { return std::move(builder).finish(); }
};

TEST(Placement, WhatTheFirstOperationNeedsIsIssuedBeforeIt) {
  // The all_reduce's lane waits for an event that the compute lane records before doing anything.
  OneRank one;
  one.all.order(one.compute, one.comm);      // %0 record, %1 wait
  one.all.body(one.compute, Busy{});         // %2
  one.all.body(one.comm, Busy{});            // %3
  one.all.body(one.comm, Busy{Seconds(1)});  // %4
  const Program program = placed(one.finish(), "comm_first");
  EXPECT_EQ(body_of(program), R"(
%0 @compute record e0
%1 @comm wait e0
%5 @comm record e1 at start
%3 @comm busy 0 s
%6 @compute wait e1
%2 @compute busy 0 s
%4 @comm busy 1 s
)");
  EXPECT_THAT(check(program), IsEmpty());
}

TEST(Placement, WaitingForTheStartOfTheOtherRoleIsWaitingForIt) {
  OneRank one;
  const EventId started = one.builder.event("started");
  one.all.body(one.compute, Record{started, Moment::start});
  one.all.body(one.compute, Busy{});
  one.all.body(one.comm, Wait{started});
  one.all.body(one.comm, Busy{});
  const Program program = one.finish();
  EXPECT_EQ(error([&] { (void)placed(program, "comm_first"); }).first, ErrorKind::impossible);
  EXPECT_THAT(check(placed(program, "compute_first")), IsEmpty());
}

TEST(Placement, AProgramOfOneRoleHasNothingToOpen) {
  const Program compute = project(sample::ddp(), Arm::compute);
  for (const char* order : {"comm_first", "compute_first"}) EXPECT_EQ(print(placed(compute, order)), print(compute));
}

TEST(Placement, AProgramOfOneLaneHasNothingToOpenEither) {
  const Program serial = project(sample::ddp(), Arm::serial);
  EXPECT_EQ(print(placed(serial, "compute_first")), print(serial));
}

TEST(Placement, EventChainedWaitsForTheOperationBeforeOnAnotherLane) {
  EXPECT_EQ(body_of(placed(sample::pair(), "event_chained")), R"(
%1 @compute gemm 4x4x4 f32
%5 @compute record e0
%6 @comm wait e0
%2 @comm all_reduce 64 f32 comm=0
)");
}

TEST(Placement, EventChainedAndGlobalSyncOrderEverything) {
  for (const Program& program : sample::all()) {
    for (const RankClass& c : placed(program, "event_chained").classes) {
      const HappensBefore order(c.body, program.lanes.size());
      std::optional<std::size_t> previous;
      for (std::size_t i = 0; i < c.body.size(); ++i) {
        if (is_ordering(c.body[i].work)) continue;
        if (previous) {
          EXPECT_TRUE(order.before(*previous, i)) << program.name << " %" << c.body[i].id.value;
        }
        previous = i;
      }
    }
    for (const RankClass& c : placed(program, "global_sync").classes) {
      const HappensBefore order(c.body, program.lanes.size());
      for (std::size_t i = 0; i < c.body.size(); ++i) {
        for (std::size_t j = i + 1; j < c.body.size(); ++j) {
          if (is_ordering(c.body[i].work) || is_ordering(c.body[j].work) || c.body[i].role == c.body[j].role) continue;
          EXPECT_TRUE(order.before(i, j)) << program.name << " %" << c.body[j].id.value;
        }
      }
    }
  }
}

TEST(Placement, GlobalSyncIsAHostSyncBetweenRoles) {
  EXPECT_EQ(body_of(placed(sample::pipeline(), "global_sync")), R"(
%1 @compute gemm 4x4x4 f32
%2 @compute record e0
%3 @comm wait e0
%9 @comm host_sync
%4 @comm exchange f32 comm=0 to:1
%5 @comm exchange f32 comm=0 from:1
%6 @comm record e1
%7 @compute wait e1
%10 @compute host_sync
%8 @compute gemm 4x4x4 f32
)");
}

TEST(Placement, AStartRecordStaysWithTheOperationThatItMarks) {
  const Program program = placed(sample::pair(), "comm_first");
  for (const char* then : {"event_chained", "global_sync", "comm_first"}) {
    EXPECT_THAT(check(placed(program, then)), IsEmpty()) << then;
  }
  EXPECT_EQ(body_of(placed(program, "event_chained")), R"(
%5 @comm record e0 at start
%2 @comm all_reduce 64 f32 comm=0
%6 @compute wait e0
%7 @comm record e1
%8 @compute wait e1
%1 @compute gemm 4x4x4 f32
)");
}

// ---- what holds for all ---------------------------------------------------------------------------------------------

// Every operation that does work, with all that it has but its lane, sorted by id.
std::vector<std::string> works(const RankClass& c) {
  std::vector<std::string> lines;
  for (const auto* part : {&c.prologue, &c.body, &c.epilogue}) {
    for (const Operation& op : *part) {
      if (is_ordering(op.work)) continue;
      std::string line = std::to_string(op.id.value) + " " + describe(op) + " " + std::string(name(op.role));
      for (const auto* slices : {&op.reads, &op.writes}) {
        line += " |";
        for (const Slice& s : *slices) {
          line += " " + std::to_string(s.buffer.value) + ":" + std::to_string(s.offset) + "+" + std::to_string(s.count);
        }
      }
      lines.push_back(line);
    }
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

// One choice on every axis or none: all combinations that can be written.
std::vector<std::string> all_placements() {
  std::vector<std::string> result;
  for (const char* order : {"concurrent", "serial", "comm_first", "compute_first", "event_chained", "global_sync"}) {
    for (const char* priority : {"", "+priority_comm", "+priority_compute"}) {
      for (const char* partition : {"", "+partitioned", "+shared_core"}) {
        for (const char* transport : {"", "+copy_engine"}) {
          for (const char* replay : {"", "+graph"}) {
            result.push_back(std::string(order) + priority + partition + transport + replay);
          }
        }
      }
    }
  }
  return result;
}

TEST(Placement, EveryCombinationKeepsTheWorkAndIsCorrectOrImpossible) {
  ASSERT_EQ(all_placements().size(), 6U * 3 * 3 * 2 * 2);
  int impossible = 0;
  for (const Program& program : sample::all()) {
    for (const std::string& placement : all_placements()) {
      Program out;
      try {
        out = placed(program, placement);
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::impossible);
        ++impossible;
        continue;
      }
      const auto findings = check(out);
      EXPECT_TRUE(findings.empty()) << program.name << " " << placement << ": " << findings[0].message;
      EXPECT_EQ(memory_per_rank(out), memory_per_rank(program));
      EXPECT_EQ(out.name, program.name);
      ASSERT_EQ(out.classes.size(), program.classes.size());
      for (std::size_t c = 0; c < program.classes.size(); ++c) {
        EXPECT_EQ(works(out.classes[c]), works(program.classes[c])) << program.name << " " << placement;
        EXPECT_EQ(out.classes[c].members, program.classes[c].members);
        std::vector<OpId> ids;
        for (const auto* part : {&out.classes[c].prologue, &out.classes[c].body, &out.classes[c].epilogue}) {
          for (const Operation& op : *part) ids.push_back(op.id);
        }
        std::sort(ids.begin(), ids.end());
        EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end()) << "an id twice";
      }
    }
  }
  EXPECT_EQ(impossible, 4 * 36) << "comm_first for ddp, pipeline and mesh, compute_first for pipeline";
}

}  // namespace
}  // namespace ovl
