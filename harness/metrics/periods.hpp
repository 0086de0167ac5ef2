// SPDX-License-Identifier: Apache-2.0
//
// Sets of moments: when something ran, when two things ran together, when one ran without the other.
#pragma once

#include <vector>

#include "base/units.hpp"

namespace ovl {

// begin <= t < end; empty when end <= begin.
struct Period {
  Seconds begin;
  Seconds end;

  friend bool operator==(const Period&, const Period&) = default;
};

// In normal form: its periods are sorted, not empty, and neither overlap nor touch. So equal sets compare equal.
class PeriodSet {
 public:
  PeriodSet() = default;
  // The union of periods in any order; empty ones vanish. Throws std::logic_error for an unknown time (NaN).
  explicit PeriodSet(std::vector<Period> periods);

  [[nodiscard]] const std::vector<Period>& periods() const { return periods_; }
  // How long it lasts in total.
  [[nodiscard]] Seconds length() const;

  friend bool operator==(const PeriodSet&, const PeriodSet&) = default;

 private:
  std::vector<Period> periods_;
};

// In a or in b.
PeriodSet unite(const PeriodSet& a, const PeriodSet& b);
// In a and in b.
PeriodSet intersect(const PeriodSet& a, const PeriodSet& b);
// In a and not in b.
PeriodSet subtract(const PeriodSet& a, const PeriodSet& b);

}  // namespace ovl
