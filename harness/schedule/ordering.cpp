// SPDX-License-Identifier: Apache-2.0
#include "schedule/ordering.hpp"

#include <numeric>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "program/builder.hpp"
#include "program/dataflow.hpp"
#include "program/placement.hpp"
#include "schedule/data.hpp"

namespace ovl {
namespace {

struct OrderingBuffers {
  BufferId a, b, gradients, reduced, weights;
};

// `reductions` is the order of the reductions, as indices of gradients.
void add_class(ProgramBuilder& p, ClassBuilder rank_class, const OrderingSpec& spec, LaneId compute, LaneId comm,
               CommId world, const OrderingBuffers& buffers, const std::vector<int>& reductions) {
  rank_class.prologue(compute, Fill{}, {}, {p.whole(buffers.a), p.whole(buffers.b), p.whole(buffers.weights)});
  const auto part = [&](BufferId buffer, int i) {
    const std::int64_t unit = spec.m * spec.n;
    return Slice{buffer, unit * (std::int64_t{i} * (i + 1) / 2), unit * (i + 1)};
  };
  Dataflow flow(p, rank_class);
  const auto reduce = [&](int i) {
    // The pause comes after the wait, so it reads what the reduction reads.
    flow.add(comm, Busy{spec.stall / 4}, {part(buffers.gradients, i)});
    flow.add(comm, Collective{CollectiveKind::all_reduce, world, spec.dtype, part(buffers.gradients, i).count},
             {part(buffers.gradients, i)}, {part(buffers.reduced, i)});
  };
  auto next = reductions.begin();
  for (int i = 0; i < spec.gradients; ++i) {
    const std::int64_t rows = spec.m * (i + 1);
    flow.add(compute, Busy{spec.stall});
    flow.add(compute, Gemm{rows, spec.n, spec.k, spec.dtype}, {{buffers.a, 0, rows * spec.k}, p.whole(buffers.b)},
             {part(buffers.gradients, i)});
    for (; next != reductions.end() && *next <= i; ++next) reduce(*next);
  }
  for (int i = 0; i < spec.gradients; ++i) {
    flow.add(compute, Elementwise{}, {part(buffers.reduced, i)}, {part(buffers.weights, i)});
  }
  std::move(flow).finish();
}

void drop_waits(Program& program, LaneId lane) {
  for (RankClass& c : program.classes) {
    std::erase_if(c.body,
                  [&](const Operation& op) { return op.lane == lane && std::holds_alternative<Wait>(op.work); });
  }
  program.expected_findings = {FindingKind::race};
}

}  // namespace

Program ordering_program(const OrderingSpec& spec) {
  require(spec.ranks > 0 && spec.gradients > 1 && gemm_output(spec.dtype) == spec.dtype,
          "ranks reduce two or more gradients of one dtype");
  ProgramBuilder p("ordering", spec.ranks);
  const LaneId compute = p.lane({.name = "compute", .role = Role::compute, .waiting = spec.waiting});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication, .waiting = spec.waiting});
  const CommId world = p.world("world", spec.transport, spec.channels);
  const auto buffer = [&](const char* name, std::int64_t count) {
    return p.buffer({.name = name, .dtype = spec.dtype, .count = count, .memory = spec.memory});
  };
  const std::int64_t total = spec.m * spec.n * (std::int64_t{spec.gradients} * (spec.gradients + 1) / 2);
  const OrderingBuffers buffers{buffer("a", spec.m * spec.gradients * spec.k), buffer("b", spec.k * spec.n),
                                buffer("gradients", total), buffer("reduced", total), buffer("weights", total)};

  std::vector<int> in_order(static_cast<std::size_t>(spec.gradients));
  std::iota(in_order.begin(), in_order.end(), 0);
  const bool misordered = spec.variant == OrderingVariant::rank_misorder && spec.ranks > 1;
  if (misordered) {
    std::vector<Rank> others;
    for (int r = 0; r + 1 < spec.ranks; ++r) others.emplace_back(r);
    std::vector<int> swapped = in_order;
    std::swap(swapped[0], swapped[1]);
    add_class(p, p.ranks("in_order", std::move(others)), spec, compute, comm, world, buffers, in_order);
    add_class(p, p.ranks("misordered", {Rank(spec.ranks - 1)}), spec, compute, comm, world, buffers, swapped);
  } else {
    add_class(p, p.all_ranks(), spec, compute, comm, world, buffers, in_order);
  }
  Program program = std::move(p).finish();
  verify_what_lasts(program);
  switch (spec.variant) {
    case OrderingVariant::correct: break;
    case OrderingVariant::missing_producer_event: drop_waits(program, comm); break;
    case OrderingVariant::missing_consumer_wait: drop_waits(program, compute); break;
    case OrderingVariant::global_sync: program = place(program, {.order = LaunchOrder::global_sync}); break;
    case OrderingVariant::rank_misorder:
      if (spec.run_anyway) program.expected_findings = {FindingKind::mismatch};
      break;
  }
  return program;
}

}  // namespace ovl
