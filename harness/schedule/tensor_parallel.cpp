// SPDX-License-Identifier: Apache-2.0
#include "schedule/tensor_parallel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "program/builder.hpp"
#include "program/dataflow.hpp"
#include "schedule/cut.hpp"
#include "schedule/data.hpp"

namespace ovl {
Program tensor_parallel_program(const TensorParallelSpec& spec) {
  require(spec.ranks > 0 && spec.repeats > 0 && gemm_output(spec.dtype) == spec.dtype,
          "activations are of one dtype, and ranks hold them");
  const Layers& layers = spec.layers;
  const std::array<CutPair, 2> pairs =
      cut_pairs(layers, spec.ranks, "ranks", "type another --ranks, or another --scale");
  require_divides(layers.tokens, spec.tiles, "tokens", "tiles",
                  "type another --tiles, or tokens after the @ of --layers");
  const std::int64_t rows = layers.tokens / spec.tiles;  // of a tile
  const bool sequence = spec.mode == TensorParallelMode::sequence;
  if (sequence) {
    require_divides(rows, spec.ranks, "rows of a tile", "ranks",
                    "type fewer --tiles, or tokens after the @ of --layers");
  }
  const std::int64_t width = layers.hidden;
  std::int64_t weights_a_layer = 0;
  std::int64_t widest = 0;
  for (const CutPair& pair : pairs) {
    weights_a_layer += width * (pair.first_out + pair.second_in);
    widest = std::max({widest, pair.first_out, pair.second_in});
  }

  ProgramBuilder p("tensor_parallel", spec.ranks);
  const LaneId compute = p.lane({.name = "compute", .role = Role::compute, .waiting = spec.waiting});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication, .waiting = spec.waiting});
  const CommId world = p.world("world", spec.transport, spec.channels);
  const auto buffer = [&](const char* name, std::int64_t count) {
    return p.buffer({.name = name, .dtype = spec.dtype, .count = count, .memory = spec.memory});
  };
  const std::int64_t whole = layers.tokens * width;
  const BufferId input = buffer("input", whole);
  const BufferId weights = buffer("weights", layers.count * weights_a_layer);
  const BufferId activation = buffer("activation", layers.tokens * widest);  // what the second GEMMs read
  const BufferId inner = buffer("inner", layers.tokens * widest);            // what the first ones write
  // A pair writes one half of these while what reads the other is still running.
  const BufferId summand = buffer("summand", 2 * whole);
  const BufferId part = sequence ? buffer("part", 2 * whole / spec.ranks) : BufferId();
  const BufferId output = buffer("output", 2 * whole);

  Dataflow flow(p, p.all_ranks());
  const auto reduce = [&](std::int64_t half, std::int64_t tile) {
    const std::int64_t count = rows * width;
    const std::int64_t at = half * whole + tile * count;
    const Slice from{summand, at, count};
    const Slice to{output, at, count};
    if (!sequence) {
      flow.add(comm, Collective{CollectiveKind::all_reduce, world, spec.dtype, count}, {from}, {to});
      return;
    }
    const Slice mine{part, at / spec.ranks, count / spec.ranks};
    flow.add(comm, Collective{CollectiveKind::reduce_scatter, world, spec.dtype, count}, {from}, {mine});
    flow.add(comm, Collective{CollectiveKind::all_gather, world, spec.dtype, count}, {mine}, {to});
  };

  std::int64_t done = 0;    // pairs
  std::int64_t weight = 0;  // the next matrix's first element
  for (std::int64_t layer = 0; layer < layers.count * spec.repeats; ++layer) {
    const bool first_layer = layer % layers.count == 0;
    if (first_layer) weight = 0;
    for (const CutPair& pair : pairs) {
      const bool begins = first_layer && &pair == pairs.data();
      if (begins && done > 0) flow.hold(compute, flow.size() - 1);
      const Slice first{weights, weight, width * pair.first_out};
      const Slice second{weights, weight + first.count, pair.second_in * width};
      weight += first.count + second.count;
      const std::int64_t half = done % 2;
      for (std::int64_t tile = 0; tile < spec.tiles; ++tile) {
        const Slice from = begins ? Slice{input, tile * rows * width, rows * width}
                                  : Slice{output, (1 - half) * whole + tile * rows * width, rows * width};
        flow.add(compute, Gemm{rows, pair.first_out, width, spec.dtype}, {from, first},
                 {{inner, tile * rows * widest, rows * pair.first_out}});
        flow.add(compute, Gemm{rows, width, pair.second_in, spec.dtype},
                 {{activation, tile * rows * widest, rows * pair.second_in}, second},
                 {{summand, half * whole + tile * rows * width, rows * width}});
        reduce(half, tile);
      }
      ++done;
    }
  }
  std::move(flow).finish();
  Program program = std::move(p).finish();
  fill_what_is_read(program);
  verify_what_lasts(program);
  return program;
}

Program tensor_parallel_program(const TensorParallelWhatIf& what_if, int ranks) {
  if (what_if.tiles < 1 || what_if.pairs < 1) {
    throw usage_error(fmt::format("{} tiles of {} pairs are not possible", what_if.tiles, what_if.pairs),
                      "there is one or more of each", "type for example --tiles 1,2,4");
  }
  ProgramBuilder p("tensor_parallel", ranks);
  const LaneId compute = p.lane({.name = "compute", .role = Role::compute});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const std::int64_t tiles = what_if.tiles;
  const BufferId summand = p.buffer({.name = "summand", .count = 2 * tiles});
  const BufferId output = p.buffer({.name = "output", .count = 2 * tiles});
  Dataflow flow(p, p.all_ranks());
  const auto n = static_cast<double>(tiles);
  for (std::int64_t pair = 0; pair < what_if.pairs; ++pair) {
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const std::int64_t at = pair % 2 * tiles + tile;
      const std::int64_t before = (1 - pair % 2) * tiles + tile;
      std::vector<Slice> reads;
      if (pair > 0) reads.push_back({output, before, 1});
      flow.add(compute, Busy{(what_if.first + what_if.second) / n}, std::move(reads), {{summand, at, 1}});
      flow.add(comm, Busy{what_if.alpha + what_if.wire / n}, {{summand, at, 1}}, {{output, at, 1}});
    }
  }
  std::move(flow).finish();
  return std::move(p).finish();
}

}  // namespace ovl
