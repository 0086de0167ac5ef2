// SPDX-License-Identifier: Apache-2.0
//
// Whether a quantity has become better or worse from one run to another: decided on intervals where there are some.
// Pure, in the unit of the quantity, signed.
#pragma once

#include <span>
#include <string>

#include "base/enum_names.hpp"
#include "stats/interval.hpp"

namespace ovl {

// What a value rests on, the weakest first.
enum class Basis {
  points,  // one number, no interval: how far it would be off next time is unknown
  fit,     // a fitted number without an interval; `spread` is how far the fit misses its own points
  rounds,  // 95 % interval within one process launch: what differs between launches is not in it
  launches
};
template <>
struct EnumNames<Basis> {
  static constexpr std::string_view axis = "basis";
  static constexpr std::pair<Basis, std::string_view> table[] = {
      {Basis::points, "points"}, {Basis::fit, "fit"}, {Basis::rounds, "rounds"}, {Basis::launches, "launches"}};
};

struct ComparedValue {
  double value = std::numeric_limits<double>::quiet_NaN();
  Interval interval;  // 95 %; unknown for points and fit
  Basis basis = Basis::points;
  double spread = 0;  // fit: median relative error of the fit
  int launches = 1;
};

// Mean and Student's interval of it (stats/student.hpp) over process launches; of one launch the value and `within`,
// its own interval.
ComparedValue compared_value(std::span<const double> launches, Interval within = {});

enum class Better { lower, higher, neither };

enum class Change { faster, slower, same, unclear };
template <>
struct EnumNames<Change> {
  static constexpr std::string_view axis = "verdict";
  static constexpr std::pair<Change, std::string_view> table[] = {
      {Change::faster, "faster"}, {Change::slower, "slower"}, {Change::same, "same"}, {Change::unclear, "unclear"}};
};

struct Comparison {
  double ratio = std::numeric_limits<double>::quiet_NaN();       // after / before; NaN unless both are positive
  Interval ratio_interval;                                       // 95 %, of independent runs
  double difference = std::numeric_limits<double>::quiet_NaN();  // after - before, of compare_differences() alone
  Interval difference_interval;
  Change change = Change::unclear;
  Basis basis = Basis::points;  // the weaker of both
  std::string reason;           // why it is unclear, or what the verdict lacks
};

// after / before with an interval from the two of independent estimates: distances are added in squares on a
// logarithmic scale (the method of variance estimates recovery, Zou and Donner, "Construction of confidence intervals
// about effect measures", 2008). An unknown interval counts as none wide.
//
// With `margin` m: same, where the whole interval lies from 1 / (1 + m) to 1 + m; faster or slower, where it lies
// wholly outside on one side; else unclear. `neither` is never faster nor slower. Fits without an interval are unclear
// where they differ by less than they miss their own points.
Comparison compare_ratios(const ComparedValue& before, const ComparedValue& after, Better better, double margin);

// The same for what may be zero or negative: after - before, against margin · `scale`, with `scale` in the quantity's
// unit (1 for a share, the step for exposed time). The ratio is given where both are positive.
Comparison compare_differences(const ComparedValue& before, const ComparedValue& after, Better better, double margin,
                               double scale);

}  // namespace ovl
