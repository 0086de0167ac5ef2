// SPDX-License-Identifier: Apache-2.0
#include "metrics/verdict.hpp"

#include <fmt/format.h>

#include <cmath>

namespace ovl {
namespace {

constexpr double near_bound = 0.9;   // hides at least this: nothing left to tune
constexpr double near_serial = 0.1;  // hides or loses at most this: as good as one after the other
constexpr double stretched = 1.1;    // takes this much longer than alone: slowed by the other
constexpr double notable_gap = 0.1;  // the serial arm is this far from compute + comm: two speedups to be told apart

// Whole per cent; adding zero turns a rounded -0 into 0.
double in_percent(double fraction) { return std::round(100 * fraction) + 0.0; }

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

std::string verdict(const ArmTimes& medians, Interval hidden_share, double compute_stretch, double comm_stretch,
                    bool one_lane) {
  const Overlap o = overlap(medians);
  if (std::isnan(o.hidden_share)) return "unknown: a part was not measured or took no time";

  const std::string shorter = medians.comm <= medians.compute ? "communication" : "compute";
  if (watched_statistic(medians) == Watched::exposed_fraction) {
    return fmt::format("little to hide: {} alone is {:.1f} % of the step", shorter,
                       100 * share(shorter_part(medians), medians.step));
  }
  if (std::isnan(hidden_share.width())) {
    return fmt::format("hides {} % of the {}, how surely is unknown", in_percent(o.hidden_share), shorter);
  }
  const std::string measured = fmt::format("{} % [{}, {}]", in_percent(o.hidden_share), in_percent(hidden_share.low),
                                           in_percent(hidden_share.high));
  if (one_lane) {
    return "no overlap: one lane does one after the other, so a share other than 0 would be an artefact of the " +
           ("measurement; it is " + measured);
  }
  const std::string hides = in_percent(o.hidden_share) < 0
                                ? fmt::format("hides nothing of the {} (a share of {})", shorter, measured)
                                : fmt::format("hides {} of the {}", measured, shorter);
  const std::string why = cause(compute_stretch, comm_stretch);

  if (hidden_share.low >= -near_serial && hidden_share.high <= near_serial) {
    const bool together = compute_stretch >= stretched || comm_stretch >= stretched;
    return together ? "no gain: " + why + ", " + hides : "no overlap: one runs after the other, " + hides;
  }
  if (hidden_share.high < 0) {
    return fmt::format("worse than serial: {} % longer than compute + comm: {}", in_percent(1 / o.speedup - 1), why);
  }
  if (hidden_share.low <= 0) return "no measurable overlap: " + hides + ", the interval is too wide to tell";
  // Where nothing scatters, as in a model, all that can hide is 1 but for rounding.
  constexpr double rounding = 1e-9;
  if (hidden_share.low > 1 + rounding)
    return hides + ": beyond the bound, so a part ran slower alone than it can; measure again";
  if (hidden_share.low >= near_bound) return hides + ": near the bound";
  if (o.hidden_share > 1) return hides + ": nothing is left to hide, as far as the interval tells";
  return hides + ": " + why;
}

std::string serial_remark(const ArmTimes& medians, Interval serial) {
  const Overlap o = overlap(medians);
  const Seconds sum = medians.compute + medians.comm;
  const double gap = share(o.serial_gap, sum);
  const bool notable = std::abs(gap) > notable_gap && !std::isnan(serial.width()) && !serial.contains(sum.value());
  if (!notable) return {};
  return fmt::format(
      "; the serial arm took {} % {} than compute + comm, so against it the speedup is {:.2f}x, not {:.2f}x",
      in_percent(std::abs(gap)), gap > 0 ? "longer" : "less", o.speedup_measured, o.speedup);
}

}  // namespace ovl
