// SPDX-License-Identifier: Apache-2.0
#include "metrics/verdict.hpp"

#include <fmt/format.h>

#include <cmath>

namespace ovl {
namespace {

constexpr double near_bound = 0.9;   // hides at least this: nothing left to tune
constexpr double near_serial = 0.1;  // hides or loses at most this: as good as one after the other
constexpr double stretched = 1.1;    // takes this much longer than alone: slowed by the other

// Whole per cent; adding zero turns a rounded -0 into 0.
double percent(double fraction) { return std::round(100 * fraction) + 0.0; }

std::string cause(double compute_stretch, double comm_stretch) {
  if (std::isnan(compute_stretch) || std::isnan(comm_stretch)) return "the cause was not observed";
  const bool compute_slowed = compute_stretch >= stretched;
  const bool comm_slowed = comm_stretch >= stretched;
  if (compute_slowed && comm_slowed) {
    return fmt::format("each slows the other (compute {:.2f}x, communication {:.2f}x as long as alone)",
                       compute_stretch, comm_stretch);
  }
  if (compute_slowed) return fmt::format("communication slows compute ({:.2f}x as long as alone)", compute_stretch);
  if (comm_slowed) return fmt::format("compute slows communication ({:.2f}x as long as alone)", comm_stretch);
  return "neither takes longer than alone, so order, launch or waiting costs the rest";
}

}  // namespace

std::string verdict(const ArmTimes& medians, Interval hidden_share, double compute_stretch, double comm_stretch) {
  const Overlap o = overlap(medians);
  if (std::isnan(o.hidden_share)) return "unknown: a part was not measured or took no time";

  const std::string shorter = medians.comm <= medians.compute ? "communication" : "compute";
  if (watched_statistic(medians) == Watched::exposed_fraction) {
    return fmt::format("little to hide: {} alone is {:.1f} % of the step", shorter,
                       100 * share(shorter_part(medians), medians.step));
  }
  if (std::isnan(hidden_share.width())) {
    return fmt::format("hides {} % of the {}, how surely is unknown", percent(o.hidden_share), shorter);
  }
  const std::string hides = fmt::format("hides {} % [{}, {}] of the {}", percent(o.hidden_share),
                                        percent(hidden_share.low), percent(hidden_share.high), shorter);
  const std::string why = cause(compute_stretch, comm_stretch);

  if (hidden_share.low >= -near_serial && hidden_share.high <= near_serial) {
    const bool together = compute_stretch >= stretched || comm_stretch >= stretched;
    return together ? "no gain: " + why + ", " + hides : "no overlap: one runs after the other, " + hides;
  }
  if (hidden_share.high < 0) return fmt::format("worse than serial by {} %: {}", percent(1 / o.speedup - 1), why);
  if (hidden_share.low <= 0) return "no measurable overlap: " + hides + ", the interval is too wide to tell";
  if (hidden_share.low > 1) return hides + ": beyond the bound, so a part ran slower alone than it can; measure again";
  if (hidden_share.low >= near_bound) return hides + ": near the bound";
  if (o.hidden_share > 1) return hides + ": nothing is left to hide, as far as the interval tells";
  return hides + ": " + why;
}

}  // namespace ovl
