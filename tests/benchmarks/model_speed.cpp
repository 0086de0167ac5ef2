// SPDX-License-Identifier: Apache-2.0
//
// How fast the model plays, with Google Benchmark: operation events (begins and ends) a second of one core, how that
// changes with the length of a program, and data parallel training on many ranks, equal or each with its own times.
//
//   model_speed --benchmark_min_time=1
#include <benchmark/benchmark.h>

#include <array>
#include <string>
#include <vector>

#include "backend/model/engine.hpp"
#include "backend/model/model.hpp"
#include "base/random.hpp"
#include "program/builder.hpp"

namespace ovl {
namespace {

using model::Engine;
using model::Graph;
using model::Index;
using model::Share;

void report(benchmark::State& state, const Engine& engine) {
  state.counters["events"] = benchmark::Counter(static_cast<double>(engine.events()), benchmark::Counter::kIsRate);
}

// Two lanes of one device whose operations contend for memory all the time: every start and end changes rates.
void contending(benchmark::State& state) {
  Graph g;
  const Index memory = g.resource();
  std::array<Index, 2> lanes{-1, -1};
  Random random(1);
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    Index& lane = lanes[static_cast<std::size_t>(i % 2)];
    const Index op = g.operation();
    g.flow(0.5 + random.uniform(), std::array{op}, std::array{Share{memory, 0.5 + 0.4 * random.uniform()}});
    if (lane >= 0) g.after(lane, op);
    lane = op;
  }
  Engine engine(g);
  for (auto _ : state) benchmark::DoNotOptimize(engine.play());
  report(state, engine);
}
BENCHMARK(contending)->RangeMultiplier(10)->Range(1'000, 1'000'000)->Unit(benchmark::kMillisecond);

// 100 layers of backward compute, 400 buckets behind them, on devices that each play their own: `skew` 5 % of the
// compute. The all_reduces join the memory of all devices into one component.
Graph ddp(std::int64_t devices, double skew) {
  constexpr int layers = 100;
  constexpr int buckets_a_layer = 4;
  Graph g;
  Random random(2);
  std::vector<Index> memory;
  std::vector<Index> compute(static_cast<std::size_t>(devices), -1);
  for (std::int64_t d = 0; d < devices; ++d) memory.push_back(g.resource());
  std::vector<Index> previous(compute.size(), -1);
  std::vector<Share> shares;
  for (const Index m : memory) shares.push_back({m, 0.2});
  for (int layer = 0; layer < layers; ++layer) {
    for (std::size_t d = 0; d < compute.size(); ++d) {
      const Index op = g.operation();
      g.flow(1e-3 * (1 + skew * (random.uniform() - 0.5)), std::array{op}, std::array{Share{memory[d], 0.9}});
      if (compute[d] >= 0) g.after(compute[d], op);
      compute[d] = op;
    }
    for (int bucket = 0; bucket < buckets_a_layer; ++bucket) {
      std::vector<Index> members;
      for (std::size_t d = 0; d < compute.size(); ++d) {
        members.push_back(g.operation());
        g.after(compute[d], members.back());
        if (previous[d] >= 0) g.after(previous[d], members.back());
        previous[d] = members.back();
      }
      g.flow(0.2e-3, members, shares);
    }
  }
  return g;
}

void ddp_of_skewed_ranks(benchmark::State& state) {
  Engine engine(ddp(state.range(0), 0.1));
  for (auto _ : state) benchmark::DoNotOptimize(engine.play());
  report(state, engine);
}
BENCHMARK(ddp_of_skewed_ranks)->Arg(1)->Arg(64)->Arg(256)->Arg(1024)->Unit(benchmark::kMillisecond);

// The same through the backend, ranks equal: planned and played, all ranks' times handed out.
Program ddp_program(int ranks) {
  ProgramBuilder p("ddp", ranks);
  const LaneId compute = p.lane({.name = "compute"});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const CommId world = p.world("world", "nccl", 0);
  const BufferId gradients = p.buffer({.name = "gradients", .count = 400 << 20});
  const BufferId reduced = p.buffer({.name = "reduced", .count = 400 << 20});
  ClassBuilder all = p.all_ranks();
  for (int layer = 0; layer < 100; ++layer) {
    all.body(compute, Gemm{4096, 4096, 4096, DType::bf16});
    all.order(compute, comm);
    for (int bucket = 0; bucket < 4; ++bucket) {
      const std::int64_t at = (layer * 4 + bucket) << 20;
      all.body(comm, Collective{CollectiveKind::all_reduce, world, DType::bf16, 1 << 20, 0}, {{gradients, at, 1 << 20}},
               {{reduced, at, 1 << 20}});
    }
  }
  return std::move(p).finish();
}

void ddp_of_equal_ranks(benchmark::State& state) {
  model::Rates rates;
  rates.name = "a node of 8";
  rates.units = 132;
  rates.comm_units = 16;
  rates.gemm[DType::bf16] = FlopsPerSecond(800e12);
  rates.memory = BytesPerSecond(3.35e12);
  rates.link = {microseconds(3), BytesPerSecond(360e9)};
  const auto backend = open_model(rates);
  const Program program = ddp_program(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    std::vector<Program> arms{program};
    benchmark::DoNotOptimize(backend->prepare(std::move(arms), Data::random, 1)->run(0, {}).step());
  }
}
BENCHMARK(ddp_of_equal_ranks)->Arg(8)->Arg(1024)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ovl

BENCHMARK_MAIN();
