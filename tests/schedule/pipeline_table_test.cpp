// SPDX-License-Identifier: Apache-2.0
#include "schedule/pipeline_table.hpp"
#include "support/errors.hpp"

#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "base/error.hpp"

namespace ovl {
namespace {

using test::error_text;
using testing::ElementsAre;
using Kind = PipelineStepKind;

// "F0 B0 ...": X is a whole backward step, B and W its halves. Chunks but the first are named: "F0c1".
std::string text(const std::vector<PipelineStep>& steps) {
  std::string out;
  for (const PipelineStep& s : steps) {
    out += out.empty() ? "" : " ";
    out += s.kind == Kind::forward ? 'F' : s.kind == Kind::backward ? 'X' : s.kind == Kind::backward_input ? 'B' : 'W';
    out += std::to_string(s.microbatch);
    if (s.chunk > 0) out += "c" + std::to_string(s.chunk);
  }
  return out;
}

std::vector<std::string> table(PipelineSchedule schedule, int p, int m, int v = 1) {
  std::vector<std::string> rows;
  for (const auto& steps : pipeline_table({schedule, p, m, v})) rows.push_back(text(steps));
  return rows;
}

TEST(PipelineTable, Gpipe) {
  EXPECT_THAT(table(PipelineSchedule::gpipe, 2, 3), ElementsAre("F0 F1 F2 X0 X1 X2", "F0 F1 F2 X0 X1 X2"));
}

TEST(PipelineTable, OneForwardOneBackward) {
  EXPECT_THAT(table(PipelineSchedule::one_f_one_b, 3, 4),
              ElementsAre("F0 F1 F2 X0 F3 X1 X2 X3", "F0 F1 X0 F2 X1 F3 X2 X3", "F0 X0 F1 X1 F2 X2 F3 X3"));
}

// Two stages of two chunks: layers 0, 1, 2, 3 are on stage 0, 1, 0, 1.
TEST(PipelineTable, Interleaved) {
  EXPECT_THAT(table(PipelineSchedule::interleaved, 2, 2, 2),
              ElementsAre("F0 F1 F0c1 F1c1 X0c1 X1c1 X0 X1", "F0 F1 F0c1 X0c1 F1c1 X1c1 X0 X1"));
}

// Figure 3 of the paper, on three stages: the last begins a backward step at once and keeps its weight steps for later,
// so that all stages keep at most three activations.
TEST(PipelineTable, ZeroBubbleH1) {
  EXPECT_THAT(table(PipelineSchedule::zb_h1, 3, 4),
              ElementsAre("F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3", "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3",
                          "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3"));
}

TEST(PipelineTable, ZeroBubbleH2RunsFurtherAhead) {
  EXPECT_THAT(table(PipelineSchedule::zb_h2, 2, 4),
              ElementsAre("F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3", "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3"));
}

// ---- what every table is -------------------------------------------------------------------------------------------

// Each step once, and done in some order: replayed without time, every step finds what it needs.
std::string wrong_with(const PipelineShape& shape) {
  const PipelineTable table = pipeline_table(shape);
  const int last = shape.stages * shape.chunks - 1;
  std::set<std::tuple<Kind, int, int>> done;  // kind (a whole backward as that of the input), layer group, microbatch
  std::vector<std::size_t> next(table.size());
  std::size_t steps = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t stage = 0; stage < table.size(); ++stage) {
      for (; next[stage] < table[stage].size(); ++next[stage]) {
        const PipelineStep& step = table[stage][next[stage]];
        const int group = step.chunk * shape.stages + static_cast<int>(stage);
        const int i = step.microbatch;
        bool ready = true;
        Kind as = step.kind;
        switch (step.kind) {
          case Kind::forward: ready = group == 0 || done.contains({Kind::forward, group - 1, i}); break;
          case Kind::backward:
          case Kind::backward_input:
            as = Kind::backward_input;
            ready = group == last ? done.contains({Kind::forward, group, i})
                                  : done.contains({Kind::backward_input, group + 1, i});
            break;
          case Kind::backward_weight: ready = done.contains({Kind::backward_input, group, i}); break;
        }
        if (!ready) break;
        if (!done.emplace(as, group, i).second) return "a step twice";
        if (step.kind == Kind::backward) done.emplace(Kind::backward_weight, group, i);
        ++steps;
        moved = true;
      }
    }
  }
  for (std::size_t stage = 0; stage < table.size(); ++stage) {
    if (next[stage] < table[stage].size()) return "stage " + std::to_string(stage) + " is stuck";
  }
  if (done.size() != static_cast<std::size_t>(3 * (last + 1) * shape.microbatches)) return "steps are missing";
  return "";
}

TEST(PipelineTable, IsCompleteAndRunsForEveryShape) {
  for (const auto& [schedule, name] : EnumNames<PipelineSchedule>::table) {
    const bool interleaved = schedule == PipelineSchedule::interleaved;
    for (int p = interleaved ? 2 : 1; p <= 16; ++p) {
      for (int m = interleaved ? p : 1; m <= 64; m += interleaved ? p : 1) {
        for (int v = 1; v <= (interleaved ? 4 : 1); ++v) {
          ASSERT_EQ(wrong_with({schedule, p, m, v}), "") << name << " p=" << p << " m=" << m << " v=" << v;
        }
      }
    }
  }
}

// GPipe keeps m, 1F1B p on the first stage and one on the last, interleaving p v + p - 1 chunks, ZB-H1 p everywhere and
// ZB-H2 2 p - 1, none more than there are microbatches.
TEST(PipelineTable, KeepsAsManyActivationsAsPublished) {
  const auto peaks = [](PipelineSchedule schedule, int p, int m, int v = 1) {
    return peak_activations(pipeline_table({schedule, p, m, v}));
  };
  EXPECT_THAT(peaks(PipelineSchedule::gpipe, 4, 8), ElementsAre(8, 8, 8, 8));
  EXPECT_THAT(peaks(PipelineSchedule::one_f_one_b, 4, 8), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(peaks(PipelineSchedule::interleaved, 4, 8, 2), ElementsAre(11, 9, 7, 5));
  EXPECT_THAT(peaks(PipelineSchedule::zb_h1, 4, 8), ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(peaks(PipelineSchedule::zb_h2, 4, 8), ElementsAre(7, 7, 7, 7));
  EXPECT_THAT(peaks(PipelineSchedule::zb_h2, 4, 3), ElementsAre(3, 3, 3, 3));
}

TEST(PipelineTable, SaysWhichShapesAreNotPossible) {
  using S = PipelineSchedule;
  const auto refused = [](const PipelineShape& shape) { return error_text([&] { (void)pipeline_table(shape); }); };
  EXPECT_EQ(refused({S::gpipe, 0, 1, 1}),
            "0 stages, 1 microbatches and 1 chunks are not a pipeline: there is one or more of each; type for example "
            "--stages 4 --microbatches 8 --chunks 1");
  EXPECT_EQ(refused({S::one_f_one_b, 2, 4, 2}),
            "1f1b with 2 chunks is not possible: only interleaved gives a stage several chunks of layers; type "
            "--schedule interleaved");
  EXPECT_EQ(refused({S::interleaved, 1, 4, 2}),
            "interleaved on one stage is not possible: chunks take turns between stages; type --stages 2 or more, or "
            "another --schedule");
  EXPECT_EQ(
      refused({S::interleaved, 4, 2, 2}),
      "interleaved with 2 microbatches on 4 stages is not possible: microbatches go round in groups of as many as "
      "there are stages; type --microbatches 4, or another multiple of 4");
  EXPECT_EQ(
      refused({S::interleaved, 4, 6, 2}),
      "interleaved with 6 microbatches on 4 stages is not possible: microbatches go round in groups of as many as "
      "there are stages; type --microbatches 8, or another multiple of 4");
}

}  // namespace
}  // namespace ovl
