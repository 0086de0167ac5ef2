// SPDX-License-Identifier: Apache-2.0
#include "schedule/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "program/builder.hpp"
#include "program/dataflow.hpp"
#include "schedule/data.hpp"

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

// ---- lanes and communicators ---------------------------------------------------------------------------------------

struct Lanes {
  LaneId compute, receive_forward, send_forward, receive_backward, send_backward;
};

Lanes make_lanes(ProgramBuilder& p, Waiting waiting) {
  const auto lane = [&](const char* name, Role role) {
    return p.lane({.name = name, .role = role, .waiting = waiting});
  };
  return {lane("compute", Role::compute), lane("receive_forward", Role::communication),
          lane("send_forward", Role::communication), lane("receive_backward", Role::communication),
          lane("send_backward", Role::communication)};
}

// Neighbours in the ring of stages. Where both of a rank's neighbours shared a communicator with it, sending would wait
// for receiving; so edges that meet at a rank are of different communicators: even, odd, and the last of an odd ring.
class Edges {
 public:
  Edges(ProgramBuilder& p, const PipelineShape& shape, const std::string& transport, int channels)
      : stages_(shape.stages) {
    const int edges = shape.chunks > 1 ? stages_ : stages_ - 1;
    for (const char* direction : {"forward", "backward"}) {
      std::array<std::vector<std::vector<Rank>>, 3> groups;
      for (int e = 0; e < edges; ++e) {
        groups.at(colour(e)).push_back({Rank(e), Rank((e + 1) % stages_)});
      }
      for (std::size_t c = 0; c < groups.size(); ++c) {
        CommId id;
        if (!groups.at(c).empty())
          id = p.communicator({fmt::format("{}{}", direction, c), groups.at(c), transport, channels});
        comms_.push_back(id);
      }
    }
  }

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

// ---- stages --------------------------------------------------------------------------------------------------------

struct Buffers {
  BufferId input, loss_gradient;          // a slice a microbatch, given
  BufferId activation, gradient;          // received, in slots
  BufferId activation_out, gradient_out;  // to be sent
};

// What the steps of a stage compute; everything else is the same for kernels and given durations.
struct Steps {
  std::function<void(Dataflow&, int chunk, Slice x, Slice y)> forward;
  std::function<void(Dataflow&, int chunk, Slice x, Slice dy, Slice dx)> backward;
  std::function<void(Dataflow&, int chunk, Slice dy, Slice dx)> backward_input;
  std::function<void(Dataflow&, int chunk, Slice x, Slice dy)> backward_weight;
  // After a receive, on its lane.
  std::function<void(Dataflow&, LaneId, Slice)> received;
  // At the end of a stage.
  std::function<void(Dataflow&)> finish;
};

struct Frame {
  PipelineShape shape;
  ReceivePosting receive;
  DType dtype;
  std::int64_t elements;  // of a slot
};

void add_stage(ProgramBuilder& p, ClassBuilder rank_class, const Frame& frame, int stage, const Slots& slots,
               const std::vector<PipelineStep>& steps, const Lanes& lanes, const Edges& edges, const Buffers& buffers,
               const Steps& work) {
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
      case Kind::forward: work.forward(flow, chunk, x, y); break;
      case Kind::backward: work.backward(flow, chunk, x, dy(), dx); break;
      case Kind::backward_input: work.backward_input(flow, chunk, dy(), dx); break;
      case Kind::backward_weight: work.backward_weight(flow, chunk, x, dy()); break;
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
void add_solo_stage(ProgramBuilder& p, ClassBuilder rank_class, const Frame& frame, int stage,
                    const std::vector<PipelineStep>& steps, Kind kind, const Buffers& buffers, const Steps& work) {
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
      case Kind::forward: work.forward(flow, step.chunk, x, slot(buffers.activation_out)); break;
      case Kind::backward: work.backward(flow, step.chunk, x, dy, dx); break;
      case Kind::backward_input: work.backward_input(flow, step.chunk, dy, dx); break;
      case Kind::backward_weight: work.backward_weight(flow, step.chunk, x, dy); break;
    }
  }
  std::move(flow).finish();
}

// `solo`: every stage only computes steps of this kind, and nothing is sent.
void add_stages(ProgramBuilder& p, const Frame& frame, Memory memory, const Lanes& lanes, const Edges& edges,
                const Steps& work, std::optional<Kind> solo = std::nullopt) {
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
    return p.buffer({.name = name, .dtype = frame.dtype, .count = count * frame.elements, .memory = memory});
  };
  const Buffers buffers{buffer("input", frame.shape.microbatches), buffer("loss_gradient", frame.shape.microbatches),
                        buffer("activation", activations),         buffer("gradient", gradients),
                        buffer("activation_out", outgoing_slots),  buffer("gradient_out", outgoing_slots)};
  for (int stage = 0; stage < frame.shape.stages; ++stage) {
    ClassBuilder rank_class = p.ranks(fmt::format("stage{}", stage), {Rank(stage)});
    if (solo) {
      add_solo_stage(p, rank_class, frame, stage, table[static_cast<std::size_t>(stage)], *solo, buffers, work);
      continue;
    }
    add_stage(p, rank_class, frame, stage, slots[static_cast<std::size_t>(stage)],
              table[static_cast<std::size_t>(stage)], lanes, edges, buffers, work);
  }
}

// ---- kernels -------------------------------------------------------------------------------------------------------

// The GEMMs of one chunk of layers.
class ChunkKernels {
 public:
  ChunkKernels(ProgramBuilder& p, const PipelineSpec& spec, LaneId compute)
      : spec_(spec),
        compute_(compute),
        matrices_(spec.layers.matrices()),
        layers_(spec.layers.count / (spec.shape.stages * spec.shape.chunks)) {
    std::int64_t widest = 0;
    std::int64_t largest = 0;
    for (const Matrix& m : matrices_) {
      widest = std::max({widest, m.in, m.out});
      largest = std::max(largest, m.weights());
      layer_weights_ += m.weights();
    }
    const auto buffer = [&](const char* name, std::int64_t count) {
      return p.buffer({.name = name, .dtype = spec.dtype, .count = count, .memory = spec.memory});
    };
    const std::int64_t parameters = layer_weights_ * layers_ * spec.shape.chunks;
    weights_ = buffer("weights", parameters);
    gradients_ = buffer("weight_gradients", parameters);
    // What the optimizer updates: the weights that GEMMs read stay as they are, and every replay computes the same.
    master_ = buffer("master_weights", parameters);
    given_ = buffer("given", spec.layers.tokens * widest);      // what GEMMs in the middle of a chunk read
    scratch_ = buffer("scratch", spec.layers.tokens * widest);  // and write
    product_ = buffer("weight_product", largest);               // of one microbatch, before it is accumulated
  }

  void forward(Dataflow& flow, int chunk, Slice x, Slice y) const {
    for_each_matrix(chunk, [&](const Matrix& m, const Slice& weights, bool first, bool last) {
      flow.add(compute_, gemm(tokens(), m.out, m.in), {first ? x : rows(given_, m.in), weights},
               {last ? y : rows(scratch_, m.out)});
    });
  }
  // Each matrix's weights before its input, so that the last result is what is sent.
  void backward(Dataflow& flow, int chunk, Slice x, Slice dy, Slice dx) const {
    for_each_matrix_reversed(chunk, [&](const Matrix& m, const Slice& weights, bool first, bool last) {
      weight(flow, m, weights, first ? x : rows(given_, m.in), last ? dy : rows(given_, m.out));
      input(flow, m, weights, last ? dy : rows(given_, m.out), first ? dx : rows(scratch_, m.in));
    });
  }
  void backward_input(Dataflow& flow, int chunk, Slice dy, Slice dx) const {
    for_each_matrix_reversed(chunk, [&](const Matrix& m, const Slice& weights, bool first, bool last) {
      input(flow, m, weights, last ? dy : rows(given_, m.out), first ? dx : rows(scratch_, m.in));
    });
  }
  void backward_weight(Dataflow& flow, int chunk, Slice x, Slice dy) const {
    for_each_matrix_reversed(chunk, [&](const Matrix& m, const Slice& weights, bool first, bool last) {
      weight(flow, m, weights, first ? x : rows(given_, m.in), last ? dy : rows(given_, m.out));
    });
  }
  void optimizer(Dataflow& flow) const {
    const std::int64_t parameters = layer_weights_ * layers_ * spec_.shape.chunks;
    flow.add(compute_, Elementwise{}, {{gradients_, 0, parameters}}, {{master_, 0, parameters}});
  }

 private:
  [[nodiscard]] std::int64_t tokens() const { return spec_.layers.tokens; }
  [[nodiscard]] Gemm gemm(std::int64_t m, std::int64_t n, std::int64_t k) const { return {m, n, k, spec_.dtype}; }
  [[nodiscard]] Slice rows(BufferId buffer, std::int64_t width) const { return {buffer, 0, tokens() * width}; }

  void input(Dataflow& flow, const Matrix& m, const Slice& weights, Slice dy, Slice dx) const {
    flow.add(compute_, gemm(tokens(), m.in, m.out), {dy, weights}, {dx});
  }
  void weight(Dataflow& flow, const Matrix& m, const Slice& weights, Slice x, Slice dy) const {
    const Slice product{product_, 0, m.weights()};
    flow.add(compute_, gemm(m.in, m.out, tokens()), {x, dy}, {product});
    flow.add(compute_, Elementwise{}, {product}, {{gradients_, weights.offset, weights.count}});
  }

  // Calls with the matrix, its weights, and whether it is the first or last of the chunk.
  template <class Call>
  void at(int chunk, std::int64_t layer, std::size_t i, Call call) const {
    std::int64_t offset = (chunk * layers_ + layer) * layer_weights_;
    for (std::size_t j = 0; j < i; ++j) offset += matrices_[j].weights();
    call(matrices_[i], Slice{weights_, offset, matrices_[i].weights()}, layer == 0 && i == 0,
         layer == layers_ - 1 && i == matrices_.size() - 1);
  }
  template <class Call>
  void for_each_matrix(int chunk, Call call) const {
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      for (std::size_t i = 0; i < matrices_.size(); ++i) at(chunk, layer, i, call);
    }
  }
  template <class Call>
  void for_each_matrix_reversed(int chunk, Call call) const {
    for (std::int64_t layer = layers_; layer-- > 0;) {
      for (std::size_t i = matrices_.size(); i-- > 0;) at(chunk, layer, i, call);
    }
  }

  const PipelineSpec& spec_;
  LaneId compute_;
  std::array<Matrix, 4> matrices_;
  std::int64_t layers_;
  std::int64_t layer_weights_ = 0;
  BufferId weights_, gradients_, master_, given_, scratch_, product_;
};

// What is kept on the way from a forward step to its backward step decides; a slot is one of them.
void check_memory(const Program& program, const PipelineSpec& spec) {
  const Bytes needed = memory_per_rank(program);
  if (!spec.memory_limit || needed <= *spec.memory_limit) return;
  const std::vector<int> peaks = peak_activations(pipeline_table(spec.shape));
  const Bytes slot = size_of(spec.dtype) * (spec.layers.tokens * spec.layers.hidden);
  throw usage_error(
      fmt::format("{} with {} microbatches needs {} on a rank", name(spec.shape.schedule), spec.shape.microbatches,
                  format_bytes(needed)),
      fmt::format("there is {}, and it keeps up to {} activations of {}, and the gradients that belong to them",
                  format_bytes(*spec.memory_limit), *std::max_element(peaks.begin(), peaks.end()), format_bytes(slot)),
      "type fewer --microbatches or tokens, a smaller --scale, or a --schedule that keeps less, such as 1f1b");
}

Program kernel_program(const PipelineSpec& spec, std::optional<Kind> solo) {
  require(gemm_output(spec.dtype) == spec.dtype, "activations are of one dtype");
  (void)pipeline_table(spec.shape);  // a shape that is not possible is said before layers that do not divide by it
  const std::int64_t parts = std::int64_t{spec.shape.stages} * spec.shape.chunks;
  if (spec.layers.count % parts != 0) {
    throw usage_error(fmt::format("{} layers do not divide by {} stages of {} chunks", spec.layers.count,
                                  spec.shape.stages, spec.shape.chunks),
                      "all stages have equally many",
                      fmt::format("type a multiple of {}, such as --layers {}:{}", parts, spec.layers.model,
                                  (spec.layers.count / parts + 1) * parts));
  }
  ProgramBuilder p(solo ? fmt::format("pipeline:{}", name(*solo)) : "pipeline", spec.shape.stages);
  const Lanes lanes = make_lanes(p, spec.waiting);
  const Edges edges(p, spec.shape, spec.transport, spec.channels);
  const ChunkKernels kernels(p, spec, lanes.compute);
  const Steps work{.forward = [&](Dataflow& flow, int chunk, Slice x, Slice y) { kernels.forward(flow, chunk, x, y); },
                   .backward = [&](Dataflow& flow, int chunk, Slice x, Slice dy,
                                   Slice dx) { kernels.backward(flow, chunk, x, dy, dx); },
                   .backward_input = [&](Dataflow& flow, int chunk, Slice dy,
                                         Slice dx) { kernels.backward_input(flow, chunk, dy, dx); },
                   .backward_weight = [&](Dataflow& flow, int chunk, Slice x,
                                          Slice dy) { kernels.backward_weight(flow, chunk, x, dy); },
                   .received = [](Dataflow&, LaneId, Slice) {},
                   .finish = [&](Dataflow& flow) { kernels.optimizer(flow); }};
  const Frame frame{spec.shape, spec.receive, spec.dtype, spec.layers.tokens * spec.layers.hidden};
  add_stages(p, frame, spec.memory, lanes, edges, work, solo);
  Program program = std::move(p).finish();
  fill_what_is_read(program);
  if (!solo) verify_what_lasts(program);
  check_memory(program, spec);
  return program;
}

// ---- names ---------------------------------------------------------------------------------------------------------

std::string step_letter(Kind kind) {
  switch (kind) {
    case Kind::forward: return "F";
    case Kind::backward: return "D";
    case Kind::backward_input: return "B";
    case Kind::backward_weight: return "W";
  }
  return {};
}

// "F3", and of the second of several chunks "F3.1".
std::string step_name(const PipelineStep& step, int chunks) {
  std::string name = step_letter(step.kind) + std::to_string(step.microbatch);
  if (chunks > 1) name += "." + std::to_string(step.chunk);
  return name;
}

// How many operations a step has, as a multiple of a forward step's: a weight's gradient is a GEMM and an accumulation.
std::size_t operations_of(Kind kind, bool given) {
  if (given) return 1;
  return kind == Kind::backward ? 3 : kind == Kind::backward_weight ? 2 : 1;
}

}  // namespace

Program pipeline_program(const PipelineSpec& spec) { return kernel_program(spec, std::nullopt); }

Program pipeline_steps(const PipelineSpec& spec, PipelineStepKind kind) { return kernel_program(spec, kind); }

StepNames pipeline_step_names(const Program& program, const PipelineShape& shape) {
  const PipelineTable table = pipeline_table(shape);
  StepNames all;
  for (std::size_t stage = 0; stage < program.classes.size(); ++stage) {
    std::vector<const Operation*> computed;
    bool given = false;
    for (const Operation& op : program.classes[stage].body) {
      if (op.role != Role::compute || is_ordering(op.work)) continue;
      computed.push_back(&op);
      given = given || std::holds_alternative<Busy>(op.work);
    }
    std::size_t parts = 0;
    for (const PipelineStep& step : table.at(stage)) parts += operations_of(step.kind, given);
    const std::size_t unit = computed.size() / parts;  // one operation at the end is the optimizer's
    std::map<OpId, std::string>& names = all.emplace_back();
    auto next = computed.begin();
    for (const PipelineStep& step : table.at(stage)) {
      for (std::size_t i = unit * operations_of(step.kind, given); i > 0; --i) {
        names[(*next++)->id] = step_name(step, shape.chunks);
      }
    }
  }
  return all;
}

Program pipeline_program(const PipelineWhatIf& what_if) {
  (void)pipeline_table(what_if.shape);
  ProgramBuilder p("pipeline", what_if.shape.stages);
  const Lanes lanes = make_lanes(p, Waiting::yield);
  const Edges edges(p, what_if.shape, what_if.transport, 1);
  const auto share = [&](Seconds of_stage) { return Busy{of_stage / static_cast<double>(what_if.shape.chunks)}; };
  const Steps work{
      .forward = [&](Dataflow& flow, int, Slice x,
                     Slice y) { flow.add(lanes.compute, share(what_if.forward), {x}, {y}); },
      .backward =
          [&](Dataflow& flow, int, Slice x, Slice dy, Slice dx) {
            flow.add(lanes.compute, share(what_if.backward_input + what_if.backward_weight), {x, dy}, {dx});
          },
      .backward_input = [&](Dataflow& flow, int, Slice dy,
                            Slice dx) { flow.add(lanes.compute, share(what_if.backward_input), {dy}, {dx}); },
      .backward_weight =
          [&](Dataflow& flow, int, Slice x, Slice dy) {
            flow.add(lanes.compute, share(what_if.backward_weight), {x, dy}, {});
          },
      .received = [&](Dataflow& flow, LaneId lane, Slice slot) { flow.add(lane, Busy{what_if.transfer}, {}, {slot}); },
      .finish = [](Dataflow&) {}};
  const Frame frame{what_if.shape, what_if.receive, DType::f32, 1};
  add_stages(p, frame, Memory::plain, lanes, edges, work);
  return std::move(p).finish();
}

}  // namespace ovl
