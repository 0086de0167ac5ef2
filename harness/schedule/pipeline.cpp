// SPDX-License-Identifier: Apache-2.0
#include "schedule/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "program/builder.hpp"
#include "program/dataflow.hpp"
#include "schedule/data.hpp"
#include "schedule/pipeline_stages.hpp"

namespace ovl {
namespace {

using Kind = PipelineStepKind;
using Step = PipelineStep;

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
  const PipelineLanes lanes = pipeline_lanes(p, spec.waiting);
  const PipelineEdges edges(p, spec.shape, spec.transport, spec.channels);
  const ChunkKernels kernels(p, spec, lanes.compute);
  const PipelineWork work{
      .forward = [&](Dataflow& flow, const Step& s, Slice x, Slice y) { kernels.forward(flow, s.chunk, x, y); },
      .backward = [&](Dataflow& flow, const Step& s, Slice x, Slice dy,
                      Slice dx) { kernels.backward(flow, s.chunk, x, dy, dx); },
      .backward_input = [&](Dataflow& flow, const Step& s, Slice dy,
                            Slice dx) { kernels.backward_input(flow, s.chunk, dy, dx); },
      .backward_weight = [&](Dataflow& flow, const Step& s, Slice x,
                             Slice dy) { kernels.backward_weight(flow, s.chunk, x, dy); },
      .received = [](Dataflow&, LaneId, Slice) {},
      .finish = [&](Dataflow& flow) { kernels.optimizer(flow); }};
  const PipelineFrame frame{.shape = spec.shape,
                            .receive = spec.receive,
                            .dtype = spec.dtype,
                            .elements = spec.layers.tokens * spec.layers.hidden,
                            .memory = spec.memory};
  add_stages(p, frame, lanes, edges, work, solo);
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
  const PipelineLanes lanes = pipeline_lanes(p, Waiting::yield);
  const PipelineEdges edges(p, what_if.shape, what_if.transport, 1);
  const auto share = [&](Seconds of_stage) { return Busy{of_stage / static_cast<double>(what_if.shape.chunks)}; };
  const PipelineWork work{
      .forward = [&](Dataflow& flow, const Step&, Slice x,
                     Slice y) { flow.add(lanes.compute, share(what_if.forward), {x}, {y}); },
      .backward =
          [&](Dataflow& flow, const Step&, Slice x, Slice dy, Slice dx) {
            flow.add(lanes.compute, share(what_if.backward_input + what_if.backward_weight), {x, dy}, {dx});
          },
      .backward_input = [&](Dataflow& flow, const Step&, Slice dy,
                            Slice dx) { flow.add(lanes.compute, share(what_if.backward_input), {dy}, {dx}); },
      .backward_weight =
          [&](Dataflow& flow, const Step&, Slice x, Slice dy) {
            flow.add(lanes.compute, share(what_if.backward_weight), {x, dy}, {});
          },
      .received = [&](Dataflow& flow, LaneId lane, Slice slot) { flow.add(lane, Busy{what_if.transfer}, {}, {slot}); },
      .finish = [](Dataflow&) {}};
  const PipelineFrame frame{.shape = what_if.shape, .receive = what_if.receive};
  add_stages(p, frame, lanes, edges, work);
  return std::move(p).finish();
}

}  // namespace ovl
