// SPDX-License-Identifier: Apache-2.0
#include "backend/model/costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "metrics/bus_bandwidth.hpp"
#include "metrics/gemm_waves.hpp"

namespace ovl::model {
namespace {

Error not_told(const Rates& rates, const std::string& what) {
  if (rates.name.empty()) {
    return impossible_error(fmt::format("without a machine the model cannot know what {} takes", what),
                            "only busy operations have a duration of their own", "add --machine FILE");
  }
  return impossible_error(fmt::format("machine {} does not say what {} takes", rates.name, what), "",
                          "add it to the machine description, or take another one");
}

double part(double amount) { return std::isnan(amount) ? 0 : std::clamp(amount, 0.0, 1.0); }

// At least the time that the bytes need in memory, and the part of memory's bandwidth that they then take.
void pass_memory(const Rates& rates, Cost& cost, double bytes) {
  const double needs = bytes / rates.memory.value();
  if (std::isnan(needs)) return;
  cost.time = std::max(cost.time, Seconds(needs));
  cost.memory = cost.time.value() > 0 ? part(needs / cost.time.value()) : 0;
}

bool known(const LinkCost& link) { return !std::isnan(link.latency.value()) && !std::isnan(link.bandwidth.value()); }

// What one rank of a group has to a level while all of them use it, and nobody else does: its own links on the way, and
// its part of what leaves the units below for an oversubscribed level.
LinkCost link_to(const std::vector<FabricLevel>& fabric, std::size_t level, const GroupShape& shape) {
  LinkCost link = fabric[level].link;
  for (std::size_t i = 1; i <= level; ++i) {
    const double sharing = shape.ranks[i - 1] * fabric[i].oversubscription / fabric[i - 1].ranks;
    link.bandwidth =
        BytesPerSecond(std::fmin(fabric[i].link.bandwidth.value() / std::max(1.0, sharing), link.bandwidth.value()));
  }
  return link;
}

// Parts of the links: `bytes` are those that one rank sends to each level and no further.
std::vector<double> parts_of_links(const std::vector<FabricLevel>& fabric, const std::vector<double>& bytes,
                                   Seconds time) {
  std::vector<double> parts(bytes.size(), 0.0);
  double further = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    further = i == 0 ? bytes[0] : further + bytes[i];  // what leaves a node takes other links than what stays
    parts[i] = part(further / fabric[i].link.bandwidth.value() / time.value());
  }
  return parts;
}

// What was measured of this kind, ranks and dtype; of several the first, one of the same dtype before one of another.
// What as many ranks as a node has did tells nothing of ranks on several nodes.
const KnownCollective* measured(const Rates& rates, const Collective& c, std::span<const Rank> group, bool same_kind,
                                bool same_ranks) {
  const int ranks = static_cast<int>(group.size());
  const bool beyond = nodes_of(rates, group) > 1;
  const KnownCollective* found = nullptr;
  const auto closer = [&](const KnownCollective& a, const KnownCollective& b) {
    const auto distance = [&](const KnownCollective& k) {
      return std::fabs(std::log2(static_cast<double>(k.ranks) / ranks)) + (k.dtype && k.dtype != c.dtype ? 1e-6 : 0);
    };
    return distance(a) < distance(b);
  };
  for (const KnownCollective& k : rates.collectives) {
    if (beyond && k.ranks <= rates.node_ranks) continue;
    if (k.ranks < 2 || (same_kind && k.kind != c.kind) || (same_ranks && k.ranks != ranks)) continue;
    if (found == nullptr || closer(k, *found)) found = &k;
  }
  return found;
}

CollectiveSteps steps_of(CollectiveKind kind, int ranks) {
  const bool direct = kind == CollectiveKind::all_to_all;
  return collective_steps(direct ? CollectiveAlgorithm::direct : CollectiveAlgorithm::ring, kind, ranks);
}

// The latency of one step and the bandwidth of a link, as a ring would have them that takes what was measured.
LinkCost link_behind(const KnownCollective& k, double bytes) {
  const auto& segments = k.cost.segments;
  const auto next = std::find_if(segments.begin(), segments.end(), [&](const Segment& s) { return s.from > bytes; });
  const CostLine& line = (next == segments.begin() ? next : next - 1)->line;
  const CollectiveSteps steps = steps_of(k.kind, k.ranks);
  return {Seconds(std::max(0.0, line.alpha) / steps.messages), BytesPerSecond(steps.bytes / line.beta)};
}

struct Timed {
  Seconds time;
  std::string how;
  std::vector<double> bytes;  // that one rank sends to each level, where that is known
};

Seconds time_of(const KnownCollective& k, double bytes) {
  const double time = k.cost.at(bytes);
  return Seconds(time > 0 ? time : std::max(0.0, k.cost.at(std::max(bytes, k.least_bytes))));
}

std::optional<Timed> predicted_by_nccl(const Rates& rates, const Collective& c, std::span<const Rank> group,
                                       Bytes size) {
  if (!rates.nccl || c.kind == CollectiveKind::all_to_all) return std::nullopt;
  const int nodes = nodes_of(rates, group);
  const NcclGraph graph{.generation = rates.nccl->generation,
                        .ranks = static_cast<int>(group.size()),
                        .nodes = nodes,
                        .channels = rates.nccl->channels,
                        .channel_bandwidth = rates.nccl->channel_bandwidth};
  const NcclChoice choice = nccl_choice(graph, c.kind, size);
  return Timed{choice.cost.time, fmt::format("NCCL {} {}", name(choice.algorithm), name(choice.protocol)), {}};
}

// The graph that NCCL's search finds is of whole nodes, all of their network cards and a fabric that slows nobody.
bool has_whole_nodes(const Rates& rates, const GroupShape& shape) {
  return shape.level() == 0 || (shape.level() == 1 && shape.even && shape.ranks[0] == rates.node_ranks &&
                                fabric_of(rates)[1].oversubscription <= 1);
}

std::optional<Timed> over_links(const Rates& rates, const Collective& c, std::span<const Rank> group, Bytes size) {
  const std::vector<FabricLevel> fabric = fabric_of(rates);
  const GroupShape shape = shape_of(fabric, group);
  const int ranks = static_cast<int>(group.size());
  const LinkCost flat = link_to(fabric, shape.level(), shape);
  if (!known(flat)) return std::nullopt;
  const CollectiveChoice choice = fastest_collective(c.kind, ranks, size, flat, false);
  Timed best{choice.time, std::string(name(choice.algorithm)), {}};
  if (shape.level() == 0 || !shape.even) return best;
  std::vector<HierarchyLevel> hierarchy;
  for (std::size_t i = 0; i <= shape.level(); ++i) {
    hierarchy.push_back({shape.ranks[i] / (i == 0 ? 1 : shape.ranks[i - 1]), link_to(fabric, i, shape)});
    if (hierarchy.back().members > 1 && !known(hierarchy.back().link)) return best;
  }
  const auto several = [](const HierarchyLevel& level) { return level.members > 1; };
  if (std::count_if(hierarchy.begin(), hierarchy.end(), several) < 2) return best;
  HierarchicalCost cost = hierarchical_collective(c.kind, hierarchy, size);
  if (cost.time < best.time) best = {cost.time, "hierarchical", std::move(cost.bytes)};
  return best;
}

Timed timed(const Rates& rates, const Collective& c, std::span<const Rank> group, Bytes size) {
  const int ranks = static_cast<int>(group.size());
  const auto bytes = static_cast<double>(size.value());
  if (const KnownCollective* k = measured(rates, c, group, true, true)) return {time_of(*k, bytes), "measured", {}};
  const auto nccl = predicted_by_nccl(rates, c, group, size);
  if (nccl && has_whole_nodes(rates, shape_of(fabric_of(rates), group))) return *nccl;
  if (const auto links = over_links(rates, c, group, size)) return *links;
  if (nccl) return *nccl;
  for (const bool same_kind : {true, false}) {
    const KnownCollective* k = measured(rates, c, group, same_kind, false);
    if (k == nullptr) continue;
    const LinkCost link = link_behind(*k, bytes);
    const CollectiveSteps steps = steps_of(c.kind, ranks);
    return {link.latency * steps.messages + Seconds(steps.bytes * bytes / link.bandwidth.value()),
            fmt::format("scaled from {} of {} ranks", name(k->kind), k->ranks),
            {}};
  }
  const int nodes = nodes_of(rates, group);
  throw not_told(
      rates, fmt::format("{} of {} ranks{}", name(c.kind), ranks, nodes > 1 ? fmt::format(" on {} nodes", nodes) : ""));
}

}  // namespace

int nodes_of(const Rates& rates, std::span<const Rank> group) {
  if (rates.node_ranks == 0) return 1;
  std::set<int> nodes;
  for (const Rank rank : group) nodes.insert(rank.value / rates.node_ranks);
  return static_cast<int>(nodes.size());
}

std::vector<FabricLevel> fabric_of(const Rates& rates) {
  std::vector<FabricLevel> fabric{{rates.node_ranks, rates.link, 1}};
  if (rates.node_ranks == 0) return fabric;
  if (rates.beyond.empty()) fabric.push_back({0, rates.network, 1});
  fabric.insert(fabric.end(), rates.beyond.begin(), rates.beyond.end());
  return fabric;
}

int unit_of(const FabricLevel& level, Rank rank) { return level.ranks == 0 ? 0 : rank.value / level.ranks; }

GroupShape shape_of(const std::vector<FabricLevel>& fabric, std::span<const Rank> group) {
  GroupShape shape;
  for (const FabricLevel& level : fabric) {
    std::map<int, int> ranks;
    if (level.ranks == 0) ranks[0] = static_cast<int>(group.size()) - 1;
    for (const Rank rank : level.ranks == 0 ? group.first(1) : group) ++ranks[unit_of(level, rank)];
    const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto [least, most] = std::minmax_element(ranks.begin(), ranks.end(), fewer);
    shape.units.push_back(static_cast<int>(ranks.size()));
    shape.ranks.push_back(most->second);
    shape.even = shape.even && least->second == most->second;
    if (ranks.size() == 1) break;
  }
  return shape;
}

GemmCost gemm_cost(const Rates& rates, const Gemm& gemm) {
  const auto rate = rates.gemm.find(gemm.dtype);
  const auto shape = rates.gemm_shapes.find({gemm.dtype, gemm.m, gemm.n, gemm.k});
  const bool known_shape = shape != rates.gemm_shapes.end();
  if (rate == rates.gemm.end() && !known_shape) {
    throw not_told(rates, fmt::format("a GEMM in {}", name(gemm.dtype)));
  }
  GemmWaves w = fastest_gemm(gemm, {.units = std::max(1, rates.units),
                                    .rate = known_shape ? shape->second : rate->second,
                                    .memory = std::isnan(rates.memory.value()) ? BytesPerSecond(0) : rates.memory});
  const auto repeat = static_cast<double>(gemm.repeat);
  GemmCost g;
  g.kernel = w.time + rates.kernel;
  if (known_shape) {  // waves and memory divide it as they would divide what the formula says
    const Seconds once = flops_of({gemm.m, gemm.n, gemm.k, gemm.dtype}) / shape->second;
    w.wave = w.wave * (once / g.kernel);
    g.kernel = once;
  }
  g.cost.time = g.kernel * repeat;
  g.cost.memory = g.kernel.value() > 0 ? part(w.memory / g.kernel) : 0;
  if (rates.units > 0) {
    const int most = gemm.sm_target > 0 ? std::min(gemm.sm_target, rates.units) : rates.units;
    g.units = static_cast<int>(std::min<std::int64_t>(most, w.tiles));
    g.tiles = w.tiles;
    g.wave = w.wave * repeat;
    g.block = g.kernel / static_cast<double>(w.waves);
  }
  return g;
}

Cost memory_cost(const Rates& rates, std::string_view kind, Bytes bytes) {
  if (std::isnan(rates.memory.value())) throw not_told(rates, std::string(kind));
  Cost cost;
  pass_memory(rates, cost, static_cast<double>(bytes.value()));
  const Seconds moving = cost.time;
  cost.time += rates.kernel;
  cost.memory = cost.time.value() > 0 ? part(moving / cost.time) : 0;
  return cost;
}

Cost collective_cost(const Rates& rates, const Collective& c, std::span<const Rank> group) {
  Cost cost;
  const Bytes size = size_of(c.dtype) * c.count;
  if (group.size() < 2 || size.value() == 0) return cost;
  Timed t = timed(rates, c, group, size);
  cost.time = std::max(Seconds(0), t.time);
  cost.how = std::move(t.how);
  // What crosses the link is read once and written once.
  const double crossing = bus_factor(c.kind, static_cast<int>(group.size())) * static_cast<double>(size.value());
  pass_memory(rates, cost, 2 * crossing);
  const std::vector<FabricLevel> fabric = fabric_of(rates);
  if (t.bytes.empty()) {
    t.bytes.resize(shape_of(fabric, group).level() + 1);
    t.bytes.back() = crossing;
  }
  cost.links = parts_of_links(fabric, t.bytes, cost.time);
  return cost;
}

Cost message_cost(const Rates& rates, Bytes bytes, Rank from, Rank to) {
  Cost cost;
  if (bytes.value() == 0 || rates.name.empty()) return cost;
  if (from == to) return memory_cost(rates, "a message to itself", bytes * 2);
  const Rank ends[] = {from, to};
  const std::vector<FabricLevel> fabric = fabric_of(rates);
  const GroupShape shape = shape_of(fabric, ends);
  LinkCost link = link_to(fabric, shape.level(), shape);
  if (!known(link)) {
    if (const KnownCollective* k = measured(rates, {}, ends, false, false)) {
      link = link_behind(*k, static_cast<double>(bytes.value()));
    }
  }
  if (!known(link)) throw not_told(rates, "a message");
  cost.time = link.latency + bytes / link.bandwidth;
  std::vector<double> sent(shape.level() + 1, 0.0);
  sent.back() = static_cast<double>(bytes.value());
  cost.links = parts_of_links(fabric, sent, cost.time);
  pass_memory(rates, cost, static_cast<double>(bytes.value()));
  return cost;
}

}  // namespace ovl::model
