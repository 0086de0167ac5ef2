// SPDX-License-Identifier: Apache-2.0
#include "metrics/overlap.hpp"

#include <algorithm>
#include <cmath>

namespace ovl {
namespace {

struct Parts {
  Seconds shorter;
  Seconds longer;
};

// std::minmax would drop a NaN in its second argument.
Parts parts(const ArmTimes& times) {
  if (std::isnan((times.compute + times.comm).value())) return {unknown_time, unknown_time};
  const auto [shorter, longer] = std::minmax(times.compute, times.comm);
  return {shorter, longer};
}

double share(Seconds part, Seconds whole) { return whole > Seconds(0) ? part / whole : unknown_time.value(); }

}  // namespace

Overlap overlap(const ArmTimes& times) {
  const auto [shorter, longer] = parts(times);
  const Seconds sum = times.compute + times.comm;
  const Seconds saved = sum - times.step;
  return {.t_ideal = longer,
          .speedup_bound = share(sum, longer),
          .t_overlap = saved,
          .t_exposed = times.step - times.compute,
          .hidden_share = share(saved, shorter),
          .hidden_fraction = share(saved, times.comm),
          .speedup = share(sum, times.step),
          .speedup_measured = share(times.serial, times.step),
          .serial_gap = times.serial - sum};
}

Watched watched_statistic(const ArmTimes& medians) {
  const bool small = share(parts(medians).shorter, medians.step) < smallest_part_worth_hiding;
  return small ? Watched::exposed_fraction : Watched::hidden_share;
}

double precision_statistic(const ArmTimes& times, Watched watched) {
  if (watched == Watched::hidden_share) return overlap(times).hidden_share;
  return share(times.step - times.compute, times.step);
}

}  // namespace ovl
