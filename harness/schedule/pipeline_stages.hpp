// SPDX-License-Identifier: Apache-2.0
//
// What every pipeline has in common, whatever its stages compute: lanes and communicators between neighbours, slots for
// what is received, kept and sent, and the order of a table (pipeline_table.hpp). A stage is one rank, or several that
// are alike: replicas of it, each with neighbours of its own.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "program/builder.hpp"
#include "program/dataflow.hpp"
#include "schedule/pipeline.hpp"

namespace ovl {

struct PipelineLanes {
  LaneId compute, receive_forward, send_forward, receive_backward, send_backward;
};
PipelineLanes pipeline_lanes(ProgramBuilder& p, Waiting waiting);

// Replica r of stage s is rank s · replicas + r.
Rank pipeline_rank(int stage, int replica, int replicas);

// Neighbours in the ring of stages. Where both of a rank's neighbours shared a communicator with it, sending would wait
// for receiving; so edges that meet at a rank are of different communicators: even, odd, and the last of an odd ring.
class PipelineEdges {
 public:
  PipelineEdges(ProgramBuilder& p, const PipelineShape& shape, const std::string& transport, int channels,
                int replicas = 1);

  // Of the edge from a stage to the next, in which the stage is member 0.
  [[nodiscard]] CommId forward(int stage) const { return comms_.at(colour(stage)); }
  [[nodiscard]] CommId backward(int stage) const { return comms_.at(3 + colour(stage)); }
  [[nodiscard]] int before(int stage) const { return (stage + stages_ - 1) % stages_; }

 private:
  [[nodiscard]] std::size_t colour(int edge) const {
    return edge == stages_ - 1 && stages_ % 2 != 0 ? 2 : static_cast<std::size_t>(edge % 2);
  }
  int stages_;
  std::vector<CommId> comms_;
};

// What the steps of a stage compute; everything else is the same for kernels and given durations.
struct PipelineWork {
  std::function<void(Dataflow&, const PipelineStep&, Slice x, Slice y)> forward;
  std::function<void(Dataflow&, const PipelineStep&, Slice x, Slice dy, Slice dx)> backward;
  std::function<void(Dataflow&, const PipelineStep&, Slice dy, Slice dx)> backward_input;
  std::function<void(Dataflow&, const PipelineStep&, Slice x, Slice dy)> backward_weight;
  // After a forward step of the last layers; null: nothing.
  std::function<void(Dataflow&, Slice y)> loss = nullptr;
  // After a receive, on its lane.
  std::function<void(Dataflow&, LaneId, Slice)> received;
  // At the end of a stage.
  std::function<void(Dataflow&)> finish;
};

struct PipelineFrame {
  PipelineShape shape;
  ReceivePosting receive = ReceivePosting::early;
  DType dtype = DType::f32;
  std::int64_t elements = 1;  // of a slot
  Memory memory = Memory::plain;
  int replicas = 1;
};

// A class for each stage. `solo`: every stage only computes steps of this kind, on whatever lies in the slots, and
// nothing is sent.
void add_stages(ProgramBuilder& p, const PipelineFrame& frame, const PipelineLanes& lanes, const PipelineEdges& edges,
                const PipelineWork& work, std::optional<PipelineStepKind> solo = std::nullopt);

}  // namespace ovl
