// SPDX-License-Identifier: Apache-2.0
//
// What each operation takes when nobody is beside it, and which part of its device it takes for that. The closed forms
// are those of metrics/; here it is decided which of them stands for an operation of a program on given rates.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/model/rates.hpp"
#include "base/ids.hpp"
#include "program/program.hpp"

namespace ovl::model {

struct Cost {
  Seconds time{0};
  double memory = 0;  // part of the device's memory bandwidth while it runs alone: 0 to 1
  // Likewise of the device's link to each level of the fabric, each way, up to the one that it crosses: the node's own,
  // then those above. What goes to a level passes those between. Empty: it crosses none.
  std::vector<double> links;
  std::string how;  // "ring, LL128", "measured", ...: for observed columns; empty where there is one way only
};

// A GEMM is also the units that it works on.
struct GemmCost {
  Cost cost;
  int units = 0;  // 0: units are not known
  std::int64_t tiles = 0;
  Seconds wave;    // one wave of all repeats, as far as arithmetic goes
  Seconds block;   // until the next wave
  Seconds kernel;  // one repeat
};

// All throw Error(impossible) that names what the machine does not say.
GemmCost gemm_cost(const Rates& rates, const Gemm& gemm);
// Memory is passed `bytes` times over at its bandwidth: elementwise operations and copies.
Cost memory_cost(const Rates& rates, std::string_view kind, Bytes bytes);
// `group` are the ranks, in order: those of a node are consecutive numbers. The first that there is of: what was
// measured for this kind and number of ranks; NCCL's own prediction, of whole nodes; the fastest algorithm over the
// given links, hierarchical beyond a node; the same kind, else another one, measured with other ranks, scaled as a
// ring.
Cost collective_cost(const Rates& rates, const Collective& collective, std::span<const Rank> group);
// One message. Without a machine it takes no time: where all durations are given, messages only order ranks.
Cost message_cost(const Rates& rates, Bytes bytes, Rank from, Rank to);

// How many nodes these ranks are on.
int nodes_of(const Rates& rates, std::span<const Rank> group);

// All levels, the node first. One: ranks are all on one node.
std::vector<FabricLevel> fabric_of(const Rates& rates);
// Which unit of a level a rank is in.
int unit_of(const FabricLevel& level, Rank rank);

// How a group lies on a fabric, up to the level that holds all of it.
struct GroupShape {
  std::vector<int> units;  // of each level: that it is in; of the last one, 1
  std::vector<int> ranks;  // and of its ranks in one of them, the most
  bool even = true;        // equally many in each, on every level

  [[nodiscard]] std::size_t level() const { return units.size() - 1; }
};
GroupShape shape_of(const std::vector<FabricLevel>& fabric, std::span<const Rank> group);

}  // namespace ovl::model
