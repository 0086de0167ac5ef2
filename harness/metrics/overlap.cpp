// SPDX-License-Identifier: Apache-2.0
#include "metrics/overlap.hpp"

#include <algorithm>
#include <cmath>

namespace ovl {

// std::min and std::max would drop a NaN in their second argument.
Seconds shorter_part(const ArmTimes& times) {
  const bool known = !std::isnan((times.compute + times.comm).value());
  return known ? std::min(times.compute, times.comm) : unknown_time;
}

Seconds longer_part(const ArmTimes& times) {
  const bool known = !std::isnan((times.compute + times.comm).value());
  return known ? std::max(times.compute, times.comm) : unknown_time;
}

double share(Seconds part, Seconds whole) { return whole > Seconds(0) ? part / whole : unknown_time.value(); }

Overlap overlap(const ArmTimes& times) {
  const Seconds longer = longer_part(times);
  const Seconds sum = times.compute + times.comm;
  const Seconds saved = sum - times.step;
  return {.t_ideal = longer,
          .speedup_bound = share(sum, longer),
          .t_overlap = saved,
          .t_exposed = times.step - times.compute,
          .hidden_share = share(saved, shorter_part(times)),
          .hidden_fraction = share(saved, times.comm),
          .speedup = share(sum, times.step),
          .speedup_measured = share(times.serial, times.step),
          .serial_gap = times.serial - sum};
}

Watched watched_statistic(const ArmTimes& medians) {
  const bool small = share(shorter_part(medians), medians.step) < smallest_part_worth_hiding;
  return small ? Watched::exposed_fraction : Watched::hidden_share;
}

double precision_statistic(const ArmTimes& times, Watched watched) {
  if (watched == Watched::hidden_share) return overlap(times).hidden_share;
  return share(times.step - times.compute, times.step);
}

}  // namespace ovl
