// SPDX-License-Identifier: Apache-2.0
#include "backend/model/machine_rates.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "backend/model/costs.hpp"
#include "support/folders.hpp"

namespace ovl::model {
namespace {

constexpr std::string_view text = R"({
  "format": "overlapbench machine", "version": 1, "name": "two-nodes", "fabric": "made up", "device": "NVIDIA H100",
  "origins": [{"id": "here", "kind": "published", "source": "this test"}],
  "rates": [
    {"name": "gemm_bf16", "rate": 989.4e12, "origin": "here"}, {"name": "memory", "rate": 3.35e12, "origin": "here"},
    {"name": "units", "rate": 132, "origin": "here"}, {"name": "comm_units", "rate": 20, "origin": "here"},
    {"name": "node_ranks", "rate": 8, "origin": "here"}, {"name": "kernel", "rate": 2e-6, "origin": "here"},
    {"name": "link", "rate": 450e9, "origin": "here"}, {"name": "link_latency", "rate": 1e-6, "origin": "here"},
    {"name": "network", "rate": 50e9, "origin": "here"}, {"name": "network_latency", "rate": 5e-6, "origin": "here"},
    {"name": "nccl_channels", "rate": 12, "origin": "here"}, {"name": "nccl_channel", "rate": 30e9, "origin": "here"}
  ],
  "collectives": [
    {"collective": "all_reduce", "dtype": "f32", "ranks": 8, "in_place": true, "origin": "here",
     "segments": [{"from_bytes": 0, "alpha_s": 2e-5, "beta_s_per_byte": 1e-11}], "least_bytes": 8, "most_bytes": 1e9},
    {"collective": "all_reduce", "dtype": "f32", "ranks": 8, "in_place": false, "load": "idle", "origin": "here",
     "segments": [{"from_bytes": 0, "alpha_s": 1e-5, "beta_s_per_byte": 1e-11}], "least_bytes": 8, "most_bytes": 1e9},
    {"collective": "all_reduce", "dtype": "f32", "ranks": 8, "in_place": false, "load": "loaded", "origin": "here",
     "segments": [{"from_bytes": 0, "alpha_s": 9e-5, "beta_s_per_byte": 1e-11}], "least_bytes": 8, "most_bytes": 1e9},
    {"collective": "all_reduce:hierarchical", "dtype": "f32", "ranks": 8, "origin": "here",
     "segments": [{"from_bytes": 0, "alpha_s": 1e-6, "beta_s_per_byte": 1e-12}], "least_bytes": 8, "most_bytes": 1e9}
  ],
  "contention": [
    {"victim": "gemm", "aggressor": "all_reduce", "slowdown": 1.189, "origin": "here"},
    {"victim": "all_reduce", "aggressor": "gemm", "slowdown": 1.1, "origin": "here"},
    {"victim": "all_gather", "aggressor": "gemm", "slowdown": 1.3, "origin": "here"}
  ]})";

std::vector<Rank> first_ranks(int n) {
  std::vector<Rank> all;
  for (int r = 0; r < n; ++r) all.emplace_back(r);
  return all;
}

TEST(ModelMachine, ADescriptionBecomesRates) {
  const Rates rates = rates_of(parse_machine(text));
  EXPECT_EQ(rates.name, "two-nodes");
  EXPECT_EQ(rates.gemm.at(DType::bf16), FlopsPerSecond(989.4e12));
  EXPECT_FALSE(rates.gemm.contains(DType::f32)) << "what it does not say is unknown";
  EXPECT_EQ(rates.memory, BytesPerSecond(3.35e12));
  EXPECT_EQ(rates.units, 132);
  EXPECT_EQ(rates.comm_units, 20);
  EXPECT_EQ(rates.node_ranks, 8);
  EXPECT_EQ(rates.kernel, Seconds(2e-6));
  EXPECT_EQ(rates.launch, Seconds(0));
  EXPECT_EQ(rates.link.bandwidth, BytesPerSecond(450e9));
  EXPECT_EQ(rates.network.latency, Seconds(5e-6));
  ASSERT_TRUE(rates.nccl.has_value());
  EXPECT_EQ(rates.nccl->generation, GpuGeneration::hopper);
  EXPECT_EQ(rates.nccl->channels, 12);
}

TEST(ModelMachine, LevelsAreTheFabric) {
  Machine machine = parse_machine(text);
  std::erase_if(machine.rates, [](const MachineRate& r) {
    return r.name == "node_ranks" || r.name.starts_with("link") || r.name.starts_with("network");
  });
  machine.levels = {
      {.name = "node", .ranks = 8, .bandwidth = {450e9, {}}, .latency = {1e-6, {}}, .origin = "here"},
      {.name = "rack", .ranks = 128, .bandwidth = {50e9, {}}, .latency = {5e-6, {}}, .origin = "here"},
      {.name = "spine", .bandwidth = {25e9, {}}, .latency = {8e-6, {}}, .oversubscription = 2, .origin = "here"}};
  const Rates rates = rates_of(parse_machine(machine_json(machine)));
  EXPECT_EQ(rates.node_ranks, 8);
  EXPECT_EQ(rates.link.bandwidth, BytesPerSecond(450e9));
  ASSERT_EQ(rates.beyond.size(), 2U);
  EXPECT_EQ(rates.beyond[0].ranks, 128);
  EXPECT_EQ(rates.beyond[0].link.latency, Seconds(5e-6));
  EXPECT_EQ(rates.beyond[1].ranks, 0);
  EXPECT_EQ(rates.beyond[1].oversubscription, 2);
}

TEST(ModelMachine, IdleSeriesOutOfPlaceComeFirst) {
  const Rates rates = rates_of(parse_machine(text));
  ASSERT_EQ(rates.collectives.size(), 2U) << "neither loaded nor a program of several collectives";
  const Cost cost =
      collective_cost(rates, {CollectiveKind::all_reduce, CommId(0), DType::f32, 1'000'000, 0}, first_ranks(8));
  EXPECT_EQ(cost.how, "measured");
  EXPECT_NEAR(cost.time.value(), 1e-5 + 4e-5, 1e-15);
  EXPECT_EQ(collective_cost(rates, {CollectiveKind::all_reduce, CommId(0), DType::f32, 2048, 0}, first_ranks(4)).how,
            "NCCL ring LL")
      << "of other ranks it knows how NCCL chooses";
}

TEST(ModelMachine, ContentionIsTheWorstOfEachWay) {
  const Rates rates = rates_of(parse_machine(text));
  EXPECT_EQ(rates.compute_slowdown, 1.189);
  EXPECT_EQ(rates.comm_slowdown, 1.3);
}

TEST(ModelMachine, ADescriptionWithoutRatesKnowsOnlyItsCollectives) {
  Machine machine = parse_machine(text);
  machine.rates.clear();
  machine.contention.clear();
  const Rates rates = rates_of(machine);
  EXPECT_TRUE(std::isnan(rates.memory.value()));
  EXPECT_EQ(rates.units, 0);
  EXPECT_FALSE(rates.nccl.has_value());
  EXPECT_EQ(rates.compute_slowdown, 1);
}

// Every committed description: what the model takes for a measured size is the fit that the file describes, so its
// errors over the published points are those that the file states.
TEST(ModelMachine, CommittedDescriptionsArePredictedWithTheirStatedErrors) {
  int checked = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(test::tests_folder().parent_path() / "results" / "machines")) {
    if (file.path().extension() != ".json") continue;
    SCOPED_TRACE(file.path().filename().string());
    const Machine machine = read_machine(file.path());
    for (const CollectiveCost& c : machine.collectives) {
      Machine alone = machine;
      alone.rates.clear();
      alone.collectives = {c};
      const Rates rates = rates_of(alone);
      if (rates.collectives.empty() || c.points.empty()) continue;  // the model has no such collective
      std::vector<double> errors;
      for (const SizeTime& p : c.points) {
        const auto bytes = static_cast<std::int64_t>(p.bytes);
        const Cost cost = collective_cost(rates, {rates.collectives[0].kind, CommId(0), DType::f8e4m3, bytes, 0},
                                          first_ranks(c.ranks));
        EXPECT_GT(cost.time, Seconds(0));
        errors.push_back(std::fabs(cost.time.value() - p.seconds) / p.seconds);
      }
      EXPECT_NEAR(*std::max_element(errors.begin(), errors.end()), c.max_relative_error, 1e-6);
      ++checked;
    }
  }
  EXPECT_GE(checked, 12);
}

// Nodes of 8: all that a training step of 8x128 ranks asks for is known, and beyond a node takes longer than within.
TEST(ModelMachine, CommittedNodesKnowAllThatAStepTakes) {
  int nodes = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(test::tests_folder().parent_path() / "results" / "machines")) {
    if (file.path().filename().string().find("-node") == std::string::npos) continue;
    SCOPED_TRACE(file.path().filename().string());
    const Rates rates = rates_of(read_machine(file.path()));
    EXPECT_EQ(rates.node_ranks, 8);
    EXPECT_GT(rates.units, 100);
    EXPECT_FALSE(std::isnan(rates.network.bandwidth.value()));
    EXPECT_GT(gemm_cost(rates, {4096, 4096, 4096, DType::bf16}).cost.time, Seconds(0));
    EXPECT_GT(memory_cost(rates, "copy", Bytes(1 << 20)).time, Seconds(0));
    EXPECT_LT(message_cost(rates, Bytes(1 << 24), Rank(0), Rank(1)).time,
              message_cost(rates, Bytes(1 << 24), Rank(0), Rank(8)).time);
    for (const CollectiveKind kind :
         {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
      const Collective collective{kind, CommId(0), DType::bf16, 1 << 26};
      const Seconds within = collective_cost(rates, collective, first_ranks(8)).time;
      EXPECT_GT(within, Seconds(0));
      EXPECT_GT(collective_cost(rates, collective, first_ranks(1024)).time, within);
    }
    ++nodes;
  }
  EXPECT_EQ(nodes, 5);
}

}  // namespace
}  // namespace ovl::model
