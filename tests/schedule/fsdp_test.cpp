// SPDX-License-Identifier: Apache-2.0
#include "schedule/fsdp.hpp"

#include <gmock/gmock.h>

#include <functional>

#include "base/error.hpp"
#include "metrics/path.hpp"
#include "metrics/prefetch.hpp"
#include "program/print.hpp"
#include "schedule/soundness.hpp"
#include "support/errors.hpp"
#include "support/sample_programs.hpp"

namespace ovl {
namespace {

using sample::count_of;
using test::error_text;
using testing::ElementsAre;

// Four layers of 2 tokens, 2 wide, inner width 2, qkv 6: 12 + 4 + 4 + 4 weights and two norms of 2, 28 elements.
FsdpSpec tiny(std::int64_t prefetch) {
  FsdpSpec spec;
  spec.layers = {.model = "tiny", .count = 4, .tokens = 2, .hidden = 2, .qkv = 6, .inner = 2};
  spec.prefetch = prefetch;
  return spec;
}

// "F0" a forward pass's first GEMM of layer 0's slot, in issue order: gathers and what waits for them.
std::vector<std::string> issued(const Program& program) {
  std::vector<std::string> text;
  for (const Operation& op : program.classes.at(0).body) {
    if (std::holds_alternative<Collective>(op.work)) text.push_back(std::string(kind_name(op.work)));
    if (std::holds_alternative<Gemm>(op.work) && (text.empty() || text.back() != "compute"))
      text.emplace_back("compute");
  }
  return text;
}

TEST(FsdpProgram, GathersAheadByTheDepth) {
  const std::string ag = "all_gather";
  const std::string rs = "reduce_scatter";
  const std::string c = "compute";
  EXPECT_THAT(issued(fsdp_program(tiny(0))),
              ElementsAre(ag, c, ag, c, ag, c, ag, c, ag, c, rs, ag, c, rs, ag, c, rs, ag, c, rs))
      << "a layer is gathered after the one before it has computed";
  EXPECT_THAT(issued(fsdp_program(tiny(1))),
              ElementsAre(ag, ag, c, ag, c, ag, c, ag, c, ag, c, rs, ag, c, rs, ag, c, rs, c, rs));
}

TEST(FsdpProgram, MemoryIsASlotALayerAhead) {
  EXPECT_EQ(fsdp_layer_elements(tiny(0)), 28);
  for (const std::int64_t depth : {0, 1, 2, 3}) {
    EXPECT_EQ(count_of(fsdp_program(tiny(depth)), "gathered"), 28 * (1 + depth));
    EXPECT_EQ(Bytes(4 * 28 * (1 + depth)), prefetch_memory(4, Bytes(4 * 28), depth));
  }
  EXPECT_EQ(count_of(fsdp_program(tiny(9)), "gathered"), 28 * 4) << "no more than there are";
  FsdpSpec limited = tiny(3);
  limited.in_flight = 2;
  EXPECT_EQ(count_of(fsdp_program(limited), "gathered"), 28 * 2) << "limit_all_gathers";
  EXPECT_EQ(count_of(fsdp_program(limited), "shards"), 4 * 14) << "a rank keeps half of each layer";
}

TEST(FsdpProgram, PadsALayerToAMultipleOfTheRanks) {
  FsdpSpec spec = tiny(1);
  spec.ranks = 3;
  EXPECT_EQ(fsdp_layer_elements(spec), 30);
  expect_sound(fsdp_program(spec), "three ranks");
}

TEST(FsdpProgram, NeedsEveryEdgeAndNoOther) {
  for (const std::int64_t depth : {0, 1, 2, 5}) {
    for (const bool two : {false, true}) {
      for (const int ranks : {1, 2, 4}) {
        FsdpSpec spec = tiny(depth);
        spec.two_communicators = two;
        spec.ranks = ranks;
        const Program program = fsdp_program(spec);
        const std::string what = "depth " + std::to_string(depth) + (two ? ", two lanes" : ", one lane");
        expect_sound(program, what);
        EXPECT_GT(expect_every_edge_needed(program, what), 20);
      }
    }
  }
}

TEST(FsdpProgram, EveryArmIsSound) {
  for (const auto& [arm, text] : EnumNames<Arm>::table) {
    expect_sound(project(fsdp_program(tiny(1)), arm), std::string(text));
  }
}

// 4 layers: per rank saved 4·2·(2+2+2+2) = 64, two of 2·6 = 12 and 12, three of 56 (shards, reduced and master ones),
// gradients 56, and 28 a slot: (64 + 12 + 12 + 4 · 56) · 4 = 1248 bytes and 112 a slot.
TEST(FsdpProgram, SaysHowMuchADepthNeeds) {
  FsdpSpec spec = tiny(3);
  spec.memory_limit = Bytes(1500);
  EXPECT_EQ(error_text([&] { (void)fsdp_program(spec); }),
            "prefetch depth 3 needs 1696 a rank: there is 1500, and each gathered layer takes 112; type --prefetch 1");
  spec.prefetch = 1;
  EXPECT_EQ(error_text([&] { (void)fsdp_program(spec); }), "no error") << "1472 fit";
  spec.memory_limit = Bytes(1000);
  EXPECT_EQ(
      error_text([&] { (void)fsdp_program(spec); }),
      "prefetch depth 1 needs 1472 a rank: there is 1kB, and each gathered layer takes 112; take fewer or narrower "
      "layers (--layers, --scale)");
}

TEST(FsdpProgram, RefusesNegativeDepths) {
  EXPECT_EQ(error_text([] { (void)fsdp_program(tiny(-1)); }),
            "prefetch depth -1 with 0 gathers in flight is not possible: neither is negative; type for example "
            "--prefetch 0,1,2");
}

// ---- given durations -----------------------------------------------------------------------------------------------

Seconds time_of(const FsdpWhatIf& what_if) {
  const Program program = fsdp_program(what_if, 1);
  expect_sound(program, "what if");
  return makespan(earliest_spans(program, given_durations(program)));
}

// Five layers, gather 2 and compute 3: one by one 25; ahead, 2 + 4·3 + 3 = 17. Gather 3 and compute 2: 3 + 4·3 + 2
// = 17.
TEST(FsdpWhatIf, TheForwardPassIsTheClosedForm) {
  EXPECT_EQ(time_of({.layers = 5, .prefetch = 0, .gather = Seconds(2), .forward = Seconds(3)}), Seconds(25));
  EXPECT_EQ(time_of({.layers = 5, .prefetch = 1, .gather = Seconds(2), .forward = Seconds(3)}), Seconds(17));
  EXPECT_EQ(time_of({.layers = 5, .prefetch = 1, .gather = Seconds(3), .forward = Seconds(2)}), Seconds(17));
  for (const std::int64_t layers : {1, 2, 7}) {
    for (const double gather : {1.0, 2.0, 4.0}) {
      for (const std::int64_t depth : {0, 1, 2, 6}) {
        EXPECT_EQ(time_of({.layers = layers, .prefetch = depth, .gather = Seconds(gather), .forward = Seconds(2)}),
                  prefetched_pass(layers, Seconds(gather), Seconds(2), depth))
            << layers << " layers, gather " << gather << ", depth " << depth;
      }
    }
  }
}

// Gradients are reduced on a lane of their own beside the gathers, or take turns with them.
TEST(FsdpWhatIf, OneCommunicatorMakesReductionsAndGathersTakeTurns) {
  FsdpWhatIf what_if{.layers = 4, .prefetch = 1, .gather = Seconds(3), .forward = Seconds(1)};
  what_if.backward = FsdpWhatIf::Backward{.compute = Seconds(1), .reduce = Seconds(3)};
  const Seconds two = time_of(what_if);
  what_if.two_communicators = false;
  // Two: 8 gathers one after another end at 24, then the last layer's compute and reduction.
  EXPECT_EQ(two, Seconds(28));
  // One: 8 gathers and 4 reductions on one lane, which never idles.
  EXPECT_EQ(time_of(what_if), Seconds(36));
}

// ---- several steps in one window -----------------------------------------------------------------------------------

// The first gather of the second step waits for the optimizer of the first, so nothing hides between steps.
TEST(FsdpProgram, ASecondStepBeginsWhenTheFirstHasEnded) {
  FsdpSpec spec = tiny(1);
  const Program one = fsdp_program(spec);
  spec.repeats = 2;
  const Program two = fsdp_program(spec);
  expect_sound(two, "two steps");
  const auto time = [](const Program& program) {
    std::vector<Durations> durations(1);
    for (const Operation& op : program.classes.at(0).body) durations[0][op.id] = Seconds(is_ordering(op.work) ? 0 : 1);
    return makespan(earliest_spans(program, durations));
  };
  EXPECT_EQ(time(two), time(one) * 2);
}

}  // namespace
}  // namespace ovl
