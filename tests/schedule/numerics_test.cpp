// SPDX-License-Identifier: Apache-2.0
//
// Schedules run for real, on the host backend with two ranks and four: whatever was on whose lane when, every buffer
// that counts holds in the end what a serial replay computes, to the last element.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "backend/host/host.hpp"
#include "backend/world.hpp"
#include "program/check.hpp"
#include "program/reference.hpp"
#include "schedule/ddp.hpp"
#include "schedule/fsdp.hpp"
#include "schedule/ordering.hpp"
#include "schedule/pipeline.hpp"
#include "schedule/tensor_parallel.hpp"

namespace ovl {
namespace {

using Names = std::vector<std::string>;

Contents contents(const Program& program, const Prepared& prepared) {
  Contents all;
  for (int r = 0; r < program.ranks; ++r) {
    all.emplace_back();
    for (std::size_t b = 0; b < program.buffers.size(); ++b) {
      all.back().push_back(prepared.contents(BufferId(b), Rank(r), 0));
    }
  }
  return all;
}

// How the buffers differ after one replay from what `meant` computes from the same data.
Difference difference(const Program& program, const Program& meant, const Names& buffers) {
  const auto world = make_solo_world();
  const auto host = open_host(*world, {.ranks = program.ranks}, {});
  const auto prepared = host->prepare({program}, Data::exact, 11);
  const Reference reference = run_serially(meant, contents(program, *prepared));
  EXPECT_EQ(reference.inexact, "");
  prepared->run(0, {});
  return compare(program, contents(program, *prepared), reference.contents, buffers);
}

void expect_exact(const Program& program, const Names& buffers, const std::string& what) {
  for (const Finding& finding : check(program)) ADD_FAILURE() << what << ": " << finding.message;
  const Difference d = difference(program, program, buffers);
  EXPECT_EQ(d.first, "") << what;
  EXPECT_EQ(d.elements, 0) << what;
}

Layers layers(std::int64_t count, std::int64_t tokens) {
  return {.model = "tiny", .count = count, .tokens = tokens, .hidden = 8, .qkv = 24, .inner = 16, .biased = true};
}

TEST(Numerics, DdpReducesEveryGradientAndUpdatesEveryWeight) {
  for (const std::int64_t cap : {1, 2000, 1 << 20}) {
    for (const int ranks : {2, 4}) {
      DdpSpec spec;
      spec.ranks = ranks;
      spec.layers = layers(3, 4);
      spec.limits = {.cap = Bytes(cap), .first = std::nullopt};
      expect_exact(ddp_program(spec), {"gradients", "reduced", "master_weights"}, "cap " + std::to_string(cap));
    }
  }
}

TEST(Numerics, FsdpGathersReducesAndUpdates) {
  for (const std::int64_t depth : {0, 1, 3}) {
    for (const bool two : {false, true}) {
      FsdpSpec spec;
      spec.layers = layers(4, 4);
      spec.prefetch = depth;
      spec.two_communicators = two;
      spec.channels = 1;
      expect_exact(fsdp_program(spec), {"gathered", "gradients", "reduced", "master_shards"},
                   "depth " + std::to_string(depth));
    }
  }
}

TEST(Numerics, TensorParallelActivationsAreWhole) {
  for (const auto& [mode, text] : EnumNames<TensorParallelMode>::table) {
    for (const int tiles : {1, 4}) {
      TensorParallelSpec spec;
      spec.layers = layers(2, 8);
      spec.mode = mode;
      spec.tiles = tiles;
      expect_exact(tensor_parallel_program(spec), {"summand", "output", "inner"},
                   std::string(text) + " tiles " + std::to_string(tiles));
    }
  }
}

TEST(Numerics, PipelinesAccumulateTheSameGradients) {
  for (const auto& [schedule, text] : EnumNames<PipelineSchedule>::table) {
    for (const auto& [receive, receive_text] : EnumNames<ReceivePosting>::table) {
      PipelineSpec spec;
      const int v = schedule == PipelineSchedule::interleaved ? 2 : 1;
      spec.shape = {schedule, 2, 4, v};
      spec.layers = layers(2LL * v, 4);
      spec.receive = receive;
      expect_exact(pipeline_program(spec),
                   {"activation", "gradient", "activation_out", "gradient_out", "weight_gradients", "master_weights"},
                   std::string(text) + " " + std::string(receive_text));
    }
  }
}

TEST(Numerics, APipelineOfFourStages) {
  for (const PipelineSchedule schedule : {PipelineSchedule::interleaved, PipelineSchedule::zb_h2}) {
    PipelineSpec spec;
    spec.shape = {schedule, 4, 8, schedule == PipelineSchedule::interleaved ? 2 : 1};
    spec.layers = layers(8, 2);
    spec.waiting = Waiting::block;
    expect_exact(pipeline_program(spec), {"activation", "gradient", "weight_gradients", "master_weights"},
                 std::string(name(schedule)));
  }
}

// Gradients do not depend on the schedule: the microbatches are the same, and so is what they add up to. Stages'
// weights lie in the same order where each has one chunk.
TEST(Numerics, EveryPipelineScheduleComputesTheSame) {
  const auto world = make_solo_world();
  const auto host = open_host(*world, {.ranks = 2}, {});
  std::vector<std::vector<double>> weights;
  for (const PipelineSchedule schedule :
       {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::zb_h1, PipelineSchedule::zb_h2}) {
    PipelineSpec spec;
    spec.shape = {schedule, 2, 4, 1};
    spec.layers = layers(2, 4);
    const Program program = pipeline_program(spec);
    const auto prepared = host->prepare({program}, Data::exact, 11);
    prepared->run(0, {});
    for (std::size_t b = 0; b < program.buffers.size(); ++b) {
      if (program.buffers[b].name == "master_weights") weights.push_back(prepared->contents(BufferId(b), Rank(1), 0));
    }
  }
  ASSERT_EQ(weights.size(), 4U);
  for (const auto& w : weights) EXPECT_EQ(w, weights.front());
}

// ---- what a missing edge costs -------------------------------------------------------------------------------------

Program ordering(OrderingVariant variant, int ranks = 2) {
  OrderingSpec spec;
  spec.ranks = ranks;
  spec.variant = variant;
  spec.m = spec.n = spec.k = 8;
  return ordering_program(spec);
}

TEST(Numerics, TheCorrectOrderIsExactAndSoIsAGlobalSync) {
  for (const OrderingVariant variant : {OrderingVariant::correct, OrderingVariant::global_sync}) {
    expect_exact(ordering(variant), {"gradients", "reduced", "weights"}, std::string(name(variant)));
  }
}

// Which of two unordered lanes is first is chance on a real machine, so here it is the order of issue, which the
// program allows, with one role's operations moved before the other's or not. One rank, which waits for nobody.
// Expected is what the correct program computes.
Difference issued(const Program& wrong, std::optional<Role> first) {
  const auto world = make_solo_world();
  const auto host = open_host(*world, {.ranks = 1}, {});
  const Contents start = contents(wrong, *host->prepare({wrong}, Data::exact, 11));
  Program adverse = wrong;
  for (RankClass& c : adverse.classes) {
    if (!first) continue;
    std::stable_partition(c.body.begin(), c.body.end(), [&](const Operation& op) { return op.role == *first; });
  }
  return compare(wrong, run_serially(adverse, start).contents,
                 run_serially(ordering(OrderingVariant::correct, 1), start).contents, {"weights"});
}

// Three gradients of 64, 128 and 192 elements: 384 weights.
TEST(Numerics, WithoutTheProducersEventEveryWeightIsWrong) {
  const Difference d = issued(ordering(OrderingVariant::missing_producer_event, 1), Role::communication);
  EXPECT_EQ(d.elements, 384);
  EXPECT_THAT(d.first, testing::StartsWith("weights[0] on rank 0 is nan"));
}

TEST(Numerics, WithoutTheConsumersWaitEveryWeightIsWrong) {
  EXPECT_EQ(issued(ordering(OrderingVariant::missing_consumer_wait, 1), Role::compute).elements, 384);
}

// Which is why a run that passes proves little, and the static check is the judge.
TEST(Numerics, InALuckyOrderTheyAreRight) {
  EXPECT_EQ(issued(ordering(OrderingVariant::missing_producer_event, 1), std::nullopt).elements, 0);
  EXPECT_EQ(issued(ordering(OrderingVariant::missing_consumer_wait, 1), std::nullopt).elements, 0);
}

}  // namespace
}  // namespace ovl
