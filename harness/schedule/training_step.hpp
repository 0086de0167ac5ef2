// SPDX-License-Identifier: Apache-2.0
//
// One training step of a model that is cut three ways: each layer over `tensor` ranks, the layers over the stages of a
// pipeline, and the batch over `data` replicas of both. Ranks are numbered as Megatron-LM does, tensor first, then
// data, then stages (Narayanan et al., SC 2021, section 3.2): rank = (stage · data + replica) · tensor + part, so that
// what talks most lies closest on a fabric of nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/enum_names.hpp"
#include "base/units.hpp"
#include "program/program.hpp"
#include "schedule/layers.hpp"
#include "schedule/models.hpp"
#include "schedule/pipeline.hpp"

namespace ovl {

// What replicas share. ddp: every one has all weights, gradients are all-reduced in buckets. fsdp: each has a part of
// every layer's weights and gathers a layer before it computes with it; gradients are reduced and scattered.
enum class DataParallelMode { ddp, fsdp };
template <>
struct EnumNames<DataParallelMode> {
  static constexpr std::string_view axis = "data parallel mode";
  static constexpr std::pair<DataParallelMode, std::string_view> table[] = {{DataParallelMode::ddp, "ddp"},
                                                                            {DataParallelMode::fsdp, "fsdp"}};
};

struct TrainingStepSpec {
  int tensor = 1;
  int data = 1;
  PipelineShape shape;       // stages, and microbatches of each replica
  Layers layers;             // of the whole model; tokens of one microbatch
  DType dtype = DType::f32;  // of everything: a dtype whose products it can hold, so not f8e4m3
  DataParallelMode mode = DataParallelMode::ddp;
  Bytes bucket = ddp_default_bucket;  // ddp: a bucket closes after the layer that makes it reach this
  std::int64_t prefetch = 1;          // fsdp: layers gathered ahead of the one that computes
  // With a bound on one rank's memory a program that needs more is refused with Error(usage).
  std::optional<Bytes> memory_limit = std::nullopt;

  std::string transport = "shm";
  int channels = 1;
  Waiting waiting = Waiting::yield;
  Memory memory = Memory::plain;

  [[nodiscard]] int ranks() const { return tensor * data * shape.stages; }
};

// The communicators that stand for a way of cutting, as a program names them.
inline constexpr const char* tensor_communicator = "tensor";
inline constexpr const char* data_communicator = "data";      // gradients
inline constexpr const char* gather_communicator = "gather";  // fsdp: weights

// A class for each stage, whose ranks are alike. Lanes: "compute", those of the pipeline where it has several stages,
// "tensor", "data" and "gather" where there are such. Of each pair of matrices the summands are all-reduced before the
// next pair, or the loss, begins, on the way back while the gradients of the pair's weights are computed. Gradients of
// weights are accumulated over the microbatches; those of a layer are communicated when its last microbatch has passed,
// while earlier layers still compute; 1 + prefetch slots hold gathered layers, no more than a rank has. At the end the
// weights are updated bucket by bucket. Throws Error(usage) where a cut does not divide, for a negative prefetch, above
// memory_limit, and as pipeline_table does.
Program training_step_program(const TrainingStepSpec& spec);

}  // namespace ovl
