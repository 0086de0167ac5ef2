// SPDX-License-Identifier: Apache-2.0
#include "stats/fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/units.hpp"
#include "stats/bootstrap.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

constexpr std::size_t fewest_in_segment = 3;  // of a segment: two would be met exactly, whatever they are

// Least squares with weights w: minimises the sum of w (alpha + beta x - t)². Centred, so that sizes which span ten
// decades do not cancel.
template <class Weight>
CostLine least_squares(std::span<const SizeTime> points, const Weight& weight) {
  double total = 0;
  double x_mean = 0;
  double t_mean = 0;
  for (const SizeTime& p : points) {
    const double w = weight(p);
    total += w;
    x_mean += w * p.bytes;
    t_mean += w * p.seconds;
  }
  x_mean /= total;
  t_mean /= total;
  double xx = 0;
  double xt = 0;
  for (const SizeTime& p : points) {
    const double w = weight(p);
    xx += w * (p.bytes - x_mean) * (p.bytes - x_mean);
    xt += w * (p.bytes - x_mean) * (p.seconds - t_mean);
  }
  const double beta = xt / xx;
  return {t_mean - beta * x_mean, beta};
}

CostLine theil_sen(std::span<const SizeTime> points) {
  std::vector<double> slopes;
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (std::size_t j = i + 1; j < points.size(); ++j) {
      const double dx = points[j].bytes - points[i].bytes;
      if (dx != 0) slopes.push_back((points[j].seconds - points[i].seconds) / dx);
    }
  }
  const double beta = median(slopes);
  std::vector<double> rests;
  for (const SizeTime& p : points) rests.push_back(p.seconds - beta * p.bytes);
  return {median(rests), beta};
}

std::vector<SizeTime> by_size(std::span<const SizeTime> points) {
  std::vector<SizeTime> sorted(points.begin(), points.end());
  for (const SizeTime& p : sorted) {
    require(std::isfinite(p.bytes) && std::isfinite(p.seconds) && p.bytes > 0 && p.seconds > 0,
            "a size and its time are positive");
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const SizeTime& a, const SizeTime& b) { return a.bytes < b.bytes; });
  return sorted;
}

// Where each different size begins in sorted points, and the end.
std::vector<std::size_t> size_starts(std::span<const SizeTime> sorted) {
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i == 0 || sorted[i].bytes != sorted[i - 1].bytes) starts.push_back(i);
  }
  starts.push_back(sorted.size());
  return starts;
}

double relative_error(const SizeTime& p, double predicted) { return std::fabs(predicted - p.seconds) / p.seconds; }

double squared_error(std::span<const SizeTime> points, const CostLine& line) {
  double sum = 0;
  for (const SizeTime& p : points) sum += std::pow(relative_error(p, line.at(p.bytes)), 2);
  return sum;
}

double squared_error(std::span<const SizeTime> points, const CostFit& fit) {
  double sum = 0;
  for (const SizeTime& p : points) sum += std::pow(relative_error(p, fit.at(p.bytes)), 2);
  return sum;
}

void set_errors(CostFit& fit, std::span<const SizeTime> points) {
  std::vector<double> errors;
  for (const SizeTime& p : points) errors.push_back(relative_error(p, fit.at(p.bytes)));
  fit.points = points.size();
  fit.median_relative_error = median(errors);
  fit.max_relative_error = quantile(errors, 1);
}

// The best breakpoints of `segments` lines over the sizes [first, last) of sorted points.
struct Split {
  double error = std::numeric_limits<double>::infinity();
  std::vector<Segment> segments;
};
Split best_split(std::span<const SizeTime> sorted, std::span<const std::size_t> starts, std::size_t first,
                 std::size_t last, int segments) {
  const auto piece = [&](std::size_t from, std::size_t to) {
    return sorted.subspan(starts[from], starts[to] - starts[from]);
  };
  Split best;
  if (segments == 1) {
    const std::span<const SizeTime> all = piece(first, last);
    const CostLine line = fit_line(all, FitMethod::relative);
    return {squared_error(all, line), {{all.front().bytes, line}}};
  }
  const std::size_t rest = fewest_in_segment * static_cast<std::size_t>(segments - 1);
  for (std::size_t cut = first + fewest_in_segment; cut + rest <= last; ++cut) {
    Split left = best_split(sorted, starts, first, cut, 1);
    if (left.error >= best.error) continue;
    Split right = best_split(sorted, starts, cut, last, segments - 1);
    if (left.error + right.error >= best.error) continue;
    best.error = left.error + right.error;
    best.segments = std::move(left.segments);
    best.segments.insert(best.segments.end(), right.segments.begin(), right.segments.end());
  }
  return best;
}

double information_criterion(std::span<const SizeTime> points, const CostFit& fit) {
  const auto n = static_cast<double>(points.size());
  const auto lines = static_cast<double>(fit.segments.size());
  // Points that a line meets exactly would make the logarithm endless and any number of segments pay.
  const double error = std::max(squared_error(points, fit) / n, 1e-20);
  return n * std::log(error) + (2 * lines + 3 * (lines - 1)) * std::log(n);
}

}  // namespace

CostLine fit_line(std::span<const SizeTime> points, FitMethod method) {
  const auto other =
      std::find_if(points.begin(), points.end(), [&](const SizeTime& p) { return p.bytes != points.front().bytes; });
  if (other == points.end()) return {};
  switch (method) {
    case FitMethod::relative:
      return least_squares(points, [](const SizeTime& p) { return 1 / (p.seconds * p.seconds); });
    case FitMethod::ordinary: return least_squares(points, [](const SizeTime&) { return 1.0; });
    case FitMethod::theil_sen: return theil_sen(points);
  }
  return {};
}

double CostFit::at(double bytes) const {
  const auto next =
      std::find_if(segments.begin() + 1, segments.end(), [&](const Segment& s) { return s.from > bytes; });
  return std::prev(next)->line.at(bytes);
}

CostFit fit_one(std::span<const SizeTime> points, FitMethod method) {
  const std::vector<SizeTime> sorted = by_size(points);
  CostFit fit{.method = method, .segments = {{0, fit_line(sorted, method)}}};
  set_errors(fit, sorted);
  return fit;
}

CostFit fit_segments(std::span<const SizeTime> points, int segments) {
  require(segments >= 1 && segments <= 3, "a cost has one to three segments");
  const std::vector<SizeTime> sorted = by_size(points);
  const std::vector<std::size_t> starts = size_starts(sorted);
  const std::size_t sizes = starts.size() - 1;
  const int most = std::clamp(static_cast<int>(sizes / fewest_in_segment), 1, segments);
  CostFit fit{.method = FitMethod::relative, .segments = {{0, {}}}};
  if (!sorted.empty()) fit.segments = best_split(sorted, starts, 0, sizes, most).segments;
  fit.segments.front().from = 0;
  set_errors(fit, sorted);
  return fit;
}

CostFit fit_cost(std::span<const SizeTime> points) {
  CostFit best = fit_segments(points, 1);
  double least = information_criterion(points, best);
  for (const int segments : {2, 3}) {
    CostFit fit = fit_segments(points, segments);
    const double criterion = information_criterion(points, fit);
    if (criterion < least) {
      least = criterion;
      best = std::move(fit);
    }
  }
  return best;
}

double half_performance_bytes(const CostFit& fit) {
  const double beta = fit.beta();
  if (!(beta > 0)) return unknown_number;
  // bytes / t(bytes) >= 1 / (2 beta), that is t(bytes) <= 2 beta bytes: on a line from alpha / (2 beta - its beta) on.
  for (std::size_t i = 0; i < fit.segments.size(); ++i) {
    const Segment& s = fit.segments[i];
    const double end = i + 1 < fit.segments.size() ? fit.segments[i + 1].from : std::numeric_limits<double>::infinity();
    const double slope = 2 * beta - s.line.beta;
    if (s.from > 0 && s.line.at(s.from) <= 2 * beta * s.from) return s.from;
    if (slope > 0) {
      const double bytes = s.line.alpha / slope;
      if (bytes >= s.from && bytes < end) return bytes;
    }
  }
  return unknown_number;
}

std::vector<double> held_out_errors(std::span<const SizeTime> points, int segments) {
  const std::vector<SizeTime> sorted = by_size(points);
  const std::vector<std::size_t> starts = size_starts(sorted);
  std::vector<double> errors;
  if (starts.size() < 5) return errors;
  for (std::size_t out = 1; out + 2 < starts.size(); ++out) {
    std::vector<SizeTime> kept;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (i < starts[out] || i >= starts[out + 1]) kept.push_back(sorted[i]);
    }
    const CostFit fit = fit_segments(kept, segments);
    for (std::size_t i = starts[out]; i < starts[out + 1]; ++i) {
      errors.push_back(relative_error(sorted[i], fit.at(sorted[i].bytes)));
    }
  }
  return errors;
}

std::string fit_verdict(const CostFit& fit) {
  if (std::isnan(fit.max_relative_error)) return "none: a line needs two different sizes";
  const auto percent = [](double share) { return std::to_string(std::llround(100 * share)) + " %"; };
  const std::string errors = "half of the sizes are off by more than " + percent(fit.median_relative_error) +
                             ", the worst by " + percent(fit.max_relative_error);
  if (!(fit.beta() > 0)) return "poor: time does not grow with size; " + errors;
  // A line through large sizes may pass below 0 at size 0, where nothing was measured.
  const std::string latency = fit.alpha() < 0 ? "; alpha is negative, which is no physical latency" : "";
  if (fit.median_relative_error > 0.1 || fit.max_relative_error > 0.5) return "poor: " + errors + latency;
  if (fit.median_relative_error > 0.05 || fit.max_relative_error > 0.2) return "fair: " + errors + latency;
  return "good" + latency;
}

CostIntervals cost_intervals(std::span<const std::vector<SizeTime>> launches, int segments, std::uint64_t seed) {
  const auto statistics = [&](std::span<const std::size_t> drawn, std::span<double> values) {
    std::vector<SizeTime> points;
    for (const std::size_t launch : drawn) {
      points.insert(points.end(), launches[launch].begin(), launches[launch].end());
    }
    const CostFit fit = fit_segments(points, segments);
    values[0] = fit.alpha();
    values[1] = fit.beta();
    values[2] = half_performance_bytes(fit);
  };
  const std::vector<Interval> found =
      bootstrap_intervals(launches.size(), 3, statistics, {.block = 1, .seed = seed});  // launches are independent
  return {found[0], found[1], found[2]};
}

}  // namespace ovl
