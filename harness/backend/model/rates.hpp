// SPDX-License-Identifier: Apache-2.0
//
// What a machine can do, as the model takes it: rates of one device and costs of what passes between devices. Unknown
// is NaN or 0 as said; what depends on an unknown number cannot be predicted, or is left out where that is said.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/dtype.hpp"
#include "base/units.hpp"
#include "metrics/collective_cost.hpp"
#include "metrics/nccl_tuning.hpp"
#include "program/program.hpp"
#include "stats/fit.hpp"

namespace ovl::model {

inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

// t = alpha + beta · bytes by segment, of the whole array: measured, or fitted by somebody else.
struct KnownCollective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  int ranks = 0;
  std::optional<DType> dtype;  // none: of any
  CostFit cost;
  double least_bytes = 0;  // below it a line that would reach 0 stays as it is there
};

// What stands for NCCL's choice where its graph is known.
struct NcclDescription {
  GpuGeneration generation = GpuGeneration::hopper;
  int channels = 0;
  BytesPerSecond channel_bandwidth{0};
};

// A level of a fabric above the node: it connects the units of the level below, `ranks` devices in all that follow each
// other. What leaves the devices of one unit below for it shares n · bandwidth / oversubscription, each way, n devices
// being in that unit; whatever goes further up passes here too.
struct FabricLevel {
  int ranks = 0;                                             // 0: all that there are
  LinkCost link{Seconds(unknown), BytesPerSecond(unknown)};  // of one device, one direction
  double oversubscription = 1;
};

struct Rates {
  std::string name;                             // of the machine; empty: none was given, only busy runs
  std::vector<std::string> transports{"none"};  // first is the default; "copy" uses copy engines and no units

  int units = 0;                         // SMs of a device, or 0: who runs beside whom takes no units from it
  int comm_units = 0;                    // that a collective holds where the program leaves it to the library
  int copy_engines = 1;                  // of a device
  std::map<DType, FlopsPerSecond> gemm;  // all units together, on whole tiles
  // Of one shape m, n, k, with everything that a GEMM of it takes: where it is known no formula is asked.
  std::map<std::tuple<DType, std::int64_t, std::int64_t, std::int64_t>, FlopsPerSecond> gemm_shapes;
  BytesPerSecond memory{unknown};  // of a device, reads and writes together; unknown: never limits
  Seconds kernel{0};               // added to every operation that computes or copies
  Seconds launch{0};               // the host's, for each operation of a rank, where the launch is in the window

  std::vector<KnownCollective> collectives;
  LinkCost link{Seconds(unknown), BytesPerSecond(unknown)};     // between devices of a node, one direction
  LinkCost network{Seconds(unknown), BytesPerSecond(unknown)};  // between nodes, for each device
  std::vector<FabricLevel> beyond;                              // above the node, in place of `network`
  int node_ranks = 0;                                           // devices of a node; 0: all on one
  std::optional<NcclDescription> nccl;

  // Every rank computes by up to this share slower or faster than the others, evenly spread: what it takes alone times
  // 1 - skew to 1 + skew, by `seed` and rank. 0: ranks are equal.
  double skew = 0;
  std::uint64_t seed = 1;

  // How many times as long one takes while the other runs beside it, as measured; 1: not known, and what they share in
  // memory, links and units is all that slows them.
  double compute_slowdown = 1;
  double comm_slowdown = 1;
};

}  // namespace ovl::model
