// SPDX-License-Identifier: Apache-2.0
#include "schedule/collective.hpp"
#include "support/errors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/error.hpp"
#include "program/check.hpp"
#include "program/print.hpp"
#include "program/projection.hpp"

namespace ovl {
namespace {

using test::error_text;
using testing::HasSubstr;
using testing::IsEmpty;

// ---- one collective ------------------------------------------------------------------------------------------------

// Two sums of 4 floats beside three GEMMs. Send and receive take (4 + 4) · 4 bytes on 2 ranks, 64: three different ones
// rotate over 192 bytes, two of them as slices of this window. A GEMM's operands take (4 + 6 + 6) · 4 · 2 = 128: two.
TEST(CollectiveProgram, WorkedExample) {
  const Program program = collective_program({.ranks = 2,
                                              .bytes = Bytes(16),
                                              .load = GemmLoad{{2, 3, 2}, 3},
                                              .channels = 2,
                                              .waiting = Waiting::spin,
                                              .repeats = 2,
                                              .rotate_over = Bytes(192)});
  EXPECT_EQ(print(program),
            R"(program collective ranks=2
lane compute role=compute priority=normal partition=auto waiting=spin
lane comm role=comm priority=normal partition=auto waiting=spin
comm 0 world transport=shm channels=2 groups={0..1}
event 0 compute started
buffer a f32 count=8 memory=plain copies=1
buffer b f32 count=12 memory=plain copies=1
buffer c f32 count=12 memory=plain copies=1
buffer send f32 count=8 memory=plain copies=2
buffer receive f32 count=8 memory=plain copies=2
class all ranks={0..1}
  prologue
    %0 @compute fill -> a[0:8], b[0:12]
    %1 @comm fill -> send[0:8]
  body
    %2 @compute record e0 at start
    %3 @compute gemm 2x3x2 f32 <- a[0:4], b[0:6] -> c[0:6]
    %4 @compute gemm 2x3x2 f32 <- a[4:8], b[6:12] -> c[6:12]
    %5 @compute gemm 2x3x2 f32 <- a[0:4], b[0:6] -> c[0:6]
    %6 @comm wait e0
    %7 @comm all_reduce 16 f32 comm=0 <- send[0:4] -> receive[0:4]
    %8 @comm all_reduce 16 f32 comm=0 <- send[4:8] -> receive[4:8]
  epilogue
    %9 @comm verify %5
    %10 @comm verify %4
    %11 @comm verify %7
    %12 @comm verify %8
)");
}

TEST(CollectiveProgram, WithoutALoadHasNothingButTheCollective) {
  const Program program = collective_program({.ranks = 2, .bytes = Bytes(16)});
  ASSERT_EQ(program.lanes.size(), 1U);
  EXPECT_EQ(program.lanes[0].role, Role::communication);
  EXPECT_EQ(program.classes.at(0).body.size(), 1U);
  EXPECT_THAT(program.events, IsEmpty());
}

// However many GEMMs it takes to outlast the collectives, a window has a bounded number of operations.
TEST(CollectiveProgram, ManyGemmsAreFewOperationsThatRepeat) {
  for (const std::int64_t count : {1, 255, 256, 257, 1000}) {
    const Program program = collective_program({.bytes = Bytes(16), .load = GemmLoad{{2, 2, 2}, count}});
    std::int64_t runs = 0;
    std::int64_t operations = 0;
    for (const Operation& op : program.classes.at(0).body) {
      const auto* gemm = std::get_if<Gemm>(&op.work);
      if (gemm == nullptr) continue;
      runs += gemm->repeat;
      ++operations;
    }
    EXPECT_EQ(runs, count);
    EXPECT_EQ(operations, std::min<std::int64_t>(count, 256));
  }
}

// ---- in place ------------------------------------------------------------------------------------------------------

std::string body_of(const Program& program) {
  const std::string text = print(program);
  const std::size_t begin = text.find("class");
  return text.substr(begin);
}

// As nccl-tests has it: what all_gather reads is the rank's block of what it writes.
TEST(CollectiveProgram, InPlaceARankGathersIntoTheArrayThatHoldsItsBlock) {
  EXPECT_EQ(body_of(collective_program(
                {.ranks = 2, .form = CollectiveForm::all_gather, .bytes = Bytes(32), .in_place = true})),
            R"(class rank 0 ranks={0}
  prologue
    %0 @comm fill -> array[0:8]
  body
    %1 @comm all_gather 32 f32 comm=0 <- array[0:4] -> array[0:8]
  epilogue
    %2 @comm verify %1
class rank 1 ranks={1}
  prologue
    %0 @comm fill -> array[0:8]
  body
    %1 @comm all_gather 32 f32 comm=0 <- array[4:8] -> array[0:8]
  epilogue
    %2 @comm verify %1
)");
}

TEST(CollectiveProgram, InPlaceARankKeepsItsBlockOfTheSum) {
  EXPECT_THAT(body_of(collective_program(
                  {.ranks = 2, .form = CollectiveForm::reduce_scatter, .bytes = Bytes(32), .in_place = true})),
              HasSubstr("reduce_scatter 32 f32 comm=0 <- array[0:8] -> array[4:8]"));
}

// A sum that is summed again grows: each has an array of its own, however little memory there is to rotate through.
TEST(CollectiveProgram, NoArrayIsSummedTwiceInPlace) {
  const CollectiveSpec spec{.ranks = 2, .bytes = Bytes(16), .in_place = true, .repeats = 3};
  EXPECT_TRUE(consumes_its_input(spec));
  const std::string body = body_of(collective_program(spec));
  for (const char* slice : {"array[0:4] -> array[0:4]", "array[4:8] -> array[4:8]", "array[8:12] -> array[8:12]"}) {
    EXPECT_THAT(body, HasSubstr(slice));
  }
  EXPECT_FALSE(consumes_its_input({.in_place = false}));
  EXPECT_FALSE(consumes_its_input({.form = CollectiveForm::all_gather, .in_place = true})) << "it writes what is there";
  EXPECT_FALSE(consumes_its_input({.form = CollectiveForm::broadcast, .in_place = true}));
}

TEST(CollectiveProgram, WhatCannotWorkInPlaceSaysWhy) {
  const auto in_place = [](CollectiveForm form) {
    return error_text(ErrorKind::impossible, [form] {
      (void)collective_program({.ranks = 4, .form = form, .bytes = Bytes(64), .in_place = true});
    });
  };
  EXPECT_EQ(in_place(CollectiveForm::all_to_all),
            "all_to_all cannot work in place: what it receives would overwrite what it has still to send; type --place "
            "out");
  EXPECT_THAT(in_place(CollectiveForm::exchange), HasSubstr("exchange cannot work in place"));
  EXPECT_EQ(in_place(CollectiveForm::reduce_scatter_all_gather),
            "reduce_scatter+all_gather cannot work in place: its parts hand their results on in buffers of their own; "
            "type --place out");
}

// ---- sequences and exchanges ---------------------------------------------------------------------------------------

TEST(CollectiveProgram, TheIdentityScattersSumsAndGathersThem) {
  EXPECT_EQ(
      body_of(collective_program({.ranks = 2, .form = CollectiveForm::reduce_scatter_all_gather, .bytes = Bytes(32)})),
      R"(class all ranks={0..1}
  prologue
    %0 @comm fill -> send[0:8]
  body
    %1 @comm reduce_scatter 32 f32 comm=0 <- send[0:8] -> parts[0:4]
    %2 @comm all_gather 32 f32 comm=0 <- parts[0:4] -> receive[0:8]
  epilogue
    %3 @comm verify %1
    %4 @comm verify %2
)");
}

// Four ranks on two nodes: 0 and 1, 2 and 3. Half of the array crosses between ranks 0 and 2, the other between 1
// and 3.
TEST(CollectiveProgram, AHierarchySumsInsideThenAcrossThenGathersInside) {
  const Program program =
      collective_program({.ranks = 4, .form = CollectiveForm::all_reduce_hierarchical, .bytes = Bytes(32)});
  EXPECT_THAT(print(program), HasSubstr("comm 0 inside transport=shm channels=0 groups={0..1}{2..3}\n"
                                        "comm 1 across transport=shm channels=0 groups={0,2}{1,3}\n"));
  EXPECT_EQ(body_of(program), R"(class all ranks={0..3}
  prologue
    %0 @comm fill -> send[0:8]
  body
    %1 @comm reduce_scatter 32 f32 comm=0 <- send[0:8] -> parts[0:4]
    %2 @comm all_reduce 16 f32 comm=1 <- parts[0:4] -> sums[0:4]
    %3 @comm all_gather 32 f32 comm=0 <- sums[0:4] -> receive[0:8]
  epilogue
    %4 @comm verify %1
    %5 @comm verify %2
    %6 @comm verify %3
)");
}

TEST(CollectiveProgram, AHierarchyNeedsTwoEqualGroups) {
  for (const int ranks : {1, 2, 3, 5}) {
    EXPECT_EQ(error_text(ErrorKind::impossible,
                         [ranks] {
                           (void)collective_program(
                               {.ranks = ranks, .form = CollectiveForm::all_reduce_hierarchical, .bytes = Bytes(64)});
                         }),
              "all_reduce:hierarchical on " + std::to_string(ranks) +
                  " ranks is not possible: it has 2 groups of equally many ranks, at least 2 each; type for example "
                  "--ranks 4");
  }
}

TEST(CollectiveProgram, AnExchangeSendsToTheNextRankAndReceivesFromTheOneBefore) {
  const std::string body =
      body_of(collective_program({.ranks = 3, .form = CollectiveForm::exchange, .bytes = Bytes(16)}));
  EXPECT_THAT(body, HasSubstr("exchange f32 comm=0 to:1 from:2 <- send[0:4] -> receive[0:4]"));
  EXPECT_THAT(body, HasSubstr("exchange f32 comm=0 to:2 from:0 <- send[0:4] -> receive[0:4]"));
  EXPECT_THAT(body, HasSubstr("exchange f32 comm=0 to:0 from:1 <- send[0:4] -> receive[0:4]"));
}

// ---- soundness -----------------------------------------------------------------------------------------------------

TEST(CollectiveProgram, IsSoundInEveryFormAndArm) {
  for (const auto& [form, form_name] : EnumNames<CollectiveForm>::table) {
    for (const bool loaded : {false, true}) {
      for (const bool in_place : {false, true}) {
        const bool single = result_of(form) && form_name == name(*result_of(form));
        if (in_place && (!single || form == CollectiveForm::all_to_all)) continue;
        CollectiveSpec spec{.ranks = 4,
                            .form = form,
                            .bytes = Bytes(100),
                            .in_place = in_place,
                            .repeats = 5,
                            .rotate_over = Bytes(1000)};
        if (loaded) spec.load = GemmLoad{{2, 2, 2}, 7};
        const Program program = collective_program(spec);
        for (const Arm arm : {Arm::empty, Arm::comm, Arm::overlapped}) {
          EXPECT_THAT(check(project(program, arm)), IsEmpty()) << form_name << " " << name(arm);
        }
      }
    }
  }
}

// Without the edge the collective could begin before the GEMMs that are to cover it.
TEST(CollectiveProgram, WithoutItsWaitTheEventOfTheLoadHasNoUse) {
  Program program = collective_program({.bytes = Bytes(16), .load = GemmLoad{{2, 2, 2}, 1}});
  std::vector<Operation>& body = program.classes.at(0).body;
  std::erase_if(body, [](const Operation& op) { return std::holds_alternative<Record>(op.work); });
  ASSERT_EQ(check(program).size(), 1U);
  EXPECT_EQ(check(program).front().kind, FindingKind::event);
}

// The parts of a sequence are on one lane: on two, nothing would order what one writes and the next reads.
TEST(CollectiveProgram, TheLaneOrdersWhatASequenceHandsOn) {
  Program program =
      collective_program({.ranks = 4, .form = CollectiveForm::all_reduce_hierarchical, .bytes = Bytes(32)});
  program.lanes.push_back({.name = "other", .role = Role::communication});
  program.classes.at(0).body.at(1).lane = LaneId(1);
  std::vector<FindingKind> kinds;
  for (const Finding& finding : check(program)) kinds.push_back(finding.kind);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), FindingKind::race), 2);
}

// ---- sizes ---------------------------------------------------------------------------------------------------------

TEST(ArrayCount, IsRoundedUpToWhatTheFormDivides) {
  const auto count = [](CollectiveForm form, std::int64_t bytes, DType dtype = DType::f32) {
    return array_count({.ranks = 4, .form = form, .bytes = Bytes(bytes), .dtype = dtype});
  };
  EXPECT_EQ(count(CollectiveForm::all_reduce, 17), 5);
  EXPECT_EQ(count(CollectiveForm::broadcast, 17), 5);
  EXPECT_EQ(count(CollectiveForm::exchange, 17), 5);
  EXPECT_EQ(count(CollectiveForm::all_gather, 17), 8);
  EXPECT_EQ(count(CollectiveForm::reduce_scatter_all_gather, 17), 8);
  EXPECT_EQ(count(CollectiveForm::all_reduce_hierarchical, 33), 12);
  EXPECT_EQ(count(CollectiveForm::all_to_all, 17, DType::f64), 4);
  EXPECT_EQ(error_text(ErrorKind::usage, [&] { (void)count(CollectiveForm::all_reduce, (1LL << 60) + 1); }),
            "a collective of 1152921504606846977 is too large: it has at most 2^60 bytes; use smaller sizes");
}

TEST(CollectiveProgram, ThatNoAddressSpaceHoldsIsAUsersMistake) {
  EXPECT_EQ(error_text(ErrorKind::usage,
                       [] {
                         (void)collective_program(
                             {.ranks = 4, .bytes = mebibytes(1), .load = GemmLoad{{1 << 28, 1 << 28, 1 << 28}, 1}});
                       }),
            "all_reduce of 1MiB on 4 ranks is too large: all arrays together, those of its GEMM included, have at most "
            "2^60 bytes; use smaller sizes");
}

TEST(CollectiveProgram, NeedsRanksAndRepeats) {
  EXPECT_THROW((void)collective_program({.ranks = 0}), std::logic_error);
  EXPECT_THROW((void)collective_program({.repeats = 0}), std::logic_error);
}

TEST(ResultOf, SequencesHaveThatOfAnAllReduce) {
  EXPECT_EQ(result_of(CollectiveForm::reduce_scatter_all_gather), CollectiveKind::all_reduce);
  EXPECT_EQ(result_of(CollectiveForm::all_reduce_hierarchical), CollectiveKind::all_reduce);
  EXPECT_EQ(result_of(CollectiveForm::all_to_all), CollectiveKind::all_to_all);
  EXPECT_EQ(result_of(CollectiveForm::exchange), std::nullopt);
}

}  // namespace
}  // namespace ovl
