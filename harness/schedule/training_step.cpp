// SPDX-License-Identifier: Apache-2.0
#include "schedule/training_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "base/error.hpp"
#include "program/builder.hpp"
#include "program/dataflow.hpp"
#include "schedule/cut.hpp"
#include "schedule/data.hpp"
#include "schedule/pipeline_stages.hpp"

namespace ovl {
namespace {

using Step = PipelineStep;

struct DataLanes {
  LaneId tensor, data, gather;
};

// What the stages compute and communicate among replicas; the pipeline between them is pipeline_stages'.
class StageWork {
 public:
  StageWork(ProgramBuilder& p, const TrainingStepSpec& spec, LaneId compute)
      : spec_(spec),
        compute_(compute),
        pairs_(cut_pairs(spec.layers, spec.tensor, "parts", "type another --tensor, or another --scale")),
        layers_(spec.layers.count / (std::int64_t{spec.shape.stages} * spec.shape.chunks)),
        slots_(std::min(1 + spec.prefetch, layers_ * spec.shape.chunks)),
        whole_(spec.layers.tokens * spec.layers.hidden) {
    std::int64_t widest = hidden();
    std::int64_t largest = 0;
    for (const CutPair& pair : pairs_) {
      widest = std::max({widest, pair.first_out, pair.second_in});
      largest = std::max({largest, hidden() * pair.first_out, pair.second_in * hidden()});
      layer_weights_ += hidden() * (pair.first_out + pair.second_in);
    }
    if (sharded()) {
      require_divides(layer_weights_, spec.data, "weights of a layer", "replicas",
                      "type another --data, or another --scale");
    }
    communicators(p);
    const auto buffer = [&](const char* name, std::int64_t count) {
      return p.buffer({.name = name, .dtype = spec.dtype, .count = count, .memory = spec.memory});
    };
    const std::int64_t parameters = layer_weights_ * layers_ * spec.shape.chunks;
    const std::int64_t kept = sharded() ? parameters / spec.data : parameters;
    weights_ = buffer("weights", kept);
    if (sharded()) gathered_ = buffer("gathered", slots_ * layer_weights_);
    gradients_ = buffer("weight_gradients", parameters);
    if (spec.data > 1) reduced_ = buffer("reduced", kept);
    // What the optimizer updates: the weights that GEMMs read stay as they are, and every replay computes the same.
    master_ = buffer("master_weights", kept);
    given_ = buffer("given", spec.layers.tokens * widest);
    scratch_ = buffer("scratch", spec.layers.tokens * widest);
    product_ = buffer("weight_product", largest);
    if (spec.tensor > 1) summand_ = buffer("summand", 2 * whole_);
    if (spec.tensor > 1) loss_ = buffer("loss", whole_);
    state_ = buffer("state", 2 * whole_);
    state_gradient_ = buffer("state_gradient", 2 * whole_);
  }

  void forward(Dataflow& flow, const Step& step, Slice x, Slice y) {
    Slice from = x;
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      const Slice weights = gather(flow, step, layer);
      for (std::size_t pair = 0; pair < pairs_.size(); ++pair) {
        const bool last = layer == layers_ - 1 && pair + 1 == pairs_.size();
        const Slice to = last ? y : half(state_, 2 * layer + static_cast<std::int64_t>(pair));
        const auto [first, second] = matrices(weights, pair);
        flow.add(compute_, gemm(tokens(), pairs_[pair].first_out, hidden()), {from, first},
                 {rows(scratch_, pairs_[pair].first_out)});
        multiply_reduced(flow, gemm(tokens(), hidden(), pairs_[pair].second_in),
                         {rows(given_, pairs_[pair].second_in), second}, to);
        from = to;
      }
    }
  }

  // The gradient of each pair's input before those of its weights, so that its reduction hides behind them.
  void backward(Dataflow& flow, const Step& step, bool input, bool weight, Slice x, Slice dy, Slice dx) {
    Slice from = dy;
    for (std::int64_t layer = layers_; layer-- > 0;) {
      const Slice weights = input ? gather(flow, step, layer) : Slice{};
      for (std::size_t pair = pairs_.size(); pair-- > 0;) {
        const bool first_pair = layer == 0 && pair == 0;
        const std::int64_t place = 2 * layer + static_cast<std::int64_t>(pair);
        const Slice to = first_pair ? dx : half(state_gradient_, place);
        if (input) {
          const auto [first, second] = matrices(weights, pair);
          flow.add(compute_, gemm(tokens(), pairs_[pair].second_in, hidden()), {from, second},
                   {rows(scratch_, pairs_[pair].second_in)});
          multiply_reduced(flow, gemm(tokens(), hidden(), pairs_[pair].first_out),
                           {rows(given_, pairs_[pair].first_out), first}, to);
        }
        // Without the pass over inputs beside it, what came from the pair behind is not there any more.
        const bool last_pair = layer == layers_ - 1 && pair + 1 == pairs_.size();
        if (weight)
          weights_of(flow, step, layer, pair, first_pair, x, input || last_pair ? from : rows(given_, hidden()));
        from = to;
      }
      if (weight && step.microbatch == spec_.shape.microbatches - 1) reduce(flow, step, layer);
    }
  }

  // The backward pass begins when the loss has read the whole output, not a summand of it. Uncut, the order on the lane
  // says so.
  void loss(Dataflow& flow, const Slice& y) {
    if (spec_.tensor > 1) flow.add(compute_, Copy{}, {y}, {{loss_, 0, whole_}});
  }

  void optimizer(Dataflow& flow) {
    if (spec_.data == 1) {
      const std::int64_t parameters = layer_weights_ * layers_ * spec_.shape.chunks;
      flow.add(compute_, Elementwise{}, {{gradients_, 0, parameters}}, {{master_, 0, parameters}});
    }
    for (const Slice& bucket : buckets_) {
      flow.add(compute_, Elementwise{}, {bucket}, {{master_, bucket.offset, bucket.count}});
    }
    buckets_.clear();  // the next stage has its own
    gathers_ = summands_ = 0;
  }

 private:
  [[nodiscard]] bool sharded() const { return spec_.mode == DataParallelMode::fsdp && spec_.data > 1; }
  [[nodiscard]] std::int64_t tokens() const { return spec_.layers.tokens; }
  [[nodiscard]] std::int64_t hidden() const { return spec_.layers.hidden; }
  [[nodiscard]] Gemm gemm(std::int64_t m, std::int64_t n, std::int64_t k) const { return {m, n, k, spec_.dtype}; }
  [[nodiscard]] Slice rows(BufferId buffer, std::int64_t width) const { return {buffer, 0, tokens() * width}; }
  [[nodiscard]] Slice half(BufferId buffer, std::int64_t place) const { return {buffer, place % 2 * whole_, whole_}; }
  [[nodiscard]] std::int64_t layer_offset(const Step& step, std::int64_t layer) const {
    return (step.chunk * layers_ + layer) * layer_weights_;
  }
  // The two matrices of a pair within a layer's weights.
  [[nodiscard]] std::pair<Slice, Slice> matrices(const Slice& layer, std::size_t pair) const {
    std::int64_t offset = layer.offset;
    for (std::size_t i = 0; i < pair; ++i) offset += hidden() * (pairs_[i].first_out + pairs_[i].second_in);
    const Slice first{layer.buffer, offset, hidden() * pairs_[pair].first_out};
    return {first, {layer.buffer, first.offset + first.count, pairs_[pair].second_in * hidden()}};
  }

  void communicators(ProgramBuilder& p) {
    const auto lane = [&](const char* name) {
      return p.lane({.name = name, .role = Role::communication, .waiting = spec_.waiting});
    };
    const int alike = spec_.tensor * spec_.data;
    std::vector<std::vector<Rank>> tensor;
    std::vector<std::vector<Rank>> data;
    for (int stage = 0; stage < spec_.shape.stages; ++stage) {
      for (int d = 0; d < spec_.data; ++d) {
        std::vector<Rank>& group = tensor.emplace_back();
        for (int t = 0; t < spec_.tensor; ++t) group.push_back(pipeline_rank(stage, d * spec_.tensor + t, alike));
      }
      for (int t = 0; t < spec_.tensor; ++t) {
        std::vector<Rank>& group = data.emplace_back();
        for (int d = 0; d < spec_.data; ++d) group.push_back(pipeline_rank(stage, d * spec_.tensor + t, alike));
      }
    }
    const auto communicator = [&](const char* name, const std::vector<std::vector<Rank>>& groups) {
      return p.communicator({name, groups, spec_.transport, spec_.channels});
    };
    if (spec_.tensor > 1) {
      lanes_.tensor = lane(tensor_communicator);
      tensor_ = communicator(tensor_communicator, tensor);
    }
    if (spec_.data > 1) {
      lanes_.data = lane(data_communicator);
      data_ = communicator(data_communicator, data);
    }
    if (sharded()) {
      lanes_.gather = lane(gather_communicator);
      gather_ = communicator(gather_communicator, data);
    }
  }

  // A layer's weights, where GEMMs read them.
  Slice gather(Dataflow& flow, const Step& step, std::int64_t layer) {
    const std::int64_t offset = layer_offset(step, layer);
    if (!sharded()) return {weights_, offset, layer_weights_};
    const Slice slot{gathered_, gathers_++ % slots_ * layer_weights_, layer_weights_};
    flow.add(lanes_.gather, Collective{CollectiveKind::all_gather, gather_, spec_.dtype, layer_weights_},
             {{weights_, offset / spec_.data, layer_weights_ / spec_.data}}, {slot});
    return slot;
  }

  // The second GEMM of a pair; cut, it has a summand only.
  void multiply_reduced(Dataflow& flow, const Gemm& gemm, std::vector<Slice> reads, const Slice& to) {
    if (spec_.tensor == 1) {
      flow.add(compute_, gemm, std::move(reads), {to});
      return;
    }
    const Slice summand = half(summand_, summands_++);
    flow.add(compute_, gemm, std::move(reads), {summand});
    flow.add(lanes_.tensor, Collective{CollectiveKind::all_reduce, tensor_, spec_.dtype, whole_}, {summand}, {to});
  }

  void weights_of(Dataflow& flow, const Step& step, std::int64_t layer, std::size_t pair, bool first_pair, Slice x,
                  Slice gradient) {
    const Slice all{gradients_, layer_offset(step, layer), layer_weights_};
    const auto [first, second] = matrices(all, pair);
    const CutPair& p = pairs_[pair];
    accumulate(flow, gemm(p.second_in, hidden(), tokens()), rows(given_, p.second_in), gradient, second);
    accumulate(flow, gemm(hidden(), p.first_out, tokens()), first_pair ? x : rows(given_, hidden()),
               rows(given_, p.first_out), first);
  }
  void accumulate(Dataflow& flow, const Gemm& gemm, const Slice& a, const Slice& b, const Slice& to) {
    const Slice product{product_, 0, to.count};
    flow.add(compute_, gemm, {a, b}, {product});
    flow.add(compute_, Elementwise{}, {product}, {to});
  }

  // A layer's gradients are complete: a bucket of them, or of it alone, goes to the replicas.
  void reduce(Dataflow& flow, const Step& step, std::int64_t layer) {
    if (spec_.data == 1) return;
    const std::int64_t offset = layer_offset(step, layer);
    if (sharded()) {
      buckets_.push_back({reduced_, offset / spec_.data, layer_weights_ / spec_.data});
      flow.add(lanes_.data, Collective{CollectiveKind::reduce_scatter, data_, spec_.dtype, layer_weights_},
               {{gradients_, offset, layer_weights_}}, {buckets_.back()});
      return;
    }
    open_ += layer_weights_;
    if (size_of(spec_.dtype) * open_ < spec_.bucket && layer > 0) return;
    buckets_.push_back({reduced_, offset, open_});
    flow.add(lanes_.data, Collective{CollectiveKind::all_reduce, data_, spec_.dtype, open_},
             {{gradients_, offset, open_}}, {buckets_.back()});
    open_ = 0;
  }

  const TrainingStepSpec& spec_;
  LaneId compute_;
  DataLanes lanes_;
  CommId tensor_, data_, gather_;
  std::array<CutPair, 2> pairs_;
  std::int64_t layers_;  // of a chunk
  std::int64_t slots_;   // fsdp: gathered layers at once
  std::int64_t whole_;   // elements of an activation
  std::int64_t layer_weights_ = 0;
  BufferId weights_, gathered_, gradients_, reduced_, master_, given_, scratch_, product_, summand_, loss_, state_,
      state_gradient_;

  // Of the stage under construction.
  std::vector<Slice> buckets_;
  std::int64_t open_ = 0;  // elements of the bucket that is being filled
  std::int64_t gathers_ = 0;
  std::int64_t summands_ = 0;
};

void require_possible(const TrainingStepSpec& spec) {
  require(gemm_output(spec.dtype) == spec.dtype, "activations are of one dtype");
  if (spec.tensor < 1 || spec.data < 1) {
    throw usage_error(fmt::format("{} parts of a layer and {} replicas are not possible", spec.tensor, spec.data),
                      "there is one or more of each", "type for example --tensor 2 --data 4");
  }
  if (spec.prefetch < 0) {
    throw usage_error(fmt::format("a prefetch depth of {} is not possible", spec.prefetch), "it is 0 or more",
                      "type for example --prefetch 1");
  }
  (void)pipeline_table(spec.shape);
  const std::int64_t parts = std::int64_t{spec.shape.stages} * spec.shape.chunks;
  require_divides(spec.layers.count, parts, "layers", fmt::format("chunks of {} stages", spec.shape.stages),
                  fmt::format("type a multiple of {}, such as --layers {}:{}", parts, spec.layers.model,
                              (spec.layers.count / parts + 1) * parts));
}

void check_memory(const Program& program, const TrainingStepSpec& spec) {
  const Bytes needed = memory_per_rank(program);
  if (!spec.memory_limit || needed <= *spec.memory_limit) return;
  throw usage_error(fmt::format("this step needs {} on a rank", format_bytes(needed)),
                    fmt::format("there is {}", format_bytes(*spec.memory_limit)),
                    "cut it finer with --tensor, --stages or --mode fsdp, or type a smaller --scale");
}

}  // namespace

Program training_step_program(const TrainingStepSpec& spec) {
  require_possible(spec);
  ProgramBuilder p("training_step", spec.ranks());
  const bool pipelined = spec.shape.stages > 1;
  PipelineLanes lanes;
  if (pipelined) {
    lanes = pipeline_lanes(p, spec.waiting);
  } else {
    lanes.compute = p.lane({.name = "compute", .role = Role::compute, .waiting = spec.waiting});
  }
  const int alike = spec.tensor * spec.data;
  StageWork work(p, spec, lanes.compute);
  const PipelineEdges edges(p, spec.shape, spec.transport, spec.channels, alike);
  const PipelineFrame frame{.shape = spec.shape,
                            .receive = ReceivePosting::early,
                            .dtype = spec.dtype,
                            .elements = spec.layers.tokens * spec.layers.hidden,
                            .memory = spec.memory,
                            .replicas = alike};
  const PipelineWork steps{
      .forward = [&](Dataflow& flow, const Step& s, Slice x, Slice y) { work.forward(flow, s, x, y); },
      .backward = [&](Dataflow& flow, const Step& s, Slice x, Slice dy,
                      Slice dx) { work.backward(flow, s, true, true, x, dy, dx); },
      .backward_input = [&](Dataflow& flow, const Step& s, Slice dy,
                            Slice dx) { work.backward(flow, s, true, false, {}, dy, dx); },
      .backward_weight = [&](Dataflow& flow, const Step& s, Slice x,
                             Slice dy) { work.backward(flow, s, false, true, x, dy, {}); },
      .loss = [&](Dataflow& flow, Slice y) { work.loss(flow, y); },
      .received = [](Dataflow&, LaneId, Slice) {},
      .finish = [&](Dataflow& flow) { work.optimizer(flow); }};
  add_stages(p, frame, lanes, edges, steps);
  Program program = std::move(p).finish();
  fill_what_is_read(program);
  verify_what_lasts(program);
  check_memory(program, spec);
  return program;
}

}  // namespace ovl
