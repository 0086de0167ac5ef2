// SPDX-License-Identifier: Apache-2.0
#include "backend/host/topology.hpp"

#include <hwloc.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>

#include "base/error.hpp"

namespace ovl::host {
namespace {

struct FreeBitmap {
  void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};
using Bitmap = std::unique_ptr<std::remove_pointer_t<hwloc_bitmap_t>, FreeBitmap>;

Bitmap process_affinity(hwloc_topology_t topology) {
  Bitmap set(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(topology, set.get(), HWLOC_CPUBIND_PROCESS) != 0) {
    hwloc_bitmap_copy(set.get(), hwloc_topology_get_allowed_cpuset(topology));
  }
  hwloc_bitmap_and(set.get(), set.get(), hwloc_topology_get_allowed_cpuset(topology));
  return set;
}

// Cores' worth of time that the cgroup grants; infinite without a quota. Format of cpu.max: "<quota>|max <period>".
double cgroup_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (file >> quota >> period && period > 0) return quota / period;
  return std::numeric_limits<double>::infinity();
}

}  // namespace

void Topology::Destroy::operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }

Topology::Topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) throw failure("hwloc did not start", "hwloc_topology_init failed");
  topology_.reset(topology);
  if (hwloc_topology_load(topology) != 0) {
    throw failure("hwloc cannot read this machine", "hwloc_topology_load failed", "try `lstopo` to see why");
  }
}

std::vector<int> Topology::cores() const {
  const Bitmap mine = process_affinity(topology_.get());
  std::vector<int> cores;
  const int depth = hwloc_get_type_or_below_depth(topology_.get(), HWLOC_OBJ_CORE);
  for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_depth(topology_.get(), depth, core)) != nullptr;) {
    const Bitmap threads(hwloc_bitmap_dup(core->cpuset));
    hwloc_bitmap_and(threads.get(), threads.get(), mine.get());
    if (hwloc_bitmap_iszero(threads.get()) == 0) cores.push_back(hwloc_bitmap_first(threads.get()));
  }
  std::sort(cores.begin(), cores.end());
  const double granted = std::max(1.0, std::floor(cgroup_cores()));
  if (granted < static_cast<double>(cores.size())) cores.resize(static_cast<std::size_t>(granted));
  return cores;
}

int Topology::sibling(int core) const {
  const hwloc_obj_t thread = hwloc_get_pu_obj_by_os_index(topology_.get(), static_cast<unsigned>(core));
  const hwloc_obj_t whole =
      thread == nullptr ? nullptr : hwloc_get_ancestor_obj_by_type(topology_.get(), HWLOC_OBJ_CORE, thread);
  if (whole == nullptr) return -1;
  const Bitmap others(hwloc_bitmap_dup(whole->cpuset));
  hwloc_bitmap_and(others.get(), others.get(), process_affinity(topology_.get()).get());
  hwloc_bitmap_clr(others.get(), static_cast<unsigned>(core));
  return hwloc_bitmap_first(others.get());
}

bool Topology::allowed(int core) const {
  return core >= 0 && hwloc_bitmap_isset(process_affinity(topology_.get()).get(), static_cast<unsigned>(core)) != 0;
}

void Topology::pin(pthread_t thread, int core) const {
  const Bitmap set(hwloc_bitmap_alloc());
  hwloc_bitmap_only(set.get(), static_cast<unsigned>(core));
  if (hwloc_set_thread_cpubind(topology_.get(), thread, set.get(), HWLOC_CPUBIND_STRICT) != 0) {
    throw failure("cannot pin a thread to core " + std::to_string(core), "the operating system refused",
                  "see the allowed cores with `taskset -cp $$`");
  }
}

Bytes Topology::cache(int level) const {
  const hwloc_obj_t object = hwloc_get_obj_by_depth(
      topology_.get(),
      hwloc_get_cache_type_depth(topology_.get(), static_cast<unsigned>(level), HWLOC_OBJ_CACHE_UNIFIED), 0);
  return Bytes(object == nullptr ? 0 : static_cast<std::int64_t>(object->attr->cache.size));
}

Bytes Topology::last_level_cache(const std::vector<int>& cores) const {
  std::set<hwloc_obj_t> caches;
  for (const int core : cores) {
    hwloc_obj_t last = nullptr;
    for (hwloc_obj_t o = hwloc_get_pu_obj_by_os_index(topology_.get(), static_cast<unsigned>(core)); o != nullptr;
         o = o->parent) {
      if (hwloc_obj_type_is_dcache(o->type) != 0) last = o;
    }
    if (last != nullptr) caches.insert(last);
  }
  Bytes total;
  for (const hwloc_obj_t cache : caches) total += Bytes(static_cast<std::int64_t>(cache->attr->cache.size));
  return total;
}

std::string Topology::cpu_model() const {
  const hwloc_obj_t package = hwloc_get_obj_by_type(topology_.get(), HWLOC_OBJ_PACKAGE, 0);
  const char* model = package == nullptr ? nullptr : hwloc_obj_get_info_by_name(package, "CPUModel");
  return model == nullptr ? "" : model;
}

std::string Topology::hwloc_version() {
  const unsigned v = hwloc_get_api_version();
  return std::to_string(v >> 16U) + "." + std::to_string((v >> 8U) & 0xffU) + "." + std::to_string(v & 0xffU);
}

Bytes available_memory() {
  double available = std::numeric_limits<double>::infinity();
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key, unit; meminfo >> key;) {
    double amount = 0;
    meminfo >> amount;
    std::getline(meminfo, unit);
    if (key == "MemAvailable:") available = amount * 1024;
  }
  double limit = 0;
  double used = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit && std::ifstream("/sys/fs/cgroup/memory.current") >> used) {
    available = std::min(available, limit - used);
  }
  if (!std::isfinite(available)) return Bytes(std::numeric_limits<std::int64_t>::max());
  return Bytes(static_cast<std::int64_t>(std::max(0.0, available)));
}

}  // namespace ovl::host
