// SPDX-License-Identifier: Apache-2.0
//
// What hwloc knows of this machine: the cores that we may use, the caches, and how to pin a thread.
#pragma once

#include <pthread.h>

#include <memory>
#include <string>
#include <vector>

#include "base/units.hpp"

struct hwloc_topology;

namespace ovl::host {

class Topology {
 public:
  // Throws Error(failure) where hwloc cannot read the machine.
  Topology();

  // One hardware thread a core, operating system numbers, ascending: those in the process's affinity mask and cgroup,
  // and no more than the cgroup's CPU quota pays for.
  [[nodiscard]] std::vector<int> cores() const;
  // The hardware thread of the same core that we may use beside this one; -1: none.
  [[nodiscard]] int sibling(int core) const;
  // Whether the affinity mask lets us run there (any hardware thread).
  [[nodiscard]] bool allowed(int core) const;
  // Throws Error(failure) naming the core.
  void pin(pthread_t thread, int core) const;
  // Size of one data or unified cache of this level, 0 where there is none.
  [[nodiscard]] Bytes cache(int level) const;
  // All last-level caches that these cores reach, together; 0 where hwloc sees no cache.
  [[nodiscard]] Bytes last_level_cache(const std::vector<int>& cores) const;
  [[nodiscard]] std::string cpu_model() const;
  [[nodiscard]] static std::string hwloc_version();

 private:
  struct Destroy {
    void operator()(hwloc_topology* topology) const;
  };
  std::unique_ptr<hwloc_topology, Destroy> topology_;
};

// What this process may still allocate: the kernel's estimate, or the cgroup's limit if that is less.
Bytes available_memory();

}  // namespace ovl::host
