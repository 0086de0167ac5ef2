// SPDX-License-Identifier: Apache-2.0
#include "metrics/change.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stats/student.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

bool known(const Interval& interval) { return std::isfinite(interval.low) && std::isfinite(interval.high); }

// What is not known has no width.
Interval or_point(const ComparedValue& e) { return known(e.interval) ? e.interval : Interval{e.value, e.value}; }

// Of the difference after - before of independent estimates.
Interval difference_of(double before, Interval around_before, double after, Interval around_after) {
  const double d = after - before;
  return {d - std::hypot(after - around_after.low, around_before.high - before),
          d + std::hypot(around_after.high - after, before - around_before.low)};
}

// `worse` is the interval of how much worse it became, `edge` how much of that is still the same.
Change decide(Interval worse, double edge, Better better) {
  if (worse.low >= -edge && worse.high <= edge) return Change::same;
  if (better == Better::neither) return Change::unclear;
  if (worse.low > edge) return Change::slower;
  if (worse.high < -edge) return Change::faster;
  return Change::unclear;
}

Interval oriented(Interval difference, Better better) {
  return better == Better::higher ? Interval{-difference.high, -difference.low} : difference;
}

std::string percent(double share) { return fmt::format("{:.3g} %", 100 * share); }

// Why there is no verdict, or what it lacks.
std::string reason_of(const ComparedValue& before, const ComparedValue& after, Better better, Change change,
                      double margin) {
  if (change == Change::unclear) {
    if (better == Better::neither) return "not certainly the same, which is neither faster nor slower by itself";
    if (known(before.interval) || known(after.interval)) {
      return fmt::format("the interval lies on both sides of a margin of {}", percent(margin));
    }
  }
  const int launches = std::min(before.launches, after.launches);
  switch (std::min(before.basis, after.basis)) {
    case Basis::points:
      return known(before.interval) || known(after.interval) ? "only one of the runs has an interval"
                                                             : "no interval: single numbers are compared";
    case Basis::fit: return "no interval: fitted numbers are compared";
    case Basis::rounds: return "intervals are within one launch: how launches differ is not in them";
    case Basis::launches: break;
  }
  return launches < 5 ? fmt::format("{} launches: a claim between runs needs five", launches) : "";
}

Comparison unknown(const char* reason) {
  Comparison c;
  c.reason = reason;
  return c;
}

}  // namespace

ComparedValue compared_value(std::span<const double> launches, Interval within) {
  const int n = static_cast<int>(launches.size());
  if (n == 0) return {};
  if (n == 1) {
    return {.value = launches.front(), .interval = within, .basis = known(within) ? Basis::rounds : Basis::points};
  }
  const double middle = mean(launches);
  const double half = student_t_quantile(0.975, n - 1) * standard_deviation(launches) / std::sqrt(n);
  return {.value = middle, .interval = {middle - half, middle + half}, .basis = Basis::launches, .launches = n};
}

Comparison compare_ratios(const ComparedValue& before, const ComparedValue& after, Better better, double margin) {
  if (!std::isfinite(before.value) || !std::isfinite(after.value)) return unknown("not known in both runs");
  if (before.value <= 0 || after.value <= 0) return unknown("not positive in both runs: no ratio");
  Comparison c;
  c.basis = std::min(before.basis, after.basis);
  c.ratio = after.value / before.value;
  const auto logarithm = [](Interval i) { return Interval{std::log(i.low), std::log(i.high)}; };
  const Interval b = or_point(before);
  const Interval a = or_point(after);
  if (b.low <= 0 || a.low <= 0) {
    c.reason = "an interval reaches zero: no ratio is certain";
    return c;
  }
  const Interval difference = difference_of(std::log(before.value), logarithm(b), std::log(after.value), logarithm(a));
  if (known(before.interval) || known(after.interval)) {
    c.ratio_interval = {std::exp(difference.low), std::exp(difference.high)};
  }
  if (c.basis == Basis::fit && !known(c.ratio_interval)) {
    const double spread = std::max(before.spread, after.spread);
    if (std::fabs(std::log(c.ratio)) < std::log1p(spread) && std::log1p(spread) > std::log1p(margin)) {
      c.reason = fmt::format("half of the points lie more than {} off their fit, and the fits differ by less",
                             percent(spread));
      return c;
    }
  }
  c.change = decide(oriented(difference, better), std::log1p(margin), better);
  c.reason = reason_of(before, after, better, c.change, margin);
  return c;
}

Comparison compare_differences(const ComparedValue& before, const ComparedValue& after, Better better, double margin,
                               double scale) {
  if (!std::isfinite(before.value) || !std::isfinite(after.value)) return unknown("not known in both runs");
  if (!(scale > 0)) return unknown("what it would be compared with is not known");
  Comparison c;
  c.basis = std::min(before.basis, after.basis);
  if (before.value > 0 && after.value > 0) c.ratio = after.value / before.value;
  const Interval difference = difference_of(before.value, or_point(before), after.value, or_point(after));
  c.difference = after.value - before.value;
  if (known(before.interval) || known(after.interval)) c.difference_interval = difference;
  c.change = decide(oriented(difference, better), margin * scale, better);
  c.reason = reason_of(before, after, better, c.change, margin);
  return c;
}

}  // namespace ovl
