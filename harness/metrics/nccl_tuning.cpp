// SPDX-License-Identifier: Apache-2.0
#include "metrics/nccl_tuning.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/error.hpp"

namespace ovl {
namespace {

// Tables are in us and GB/s, as in tuning.cc; indices are algorithm, protocol; generation; one, two or more nodes.
using ByProtocol = std::array<double, 3>;
constexpr std::array<ByProtocol, 2> base_latency{{{6.6, 14.0, 8.4}, {6.8, 14.0, 8.4}}};
constexpr std::array<ByProtocol, 2> nvlink_latency{{{0.6, 1.9, 3.4}, {0.6, 1.25, 4.0}}};
constexpr std::array<ByProtocol, 2> pcie_latency{{{1.0, 2.5, 5.7}, {1.0, 1.9, 4.0}}};
constexpr std::array<ByProtocol, 2> network_latency{{{2.7, 4.0, 14.0}, {5.0, 8.5, 14.0}}};

constexpr std::array<double, 4> ll_node{39.0, 87.7, 141.0, 282.0};                        // one node: by generation
constexpr std::array<std::array<double, 2>, 2> ll_network{{{39.0, 20.4}, {22.5, 19.0}}};  // two, more: by CPU
using ByNodes = std::array<double, 3>;
constexpr std::array<ByNodes, 4> ring_ll128{{{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {40, 40, 40}}};
constexpr std::array<ByNodes, 4> tree_ll128{{{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29.0}, {55.6, 31.67, 20.0}}};
constexpr std::array<ByNodes, 4> tree_simple{
    {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}, {70.0, 42.8, 24.0}}};

// A tree's bandwidth at 64 B · 2^i.
constexpr std::array<std::array<double, 24>, 3> tree_correction{
    {{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
     {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
     {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}}};

template <class Enum>
std::size_t index(Enum e) {
  return static_cast<std::size_t>(e);
}

double bus_bandwidth_gbs(const NcclGraph& g, NcclAlgorithm algorithm, NcclProtocol protocol) {
  const double channels = g.channels;
  const double whole = channels * g.channel_bandwidth.value() * 1e-9;
  const std::size_t nodes = std::min<std::size_t>(static_cast<std::size_t>(g.nodes), 3) - 1;
  const std::size_t generation = index(g.generation);
  const double ll = nodes == 0 ? ll_node[generation] : ll_network[g.amd_cpu ? 1 : 0][nodes - 1];
  if (algorithm == NcclAlgorithm::ring) {
    switch (protocol) {
      case NcclProtocol::ll: return std::min(ll, 0.5 * whole);
      case NcclProtocol::ll128: return std::min(0.92 * whole, channels * ring_ll128[generation][nodes]);
      case NcclProtocol::simple: return whole;
    }
  }
  const double tree = std::min(0.92 * whole, channels * tree_simple[generation][nodes]);
  switch (protocol) {
    case NcclProtocol::ll: return std::min(tree / 3.8, ll);
    case NcclProtocol::ll128:
      return std::min(tree * (nodes == 0 ? 7.0 / 9 : 15.0 / 16), channels * tree_ll128[generation][nodes]);
    case NcclProtocol::simple: return tree;
  }
  throw std::logic_error("broken invariant: an NCCL protocol without a bandwidth");
}

double ring_latency_us(const NcclGraph& g, CollectiveKind kind, NcclProtocol protocol) {
  const std::size_t p = index(protocol);
  const double within = (g.pcie ? pcie_latency : nvlink_latency)[0][p];
  const double across = network_latency[0][p];
  const double rounds = kind == CollectiveKind::all_reduce ? 2 : 1;
  const double steps = rounds * (g.ranks - 1);
  const double network_steps = rounds * (g.nodes - 1);
  if (kind == CollectiveKind::broadcast) return base_latency[0][p] + (g.nodes > 1 ? across : within);
  // Beyond a node each step waits for the proxy thread too.
  const double overhead = g.nodes > 1 ? (g.amd_cpu ? 2.0 : 1.0) * (protocol == NcclProtocol::simple ? 3 : 1) : 0;
  return base_latency[0][p] + (steps - network_steps) * std::max(within, overhead) + network_steps * across;
}

double tree_latency_us(const NcclGraph& g, NcclProtocol protocol) {
  const std::size_t p = index(protocol);
  const double within = (g.pcie ? pcie_latency : nvlink_latency)[1][p];
  const double ranks = static_cast<double>(g.ranks) / g.nodes;
  return base_latency[1][p] + 2 * ((ranks - 1) * within + std::log2(g.nodes) * network_latency[1][p]);
}

double steps_of(CollectiveKind kind, double ranks) {
  switch (kind) {
    case CollectiveKind::all_reduce: return 2 * (ranks - 1);
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter: return ranks - 1;
    case CollectiveKind::broadcast: return ranks;
    case CollectiveKind::all_to_all: break;
  }
  throw std::logic_error("broken invariant: NCCL's rings do not do this collective");
}

}  // namespace

NcclCost nccl_cost(const NcclGraph& g, CollectiveKind kind, NcclAlgorithm algorithm, NcclProtocol protocol,
                   Bytes size) {
  require(g.nodes >= 1 && g.ranks >= g.nodes && g.channels >= 1, "an NCCL graph has ranks, nodes and channels");
  if (kind == CollectiveKind::all_to_all) return {};
  if (algorithm == NcclAlgorithm::tree && kind != CollectiveKind::all_reduce) return {};
  if (g.ranks == 1) return {Seconds(0), BytesPerSecond(std::numeric_limits<double>::infinity()), Seconds(0)};

  const bool ring = algorithm == NcclAlgorithm::ring;
  const double bus = bus_bandwidth_gbs(g, algorithm, protocol) * 1e9;
  const double bandwidth = ring ? bus * g.ranks / steps_of(kind, g.ranks) : bus * 0.5;
  const double latency = (ring ? ring_latency_us(g, kind, protocol) : tree_latency_us(g, protocol)) * 1e-6;

  const auto bytes = static_cast<double>(size.value());
  double corrected_bandwidth = bandwidth;
  double corrected_latency = latency;
  if (!ring) {
    const auto sixty_fours = static_cast<std::uint64_t>(size.value()) >> 6U;
    const auto doublings = static_cast<std::size_t>(std::bit_width(sixty_fours)) - (sixty_fours > 0 ? 1 : 0);
    const auto& correction = tree_correction[index(protocol)];
    if (doublings < correction.size()) corrected_bandwidth *= correction[doublings];
  }
  // The plateau of large messages over a network.
  if (ring && protocol == NcclProtocol::simple && g.nodes > 1 && kind == CollectiveKind::all_reduce &&
      bytes / (static_cast<double>(g.channels) * g.ranks) >= 64) {
    corrected_latency *= g.generation == GpuGeneration::volta ? 1.9 : 1.4;
  }
  return {Seconds(latency), BytesPerSecond(bandwidth), Seconds(corrected_latency + bytes / corrected_bandwidth)};
}

NcclChoice nccl_choice(const NcclGraph& graph, CollectiveKind kind, Bytes size) {
  NcclChoice best;
  for (const auto& [algorithm, a] : EnumNames<NcclAlgorithm>::table) {
    for (const auto& [protocol, p] : EnumNames<NcclProtocol>::table) {
      const NcclCost cost = nccl_cost(graph, kind, algorithm, protocol, size);
      if (std::isnan(cost.time.value())) continue;
      if (std::isnan(best.cost.time.value()) || cost.time < best.cost.time) best = {algorithm, protocol, cost};
    }
  }
  return best;
}

}  // namespace ovl
