// SPDX-License-Identifier: Apache-2.0
//
// Pipeline schedules as plain data: which step of which microbatch each stage does next. What a stage then waits for
// follows from where its inputs come from; a table says nothing about time.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "base/enum_names.hpp"

namespace ovl {

// gpipe: all forward steps, then all backward steps (Huang et al., NeurIPS 2019).
// 1f1b: one forward, one backward; the bubble of gpipe with p instead of m activations (Narayanan et al., SC 2021).
// interleaved: 1f1b over v chunks of layers a stage, in Megatron-LM's order; the bubble over v (the same, section 2.2).
// zb_h1, zb_h2: the backward step is split, gradients of weights fill the bubble; with the memory of 1f1b, and with
// twice as many forward steps ahead (Qi et al., arXiv 2401.10241, section 3).
enum class PipelineSchedule { gpipe, one_f_one_b, interleaved, zb_h1, zb_h2 };
template <>
struct EnumNames<PipelineSchedule> {
  static constexpr std::string_view axis = "schedule";
  static constexpr std::pair<PipelineSchedule, std::string_view> table[] = {
      {PipelineSchedule::gpipe, "gpipe"},
      {PipelineSchedule::one_f_one_b, "1f1b"},
      {PipelineSchedule::interleaved, "interleaved"},
      {PipelineSchedule::zb_h1, "zb_h1"},
      {PipelineSchedule::zb_h2, "zb_h2"}};
};

enum class PipelineStepKind {
  forward,
  backward,         // of input and weights in one; the input's gradient leaves when both are done
  backward_input,   // split: what the stage before waits for,
  backward_weight,  // and what nobody waits for
};

template <>
struct EnumNames<PipelineStepKind> {
  static constexpr std::string_view axis = "step";
  static constexpr std::pair<PipelineStepKind, std::string_view> table[] = {
      {PipelineStepKind::forward, "forward"},
      {PipelineStepKind::backward, "backward"},
      {PipelineStepKind::backward_input, "backward_input"},
      {PipelineStepKind::backward_weight, "backward_weight"}};
};

struct PipelineStep {
  PipelineStepKind kind = PipelineStepKind::forward;
  int microbatch = 0;
  int chunk = 0;  // chunk c of stage s is layers c·p + s of p·v equal groups of layers

  friend bool operator==(const PipelineStep&, const PipelineStep&) = default;
};

struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int stages = 2;        // p
  int microbatches = 4;  // m
  int chunks = 1;        // v; more than one where interleaved
};

// By stage, in order.
using PipelineTable = std::vector<std::vector<PipelineStep>>;

// zb_h2 with fewer than 2p - 1 microbatches has no more forward steps to run ahead, and keeps as many activations as
// there are. Throws Error(usage) for a shape that is not possible: no stage or microbatch, chunks without interleaving
// or on one stage, and interleaved microbatches that are fewer than the stages or no multiple of them.
PipelineTable pipeline_table(const PipelineShape& shape);

// By stage: the most forward steps whose activations are still needed, in steps; of a chunk where there are several.
// A backward (or backward_weight) step frees one.
std::vector<int> peak_activations(const PipelineTable& table);

}  // namespace ovl
