// SPDX-License-Identifier: Apache-2.0
//
// Pipeline parallel training: each rank is a stage with its layers, activations go to the next stage and their
// gradients back, in the order of a table (pipeline_table.hpp). What is received, kept and sent lies in slots, so the
// memory of a schedule is that of its buffers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/enum_names.hpp"
#include "base/units.hpp"
#include "program/program.hpp"
#include "schedule/layers.hpp"
#include "schedule/pipeline_table.hpp"

namespace ovl {

// When a receive is posted. early: as soon as a slot is free, and there is one slot more than the schedule keeps. late:
// when the step before the one that needs it has finished, so that no transfer hides behind it.
enum class ReceivePosting { early, late };
template <>
struct EnumNames<ReceivePosting> {
  static constexpr std::string_view axis = "receive";
  static constexpr std::pair<ReceivePosting, std::string_view> table[] = {{ReceivePosting::early, "early"},
                                                                          {ReceivePosting::late, "late"}};
};

struct PipelineSpec {
  PipelineShape shape;       // as many ranks as stages
  Layers layers;             // of the whole model; stages · chunks divide them. Tokens are of one microbatch.
  DType dtype = DType::f32;  // of everything: a dtype whose products it can hold, so not f8e4m3
  ReceivePosting receive = ReceivePosting::early;
  // With a bound on one rank's memory a program that needs more is refused with Error(usage).
  std::optional<Bytes> memory_limit = std::nullopt;

  std::string transport = "shm";
  int channels = 1;
  Waiting waiting = Waiting::yield;
  Memory memory = Memory::plain;
};

// A class for each stage. Lanes: "compute", and one for each direction and side: "receive_forward", "send_forward",
// "receive_backward", "send_backward", so that no transfer waits for another's turn; neighbours share a communicator of
// their own for each direction. A stage's first GEMM reads what it received, its last one writes what it sends;
// gradients of weights are accumulated over the microbatches and added to the weights at the end. Throws Error(usage)
// where stages and chunks do not divide the layers, above memory_limit, and as pipeline_table does.
Program pipeline_program(const PipelineSpec& spec);

// What steps of one kind take where nobody waits: every stage does those of all its microbatches one after another and
// sends nothing. Lanes, communicators and buffers are those of pipeline_program, beside which it is an arm.
Program pipeline_steps(const PipelineSpec& spec, PipelineStepKind kind);

// What each stage's operations of the compute lane belong to, for people: F forward, B and W the gradients of inputs
// and of weights, D both in one, with the microbatch and, where there are several, the chunk: "F3", "F3.1". Of a
// program for this shape; the optimizer has no name.
using StepNames = std::vector<std::map<OpId, std::string>>;  // by class
StepNames pipeline_step_names(const Program& program, const PipelineShape& shape);

// A what-if in given durations of one microbatch on one stage (a chunk takes its share). A transfer takes `transfer`
// after both sides have met and keeps no stage busy. Every other operation is `busy`; a slot is one element.
struct PipelineWhatIf {
  PipelineShape shape;
  Seconds forward;
  Seconds backward_input;
  Seconds backward_weight;
  Seconds transfer;
  ReceivePosting receive = ReceivePosting::early;
  std::string transport = "shm";
};
Program pipeline_program(const PipelineWhatIf& what_if);

}  // namespace ovl
