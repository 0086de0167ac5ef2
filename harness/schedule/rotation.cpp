// SPDX-License-Identifier: Apache-2.0
#include "schedule/rotation.hpp"

#include <algorithm>

namespace ovl {

Rotation rotate(Bytes over, Bytes footprint, std::int64_t operations) {
  constexpr std::int64_t most_sets = 4096;
  const std::int64_t wanted = divide_up(over.value(), std::max<std::int64_t>(1, footprint.value()));
  const std::int64_t sets = std::clamp<std::int64_t>(wanted, 1, most_sets);
  const std::int64_t slices = std::min(operations, sets);
  return {slices, static_cast<int>(divide_up(sets, slices))};
}

}  // namespace ovl
