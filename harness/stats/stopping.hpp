// SPDX-License-Identifier: Apache-2.0
//
// When a case has been measured enough, and when its warm-up is over. Asked every few rounds, by rank 0 alone.
#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "base/enum_names.hpp"
#include "base/units.hpp"
#include "stats/interval.hpp"

namespace ovl {

struct StopRule {
  double precision = 0.02;  // width of the 95 % interval of the watched statistic
  int min_rounds = 20;      // below that a bootstrap interval is itself too uncertain to stop by
  int max_rounds = 1000;
  Seconds max_time{30};
};

enum class Stop { go_on, precision, max_samples, max_time };
template <>
struct EnumNames<Stop> {
  static constexpr std::string_view axis = "stop_rule";
  static constexpr std::pair<Stop, std::string_view> table[] = {{Stop::go_on, "go_on"},
                                                                {Stop::precision, "precision"},
                                                                {Stop::max_samples, "max_samples"},
                                                                {Stop::max_time, "max_time"}};
};

// The first that holds: `precision`, when the interval is narrower than asked for after at least min_rounds;
// `max_samples`, at max_rounds; `max_time`, at max_time. The limits hold below min_rounds too: they are what the user
// is willing to spend. An unknown interval is never narrow.
Stop decide(const StopRule& rule, int rounds, Seconds elapsed, Interval interval);

// Whether step times (oldest first) have stopped drifting: the median of the older half is within `tolerance` of that
// of the newer half, whichever way the drift goes. Medians, because one descheduled round is no drift; 5 %, because a
// cold cache, a lazy connection or a clock that ramps up costs far more, and what is left is the interval's to show. An
// odd oldest value is left out. Fewer than ten values are never steady: a median of four is no median.
bool steady(std::span<const double> recent, double tolerance = 0.05);

}  // namespace ovl
