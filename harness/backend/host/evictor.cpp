// SPDX-License-Identifier: Apache-2.0
#include "backend/host/evictor.hpp"

#include "kernels/host/evict.hpp"

namespace ovl::host {

Evictor::Evictor(const std::vector<int>& cores, Bytes last_level_cache) {
  const std::int64_t each = 2 * last_level_cache.value() / std::ssize(cores);
  const std::vector<Buffer> scratch{{.name = "scratch", .dtype = DType::f8e4m3, .count = each}};
  arenas_.reserve(cores.size());
  for (const int core : cores) {
    std::byte* memory = arenas_.emplace_back(scratch).copy(BufferId(0), 0);
    // No rank has these workers: theirs need not move for it.
    jobs_.push_back({{-1, 0, static_cast<int>(jobs_.size())}, core, [memory, each] { kernels::evict(memory, each); }});
  }
}

}  // namespace ovl::host
