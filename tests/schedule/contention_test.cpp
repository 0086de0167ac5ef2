// SPDX-License-Identifier: Apache-2.0
#include "schedule/contention.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program/check.hpp"
#include "program/print.hpp"
#include "program/projection.hpp"
#include "support/errors.hpp"

namespace ovl {
namespace {

using test::error_text;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The printed lines from the first class on.
std::string classes_of(const Program& program) {
  const std::string text = print(program);
  return "\n" + text.substr(text.find("class "));
}

ContentionSpec spec(std::string_view compute, std::string_view comm) {
  return {.ranks = 2, .compute = parse_load(compute), .comm = parse_load(comm)};
}

// ---- loads ---------------------------------------------------------------------------------------------------------

TEST(ParseLoad, ReadsAKindAndAnAmount) {
  EXPECT_EQ(parse_load("gemm:8x16x32").shape, (GemmShape{8, 16, 32}));
  EXPECT_EQ(parse_load("elementwise:64MiB").bytes, mebibytes(64));
  EXPECT_EQ(parse_load("copy:1MiB").kind, LoadKind::copy);
  EXPECT_EQ(parse_load("all_gather:4KiB").collective, CollectiveKind::all_gather);
  EXPECT_EQ(parse_load("occupy:3").units, 3);
  const Load paced = parse_load("stream:2.5GB/s@32MiB");
  EXPECT_EQ(paced.pace, BytesPerSecond(2.5e9));
  EXPECT_EQ(paced.bytes, mebibytes(32));
  EXPECT_EQ(parse_load("stream:max").pace, BytesPerSecond(0));
  EXPECT_EQ(parse_load("stream:max").bytes, mebibytes(64));
}

TEST(ParseLoad, SaysWhatToTypeInstead) {
  const auto text = [](std::string_view load) { return error_text([&] { parse_load(load); }); };
  EXPECT_EQ(text("gemm"),
            "\"gemm\" says not what or how much: a load has a kind and an amount; type for example " + load_examples());
  EXPECT_THAT(text("strem:max"), HasSubstr("stream"));
  EXPECT_EQ(text("occupy:0"), "\"occupy:0\" holds no whole number of SMs or cores; type for example occupy:1");
  EXPECT_EQ(text("stream:4GB@64MiB"),
            "\"stream:4GB@64MiB\" has no pace: a stream has one in bytes a second, or none; type for example "
            "stream:4GB/s@64MiB or stream:max@64MiB");
  EXPECT_EQ(text("copy:100"),
            "\"copy:100\" has no two arrays of whole cache lines: its bytes are a multiple of 128; type for example "
            "64MiB");
}

// ---- the program ---------------------------------------------------------------------------------------------------

TEST(Contention, TwoSidesShareNothingButTheMachine) {
  ContentionSpec s = spec("gemm:2x3x4", "stream:1kB/s@256");
  s.compute_repeat = 5;
  s.comm_repeat = 7;
  const Program program = contention_program(s);
  EXPECT_THAT(check(program), IsEmpty());
  EXPECT_EQ(classes_of(program), R"(
class all ranks={0..1}
  prologue
    %0 @compute fill -> compute_a[0:8], compute_b[0:12]
    %1 @comm fill -> comm_from[0:32]
  body
    %2 @compute gemm 2x3x4 f32 x5 <- compute_a[0:8], compute_b[0:12] -> compute_c[0:6]
    %3 @comm stream 1792 pace=1000 workers=1 <- comm_from[0:32] -> comm_to[0:32]
  epilogue
    %4 @compute verify %2
)");
}

TEST(Contention, AnyTwoLoadsMakeASoundProgramAlsoWhereOneCoversTheOther) {
  const char* loads[] = {"gemm:8x8x8", "elementwise:1KiB", "all_reduce:1KiB", "reduce_scatter:1KiB",
                         "occupy:1",   "stream:max@1KiB",  "copy:1KiB"};
  for (const char* compute : loads) {
    for (const char* comm : loads) {
      SCOPED_TRACE(std::string(compute) + " beside " + comm);
      ContentionSpec s = spec(compute, comm);
      s.compute_repeat = 2;
      s.comm_repeat = 3;
      const Program program = contention_program(s);
      EXPECT_THAT(check(program), IsEmpty());
      for (const Role covering : {Role::compute, Role::communication}) {
        EXPECT_THAT(check(covered_by(program, covering, 1)), IsEmpty());
      }
    }
  }
}

TEST(Contention, WhatHoldsOrStreamsLastsUntilTheVictimIsDone) {
  const Program program = covered_by(contention_program(spec("gemm:2x3x4", "occupy:2")), Role::communication, 1);
  EXPECT_EQ(program.name, "contention:covered_by_comm");
  EXPECT_EQ(classes_of(program), R"(
class all ranks={0..1}
  prologue
    %0 @compute fill -> compute_a[0:8], compute_b[0:12]
  body
    %4 @comm record e0 at start
    %2 @comm occupy 2 until e1
    %5 @compute wait e0
    %1 @compute gemm 2x3x4 f32 <- compute_a[0:8], compute_b[0:12] -> compute_c[0:6]
    %6 @compute record e1
  epilogue
    %3 @compute verify %1
)");
}

TEST(Contention, AGemmCoversByRepeatingAndACollectiveByAFixedCount) {
  const auto kinds = [](const Program& program) {
    std::vector<std::string> all;
    for (const Operation& op : program.classes[0].body) {
      if (!is_ordering(op.work)) all.push_back(describe(op));
    }
    return all;
  };
  const Program program = contention_program(spec("gemm:2x3x4", "all_reduce:64"));
  EXPECT_THAT(kinds(covered_by(program, Role::compute, 2)),
              ElementsAre("gemm 2x3x4 f32 x6", "all_reduce 64 f32 comm=0"));
  EXPECT_THAT(kinds(covered_by(program, Role::communication, 1)),
              ElementsAre("all_reduce 64 f32 comm=0", "all_reduce 64 f32 comm=0", "all_reduce 64 f32 comm=0",
                          "gemm 2x3x4 f32"));
}

TEST(Contention, TheVictimIsTheSameAsAlone) {
  const Program program = contention_program(spec("elementwise:1KiB", "stream:max@1KiB"));
  const Program alone = project(program, Arm::compute);
  const Program covered = covered_by(program, Role::communication, 1);
  for (const Operation& op : alone.classes[0].body) {
    const auto& body = covered.classes[0].body;
    EXPECT_TRUE(std::any_of(body.begin(), body.end(), [&](const Operation& other) {
      return other.id == op.id && describe(other) == describe(op) && other.writes == op.writes;
    }));
  }
}

TEST(Contention, RefusesMoreBytesThanCanBeCounted) {
  EXPECT_EQ(error_text([] { contention_program(spec("gemm:8x8x8", "all_reduce:1152921504606846976")); }),
            "two loads of this size on 2 ranks are too large: all arrays together have at most 2^60 bytes; use smaller "
            "sizes");
}

}  // namespace
}  // namespace ovl
