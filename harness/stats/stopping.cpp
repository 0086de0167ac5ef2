// SPDX-License-Identifier: Apache-2.0
#include "stats/stopping.hpp"

#include <cmath>
#include <cstddef>

#include "stats/summary.hpp"

namespace ovl {

Stop decide(const StopRule& rule, int rounds, Seconds elapsed, Interval interval) {
  if (rounds >= rule.min_rounds && interval.width() < rule.precision) return Stop::precision;
  if (rounds >= rule.max_rounds) return Stop::max_samples;
  if (elapsed >= rule.max_time) return Stop::max_time;
  return Stop::go_on;
}

bool steady(std::span<const double> recent, double tolerance) {
  constexpr std::size_t least_window = 5;
  const std::size_t window = recent.size() / 2;
  if (window < least_window) return false;
  const double newer = median(recent.last(window));
  const double older = median(recent.last(2 * window).first(window));
  return std::fabs(newer - older) <= tolerance * std::fmin(newer, older);
}

}  // namespace ovl
