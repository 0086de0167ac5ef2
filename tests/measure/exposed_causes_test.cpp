// SPDX-License-Identifier: Apache-2.0
#include "measure/exposed_causes.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "backend/model/model.hpp"
#include "measure/rows.hpp"
#include "measure/runner.hpp"
#include "measure/step_exposure.hpp"
#include "results/schema.hpp"
#include "schedule/ddp.hpp"
#include "schedule/pair.hpp"
#include "support/sample_programs.hpp"

namespace ovl {
namespace {

class NoClock final : public Clock {
 public:
  [[nodiscard]] Seconds now() override { return Seconds(0); }
};

// Collectives of 1 ms, messages of 1 ms, 1 TFLOP/s in f32, memory that is never short.
model::Rates machine(int ranks) {
  model::Rates rates;
  rates.name = "made-up";
  rates.gemm[DType::f32] = FlopsPerSecond(1e12);
  rates.memory = BytesPerSecond(1e24);
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
    for (int n = 2; n <= ranks; n *= 2) {
      rates.collectives.push_back({kind, n, std::nullopt, {}, 0});
      rates.collectives.back().cost.segments = {{0, {1e-3, 0}}};
    }
  }
  rates.link = {Seconds(1e-3), BytesPerSecond(1e24)};
  return rates;
}

CaseResult result_of(const CaseSpec& spec, const model::Rates& rates, int ranks, Launch launch = Launch::gated) {
  const auto backend = open_model(rates, ranks);
  NoClock clock;
  const std::atomic<bool> interrupted{false};
  MeasureOptions options;
  options.launch = launch;
  return Runner(*backend, clock, options, interrupted).run(spec);
}

double exposed(const CaseResult& result) { return (result.summary.times.step - result.summary.times.compute).value(); }

double sum(const CaseResult& result) {
  double all = 0;
  for (const ExposedLine& line : result.summary.exposed.value()) all += line.time.value();
  return all;
}

CaseSpec pair_case(Bytes bytes) {
  CaseSpec spec;
  spec.name = spec.key = "pair";
  spec.placement_name = "concurrent";
  spec.build = [bytes](const Tuning& t) {
    return pair_program(
        {.ranks = 2, .m = 512, .n = 512, .k = 512, .gemm_repeat = t.gemm_repeat, .bytes = bytes, .repeats = t.repeats});
  };
  return spec;
}

// The collective of 1 ms outlasts the GEMM, alone.
TEST(ExposedCauses, OfAPairIsTheTransfer) {
  const CaseResult result = result_of(pair_case(mebibytes(1)), machine(2), 2);
  ASSERT_EQ(result.status, Status::ok) << result.reason;
  ASSERT_TRUE(result.summary.exposed.has_value());
  ASSERT_EQ(result.summary.exposed->size(), 1U);
  const ExposedLine& line = result.summary.exposed->front();
  EXPECT_EQ(line.operation, "all_reduce@comm");
  EXPECT_EQ(line.cause, ExposedCause::transfer);
  EXPECT_DOUBLE_EQ(line.time.value(), exposed(result));
}

// What launching costs the GEMM alone is part of t_compute, so it is no part of what is exposed.
TEST(ExposedCauses, LaunchIsWhatItCostsBeyondComputeAlone) {
  model::Rates rates = machine(2);
  rates.launch = Seconds(3e-3);
  const CaseResult result = result_of(pair_case(mebibytes(1)), rates, 2, Launch::live);
  ASSERT_TRUE(result.summary.exposed.has_value());
  EXPECT_NEAR(sum(result), exposed(result), 1e-12);
  double launch = 0;
  for (const ExposedLine& line : *result.summary.exposed) {
    launch += line.cause == ExposedCause::launch ? line.time.value() : 0;
  }
  EXPECT_LT(std::abs(launch), 6e-3);
}

// However a step is cut, what it exposes is told by operation and cause, without a rest.
TEST(ExposedCauses, AddUpToWhatAStepExposes) {
  for (const auto& [tensor, stages, data, mode] : {std::tuple{2, 1, 1, DataParallelMode::ddp},
                                                   {1, 2, 1, DataParallelMode::ddp},
                                                   {1, 1, 2, DataParallelMode::ddp},
                                                   {1, 1, 4, DataParallelMode::fsdp},
                                                   {2, 2, 2, DataParallelMode::ddp},
                                                   {2, 2, 2, DataParallelMode::fsdp}}) {
    TrainingStepSpec step;
    step.tensor = tensor;
    step.data = data;
    step.mode = mode;
    step.shape = {PipelineSchedule::one_f_one_b, stages, 4, 1};
    step.layers = {.model = "tiny", .count = 4, .tokens = 256, .hidden = 512, .qkv = 1536, .inner = 2048};
    CaseSpec spec;
    spec.name = spec.key = "step";
    spec.placement_name = "concurrent";
    spec.build = [step](const Tuning&) { return training_step_program(step); };
    ask_for_exposure(spec, step);
    for (const double skew : {0.0, 0.1}) {
      model::Rates rates = machine(8);
      rates.skew = skew;
      const CaseResult result = result_of(spec, rates, step.ranks());
      SCOPED_TRACE(testing::Message() << tensor << stages << data << name(mode) << skew);
      ASSERT_TRUE(result.summary.exposed.has_value());
      EXPECT_GT(exposed(result), 0);
      EXPECT_NEAR(sum(result), exposed(result), 1e-9 * result.summary.times.step.value());
      if (stages == 1 && skew == 0) {
        for (const ExposedLine& line : *result.summary.exposed) EXPECT_EQ(line.cause, ExposedCause::transfer);
      }
      const Schema schema = summary_schema(exposure_columns());
      const Row row = summary_row(schema, spec, result, {.bench = "step", .backend = "model", .options = {}});
      double columns = 0;
      for (const char* column :
           {"exposed_transfer", "exposed_peer", "exposed_shared", "exposed_units", "exposed_launch"}) {
        columns += std::get<double>(row.at(column));
      }
      EXPECT_NEAR(columns, std::get<double>(row.at("t_exposed")), 1e-9 * result.summary.times.step.value());
    }
  }
}

// Parts of something else are none.
TEST(ExposedCauses, WhatDoesNotAddUpIsNotTold) {
  const Program program = pair_program({.ranks = 2, .m = 4, .n = 4, .k = 4, .bytes = Bytes(64)});
  ExposedTime exposed{Rank(0), Seconds(1), {}};
  exposed.parts = {{Rank(0), program.classes[0].body.back().id, ExposedCause::transfer, OpId(), Seconds(0.5)}};
  EXPECT_TRUE(exposed_lines(program, exposed, Seconds(0.25), Seconds(1.25), 2).has_value());
  EXPECT_FALSE(exposed_lines(program, exposed, Seconds(0.5), Seconds(1.5), 2).has_value());
  EXPECT_FALSE(exposed_lines(program, exposed, unknown_time, unknown_time, 2).has_value());
}

}  // namespace
}  // namespace ovl
