// SPDX-License-Identifier: Apache-2.0
//
// The published tuning model by which NCCL itself predicts a collective's time and chooses algorithm and protocol:
// time = latency + bytes / bandwidth. Formulas and constants of src/graph/tuning.cc and src/graph/topo.h of NCCL
// 2.30.7 (commit 5067397c), as numbers. Ring and tree with their three protocols; NVLS, CollNet and PAT are left out:
// their bandwidths depend on what the switch is. A tuner plugin may replace all of it, and measured times differ; what
// it is worth against measurements is in docs/model.md.
#pragma once

#include <limits>
#include <string_view>
#include <utility>

#include "base/enum_names.hpp"
#include "base/units.hpp"
#include "program/program.hpp"

namespace ovl {

enum class GpuGeneration { volta, ampere, hopper, blackwell };
template <>
struct EnumNames<GpuGeneration> {
  static constexpr std::string_view axis = "generation";
  static constexpr std::pair<GpuGeneration, std::string_view> table[] = {{GpuGeneration::volta, "volta"},
                                                                         {GpuGeneration::ampere, "ampere"},
                                                                         {GpuGeneration::hopper, "hopper"},
                                                                         {GpuGeneration::blackwell, "blackwell"}};
};

enum class NcclAlgorithm { ring, tree };
template <>
struct EnumNames<NcclAlgorithm> {
  static constexpr std::string_view axis = "NCCL algorithm";
  static constexpr std::pair<NcclAlgorithm, std::string_view> table[] = {{NcclAlgorithm::ring, "ring"},
                                                                         {NcclAlgorithm::tree, "tree"}};
};
enum class NcclProtocol { ll, ll128, simple };
template <>
struct EnumNames<NcclProtocol> {
  static constexpr std::string_view axis = "NCCL protocol";
  static constexpr std::pair<NcclProtocol, std::string_view> table[] = {
      {NcclProtocol::ll, "LL"}, {NcclProtocol::ll128, "LL128"}, {NcclProtocol::simple, "Simple"}};
};

// What NCCL's topology search finds; NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH prints it.
struct NcclGraph {
  GpuGeneration generation = GpuGeneration::hopper;
  int ranks = 1;
  int nodes = 1;
  int channels = 1;
  BytesPerSecond channel_bandwidth;  // of one channel
  bool pcie = false;                 // within a node: PCIe instead of NVLink
  bool amd_cpu = false;
};

// NaN for what NCCL does not offer: tree for anything but all_reduce, all_to_all (which is sends and receives), and
// broadcast where the ring's channels differ.
struct NcclCost {
  Seconds latency = unknown_time;
  BytesPerSecond bandwidth{std::numeric_limits<double>::quiet_NaN()};  // of the array, before the size's correction
  Seconds time = unknown_time;
};
NcclCost nccl_cost(const NcclGraph& graph, CollectiveKind kind, NcclAlgorithm algorithm, NcclProtocol protocol,
                   Bytes size);

// The pair with the smallest predicted time, as NCCL takes it.
struct NcclChoice {
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  NcclCost cost;
};
NcclChoice nccl_choice(const NcclGraph& graph, CollectiveKind kind, Bytes size);

}  // namespace ovl
