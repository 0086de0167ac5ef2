// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

namespace ovl {

// A confidence or prediction interval, in the unit of what it is about. Unknown ends are NaN.
struct Interval {
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();

  [[nodiscard]] constexpr double width() const { return high - low; }
  // Ends included; an unknown interval contains nothing.
  [[nodiscard]] constexpr bool contains(double value) const { return low <= value && value <= high; }
};

}  // namespace ovl
