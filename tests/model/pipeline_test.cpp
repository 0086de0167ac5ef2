// SPDX-License-Identifier: Apache-2.0
//
// Pipelines in given durations: many ranks that wait for each other by messages only, against published integers.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "backend/model/model.hpp"
#include "program/builder.hpp"
#include "program/check.hpp"
#include "support/tsv.hpp"

namespace ovl {
namespace {

// backward is input and weight gradient in one; what the stage before waits for leaves with backward or input.
enum class Step { forward, backward, input, weight };

// What stage `stage` of p does with m microbatches, in order.
using Order = std::function<std::vector<Step>(int p, int m, int stage)>;

std::vector<Step> gpipe(int /*p*/, int m, int /*stage*/) {
  std::vector<Step> steps(static_cast<std::size_t>(m), Step::forward);
  steps.insert(steps.end(), static_cast<std::size_t>(m), Step::backward);
  return steps;
}

std::vector<Step> one_f_one_b(int p, int m, int stage) {
  const int ahead = std::min(m, p - stage);
  std::vector<Step> steps(static_cast<std::size_t>(ahead), Step::forward);
  for (int i = 0; i < m; ++i) {
    steps.push_back(Step::backward);
    if (ahead + i < m) steps.push_back(Step::forward);
  }
  return steps;
}

// Qi et al., arXiv 2401.10241, section 3: weight gradients wait until `most` activations are kept.
std::vector<Step> zero_bubble(int m, int ahead, int most) {
  std::vector<Step> steps(static_cast<std::size_t>(ahead), Step::forward);
  int weights = 0;
  for (int i = 0; i < m; ++i) {
    steps.push_back(Step::input);
    if (i >= most - ahead) {
      steps.push_back(Step::weight);
      ++weights;
    }
    if (ahead + i < m) steps.push_back(Step::forward);
  }
  steps.insert(steps.end(), static_cast<std::size_t>(m - weights), Step::weight);
  return steps;
}
std::vector<Step> zb_h1(int p, int m, int stage) { return zero_bubble(m, std::min(m, p - stage), std::min(m, p)); }
std::vector<Step> zb_h2(int p, int m, int stage) {
  return zero_bubble(m, std::min(m, 2 * (p - stage) - 1), std::min(m, 2 * p - 1));
}

struct Costs {
  double forward = 1;
  double input = 1;
  double weight = 1;
  double transfer = 0;

  [[nodiscard]] double of(Step step) const {
    switch (step) {
      case Step::forward: return forward;
      case Step::backward: return input + weight;
      case Step::input: return input;
      case Step::weight: return weight;
    }
    return 0;
  }
};

// Messages go on lanes of their own, in both directions, on a communicator for each pair of neighbours and direction;
// what a transfer takes passes on the receiver's lane and keeps no stage busy.
Program pipeline(int p, int m, const Order& order, const Costs& costs = {}) {
  ProgramBuilder builder("pipeline", p);
  const LaneId compute = builder.lane({.name = "compute"});
  const auto comm_lane = [&](const char* name) { return builder.lane({.name = name, .role = Role::communication}); };
  struct Way {
    LaneId receive;
    LaneId send;
    std::vector<CommId> comms;  // the i-th between stage i and i + 1
  };
  Way forward{comm_lane("receive_forward"), comm_lane("send_forward"), {}};
  Way backward{comm_lane("receive_backward"), comm_lane("send_backward"), {}};
  for (int s = 0; s + 1 < p; ++s) {
    for (Way* way : {&forward, &backward}) {
      way->comms.push_back(builder.communicator({.name = (way == &forward ? "forward" : "backward") + std::to_string(s),
                                                 .groups = {{Rank(s), Rank(s + 1)}},
                                                 .transport = "shm"}));
    }
  }
  for (int s = 0; s < p; ++s) {
    ClassBuilder stage = builder.ranks("stage" + std::to_string(s), {Rank(s)});
    int number = 0;
    for (const Step step : order(p, m, s)) {
      const bool ahead = step == Step::forward;
      const Way& way = ahead ? forward : backward;
      const int from = ahead ? s - 1 : s + 1;
      const int to = ahead ? s + 1 : s - 1;
      const auto message = [&](int peer, Direction direction) {
        const auto edge = static_cast<std::size_t>(std::min(s, peer));
        return Exchange{way.comms[edge], DType::f32, {{direction, peer > s ? 1 : 0}}};
      };
      const auto slot = [&](const char* what) {
        const BufferId b =
            builder.buffer({.name = what + std::to_string(s) + "." + std::to_string(number), .count = 1});
        return std::vector<Slice>{builder.whole(b)};
      };
      if (step != Step::weight && from >= 0 && from < p) {
        stage.body(way.receive, message(from, Direction::receive), {}, slot("in"));
        stage.body(way.receive, Busy{Seconds(costs.transfer)});
        stage.order(way.receive, compute);
      }
      stage.body(compute, Busy{Seconds(costs.of(step))});
      if (step != Step::weight && to >= 0 && to < p) {
        stage.order(compute, way.send);
        stage.body(way.send, message(to, Direction::send), slot("out"));
      }
      ++number;
    }
  }
  return std::move(builder).finish();
}

struct Spans {
  double longest = 0;  // of a stage, from its first start to its last end
  double makespan = 0;
};

Spans play_pipeline(const Program& program) {
  const auto backend = open_model(model::Rates{});
  const Timings timings = backend->prepare({program}, Data::random, 1)->run(0, {});
  Spans spans{0, timings.step().value()};
  for (const RankTiming& rank : timings.ranks) {
    spans.longest = std::max(spans.longest, (rank.lanes[0].end - rank.lanes[0].start).value());
  }
  return spans;
}

TEST(ModelPipeline, TwoStagesByHand) {
  // Stage 0: F F, stage 1: F B F B from 1 on; stage 0's backward steps can begin at 4 and 7. 3 (m + p - 1) = 9.
  const Program program = pipeline(2, 2, one_f_one_b);
  EXPECT_TRUE(check(program).empty());
  EXPECT_EQ(play_pipeline(program).makespan, 9);
}

TEST(ModelPipeline, IndependentVectorsExactly) {
  for (const test::TsvRow& row : test::golden_rows("pipeline_unit_vectors.tsv")) {
    const int p = std::stoi(row.at("p"));
    const int m = std::stoi(row.at("m"));
    for (const auto& [name, order] :
         {std::pair<std::string, Order>{"gpipe", gpipe}, {"f1b", one_f_one_b}, {"zbh1", zb_h1}, {"zbh2", zb_h2}}) {
      SCOPED_TRACE(name + " p=" + std::to_string(p) + " m=" + std::to_string(m));
      const Spans spans = play_pipeline(pipeline(p, m, order));
      EXPECT_EQ(spans.longest, std::stod(row.at(name + "_span")));
      EXPECT_EQ(spans.makespan, std::stod(row.at(name + "_makespan")));
    }
  }
}

// Zero Bubble, arXiv 2401.10241: costs of table 9 in ms, 8 stages, and the bubble rates of table 5, of the longest
// stage span, as printed.
TEST(ModelPipeline, PublishedBubbleRatesToFourDecimals) {
  struct Row {
    int microbatches;
    Costs costs;
    double f1b, zbh1, zbh2;
  };
  for (const Row& row : {Row{24, {18.522, 18.086, 9.337, 0.601}, 0.2431, 0.1585, 0.1083},
                         {32, {18.513, 18.086, 9.331, 0.626}, 0.1985, 0.1242, 0.0837},
                         {64, {18.546, 18.097, 9.321, 0.762}, 0.1240, 0.0674, 0.0444},
                         {24, {29.718, 29.444, 19.927, 0.527}, 0.2347, 0.1323, 0.0698},
                         {32, {29.802, 29.428, 19.53, 0.577}, 0.1898, 0.1045, 0.0559},
                         {64, {29.935, 29.621, 19.388, 0.535}, 0.1091, 0.0554, 0.0294}}) {
    const Costs& c = row.costs;
    const double ideal = row.microbatches * (c.forward + c.input + c.weight);
    for (const auto& [order, published] :
         {std::pair<Order, double>{one_f_one_b, row.f1b}, {zb_h1, row.zbh1}, {zb_h2, row.zbh2}}) {
      const double longest = play_pipeline(pipeline(8, row.microbatches, order, c)).longest;
      EXPECT_NEAR((longest - ideal) / longest, published, 5.01e-5) << c.forward << " m=" << row.microbatches;
    }
  }
}

}  // namespace
}  // namespace ovl
