// SPDX-License-Identifier: Apache-2.0
#include "schedule/tensor_parallel.hpp"

#include <gmock/gmock.h>

#include <functional>

#include "base/error.hpp"
#include "metrics/path.hpp"
#include "program/print.hpp"
#include "schedule/soundness.hpp"
#include "support/errors.hpp"

namespace ovl {
namespace {

using test::error_text;

TensorParallelSpec tiny_tensor_parallel() {
  TensorParallelSpec spec;
  spec.layers = {.model = "tiny", .count = 1, .tokens = 4, .hidden = 2, .qkv = 8, .inner = 4};
  return spec;
}

std::vector<std::string> body(const Program& program) {
  std::vector<std::string> text;
  for (const Operation& op : program.classes.at(0).body) text.push_back(describe(op));
  return text;
}

// 4 tokens, 2 wide: of qkv's 8 columns each of two ranks has 4, of proj's 2 rows one, of the inner width 4 two. Each
// pair's output, 4 × 2, is reduced before the next pair begins.
TEST(TensorParallelProgram, WorkedExample) {
  EXPECT_EQ(body(tensor_parallel_program(tiny_tensor_parallel())),
            (std::vector<std::string>{"gemm 4x4x2 f32", "gemm 4x2x1 f32", "record e0", "wait e0",
                                      "all_reduce 32 f32 comm=0", "record e1", "wait e1", "gemm 4x2x2 f32",
                                      "gemm 4x2x2 f32", "record e2", "wait e2", "all_reduce 32 f32 comm=0"}));
}

TEST(TensorParallelProgram, SequenceModeScattersAndGathers) {
  TensorParallelSpec spec = tiny_tensor_parallel();
  spec.mode = TensorParallelMode::sequence;
  const auto text = body(tensor_parallel_program(spec));
  EXPECT_EQ(text[4], "reduce_scatter 32 f32 comm=0");
  EXPECT_EQ(text[5], "all_gather 32 f32 comm=0") << "on the same lane, so no event between them";
}

// With tiles the next pair's first tile waits for the first reduction alone.
TEST(TensorParallelProgram, TilesBeginOnTheFirstPart) {
  TensorParallelSpec spec = tiny_tensor_parallel();
  spec.tiles = 2;
  EXPECT_EQ(body(tensor_parallel_program(spec)), (std::vector<std::string>{"gemm 2x4x2 f32",
                                                                           "gemm 2x2x1 f32",
                                                                           "record e0",
                                                                           "wait e0",
                                                                           "all_reduce 16 f32 comm=0",
                                                                           "record e1",  // 0
                                                                           "gemm 2x4x2 f32",
                                                                           "gemm 2x2x1 f32",
                                                                           "record e2",
                                                                           "wait e2",
                                                                           "all_reduce 16 f32 comm=0",
                                                                           "record e3",  // 1
                                                                           "wait e1",
                                                                           "gemm 2x2x2 f32",
                                                                           "gemm 2x2x2 f32",
                                                                           "record e4",
                                                                           "wait e4",
                                                                           "all_reduce 16 f32 comm=0",
                                                                           "wait e3",
                                                                           "gemm 2x2x2 f32",
                                                                           "gemm 2x2x2 f32",
                                                                           "record e5",
                                                                           "wait e5",
                                                                           "all_reduce 16 f32 comm=0"}));
}

TEST(TensorParallelProgram, NeedsEveryEdgeAndNoOther) {
  for (const auto& [mode, mode_text] : EnumNames<TensorParallelMode>::table) {
    for (const int tiles : {1, 2, 4}) {
      for (const int ranks : {1, 2, 4}) {
        TensorParallelSpec spec = tiny_tensor_parallel();
        spec.layers = {.model = "tiny", .count = 2, .tokens = 16, .hidden = 4, .qkv = 12, .inner = 8, .gated = true};
        spec.mode = mode;
        spec.tiles = tiles;
        spec.ranks = ranks;
        const Program program = tensor_parallel_program(spec);
        const std::string what = std::string(mode_text) + " tiles " + std::to_string(tiles);
        expect_sound(program, what);
        // Each tile of four pairs waits for a reduction, but of the first pair, and each reduction for its tile.
        EXPECT_EQ(expect_every_edge_needed(program, what), 2 * tiles * (4 + 3));
        for (const auto& [arm, arm_text] : EnumNames<Arm>::table) {
          expect_sound(project(program, arm), what + " " + std::string(arm_text));
        }
      }
    }
  }
}

TEST(TensorParallelProgram, SaysWhatDoesNotDivide) {
  TensorParallelSpec spec = tiny_tensor_parallel();
  spec.ranks = 3;
  EXPECT_EQ(error_text([&] { (void)tensor_parallel_program(spec); }),
            "8 columns of qkv do not divide by 3 ranks: all parts are equal; type another --ranks, or another --scale");
  spec.ranks = 2;
  spec.tiles = 3;
  EXPECT_EQ(error_text([&] { (void)tensor_parallel_program(spec); }),
            "4 tokens do not divide by 3 tiles: all parts are equal; type another --tiles, or tokens after the @ of "
            "--layers");
  spec.tiles = 4;
  spec.mode = TensorParallelMode::sequence;
  EXPECT_EQ(error_text([&] { (void)tensor_parallel_program(spec); }),
            "1 rows of a tile do not divide by 2 ranks: all parts are equal; type fewer --tiles, or tokens after the @ "
            "of --layers");
}

// ---- given durations -----------------------------------------------------------------------------------------------

Seconds time_of(const TensorParallelWhatIf& what_if) {
  const Program program = tensor_parallel_program(what_if, 1);
  expect_sound(program, "what if");
  expect_every_edge_needed(program, "what if");
  return makespan(earliest_spans(program, given_durations(program)));
}

// A pair computes 4 and reduces 4: untiled 8 each. In two tiles 2 + 2 of each: compute 0-2, 2-4; reduce 2-4, 4-6; the
// next pair begins at 4.
TEST(TensorParallelWhatIf, WorkedExample) {
  const TensorParallelWhatIf untiled{.pairs = 2, .first = Seconds(1), .second = Seconds(3), .wire = Seconds(4)};
  EXPECT_EQ(time_of(untiled), Seconds(16));
  TensorParallelWhatIf tiled = untiled;
  tiled.tiles = 2;
  EXPECT_EQ(time_of(tiled), Seconds(10));
  tiled.pairs = 1;
  EXPECT_EQ(time_of(tiled), Seconds(6));
}

// One pair obeys the U-curve of buckets, with the GEMMs' time for the backward pass and tiles for buckets:
// T + max(alpha + W / n, n alpha + W - T (1 - 1 / n)). T = 8, W = 8, alpha = 1: 17, 14, 14, 17.
TEST(TensorParallelWhatIf, TilingIsTheUCurve) {
  const auto time = [](int tiles) {
    return time_of(
        {.tiles = tiles, .first = Seconds(5), .second = Seconds(3), .wire = Seconds(8), .alpha = Seconds(1)});
  };
  EXPECT_EQ(time(1), Seconds(17));
  EXPECT_EQ(time(2), Seconds(14));
  EXPECT_EQ(time(4), Seconds(14));
  EXPECT_EQ(time(8), Seconds(17));
}

TEST(TensorParallelWhatIf, RefusesNothing) {
  EXPECT_EQ(error_text([] { (void)tensor_parallel_program(TensorParallelWhatIf{.tiles = 0}, 2); }),
            "0 tiles of 1 pairs are not possible: there is one or more of each; type for example --tiles 1,2,4");
}

// ---- several passes in one window ----------------------------------------------------------------------------------

TEST(TensorParallelProgram, ASecondPassBeginsWhenTheFirstHasEnded) {
  TensorParallelSpec spec = tiny_tensor_parallel();
  spec.layers.count = 3;
  spec.tiles = 2;
  const Program one = tensor_parallel_program(spec);
  spec.repeats = 2;
  const Program two = tensor_parallel_program(spec);
  expect_sound(two, "two passes");
  const auto time = [](const Program& program) {
    std::vector<Durations> durations(1);
    for (const Operation& op : program.classes.at(0).body) durations[0][op.id] = Seconds(is_ordering(op.work) ? 0 : 1);
    return makespan(earliest_spans(program, durations));
  };
  EXPECT_EQ(time(two), time(one) * 2);
}

}  // namespace
}  // namespace ovl
