// SPDX-License-Identifier: Apache-2.0
//
// Before a replay is timed, the caches are made to hold nothing of the replays before it: otherwise an arm that follows
// one which ended with the same kind of work starts warm, and looks faster alone than it is within a step.
#pragma once

#include <vector>

#include "backend/host/memory.hpp"
#include "backend/host/workers.hpp"
#include "base/units.hpp"

namespace ovl::host {

class Evictor {
 public:
  // Twice the last-level cache, in equal parts for the cores, each of which walks its own.
  Evictor(const std::vector<int>& cores, Bytes last_level_cache);

  [[nodiscard]] const std::vector<Job>& jobs() const { return jobs_; }

 private:
  std::vector<Arena> arenas_;
  std::vector<Job> jobs_;
};

}  // namespace ovl::host
