// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backend/backend.hpp"

namespace ovl {

Seconds Timings::step() const {
  if (ranks.empty()) return unknown_time;
  Seconds end = ranks.front().end;
  Seconds origin = ranks.front().origin;
  for (const RankTiming& r : ranks) {
    if (std::isnan((r.end - r.origin).value())) return unknown_time;
    end = std::max(end, r.end);
    origin = std::max(origin, r.origin);
  }
  return end - origin;
}

Seconds Timings::align_skew() const {
  if (ranks.empty()) return unknown_time;
  const auto [first, last] = std::minmax_element(
      ranks.begin(), ranks.end(), [](const RankTiming& a, const RankTiming& b) { return a.origin < b.origin; });
  return last->origin - first->origin;
}

}  // namespace ovl
