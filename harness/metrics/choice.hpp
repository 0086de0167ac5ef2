// SPDX-License-Identifier: Apache-2.0
//
// Which value of an option exposes least, and how sure that is: of a sweep whose values were measured one after the
// other, each in rounds of its own.
//
// Source: the bootstrap over rounds of stats/bootstrap.hpp, for each value apart since they share no round. In each
// resample one value is best; the values from the 2.5th to the 97.5th percentile of those, in the order of the axis,
// are the interval.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "stats/interval.hpp"

namespace ovl {

// One value of the option. By round, paired: the times of a step with its communication and of its computation alone.
struct SweptValue {
  std::vector<double> step;
  std::vector<double> compute;

  // median(step) - median(compute): the exposed time, signed.
  [[nodiscard]] double exposed() const;
};

struct Choice {
  std::size_t best = 0;  // of the least exposed time
  std::size_t low = 0;   // the interval of the best, ends included
  std::size_t high = 0;
  std::size_t least = 0;  // the first value that is not shown to expose more than the best
  bool clear = false;     // the interval leaves out a value
  Interval exposed;       // of the best
  // What a given value exposes more than the best, and its interval. NaN without one.
  double gain = std::numeric_limits<double>::quiet_NaN();
  Interval gain_interval;
};

// `values` in the order of the axis, at least one, each with at least two rounds. `reference`: the value that the best
// is compared with; values.size(): none.
Choice choose(std::span<const SweptValue> values, std::size_t reference, std::uint64_t seed);

}  // namespace ovl
