// SPDX-License-Identifier: Apache-2.0
//
// Sets of moments: when something ran, when two things ran together, when one ran without the other.
#pragma once

#include <vector>

#include "base/units.hpp"

namespace ovl {

// begin <= t < end; empty when end <= begin.
struct Interval {
  Seconds begin;
  Seconds end;

  friend bool operator==(const Interval&, const Interval&) = default;
};

// In normal form: its intervals are sorted, not empty, and neither overlap nor touch. So equal sets compare equal.
class IntervalSet {
 public:
  IntervalSet() = default;
  // The union of intervals in any order; empty ones vanish. Throws std::logic_error for an unknown time (NaN).
  explicit IntervalSet(std::vector<Interval> intervals);

  [[nodiscard]] const std::vector<Interval>& intervals() const { return intervals_; }
  // How long it lasts in total.
  [[nodiscard]] Seconds length() const;

  friend bool operator==(const IntervalSet&, const IntervalSet&) = default;

 private:
  std::vector<Interval> intervals_;
};

// In a or in b.
IntervalSet unite(const IntervalSet& a, const IntervalSet& b);
// In a and in b.
IntervalSet intersect(const IntervalSet& a, const IntervalSet& b);
// In a and not in b.
IntervalSet subtract(const IntervalSet& a, const IntervalSet& b);

}  // namespace ovl
