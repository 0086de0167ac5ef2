// SPDX-License-Identifier: Apache-2.0
#include "schedule/training_step.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "schedule/soundness.hpp"
#include "support/errors.hpp"
#include "support/sample_programs.hpp"

namespace ovl {
namespace {

using sample::count_of;
using test::error_text;
using S = PipelineSchedule;
using testing::ElementsAre;

// 4 layers of width 8: a layer has 8 · (24 + 8 + 16 + 16) = 512 weights.
TrainingStepSpec tiny(int tensor, int stages, int data, DataParallelMode mode = DataParallelMode::ddp) {
  TrainingStepSpec spec;
  spec.tensor = tensor;
  spec.data = data;
  spec.shape = {S::one_f_one_b, stages, 2, 1};
  spec.layers = {.model = "tiny", .count = 4, .tokens = 2, .hidden = 8, .qkv = 24, .inner = 16};
  spec.mode = mode;
  return spec;
}

std::vector<std::vector<int>> groups_of(const Program& program, const std::string& name) {
  std::vector<std::vector<int>> all;
  for (const Communicator& c : program.communicators) {
    if (c.name != name) continue;
    for (const auto& group : c.groups) {
      std::vector<int>& ranks = all.emplace_back();
      for (const Rank rank : group) ranks.push_back(rank.value);
    }
  }
  return all;
}

// What each communicator does on a stage: the kinds and element counts, in issue order.
std::vector<std::string> collectives(const Program& program, const std::string& communicator, std::size_t stage = 0) {
  std::vector<std::string> all;
  for (const Operation& op : program.classes.at(stage).body) {
    const auto* c = std::get_if<Collective>(&op.work);
    if (c == nullptr || program.communicators[c->comm.index()].name != communicator) continue;
    all.push_back(std::string(name(c->kind)) + " " + std::to_string(c->count));
  }
  return all;
}

// rank = (stage · data + replica) · tensor + part.
TEST(TrainingStep, RanksAreNumberedTensorFirstThenDataThenStages) {
  const Program program = training_step_program(tiny(2, 2, 2));
  EXPECT_EQ(program.ranks, 8);
  ASSERT_EQ(program.classes.size(), 2U);
  EXPECT_EQ(program.classes[1].members.front(), Rank(4));
  EXPECT_THAT(groups_of(program, "tensor"),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5), ElementsAre(6, 7)));
  EXPECT_THAT(groups_of(program, "data"),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4, 6), ElementsAre(5, 7)));
  EXPECT_THAT(groups_of(program, "forward0"),
              ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5), ElementsAre(2, 6), ElementsAre(3, 7)));
}

// Two pairs a layer, forward and backward, of two microbatches: activations of 2 x 8.
TEST(TrainingStep, EachPairIsReducedOnceOnEachWay) {
  TrainingStepSpec spec = tiny(2, 1, 1);
  spec.layers.count = 1;
  const std::vector<std::string> all = collectives(training_step_program(spec), "tensor");
  EXPECT_EQ(all, std::vector<std::string>(2 * 2 * 2, "all_reduce 16"));
  EXPECT_TRUE(groups_of(training_step_program(spec), "data").empty());
}

// 512 weights a layer of 4 bytes: 2 KiB. From the last layer to the first, after the last microbatch.
TEST(TrainingStep, GradientsAreReducedInBucketsOfLayers) {
  TrainingStepSpec spec = tiny(1, 1, 2);
  spec.bucket = Bytes(1);
  EXPECT_EQ(collectives(training_step_program(spec), "data"), std::vector<std::string>(4, "all_reduce 512"));
  spec.bucket = Bytes(3 * 1024);
  EXPECT_EQ(collectives(training_step_program(spec), "data"), std::vector<std::string>(2, "all_reduce 1024"));
  spec.bucket = Bytes(5 * 1024);
  EXPECT_THAT(collectives(training_step_program(spec), "data"), ElementsAre("all_reduce 1536", "all_reduce 512"));
  spec.bucket = mebibytes(25);
  EXPECT_THAT(collectives(training_step_program(spec), "data"), ElementsAre("all_reduce 2048"));
  spec.tensor = 2;  // half of each layer
  EXPECT_THAT(collectives(training_step_program(spec), "data"), ElementsAre("all_reduce 1024"));
}

// A layer is gathered forward and backward of each microbatch, its gradients scattered once.
TEST(TrainingStep, ShardedWeightsAreGatheredForEachPass) {
  const Program program = training_step_program(tiny(1, 1, 2, DataParallelMode::fsdp));
  EXPECT_EQ(collectives(program, "gather"), std::vector<std::string>(4 * 2 * 2, "all_gather 512"));
  EXPECT_EQ(collectives(program, "data"), std::vector<std::string>(4, "reduce_scatter 512"));
  EXPECT_EQ(count_of(program, "weights"), 4 * 512 / 2);
  EXPECT_EQ(count_of(program, "gathered"), 2 * 512);
  EXPECT_EQ(count_of(program, "master_weights"), 4 * 512 / 2);
  EXPECT_EQ(count_of(program, "weight_gradients"), 4 * 512);
}

// A slot a layer ahead, and no more than a rank has layers; what is computed stays the same.
TEST(TrainingStep, PrefetchIsASlotEach) {
  TrainingStepSpec spec = tiny(1, 1, 2, DataParallelMode::fsdp);
  for (const auto& [prefetch, slots] : {std::pair{0, 1}, {1, 2}, {2, 3}, {3, 4}, {7, 4}}) {
    spec.prefetch = prefetch;
    const Program program = training_step_program(spec);
    EXPECT_EQ(count_of(program, "gathered"), slots * 512) << prefetch;
    EXPECT_EQ(collectives(program, "gather").size(), 16U);
    expect_sound(program, "prefetch " + std::to_string(prefetch));
  }
  spec.prefetch = -1;
  EXPECT_EQ(error_text([&] { training_step_program(spec); }),
            "a prefetch depth of -1 is not possible: it is 0 or more; type for example --prefetch 1");
}

// Of one replica there is nothing to share.
TEST(TrainingStep, ModesAreTheSameForOneReplica) {
  const Program ddp = training_step_program(tiny(2, 1, 1));
  const Program fsdp = training_step_program(tiny(2, 1, 1, DataParallelMode::fsdp));
  EXPECT_EQ(ddp.communicators.size(), fsdp.communicators.size());
  EXPECT_EQ(ddp.classes[0].body.size(), fsdp.classes[0].body.size());
}

TEST(TrainingStep, IsSoundHoweverItIsCut) {
  for (const auto& [mode, mode_name] : EnumNames<DataParallelMode>::table) {
    for (const auto& [schedule, schedule_name] : EnumNames<S>::table) {
      for (const int tensor : {1, 2}) {
        for (const int stages : {1, 2}) {
          for (const int data : {1, 2}) {
            if (schedule == S::interleaved && stages == 1) continue;
            TrainingStepSpec spec = tiny(tensor, stages, data, mode);
            spec.shape = {schedule, stages, 4, schedule == S::interleaved ? 2 : 1};
            spec.bucket = Bytes(1);
            expect_sound(training_step_program(spec), std::string(schedule_name) + " " + std::string(mode_name) + " t" +
                                                          std::to_string(tensor) + " p" + std::to_string(stages) +
                                                          " d" + std::to_string(data));
          }
        }
      }
    }
  }
}

TEST(TrainingStep, NeedsEveryEdge) {
  for (const auto& [mode, mode_name] : EnumNames<DataParallelMode>::table) {
    TrainingStepSpec spec = tiny(2, 2, 2, mode);
    spec.bucket = Bytes(1);
    EXPECT_GT(expect_every_edge_needed(training_step_program(spec), std::string(mode_name)), 40);
  }
}

TEST(TrainingStep, SaysWhatDoesNotDivide) {
  EXPECT_EQ(
      error_text([] { (void)training_step_program(tiny(1, 3, 1)); }),
      "4 layers do not divide by 3 chunks of 3 stages: all parts are equal; type a multiple of 3, such as --layers "
      "tiny:6");
  EXPECT_EQ(
      error_text([] { (void)training_step_program(tiny(5, 1, 1)); }),
      "24 columns of qkv do not divide by 5 parts: all parts are equal; type another --tensor, or another --scale");
  EXPECT_EQ(error_text([] { (void)training_step_program(tiny(1, 1, 3, DataParallelMode::fsdp)); }),
            "512 weights of a layer do not divide by 3 replicas: all parts are equal; type another --data, or another "
            "--scale");
  EXPECT_EQ(
      error_text([] { (void)training_step_program(tiny(0, 1, 1)); }),
      "0 parts of a layer and 1 replicas are not possible: there is one or more of each; type for example --tensor "
      "2 --data 4");
}

TEST(TrainingStep, WhatDoesNotFitSaysWhatItNeeds) {
  TrainingStepSpec spec = tiny(1, 1, 2);
  const Bytes needed = memory_per_rank(training_step_program(spec));
  spec.memory_limit = needed;
  EXPECT_NO_THROW((void)training_step_program(spec));
  spec.memory_limit = needed - Bytes(1);
  EXPECT_EQ(error_text([&] { (void)training_step_program(spec); }),
            "this step needs " + format_bytes(needed) + " on a rank: there is " + format_bytes(needed - Bytes(1)) +
                "; cut it finer with --tensor, --stages or --mode fsdp, or type a smaller --scale");
}

// What takes no time stands in its place on its lane, with all order; the rest is as it was.
TEST(TrainingStep, WithoutCollectivesKeepsTheRest) {
  const Program whole = training_step_program(tiny(2, 1, 2));
  const Program free = without_collectives(whole, {"tensor"});
  EXPECT_EQ(free.name, "training_step:without_tensor");
  EXPECT_TRUE(collectives(free, "tensor").empty());
  EXPECT_EQ(collectives(free, "data"), collectives(whole, "data"));
  ASSERT_EQ(free.classes[0].body.size(), whole.classes[0].body.size());
  int replaced = 0;
  for (std::size_t i = 0; i < whole.classes[0].body.size(); ++i) {
    const Operation& before = whole.classes[0].body[i];
    const Operation& after = free.classes[0].body[i];
    EXPECT_EQ(before.lane, after.lane);
    EXPECT_EQ(before.id, after.id);
    const auto* busy = std::get_if<Busy>(&after.work);
    if (busy == nullptr) continue;
    EXPECT_EQ(busy->duration, Seconds(0));
    ++replaced;
  }
  EXPECT_EQ(replaced, 4 * 2 * 2 * 2);
}

}  // namespace
}  // namespace ovl
