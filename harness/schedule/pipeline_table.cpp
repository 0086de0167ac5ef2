// SPDX-License-Identifier: Apache-2.0
#include "schedule/pipeline_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace ovl {
namespace {

using Kind = PipelineStepKind;
using Steps = std::vector<PipelineStep>;

void check(const PipelineShape& shape) {
  const auto [schedule, p, m, v] = shape;
  if (p < 1 || m < 1 || v < 1) {
    throw usage_error(fmt::format("{} stages, {} microbatches and {} chunks are not a pipeline", p, m, v),
                      "there is one or more of each", "type for example --stages 4 --microbatches 8 --chunks 1");
  }
  if (schedule != PipelineSchedule::interleaved) {
    if (v == 1) return;
    throw usage_error(fmt::format("{} with {} chunks is not possible", name(schedule), v),
                      "only interleaved gives a stage several chunks of layers", "type --schedule interleaved");
  }
  if (p == 1) {
    throw usage_error("interleaved on one stage is not possible", "chunks take turns between stages",
                      "type --stages 2 or more, or another --schedule");
  }
  if (m < p || m % p != 0) {
    throw usage_error(fmt::format("interleaved with {} microbatches on {} stages is not possible", m, p),
                      "microbatches go round in groups of as many as there are stages",
                      fmt::format("type --microbatches {}, or another multiple of {}", (m / p + 1) * p, p));
  }
}

Steps gpipe(int m) {
  Steps steps;
  for (int i = 0; i < m; ++i) steps.push_back({Kind::forward, i});
  for (int i = 0; i < m; ++i) steps.push_back({Kind::backward, i});
  return steps;
}

// Megatron-LM, core/pipeline_parallel/schedules.py: forward_backward_pipelining_with_interleaving. With one chunk and
// half as many steps ahead it is 1F1B.
Steps one_forward_one_backward(const PipelineShape& shape, int stage) {
  const auto [schedule, p, m, v] = shape;
  // The k-th forward step of every stage: p microbatches through one chunk, the same ones through the next.
  const auto forward = [p = p, v = v](int k) {
    return PipelineStep{Kind::forward, k / (p * v) * p + k % p, k % (p * v) / p};
  };
  const auto backward = [v = v, forward](int k) {
    const PipelineStep step = forward(k);
    return PipelineStep{Kind::backward, step.microbatch, v - 1 - step.chunk};
  };
  const int total = m * v;
  const int ahead =
      std::min(total, schedule == PipelineSchedule::interleaved ? (p - stage - 1) * 2 + (v - 1) * p : p - stage - 1);
  Steps steps;
  for (int k = 0; k < ahead; ++k) steps.push_back(forward(k));
  for (int k = ahead; k < total; ++k) {
    steps.push_back(forward(k));
    steps.push_back(backward(k - ahead));
  }
  for (int k = total - ahead; k < total; ++k) steps.push_back(backward(k));
  return steps;
}

// Forward steps run ahead by `ahead`, and a weight step waits until `most` activations are kept.
Steps zero_bubble(int m, int ahead, int most) {
  Steps steps;
  int forward = 0;
  int weight = 0;
  for (; forward < ahead; ++forward) steps.push_back({Kind::forward, forward});
  for (int backward = 0; backward < m; ++backward) {
    steps.push_back({Kind::backward_input, backward});
    if (backward >= most - ahead) steps.push_back({Kind::backward_weight, weight++});
    if (forward < m) steps.push_back({Kind::forward, forward++});
  }
  for (; weight < m; ++weight) steps.push_back({Kind::backward_weight, weight});
  return steps;
}

}  // namespace

PipelineTable pipeline_table(const PipelineShape& shape) {
  check(shape);
  const int p = shape.stages;
  const int m = shape.microbatches;
  PipelineTable table;
  for (int stage = 0; stage < p; ++stage) {
    switch (shape.schedule) {
      case PipelineSchedule::gpipe: table.push_back(gpipe(m)); break;
      case PipelineSchedule::one_f_one_b:
      case PipelineSchedule::interleaved: table.push_back(one_forward_one_backward(shape, stage)); break;
      case PipelineSchedule::zb_h1: table.push_back(zero_bubble(m, std::min(m, p - stage), std::min(m, p))); break;
      case PipelineSchedule::zb_h2:
        table.push_back(zero_bubble(m, std::min(m, 2 * (p - stage) - 1), std::min(m, 2 * p - 1)));
        break;
    }
  }
  return table;
}

std::vector<int> peak_activations(const PipelineTable& table) {
  std::vector<int> peaks;
  for (const Steps& steps : table) {
    int kept = 0;
    int peak = 0;
    for (const PipelineStep& step : steps) {
      if (step.kind == Kind::forward) peak = std::max(peak, ++kept);
      if (step.kind == Kind::backward || step.kind == Kind::backward_weight) --kept;
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace ovl
