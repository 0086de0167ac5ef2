// SPDX-License-Identifier: Apache-2.0
#include "metrics/collective_cost.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.hpp"

namespace ovl {
namespace {

bool power_of_two(int n) { return std::has_single_bit(static_cast<unsigned>(n)); }

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
}

// Up a pipelined tree and down again, or down alone: `depth` hops fill the pipe, then a chunk leaves it each hop. The
// number of chunks is the best whole one.
Seconds pipelined_tree(double trips, double depth, Bytes size, const LinkCost& link) {
  const auto bytes = static_cast<double>(size.value());
  const double beta = 1 / link.bandwidth.value();
  const double alpha = link.latency.value();
  const auto time = [&](double chunks) { return trips * (depth - 1 + chunks) * (alpha + bytes / chunks * beta); };
  const double best = alpha > 0 ? std::sqrt((depth - 1) * bytes * beta / alpha) : bytes;
  const double low = std::max(1.0, std::floor(best));
  return Seconds(std::min(time(low), time(low + 1)));
}

}  // namespace

CollectiveSteps collective_steps(CollectiveAlgorithm algorithm, CollectiveKind kind, int ranks) {
  require(ranks >= 1, "a collective has at least one rank");
  const double n = ranks;
  const double doublings = std::ceil(std::log2(n));
  switch (algorithm) {
    case CollectiveAlgorithm::ring:
      switch (kind) {
        case CollectiveKind::all_reduce: return {2 * (n - 1), 2 * (n - 1) / n};
        case CollectiveKind::all_gather:
        case CollectiveKind::reduce_scatter: return {n - 1, (n - 1) / n};
        case CollectiveKind::broadcast: return {n - 1, 1};
        case CollectiveKind::all_to_all: return {};
      }
      break;
    case CollectiveAlgorithm::recursive:
      if (kind == CollectiveKind::broadcast) return {doublings, doublings};
      if (!power_of_two(ranks)) return {};
      if (kind == CollectiveKind::all_reduce) return {2 * doublings, 2 * (n - 1) / n};
      if (kind == CollectiveKind::all_to_all) return {};
      return {doublings, (n - 1) / n};
    case CollectiveAlgorithm::tree: return {};
    case CollectiveAlgorithm::direct:
      if (kind != CollectiveKind::all_to_all) return {};
      return {n - 1, (n - 1) / n};
    case CollectiveAlgorithm::in_network:
      if (kind == CollectiveKind::all_to_all) return {};
      return {kind == CollectiveKind::all_reduce ? 2.0 : 1.0, 1};
  }
  throw std::logic_error("broken invariant: an algorithm without steps");
}

Seconds collective_time(CollectiveAlgorithm algorithm, CollectiveKind kind, int ranks, Bytes size,
                        const LinkCost& link) {
  require(ranks >= 1, "a collective has at least one rank");
  if (ranks == 1) return Seconds(0);
  const auto bytes = static_cast<double>(size.value());
  const double n = ranks;
  // Who adds up does so for what it receives to add: (n-1)/n of the array, whatever the algorithm; a tree's inner ranks
  // all of it.
  const double added = reduces(kind) && algorithm != CollectiveAlgorithm::in_network ? bytes * link.reduce : 0;
  if (algorithm == CollectiveAlgorithm::tree) {
    const double trips = kind == CollectiveKind::all_reduce ? 2 : 1;
    if (kind != CollectiveKind::all_reduce && kind != CollectiveKind::broadcast) return unknown_time;
    return pipelined_tree(trips, std::ceil(std::log2(n)), size, link) + Seconds(added);
  }
  const CollectiveSteps steps = collective_steps(algorithm, kind, ranks);
  if (steps.messages == 0) return unknown_time;
  return link.latency * steps.messages + Seconds(steps.bytes * bytes / link.bandwidth.value() + (n - 1) / n * added);
}

CollectiveChoice fastest_collective(CollectiveKind kind, int ranks, Bytes size, const LinkCost& link, bool in_network) {
  CollectiveChoice best;
  for (const auto& [algorithm, text] : EnumNames<CollectiveAlgorithm>::table) {
    if (algorithm == CollectiveAlgorithm::in_network && !in_network) continue;
    const Seconds time = collective_time(algorithm, kind, ranks, size, link);
    if (std::isnan(time.value())) continue;
    if (std::isnan(best.time.value()) || time < best.time) best = {algorithm, time};
  }
  return best;
}

HierarchicalCost hierarchical_collective(CollectiveKind kind, std::span<const HierarchyLevel> levels, Bytes size) {
  require(!levels.empty(), "a hierarchy has a level");
  using enum CollectiveKind;
  const bool both = kind == all_reduce;
  if (!both && kind != reduce_scatter && kind != all_gather) return {};
  HierarchicalCost cost{Seconds(0), {}};
  Bytes part = size;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const auto& [members, link] = levels[i];
    require(members >= 1, "a level has a member");
    const bool outermost = i + 1 == levels.size();
    if (outermost) {
      cost.time += fastest_collective(kind, members, part, link, false).time;
    } else {
      for (const CollectiveKind phase : {reduce_scatter, all_gather}) {
        if (both || phase == kind) cost.time += collective_time(CollectiveAlgorithm::ring, phase, members, part, link);
      }
    }
    cost.bytes.push_back((both ? 2.0 : 1.0) * (members - 1) / members * static_cast<double>(part.value()));
    part = Bytes(part.value() / members);
  }
  return cost;
}

}  // namespace ovl
