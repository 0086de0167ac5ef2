// SPDX-License-Identifier: Apache-2.0
//
// A placement sets independent axes of a program; the usual names are presets. Axes combine: "partitioned+comm_first".
// Backends never see a placement's name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.hpp"

namespace ovl {

// Who may begin when.
// concurrent: as the schedule says.   serial: one lane, in issue order.
// comm_first, compute_first: the other role's lanes begin once the first operation of this role has started.
// event_chained: every operation waits, by event, for the one issued before it.
// global_sync: the host waits for everything between operations of different roles.
enum class LaunchOrder { concurrent, serial, comm_first, compute_first, event_chained, global_sync };

struct Placement {
  LaunchOrder order = LaunchOrder::concurrent;
  std::optional<Role> priority;  // whose lanes get high priority
  Partition partition = Partition::automatic;
  std::optional<std::string> transport;
  bool graph = false;
};

// concurrent, serial, comm_first, compute_first, event_chained, global_sync, priority_comm, priority_compute,
// partitioned, shared_core, smt_siblings, copy_engine, graph; or several joined by '+', at most one for each axis.
Placement parse_placement(std::string_view text);
std::vector<std::string> placement_names();

// Throws Error(impossible) when the order cannot be had: comm_first where the first communication waits for compute.
Program place(const Program& program, const Placement& placement);

}  // namespace ovl
