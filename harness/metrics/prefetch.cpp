// SPDX-License-Identifier: Apache-2.0
#include "metrics/prefetch.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace ovl {

Seconds prefetched_pass(std::int64_t layers, Seconds gather, Seconds compute, std::int64_t depth) {
  require(layers > 0 && depth >= 0, "there is a layer, and no depth is negative");
  if (depth == 0) return (gather + compute) * static_cast<double>(layers);
  return gather + std::max(gather, compute) * static_cast<double>(layers - 1) + compute;
}

Bytes prefetch_memory(std::int64_t layers, Bytes layer, std::int64_t depth) {
  return layer * std::min(layers, 1 + depth);
}

}  // namespace ovl
