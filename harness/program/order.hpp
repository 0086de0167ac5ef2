// SPDX-License-Identifier: Apache-2.0
//
// The order that a program guarantees between the operations of one rank: lanes, events and host_sync. Every wait
// comes after its record in issue order (check.hpp sees to it), so issue order is a topological order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "program/program.hpp"

namespace ovl {

class HappensBefore {
 public:
  // Positions below are indices into `operations`, which are not needed afterwards.
  HappensBefore(std::span<const Operation> operations, std::size_t lanes);

  // Whether a has finished before b may begin; false for a == b. A start event orders only what precedes its record.
  [[nodiscard]] bool before(std::size_t a, std::size_t b) const;

  // The direct predecessors of an operation: the one before it on its lane, the records it waits for, host_syncs.
  [[nodiscard]] const std::vector<std::size_t>& predecessors(std::size_t position) const {
    return predecessors_[position];
  }

 private:
  // Vector clocks: clock(i)[l] is how many operations of lane l have finished when i may begin, and i itself.
  std::vector<std::size_t> lane_;      // of each position
  std::vector<std::int32_t> ordinal_;  // of each position on its lane, from 1
  std::vector<std::int32_t> clocks_;   // positions × lanes
  std::vector<std::vector<std::size_t>> predecessors_;
  std::size_t lanes_;
};

}  // namespace ovl
