// SPDX-License-Identifier: Apache-2.0
#include "schedule/pipeline_stages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "base/error.hpp"

namespace ovl {
namespace {

using Kind = PipelineStepKind;

// Each result is computed into one while the one before it is sent.
constexpr int outgoing_slots = 2;

// ---- slots ---------------------------------------------------------------------------------------------------------

// Which slot each step's input is in. The slot that has been free for longest is taken, so that a receive can be posted
// long before its step.
struct Slots {
  std::map<std::pair<int, int>, int> activation;  // by chunk and microbatch
  std::map<std::pair<int, int>, int> gradient;
  int activations = 0;  // how many there are
  int gradients = 0;
};

class FreeList {
 public:
  explicit FreeList(int count) {
    for (int i = 0; i < count; ++i) free_.push_back(i);
  }
  int take() {
    require(!free_.empty(), "a stage has slots for what it keeps");
    const int slot = free_.front();
    free_.pop_front();
    return slot;
  }
  void give(int slot) { free_.push_back(slot); }

 private:
  std::deque<int> free_;
};

bool takes_gradient(Kind kind) { return kind == Kind::backward || kind == Kind::backward_input; }
bool frees(Kind kind) { return kind == Kind::backward || kind == Kind::backward_weight; }

Slots assign_slots(const std::vector<PipelineStep>& steps, int extra) {
  int kept = 0;
  int kept_gradients = 0;
  Slots slots;
  for (const PipelineStep& step : steps) {
    if (step.kind == Kind::forward) slots.activations = std::max(slots.activations, ++kept);
    if (takes_gradient(step.kind)) slots.gradients = std::max(slots.gradients, ++kept_gradients);
    if (!frees(step.kind)) continue;
    --kept;
    --kept_gradients;
  }
  slots.activations += extra;
  slots.gradients += extra;
  FreeList activations(slots.activations);
  FreeList gradients(slots.gradients);
  for (const PipelineStep& step : steps) {
    const std::pair key(step.chunk, step.microbatch);
    if (step.kind == Kind::forward) slots.activation[key] = activations.take();
    if (takes_gradient(step.kind)) slots.gradient[key] = gradients.take();
    if (!frees(step.kind)) continue;
    activations.give(slots.activation.at(key));
    gradients.give(slots.gradient.at(key));
  }
  return slots;
}
// ---- stages --------------------------------------------------------------------------------------------------------

struct StageBuffers {
  BufferId input, loss_gradient;          // a slice a microbatch, given
  BufferId activation, gradient;          // received, in slots
  BufferId activation_out, gradient_out;  // to be sent
};

void add_stage(ProgramBuilder& p, ClassBuilder rank_class, const PipelineFrame& frame, int stage, const Slots& slots,
               const std::vector<PipelineStep>& steps, const PipelineLanes& lanes, const PipelineEdges& edges,
               const StageBuffers& buffers, const PipelineWork& work) {
  const int last_chunk = frame.shape.chunks - 1;
  const int last_stage = frame.shape.stages - 1;
  Dataflow flow(p, rank_class);
  std::optional<std::size_t> computed;  // the latest step's last operation
  int sent_forward = 0;
  int sent_backward = 0;
  const auto slice = [&](BufferId buffer, int slot) { return Slice{buffer, slot * frame.elements, frame.elements}; };
  const auto receive = [&](LaneId lane, CommId comm, int peer, Slice to) {
    if (frame.receive == ReceivePosting::late && computed) flow.hold(lane, *computed);
    flow.add(lane, Exchange{comm, frame.dtype, {{Direction::receive, peer}}}, {}, {to});
    work.received(flow, lane, to);
  };
  const auto send = [&](LaneId lane, CommId comm, int peer, Slice from) {
    flow.add(lane, Exchange{comm, frame.dtype, {{Direction::send, peer}}}, {from}, {});
  };
  for (const PipelineStep& step : steps) {
    const int chunk = step.chunk;
    const bool first = stage == 0 && chunk == 0;
    const bool last = stage == last_stage && chunk == last_chunk;
    const std::pair key(chunk, step.microbatch);
    const Slice x = first ? slice(buffers.input, step.microbatch) : slice(buffers.activation, slots.activation.at(key));
    const Slice y = slice(buffers.activation_out, sent_forward % outgoing_slots);
    const Slice dx = slice(buffers.gradient_out, sent_backward % outgoing_slots);
    const auto dy = [&] {
      return last ? slice(buffers.loss_gradient, step.microbatch) : slice(buffers.gradient, slots.gradient.at(key));
    };
    if (step.kind == Kind::forward && !first) {
      receive(lanes.receive_forward, edges.forward(edges.before(stage)), 0, x);
    }
    if (takes_gradient(step.kind) && !last) receive(lanes.receive_backward, edges.backward(stage), 1, dy());
    switch (step.kind) {
      case Kind::forward:
        work.forward(flow, step, x, y);
        if (last && work.loss) work.loss(flow, y);
        break;
      case Kind::backward: work.backward(flow, step, x, dy(), dx); break;
      case Kind::backward_input: work.backward_input(flow, step, dy(), dx); break;
      case Kind::backward_weight: work.backward_weight(flow, step, x, dy()); break;
    }
    computed = flow.size() - 1;
    if (step.kind == Kind::forward) {
      ++sent_forward;
      if (!last) send(lanes.send_forward, edges.forward(stage), 1, y);
    }
    if (takes_gradient(step.kind)) {
      ++sent_backward;
      if (!first) send(lanes.send_backward, edges.backward(edges.before(stage)), 0, dx);
    }
  }
  work.finish(flow);
  std::move(flow).finish();
}

// A stage that only computes one kind of step, for every microbatch it has, on whatever lies in the slots.
void add_solo_stage(ProgramBuilder& p, ClassBuilder rank_class, const PipelineFrame& frame, int stage,
                    const std::vector<PipelineStep>& steps, Kind kind, const StageBuffers& buffers,
                    const PipelineWork& work) {
  Dataflow flow(p, rank_class);
  const auto slot = [&](BufferId buffer) { return Slice{buffer, 0, frame.elements}; };
  for (const PipelineStep& step : steps) {
    if (step.kind != Kind::forward) continue;  // each microbatch and chunk has one
    const bool first = stage == 0 && step.chunk == 0;
    const bool last = stage == frame.shape.stages - 1 && step.chunk == frame.shape.chunks - 1;
    const Slice x = slot(first ? buffers.input : buffers.activation);
    const Slice dy = slot(last ? buffers.loss_gradient : buffers.gradient);
    const Slice dx = slot(buffers.gradient_out);
    switch (kind) {
      case Kind::forward: work.forward(flow, step, x, slot(buffers.activation_out)); break;
      case Kind::backward: work.backward(flow, step, x, dy, dx); break;
      case Kind::backward_input: work.backward_input(flow, step, dy, dx); break;
      case Kind::backward_weight: work.backward_weight(flow, step, x, dy); break;
    }
  }
  std::move(flow).finish();
}

}  // namespace

PipelineLanes pipeline_lanes(ProgramBuilder& p, Waiting waiting) {
  const auto lane = [&](const char* name, Role role) {
    return p.lane({.name = name, .role = role, .waiting = waiting});
  };
  return {lane("compute", Role::compute), lane("receive_forward", Role::communication),
          lane("send_forward", Role::communication), lane("receive_backward", Role::communication),
          lane("send_backward", Role::communication)};
}

Rank pipeline_rank(int stage, int replica, int replicas) { return Rank(stage * replicas + replica); }

PipelineEdges::PipelineEdges(ProgramBuilder& p, const PipelineShape& shape, const std::string& transport, int channels,
                             int replicas)
    : stages_(shape.stages) {
  const int edges = shape.chunks > 1 ? stages_ : stages_ - 1;
  for (const char* direction : {"forward", "backward"}) {
    std::array<std::vector<std::vector<Rank>>, 3> groups;
    for (int e = 0; e < edges; ++e) {
      for (int r = 0; r < replicas; ++r) {
        groups.at(colour(e)).push_back({pipeline_rank(e, r, replicas), pipeline_rank((e + 1) % stages_, r, replicas)});
      }
    }
    for (std::size_t c = 0; c < groups.size(); ++c) {
      CommId id;
      if (!groups.at(c).empty())
        id = p.communicator({fmt::format("{}{}", direction, c), groups.at(c), transport, channels});
      comms_.push_back(id);
    }
  }
}

void add_stages(ProgramBuilder& p, const PipelineFrame& frame, const PipelineLanes& lanes, const PipelineEdges& edges,
                const PipelineWork& work, std::optional<PipelineStepKind> solo) {
  const PipelineTable table = pipeline_table(frame.shape);
  std::vector<Slots> slots;
  int activations = 0;
  int gradients = 0;
  for (const auto& steps : table) {
    slots.push_back(assign_slots(steps, frame.receive == ReceivePosting::early ? 1 : 0));
    activations = std::max(activations, slots.back().activations);
    gradients = std::max(gradients, slots.back().gradients);
  }
  const auto buffer = [&](const char* name, int count) {
    return p.buffer({.name = name, .dtype = frame.dtype, .count = count * frame.elements, .memory = frame.memory});
  };
  const StageBuffers buffers{
      buffer("input", frame.shape.microbatches), buffer("loss_gradient", frame.shape.microbatches),
      buffer("activation", activations),         buffer("gradient", gradients),
      buffer("activation_out", outgoing_slots),  buffer("gradient_out", outgoing_slots)};
  for (int stage = 0; stage < frame.shape.stages; ++stage) {
    std::vector<Rank> members;
    for (int r = 0; r < frame.replicas; ++r) members.push_back(pipeline_rank(stage, r, frame.replicas));
    ClassBuilder rank_class = p.ranks(fmt::format("stage{}", stage), std::move(members));
    if (solo) {
      add_solo_stage(p, rank_class, frame, stage, table[static_cast<std::size_t>(stage)], *solo, buffers, work);
      continue;
    }
    add_stage(p, rank_class, frame, stage, slots[static_cast<std::size_t>(stage)],
              table[static_cast<std::size_t>(stage)], lanes, edges, buffers, work);
  }
}

}  // namespace ovl
