// SPDX-License-Identifier: Apache-2.0
//
// What a collective costs as a model: t = alpha + beta · bytes (Hockney, "The communication challenge for MPP", 1994),
// in one line or in segments where a library changes its algorithm or protocol.
//
// The headline minimises *relative* errors: sizes are spread over decades, so ordinary least squares fits the largest
// message and triples alpha, while Theil-Sen finds alpha and misses the plateau. All three are reported side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/enum_names.hpp"
#include "base/units.hpp"
#include "stats/interval.hpp"

namespace ovl {

// One measured size. Both positive and finite.
struct SizeTime {
  double bytes = 0;
  double seconds = 0;
};

// Of more sizes than this no breakpoints are searched: three segments take all pairs.
inline constexpr std::size_t most_breakpoints = 200;

enum class FitMethod { relative, ordinary, theil_sen };
template <>
struct EnumNames<FitMethod> {
  static constexpr std::string_view axis = "fit method";
  static constexpr std::pair<FitMethod, std::string_view> table[] = {
      {FitMethod::relative, "relative"}, {FitMethod::ordinary, "ordinary"}, {FitMethod::theil_sen, "theil_sen"}};
};

// alpha in seconds, beta in seconds a byte: signed, so that a nonsensical fit is seen as one.
struct CostLine {
  double alpha = std::numeric_limits<double>::quiet_NaN();
  double beta = std::numeric_limits<double>::quiet_NaN();

  [[nodiscard]] double at(double bytes) const { return alpha + beta * bytes; }
};

// relative: minimises the sum of ((alpha + beta x - t) / t)². ordinary: of (alpha + beta x - t)². theil_sen: beta is
// the median slope over all pairs of different sizes, alpha the median of t - beta x (Sen, 1968). NaN for fewer than
// two different sizes.
CostLine fit_line(std::span<const SizeTime> points, FitMethod method);

struct Segment {
  double from = 0;  // bytes; the line holds from here to the next segment
  CostLine line;
};

struct CostFit {
  FitMethod method = FitMethod::relative;
  std::vector<Segment> segments;  // ascending, the first from 0
  std::size_t points = 0;
  // |predicted - measured| / measured over the fitted points.
  double median_relative_error = std::numeric_limits<double>::quiet_NaN();
  double max_relative_error = std::numeric_limits<double>::quiet_NaN();

  [[nodiscard]] double at(double bytes) const;
  // Seconds of the smallest message, and seconds a byte of the largest: the first alpha and the last beta.
  [[nodiscard]] double alpha() const { return segments.front().line.alpha; }
  [[nodiscard]] double beta() const { return segments.back().line.beta; }
};

// One line. Points in any order; of equal sizes each counts.
CostFit fit_one(std::span<const SizeTime> points, FitMethod method);

// `segments` lines of relative least squares between breakpoints at measured sizes, those with the least sum of squared
// relative errors; each has at least three sizes of its own. Fewer where there are not so many sizes. Breakpoints of
// two segments are found exactly, those of three by trying all pairs.
CostFit fit_segments(std::span<const SizeTime> points, int segments);

// One, two or three segments: as many as pay by a Bayesian information criterion n ln(RSS / n) + p ln n over relative
// errors, with p = 2 a line and 3 a breakpoint, which is chosen among many (Zhang and Siegmund, "A modified Bayes
// information criterion with applications to the analysis of comparative genomic hybridization data", 2007).
CostFit fit_cost(std::span<const SizeTime> points);

// The size at which half of the last segment's bandwidth is reached: alpha / beta for one line (Hockney's n_1/2). The
// smallest such size where segments jump; NaN where none does or beta is not positive.
double half_performance_bytes(const CostFit& fit);

// Each size but the smallest and the largest is left out once and predicted by a fit of the others, with as many
// segments: relative errors, by ascending size. Errors of points that the fit has not seen. Empty below four sizes.
std::vector<double> held_out_errors(std::span<const SizeTime> points, int segments);

// "good", "fair: ...", "poor: ..." or "none: ...": whether alpha and beta stand for these points.
std::string fit_verdict(const CostFit& fit);

// Intervals of alpha(), beta() and the half-performance size, resampling whole launches: points of one launch belong
// together. The number of segments and the breakpoints are chosen anew in each resample. NaN below two launches.
struct CostIntervals {
  Interval alpha;
  Interval beta;
  Interval half_performance;
};
CostIntervals cost_intervals(std::span<const std::vector<SizeTime>> launches, int segments, std::uint64_t seed = 1);

}  // namespace ovl
