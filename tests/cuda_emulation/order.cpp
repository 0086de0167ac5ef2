// SPDX-License-Identifier: Apache-2.0
#include "order.hpp"

#include <algorithm>

namespace ovl::emulation {

void Clock::join(const Clock& other) {
  if (steps_.size() < other.steps_.size()) steps_.resize(other.steps_.size());
  for (std::size_t lane = 0; lane < other.steps_.size(); ++lane) {
    steps_[lane] = std::max(steps_[lane], other.steps_[lane]);
  }
}

std::uint64_t Clock::tick(std::size_t lane) {
  if (steps_.size() <= lane) steps_.resize(lane + 1);
  return ++steps_[lane];
}

bool Clock::has(std::size_t lane, std::uint64_t step) const { return lane < steps_.size() && steps_[lane] >= step; }

}  // namespace ovl::emulation
