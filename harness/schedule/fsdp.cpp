// SPDX-License-Identifier: Apache-2.0
#include "schedule/fsdp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "base/error.hpp"
#include "program/builder.hpp"
#include "program/dataflow.hpp"
#include "schedule/data.hpp"

namespace ovl {
namespace {

constexpr std::int64_t gradient_slots = 2;  // one is computed while the other is reduced

std::int64_t slots(std::int64_t prefetch, std::int64_t in_flight, std::int64_t layers) {
  if (prefetch < 0 || in_flight < 0) {
    throw usage_error(fmt::format("prefetch depth {} with {} gathers in flight is not possible", prefetch, in_flight),
                      "neither is negative", "type for example --prefetch 0,1,2");
  }
  std::int64_t count = std::min(1 + prefetch, layers);
  if (in_flight > 0) count = std::min(count, in_flight);
  return count;
}

// What one step of the schedule does with a layer and its slot, in issue order.
struct LayerActions {
  std::function<void(std::int64_t layer, std::int64_t slot)> gather;
  std::function<void(std::int64_t layer, std::int64_t slot)> forward;
  std::function<void(std::int64_t layer, std::int64_t slot, std::int64_t gradient_slot)> backward;
  std::function<void(std::int64_t layer, std::int64_t gradient_slot)> reduce;
};

// Layers in the order of use: forward, then backward. Each is gathered as early as slots allow, before what computes.
void issue(std::int64_t layers, std::int64_t slots, bool with_backward, const LayerActions& steps) {
  const std::int64_t uses = with_backward ? 2 * layers : layers;
  const auto layer_of = [&](std::int64_t use) { return use < layers ? use : 2 * layers - 1 - use; };
  std::int64_t gathered = 0;
  for (std::int64_t use = 0; use < uses; ++use) {
    for (; gathered < std::min(uses, use + slots); ++gathered) steps.gather(layer_of(gathered), gathered % slots);
    if (use < layers) {
      steps.forward(layer_of(use), use % slots);
    } else {
      steps.backward(layer_of(use), use % slots, use % gradient_slots);
      steps.reduce(layer_of(use), use % gradient_slots);
    }
  }
}

struct Lanes {
  LaneId compute;
  LaneId gather;
  LaneId reduce;
};

Lanes make_lanes(ProgramBuilder& p, bool two, Waiting waiting) {
  const LaneId compute = p.lane({.name = "compute", .role = Role::compute, .waiting = waiting});
  const auto comm = [&](const char* name) {
    return p.lane({.name = name, .role = Role::communication, .waiting = waiting});
  };
  if (!two) {
    const LaneId both = comm("comm");
    return {compute, both, both};
  }
  const LaneId gather = comm("gather");
  return {compute, gather, comm("reduce")};
}

void check_memory(const Program& program, const FsdpSpec& spec) {
  const Bytes needed = memory_per_rank(program);
  if (!spec.memory_limit || needed <= *spec.memory_limit) return;
  const Bytes slot = size_of(spec.dtype) * fsdp_layer_elements(spec);
  const std::int64_t fewer = (needed - *spec.memory_limit + slot - Bytes(1)).value() / slot.value();
  const std::int64_t fits = fsdp_slots(spec) - 1 - fewer;
  throw usage_error(
      fmt::format("prefetch depth {} needs {} a rank", spec.prefetch, format_bytes(needed)),
      fmt::format("there is {}, and each gathered layer takes {}", format_bytes(*spec.memory_limit),
                  format_bytes(slot)),
      fits >= 0 ? fmt::format("type --prefetch {}", fits) : "take fewer or narrower layers (--layers, --scale)");
}

}  // namespace

std::int64_t fsdp_slots(const FsdpSpec& spec) { return slots(spec.prefetch, spec.in_flight, spec.layers.count); }

std::int64_t fsdp_layer_elements(const FsdpSpec& spec) {
  std::int64_t elements = 0;
  for (const Tensor& t : gradients_of_layer(spec.layers, spec.dtype)) elements += t.elements;
  return (elements + spec.ranks - 1) / spec.ranks * spec.ranks;
}

Program fsdp_program(const FsdpSpec& spec) {
  require(spec.ranks > 0 && spec.repeats > 0 && gemm_output(spec.dtype) == spec.dtype,
          "weights are of one dtype, and ranks hold them");
  const Layers& layers = spec.layers;
  const std::array<Matrix, 4> matrices = layers.matrices();
  const std::int64_t layer_size = fsdp_layer_elements(spec);
  const std::int64_t shard_size = layer_size / spec.ranks;
  const std::int64_t slot_count = fsdp_slots(spec);
  std::int64_t widest = 0;
  std::int64_t saved_row = 0;  // what the forward pass keeps of a layer, a token
  for (const Matrix& m : matrices) {
    widest = std::max({widest, m.in, m.out});
    saved_row += m.in;
  }

  ProgramBuilder p("fsdp", spec.ranks);
  const Lanes lanes = make_lanes(p, spec.two_communicators, spec.waiting);
  const CommId gather_comm = p.world(spec.two_communicators ? "gather" : "world", spec.transport, spec.channels);
  const CommId reduce_comm = spec.two_communicators ? p.world("reduce", spec.transport, spec.channels) : gather_comm;
  const auto buffer = [&](const char* name, std::int64_t count) {
    return p.buffer({.name = name, .dtype = spec.dtype, .count = count, .memory = spec.memory});
  };
  const BufferId saved = buffer("saved", layers.count * layers.tokens * saved_row);
  const BufferId output_gradient = buffer("output_gradient", layers.tokens * widest);
  const BufferId scratch = buffer("scratch", layers.tokens * widest);  // outputs and input gradients
  const BufferId shards = buffer("shards", layers.count * shard_size);
  const BufferId gathered = buffer("gathered", slot_count * layer_size);
  const BufferId gradients = buffer("gradients", gradient_slots * layer_size);
  const BufferId reduced = buffer("reduced", layers.count * shard_size);
  // What the optimizer updates: the shards that are gathered stay as they are, and every replay computes the same.
  const BufferId master = buffer("master_shards", layers.count * shard_size);

  Dataflow flow(p, p.all_ranks());
  const auto shard = [&](BufferId of, std::int64_t layer) { return Slice{of, layer * shard_size, shard_size}; };
  const auto slot_of = [&](BufferId of, std::int64_t slot) { return Slice{of, slot * layer_size, layer_size}; };
  // A matrix lies in its layer after those before it, and its input in the layer's saved rows.
  const auto weights_before = [&](std::size_t matrix) {
    std::int64_t before = 0;
    for (std::size_t i = 0; i < matrix; ++i) before += matrices[i].weights();
    return before;
  };
  const auto input = [&](std::int64_t layer, std::size_t matrix) {
    std::int64_t row = layer * saved_row;
    for (std::size_t i = 0; i < matrix; ++i) row += matrices[i].in;
    return Slice{saved, layers.tokens * row, layers.tokens * matrices[matrix].in};
  };

  LayerActions steps;
  steps.gather = [&](std::int64_t layer, std::int64_t slot) {
    flow.add(lanes.gather, Collective{CollectiveKind::all_gather, gather_comm, spec.dtype, layer_size},
             {shard(shards, layer)}, {slot_of(gathered, slot)});
  };
  steps.forward = [&](std::int64_t layer, std::int64_t slot) {
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      const Matrix& m = matrices[i];
      const Slice weights{gathered, slot * layer_size + weights_before(i), m.weights()};
      flow.add(lanes.compute, Gemm{layers.tokens, m.out, m.in, spec.dtype}, {input(layer, i), weights},
               {{scratch, 0, layers.tokens * m.out}});
    }
  };
  steps.backward = [&](std::int64_t layer, std::int64_t slot, std::int64_t gradient_slot) {
    for (std::size_t i = matrices.size(); i-- > 0;) {
      const Matrix& m = matrices[i];
      const Slice weights{gathered, slot * layer_size + weights_before(i), m.weights()};
      const Slice gradient{gradients, gradient_slot * layer_size + weights_before(i), m.weights()};
      const Slice dy{output_gradient, 0, layers.tokens * m.out};
      flow.add(lanes.compute, Gemm{layers.tokens, m.in, m.out, spec.dtype}, {dy, weights},
               {{scratch, 0, layers.tokens * m.in}});
      flow.add(lanes.compute, Gemm{m.in, m.out, layers.tokens, spec.dtype}, {input(layer, i), dy}, {gradient});
    }
  };
  steps.reduce = [&](std::int64_t layer, std::int64_t gradient_slot) {
    flow.add(lanes.reduce, Collective{CollectiveKind::reduce_scatter, reduce_comm, spec.dtype, layer_size},
             {slot_of(gradients, gradient_slot)}, {shard(reduced, layer)});
  };
  for (std::int64_t repeat = 0; repeat < spec.repeats; ++repeat) {
    // What a step gathers is what the optimizer of the one before it has left, though here it is the same data.
    if (repeat > 0) flow.hold(lanes.gather, flow.size() - 1);
    issue(layers.count, slot_count, true, steps);
    for (std::int64_t layer = layers.count; layer-- > 0;) {
      flow.add(lanes.compute, Elementwise{}, {shard(reduced, layer)}, {shard(master, layer)});
    }
  }
  std::move(flow).finish();
  Program program = std::move(p).finish();
  check_memory(program, spec);
  fill_what_is_read(program);
  verify_what_lasts(program);
  return program;
}

Program fsdp_program(const FsdpWhatIf& what_if, int ranks) {
  const std::int64_t slot_count = slots(what_if.prefetch, what_if.in_flight, what_if.layers);
  ProgramBuilder p("fsdp", ranks);
  const Lanes lanes = make_lanes(p, what_if.two_communicators, Waiting::yield);
  const BufferId gathered = p.buffer({.name = "gathered", .count = slot_count});
  const BufferId gradients = p.buffer({.name = "gradients", .count = gradient_slots});
  Dataflow flow(p, p.all_ranks());
  LayerActions steps;
  steps.gather = [&](std::int64_t, std::int64_t slot) {
    flow.add(lanes.gather, Busy{what_if.gather}, {}, {{gathered, slot, 1}});
  };
  steps.forward = [&](std::int64_t, std::int64_t slot) {
    flow.add(lanes.compute, Busy{what_if.forward}, {{gathered, slot, 1}});
  };
  steps.backward = [&](std::int64_t, std::int64_t slot, std::int64_t gradient_slot) {
    flow.add(lanes.compute, Busy{what_if.backward->compute}, {{gathered, slot, 1}}, {{gradients, gradient_slot, 1}});
  };
  steps.reduce = [&](std::int64_t, std::int64_t gradient_slot) {
    flow.add(lanes.reduce, Busy{what_if.backward->reduce}, {{gradients, gradient_slot, 1}});
  };
  issue(what_if.layers, slot_count, what_if.backward.has_value(), steps);
  std::move(flow).finish();
  return std::move(p).finish();
}

}  // namespace ovl
