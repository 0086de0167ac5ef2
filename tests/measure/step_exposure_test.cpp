// SPDX-License-Identifier: Apache-2.0
#include "measure/step_exposure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backend/model/model.hpp"
#include "measure/rows.hpp"
#include "measure/runner.hpp"
#include "results/schema.hpp"
#include "support/rows.hpp"
#include "support/scripted.hpp"

namespace ovl {
namespace {

using test::real;
using test::StillClock;
using testing::HasSubstr;

// GEMMs and memory that take next to nothing; an all_reduce between two ranks takes 1 ms, whatever its size, and so
// does a message.
model::Rates machine(FlopsPerSecond gemm) {
  model::Rates rates;
  rates.name = "made-up";
  rates.gemm[DType::f32] = gemm;
  rates.memory = BytesPerSecond(1e24);
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
    rates.collectives.push_back({kind, 2, std::nullopt, {}, 0});
    rates.collectives.back().cost.segments = {{0, {1e-3, 0}}};
  }
  rates.link = {Seconds(1e-3), BytesPerSecond(1e24)};
  return rates;
}

TrainingStepSpec one_layer(int tensor, int stages, int data) {
  TrainingStepSpec step;
  step.tensor = tensor;
  step.data = data;
  step.shape = {PipelineSchedule::one_f_one_b, stages, 1, 1};
  step.layers = {.model = "tiny", .count = stages, .tokens = 2, .hidden = 8, .qkv = 24, .inner = 16};
  return step;
}

Row measure(const TrainingStepSpec& step, FlopsPerSecond gemm = FlopsPerSecond(1e24)) {
  static const Schema schema = summary_schema(exposure_columns());
  CaseSpec spec;
  spec.name = spec.key = "step";
  spec.placement_name = "concurrent";
  spec.build = [step](const Tuning&) { return training_step_program(step); };
  ask_for_exposure(spec, step);
  const auto backend = open_model(machine(gemm), step.ranks());
  StillClock clock;
  const std::atomic<bool> interrupted{false};
  const CaseResult result = Runner(*backend, clock, {}, interrupted).run(spec);
  EXPECT_EQ(result.status, Status::ok) << result.reason;
  return summary_row(schema, spec, result, {.bench = "step", .backend = "model", .options = {}});
}

constexpr double ms = 1e-3;
constexpr double rounding = 1e-12;

// Two pairs forward and two backward, and nothing to hide their reductions behind.
TEST(StepExposure, OfALayerThatIsCutIsEveryReduction) {
  const Row row = measure(one_layer(2, 1, 1));
  EXPECT_NEAR(real(row, "t_step"), 4 * ms, rounding);
  EXPECT_NEAR(real(row, "exposed_tensor"), 4 * ms, rounding);
  EXPECT_TRUE(std::isnan(real(row, "exposed_data")));
  EXPECT_TRUE(std::isnan(real(row, "exposed_pipeline")));
  EXPECT_NEAR(real(row, "exposed_together"), 0, rounding);
}

TEST(StepExposure, OfReplicasIsTheTail) {
  const Row row = measure(one_layer(1, 1, 2));
  EXPECT_NEAR(real(row, "exposed_data"), 1 * ms, rounding);
  EXPECT_TRUE(std::isnan(real(row, "exposed_tensor")));
}

// A message forward and one back.
TEST(StepExposure, OfAPipelineIsWhatIsLeft) {
  const Row row = measure(one_layer(1, 2, 1));
  EXPECT_NEAR(real(row, "exposed_pipeline"), 2 * ms, rounding);
  EXPECT_NEAR(real(row, "t_step"), 2 * ms, rounding);
}

// The gradients are reduced while the last summand is: without the one the other still takes its millisecond, so
// neither alone exposes it.
TEST(StepExposure, OfTwoThatHideBehindEachOtherIsTogether) {
  const Row row = measure(one_layer(2, 1, 2));
  EXPECT_NEAR(real(row, "t_step"), 4 * ms, rounding);
  EXPECT_NEAR(real(row, "exposed_tensor"), 3 * ms, rounding);
  EXPECT_NEAR(real(row, "exposed_data"), 0, rounding);
  EXPECT_NEAR(real(row, "exposed_together"), 1 * ms, rounding);
  const auto* words = std::get_if<std::string>(&row.at("verdict"));
  ASSERT_NE(words, nullptr);
  EXPECT_THAT(*words, HasSubstr("tensor exposes 75.0 %"));
}

// 2 tokens, matrices of 8 x 12, 4 x 8, 8 x 8 and 8 x 8 on a rank: at this rate a forward pass takes 1 ms, 0.5 for each
// pair. Forward: each pair, then its reduction, 3 ms. Backward: each pair's inputs 0.5, then its reduction beside the
// gradients of its weights, 1 ms: 3 ms. Nothing of it begins before the last sum is there.
TEST(StepExposure, TheBackwardPassBeginsWithTheWholeOutput) {
  const double forward = 2.0 * 2 * (8 * 12 + 4 * 8 + 8 * 8 + 8 * 8);
  const Row row = measure(one_layer(2, 1, 1), FlopsPerSecond(forward / ms));
  EXPECT_NEAR(real(row, "t_compute"), 3 * ms, 1e-9);
  EXPECT_NEAR(real(row, "t_step"), 6 * ms, 1e-9);
  EXPECT_NEAR(real(row, "exposed_tensor"), 3 * ms, 1e-9);
}

// Stage 0: 2 ms forward, a message, stage 1: 2 ms each way, a message back, stage 0: 2 ms. The last stage's gradients
// are reduced behind the first one's backward pass, whose own begin with its last summand.
TEST(StepExposure, OfAllThree) {
  const Row row = measure(one_layer(2, 2, 2));
  EXPECT_NEAR(real(row, "t_step"), (4 * 2 + 2) * ms, rounding);
  EXPECT_NEAR(real(row, "exposed_pipeline"), 2 * ms, rounding);
}

}  // namespace
}  // namespace ovl
