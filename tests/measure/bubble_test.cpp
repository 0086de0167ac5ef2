// SPDX-License-Identifier: Apache-2.0
#include "measure/bubble.hpp"

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
using S = PipelineSchedule;
using testing::HasSubstr;

const Schema& bubble_schema() {
  static const Schema all = summary_schema(bubble_columns());
  return all;
}

Row measure(const CaseSpec& spec, const model::Rates& rates) {
  const auto backend = open_model(rates, 2);
  StillClock clock;
  const std::atomic<bool> interrupted{false};
  const CaseResult result = Runner(*backend, clock, {}, interrupted).run(spec);
  EXPECT_EQ(result.status, Status::ok) << result.reason;
  return summary_row(bubble_schema(), spec, result, {.bench = "pp", .backend = "model", .options = {}});
}

CaseSpec given(const PipelineShape& shape, const PipelineCosts& costs) {
  CaseSpec spec;
  spec.name = spec.key = "pp";
  spec.placement_name = "concurrent";
  spec.build = [=](const Tuning&) {
    return pipeline_program(
        PipelineWhatIf{shape, costs.forward, costs.backward_input, costs.backward_weight, costs.transfer});
  };
  ask_for_bubble(spec, {.shape = shape, .given = costs}, nullptr);
  return spec;
}

// Two stages, four microbatches: (p - 1)(F + B - W) = 4 beyond 4 (3 + 2 + 1), of 28.
TEST(Bubble, OfGivenDurationsIsTheFormula) {
  const Row row = measure(given({S::zb_h1, 2, 4, 1}, {Seconds(3), Seconds(2), Seconds(1), Seconds(0)}), {});
  EXPECT_EQ(real(row, "t_busy"), 24);
  EXPECT_EQ(real(row, "t_bubble"), 4);
  EXPECT_EQ(real(row, "bubble_rate"), 4.0 / 28);
  EXPECT_EQ(real(row, "bubble_rate_low"), 4.0 / 28);
  EXPECT_EQ(real(row, "bubble_rate_formula"), 4.0 / 28);
  EXPECT_EQ(real(row, "t_bubble_schedule"), 4);
  EXPECT_EQ(real(row, "t_forward"), 3);
  EXPECT_THAT(std::get<std::string>(row.at("verdict")),
              HasSubstr("idle 14.29 % of the longest stage span; its schedule alone leaves 14.29 %, the closed form"));
}

// A layer of 512 weights and 4 tokens on a machine of 4096 FLOP/s: F = B = W = 1 s a stage. A message takes 1/4 s.
// 1F1B on two stages with four microbatches: 3 s and 2 (p - 1) m / p + 2 p - 4 = 4 transfers are idle.
TEST(Bubble, OfKernelsIsMeasuredAgainstWhatTheyTakeAlone) {
  PipelineSpec pipeline;
  pipeline.shape = {S::one_f_one_b, 2, 4, 1};
  pipeline.layers = {.model = "tiny", .count = 2, .tokens = 4, .hidden = 8, .qkv = 24, .inner = 16};
  CaseSpec spec;
  spec.name = spec.key = "pp";
  spec.placement_name = "concurrent";
  spec.build = [=](const Tuning&) { return pipeline_program(pipeline); };
  ask_for_bubble(spec, {.shape = pipeline.shape, .given = std::nullopt},
                 [=](PipelineStepKind kind) { return pipeline_steps(pipeline, kind); });

  model::Rates rates;
  rates.name = "made-up";
  rates.gemm[DType::f32] = FlopsPerSecond(4096);
  rates.memory = BytesPerSecond(1e30);
  rates.link = {Seconds(0.25), BytesPerSecond(1e30)};
  const Row row = measure(spec, rates);
  EXPECT_NEAR(real(row, "t_forward"), 1, 1e-9);
  EXPECT_NEAR(real(row, "t_backward_input"), 1, 1e-9);
  EXPECT_NEAR(real(row, "t_backward_weight"), 1, 1e-9);
  EXPECT_NEAR(real(row, "t_transfer"), 0.25, 1e-9);
  EXPECT_NEAR(real(row, "t_busy"), 12, 1e-9);
  EXPECT_NEAR(real(row, "t_bubble"), 4, 1e-9);
  EXPECT_NEAR(real(row, "t_bubble_formula"), 4, 1e-9);
  EXPECT_NEAR(real(row, "t_bubble_schedule"), 4, 1e-9);
  EXPECT_NEAR(real(row, "t_path"), 16, 1e-9) << "not the path of a rank that does not see whom it waits for";
}

TEST(Bubble, TheClosedFormIsNotGivenWhereItDoesNotHold) {
  const PipelineCosts costs{Seconds(3), Seconds(2), Seconds(1), Seconds(0.5)};
  const PipelineCosts without{Seconds(3), Seconds(2), Seconds(1), Seconds(0)};
  const auto form = [](PipelineShape shape, const PipelineCosts& c, ReceivePosting receive = ReceivePosting::early) {
    return bubble_in_closed_form({.shape = shape, .receive = receive}, c);
  };
  EXPECT_EQ(form({S::one_f_one_b, 4, 8, 1}, costs), one_f_one_b_bubble(4, 8, costs));
  EXPECT_EQ(form({S::one_f_one_b, 4, 7, 1}, costs), std::nullopt) << "p does not divide m";
  EXPECT_EQ(form({S::one_f_one_b, 4, 7, 1}, without), gpipe_bubble(4, without));
  EXPECT_EQ(form({S::gpipe, 4, 8, 1}, costs), std::nullopt) << "transfers are not in it";
  EXPECT_EQ(form({S::zb_h2, 4, 4, 1}, without), std::nullopt) << "it has 2 p - 1 microbatches to run ahead";
  EXPECT_EQ(form({S::zb_h1, 4, 8, 1}, costs, ReceivePosting::late), std::nullopt);
}

// Two stages, two microbatches: forward 0, 1 and backward 0, 1 on lanes of their own. What is computed between them is
// not there, so only the order that it implied is: each gradient comes back after its activation went.
TEST(Bubble, TransfersInARowAreThoseOfTheLongestPath) {
  const Program program =
      pipeline_program(PipelineWhatIf{{S::gpipe, 2, 2, 1}, Seconds(1), Seconds(1), Seconds(1), Seconds(0)});
  EXPECT_EQ(transfers_in_a_row(project(program, Arm::comm)), 4);
}

}  // namespace
}  // namespace ovl
