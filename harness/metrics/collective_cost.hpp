// SPDX-License-Identifier: Apache-2.0
//
// What a collective takes by algorithm, in the alpha-beta model: a message of b bytes over a link takes
// alpha + b · beta, and adding up b bytes takes b · gamma. Closed forms of Thakur, Rabenseifner and Gropp,
// "Optimization of Collective Communication Operations in MPICH" (IJHPCA 19, 2005); of a pipelined binary tree as in
// Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan" (Parallel Computing
// 35, 2009): 2 (log n - 1 + k)(alpha + b beta / k) for k chunks. Nobody else is on the links; all ranks come at once.
//
// Sizes are the whole array, nccl-tests' convention: the input of reduce_scatter, the output of all_gather.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/enum_names.hpp"
#include "base/units.hpp"
#include "program/program.hpp"

namespace ovl {

struct LinkCost {
  Seconds latency;           // alpha, of one message
  BytesPerSecond bandwidth;  // 1 / beta, one direction
  double reduce = 0;         // gamma, s/B
};

// ring: neighbours pass blocks on. recursive: halving, doubling or both (Rabenseifner), powers of two only; of
// broadcast a binomial tree of whole messages. tree: pipelined in the best number of chunks, all_reduce and broadcast.
// direct: everybody sends to everybody, all_to_all. in_network: the switch adds up, or copies to all.
enum class CollectiveAlgorithm { ring, recursive, tree, direct, in_network };
template <>
struct EnumNames<CollectiveAlgorithm> {
  static constexpr std::string_view axis = "algorithm";
  static constexpr std::pair<CollectiveAlgorithm, std::string_view> table[] = {
      {CollectiveAlgorithm::ring, "ring"},
      {CollectiveAlgorithm::recursive, "recursive"},
      {CollectiveAlgorithm::tree, "tree"},
      {CollectiveAlgorithm::direct, "direct"},
      {CollectiveAlgorithm::in_network, "in_network"}};
};

// Messages that follow each other, and bytes of the array that each rank's link carries one way, as a part of it:
//   ring        all_reduce 2(n-1), 2(n-1)/n; reduce_scatter, all_gather n-1, (n-1)/n; broadcast n-1, 1 (pipelined)
//   recursive   all_reduce 2 log n, 2(n-1)/n; reduce_scatter, all_gather log n, (n-1)/n; broadcast ceil(log n) of both
//   direct      all_to_all n-1, (n-1)/n
//   in_network  all_reduce 2, 1; reduce_scatter, all_gather, broadcast 1, 1
// Zero where the algorithm does not do this kind; tree is not of this form.
struct CollectiveSteps {
  double messages = 0;
  double bytes = 0;
};
CollectiveSteps collective_steps(CollectiveAlgorithm algorithm, CollectiveKind kind, int ranks);

// NaN where the algorithm does not do this kind with so many ranks. One rank: 0.
Seconds collective_time(CollectiveAlgorithm algorithm, CollectiveKind kind, int ranks, Bytes size,
                        const LinkCost& link);

// The algorithm that takes the least time, and that time.
struct CollectiveChoice {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;
  Seconds time = unknown_time;
};
// `in_network`: whether the switch can.
CollectiveChoice fastest_collective(CollectiveKind kind, int ranks, Bytes size, const LinkCost& link, bool in_network);

// A level of a hierarchy: ranks of a node, nodes of a rack ..., and the link of each rank there.
struct HierarchyLevel {
  int members = 1;
  LinkCost link;
};
struct HierarchicalCost {
  Seconds time = unknown_time;
  std::vector<double> bytes;  // of each level: what one rank sends there
};

// Level by level, the innermost first: reduce_scatter over its members, each with what is left of the array, all_reduce
// of the rest at the outermost, all_gather back; of reduce_scatter and all_gather that one way alone. Rings, but for
// the outermost level, where it is the fastest algorithm. Unknown for other kinds.
HierarchicalCost hierarchical_collective(CollectiveKind kind, std::span<const HierarchyLevel> levels, Bytes size);

}  // namespace ovl
