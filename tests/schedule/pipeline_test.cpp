// SPDX-License-Identifier: Apache-2.0
#include "schedule/pipeline.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <tuple>

#include "base/error.hpp"
#include "metrics/path.hpp"
#include "metrics/pipeline_bubble.hpp"
#include "program/print.hpp"
#include "schedule/soundness.hpp"
#include "support/errors.hpp"
#include "support/sample_programs.hpp"

namespace ovl {
namespace {

using sample::count_of;
using test::error_text;
using S = PipelineSchedule;

struct Result {
  Seconds span;
  Seconds makespan;
};

Result run(const PipelineWhatIf& what_if) {
  const Program program = pipeline_program(what_if);
  const Spans spans = earliest_spans(program, given_durations(program));
  return {longest_compute_span(program, spans), makespan(spans)};
}

// ---- published numbers ---------------------------------------------------------------------------------------------

// Every step takes 1 and a transfer nothing: integers. gpipe = 1f1b = 3 (m + p - 1), zb_h1 = 3 m + p - 1, the span of
// zb_h2 is 3 m from m = 2 p - 1 on, interleaved = 3 m + 3 (p - 1) / v. Made once by an independent list scheduler.
struct UnitRow {
  int p, m;
  double gpipe, f1b, h1, h2_span, h2_makespan, v2, v4;
};
constexpr UnitRow unit_rows[] = {
    {2, 4, 15, 15, 13, 12, 13, 13.5, 12.75},  {4, 4, 21, 21, 15, 15, 15, 16.5, 14.25},
    {4, 8, 33, 33, 27, 24, 27, 28.5, 26.25},  {8, 8, 45, 45, 31, 31, 31, 34.5, 29.25},
    {8, 16, 69, 69, 55, 48, 55, 58.5, 53.25}, {8, 32, 117, 117, 103, 96, 103, 106.5, 101.25}};

TEST(PipelineWhatIf, UnitStepsGiveExactSpans) {
  for (const UnitRow& row : unit_rows) {
    const auto of = [&](S schedule, int chunks = 1) {
      return run({{schedule, row.p, row.m, chunks}, Seconds(1), Seconds(1), Seconds(1), Seconds(0)});
    };
    SCOPED_TRACE("p=" + std::to_string(row.p) + " m=" + std::to_string(row.m));
    EXPECT_EQ(of(S::gpipe).span, Seconds(row.gpipe));
    EXPECT_EQ(of(S::gpipe).makespan, Seconds(row.gpipe));
    EXPECT_EQ(of(S::one_f_one_b).span, Seconds(row.f1b));
    EXPECT_EQ(of(S::one_f_one_b).makespan, Seconds(row.f1b));
    EXPECT_EQ(of(S::zb_h1).span, Seconds(row.h1));
    EXPECT_EQ(of(S::zb_h1).makespan, Seconds(row.h1));
    EXPECT_EQ(of(S::zb_h2).span, Seconds(row.h2_span));
    EXPECT_EQ(of(S::zb_h2).makespan, Seconds(row.h2_makespan));
    EXPECT_EQ(of(S::interleaved, 2).span, Seconds(row.v2));
    EXPECT_EQ(of(S::interleaved, 4).span, Seconds(row.v4));
  }
}

// Qi et al., arXiv 2401.10241, tables 9 (durations in ms, 8 stages) and 5 (bubble rates of 1F1B, ZB-H1, ZB-H2).
struct PublishedRow {
  int m;
  double forward, input, weight, transfer;
  double f1b, h1, h2;
};
constexpr PublishedRow published[] = {{24, 18.522, 18.086, 9.337, 0.601, 0.2431, 0.1585, 0.1083},
                                      {32, 18.513, 18.086, 9.331, 0.626, 0.1985, 0.1242, 0.0837},
                                      {64, 18.546, 18.097, 9.321, 0.762, 0.1240, 0.0674, 0.0444},
                                      {24, 29.718, 29.444, 19.927, 0.527, 0.2347, 0.1323, 0.0698},
                                      {32, 29.802, 29.428, 19.53, 0.577, 0.1898, 0.1045, 0.0559},
                                      {64, 29.935, 29.621, 19.388, 0.535, 0.1091, 0.0554, 0.0294}};

TEST(PipelineWhatIf, PublishedBubbleRatesComeOutToFourDecimals) {
  for (const PublishedRow& row : published) {
    const PipelineCosts costs{milliseconds(row.forward), milliseconds(row.input), milliseconds(row.weight),
                              milliseconds(row.transfer)};
    const auto rate = [&](S schedule) {
      const PipelineShape shape{schedule, 8, row.m, 1};
      return bubble_rate(run({shape, costs.forward, costs.backward_input, costs.backward_weight, costs.transfer}).span,
                         row.m, costs);
    };
    SCOPED_TRACE("m=" + std::to_string(row.m) + " F=" + std::to_string(row.forward));
    EXPECT_NEAR(rate(S::one_f_one_b), row.f1b, 0.5e-4);
    EXPECT_NEAR(rate(S::zb_h1), row.h1, 0.5e-4);
    EXPECT_NEAR(rate(S::zb_h2), row.h2, 0.5e-4);
  }
}

// The closed forms hold where p divides m and a transfer is short, also where nothing was published.
TEST(PipelineWhatIf, SpansAreTheClosedForms) {
  const PipelineCosts costs{Seconds(20), Seconds(18), Seconds(10), Seconds(0.5)};
  for (const int p : {2, 3, 5, 8}) {
    const int m = 4 * p;
    const auto span = [&](S schedule, int chunks = 1) {
      return run({{schedule, p, m, chunks}, costs.forward, costs.backward_input, costs.backward_weight, costs.transfer})
          .span.value();
    };
    SCOPED_TRACE(p);
    const double ideal = m * costs.microbatch().value();
    EXPECT_NEAR(span(S::one_f_one_b), ideal + one_f_one_b_bubble(p, m, costs).value(), 1e-9);
    EXPECT_NEAR(span(S::zb_h1), ideal + zb_h1_bubble(p, costs).value(), 1e-9);
    EXPECT_NEAR(span(S::zb_h2), ideal + zb_h2_bubble(p, costs).value(), 1e-9);
    for (const int v : {2, 3}) {
      EXPECT_NEAR(span(S::interleaved, v), ideal + interleaved_bubble(p, v, costs).value(), 1e-9) << v << " chunks";
    }
  }
}

// Two stages, two microbatches, forward 1, backward 2, transfers 1. Stage 1 early: F0 2-3, X0 3-5, F1 5-6 (there since
// 3), X1 6-8; so stage 0 ends with X1 at 9-11. Late: F1 is received while nothing runs, 5-6, and all that follows is
// one later.
TEST(PipelineWhatIf, AReceivePostedLateExposesItsTransfer) {
  PipelineWhatIf what_if{{S::one_f_one_b, 2, 2, 1}, Seconds(1), Seconds(1), Seconds(1), Seconds(1)};
  EXPECT_EQ(run(what_if).span, Seconds(11));
  what_if.receive = ReceivePosting::late;
  EXPECT_EQ(run(what_if).span, Seconds(12));
}

// ---- programs ------------------------------------------------------------------------------------------------------

PipelineSpec tiny(S schedule, int p, int m, int v = 1) {
  PipelineSpec spec;
  spec.shape = {schedule, p, m, v};
  spec.layers = {.model = "tiny", .count = 2LL * p * v, .tokens = 2, .hidden = 2, .qkv = 6, .inner = 4};
  return spec;
}

std::vector<std::string> body(const Program& program, std::size_t stage) {
  std::vector<std::string> text;
  for (const Operation& op : program.classes.at(stage).body) {
    text.push_back(program.lanes[op.lane.index()].name + " " + describe(op));
  }
  return text;
}

// Two stages, one microbatch: what is computed goes forward, its gradient comes back.
TEST(PipelineProgram, WorkedExample) {
  const Program program =
      pipeline_program(PipelineWhatIf{{S::zb_h1, 2, 1, 1}, Seconds(3), Seconds(2), Seconds(1), Seconds(0.5)});
  EXPECT_EQ(body(program, 0), (std::vector<std::string>{"compute busy 3 s", "compute record e0", "send_forward wait e0",
                                                        "send_forward exchange f32 comm=0 to:1",
                                                        "receive_backward exchange f32 comm=1 from:1",
                                                        "receive_backward busy 0.5 s", "receive_backward record e1",
                                                        "compute wait e1", "compute busy 2 s", "compute busy 1 s"}));
  EXPECT_EQ(body(program, 1),
            (std::vector<std::string>{"receive_forward exchange f32 comm=0 from:0", "receive_forward busy 0.5 s",
                                      "receive_forward record e2", "compute wait e2", "compute busy 3 s",
                                      "compute busy 2 s", "compute record e3", "send_backward wait e3",
                                      "send_backward exchange f32 comm=1 to:0", "compute busy 1 s"}));
}

// 2 tokens, 2 wide: a slot is 4 elements. 1F1B keeps 3 activations on the first of 3 stages and has one slot more.
TEST(PipelineProgram, MemoryIsThatOfTheActivationsKept) {
  PipelineSpec spec = tiny(S::one_f_one_b, 3, 8);
  EXPECT_EQ(count_of(pipeline_program(spec), "activation"), 4 * (3 + 1));
  spec.receive = ReceivePosting::late;
  EXPECT_EQ(count_of(pipeline_program(spec), "activation"), 4 * 3);
  EXPECT_EQ(count_of(pipeline_program(tiny(S::gpipe, 3, 8)), "activation"), 4 * (8 + 1));
  EXPECT_EQ(count_of(pipeline_program(tiny(S::zb_h2, 3, 8)), "activation"), 4 * (5 + 1));
}

TEST(PipelineProgram, NeedsEveryEdgeAndNoOther) {
  for (const auto& [schedule, name] : EnumNames<S>::table) {
    for (const int p : {2, 3}) {
      const int v = schedule == S::interleaved ? 2 : 1;
      const Program program = pipeline_program(tiny(schedule, p, 2 * p, v));
      const std::string what = std::string(name) + " p=" + std::to_string(p);
      expect_sound(program, what);
      EXPECT_GT(expect_every_edge_needed(program, what), 10 * p);
    }
  }
}

// Late receives wait for the step before theirs, though no data says so: those events alone could be left out.
TEST(PipelineProgram, IsSoundWithLateReceives) {
  for (const auto& [schedule, name] : EnumNames<S>::table) {
    PipelineSpec spec = tiny(schedule, 4, 8, schedule == S::interleaved ? 2 : 1);
    spec.receive = ReceivePosting::late;
    expect_sound(pipeline_program(spec), std::string(name));
  }
}

TEST(PipelineProgram, PassesAllChecksForManyShapes) {
  for (const auto& [schedule, name] : EnumNames<S>::table) {
    const bool interleaved = schedule == S::interleaved;
    for (const int p : {1, 2, 3, 4, 7, 16}) {
      if (interleaved && p == 1) continue;
      for (const int m : {1, p, 2 * p, 21}) {
        if (interleaved && m % p != 0) continue;
        for (int v = 1; v <= (interleaved ? 4 : 1); ++v) {
          const std::string what = std::string(name) + " p=" + std::to_string(p) + " m=" + std::to_string(m);
          expect_sound(
              pipeline_program(PipelineWhatIf{{schedule, p, m, v}, Seconds(1), Seconds(1), Seconds(1), Seconds(1)}),
              what);
        }
      }
    }
  }
}

TEST(PipelineProgram, SaysWhenLayersDoNotDivide) {
  PipelineSpec spec = tiny(S::interleaved, 2, 4, 2);
  spec.layers.model = "gpt2-small";
  spec.layers.count = 6;
  EXPECT_EQ(
      error_text([&] { (void)pipeline_program(spec); }),
      "6 layers do not divide by 2 stages of 2 chunks: all stages have equally many; type a multiple of 4, such as "
      "--layers gpt2-small:8");
  spec.shape.microbatches = 1;
  EXPECT_THAT(error_text([&] { (void)pipeline_program(spec); }),
              testing::StartsWith("interleaved with 1 microbatches on 2 stages is not possible"));
}

// ---- arms and names ------------------------------------------------------------------------------------------------

// Three microbatches, two layers a stage: of each kind all steps, and nobody waits for anybody.
TEST(PipelineSteps, AreThoseOfOneKind) {
  using Kind = PipelineStepKind;
  PipelineSpec spec = tiny(S::zb_h1, 2, 3);
  const Program whole = pipeline_program(spec);
  for (const auto& [kind, gemms, sums] : {std::tuple{Kind::forward, 8, 0},
                                          {Kind::backward_input, 8, 0},
                                          {Kind::backward_weight, 8, 8},
                                          {Kind::backward, 16, 8}}) {
    const Program steps = pipeline_steps(spec, kind);
    expect_sound(steps, std::string(name(kind)));
    EXPECT_EQ(steps.name, "pipeline:" + std::string(name(kind)));
    EXPECT_EQ(steps.buffers.size(), whole.buffers.size());
    EXPECT_EQ(steps.lanes.size(), whole.lanes.size());
    for (const RankClass& c : steps.classes) {
      const auto count = [&](auto is) { return std::count_if(c.body.begin(), c.body.end(), is); };
      EXPECT_EQ(count([](const Operation& op) { return std::holds_alternative<Gemm>(op.work); }), 3 * gemms);
      EXPECT_EQ(count([](const Operation& op) { return std::holds_alternative<Elementwise>(op.work); }), 3 * sums);
      EXPECT_EQ(std::ssize(c.body), 3 * (gemms + sums)) << "nothing else";
    }
  }
}

std::vector<std::string> names_in_order(const Program& program, const PipelineShape& shape, std::size_t stage) {
  const StepNames names = pipeline_step_names(program, shape);
  std::vector<std::string> all;
  for (const Operation& op : program.classes[stage].body) {
    const auto found = names[stage].find(op.id);
    if (found != names[stage].end() && (all.empty() || all.back() != found->second)) all.push_back(found->second);
  }
  return all;
}

TEST(PipelineSteps, AreNamedAfterKindMicrobatchAndChunk) {
  const PipelineShape split{S::zb_h1, 2, 2, 1};
  const std::vector<std::string> expected{"F0", "F1", "B0", "W0", "B1", "W1"};
  EXPECT_EQ(names_in_order(pipeline_program(tiny(S::zb_h1, 2, 2)), split, 0), expected);
  const PipelineWhatIf what_if{split, Seconds(1), Seconds(1), Seconds(1), Seconds(0)};
  EXPECT_EQ(names_in_order(pipeline_program(what_if), split, 0), expected);
  EXPECT_EQ(names_in_order(pipeline_program(tiny(S::one_f_one_b, 2, 2)), {S::one_f_one_b, 2, 2, 1}, 1),
            (std::vector<std::string>{"F0", "D0", "F1", "D1"}));
  EXPECT_EQ(names_in_order(pipeline_program(tiny(S::interleaved, 2, 2, 2)), {S::interleaved, 2, 2, 2}, 1),
            (std::vector<std::string>{"F0.0", "F1.0", "F0.1", "D0.1", "F1.1", "D1.1", "D0.0", "D1.0"}));
}

TEST(PipelineProgram, WhatDoesNotFitSaysWhatItNeeds) {
  PipelineSpec spec = tiny(S::gpipe, 2, 4);
  const Bytes needed = memory_per_rank(pipeline_program(spec));
  spec.memory_limit = needed;
  EXPECT_NO_THROW(pipeline_program(spec));
  spec.memory_limit = needed - Bytes(1);
  EXPECT_EQ(error_text([&] { pipeline_program(spec); }),
            "gpipe with 4 microbatches needs " + format_bytes(needed) + " on a rank: there is " +
                format_bytes(needed - Bytes(1)) +
                ", and it keeps up to 4 activations of 16, and the gradients that belong to them; type fewer "
                "--microbatches or tokens, a smaller --scale, or a --schedule that keeps less, such as 1f1b");
}

}  // namespace
}  // namespace ovl
