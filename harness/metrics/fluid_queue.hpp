// SPDX-License-Identifier: Apache-2.0
//
// A queue as a fluid: work flows in at `arrival` and out at `service` for as long as there is any. Rates are constant
// and nothing varies, so the backlog is a straight line down to empty. It is the mean drift of a real queue, not its
// fluctuation: where arrivals or services vary, a backlog stands even below full load (metrics/queueing.hpp).
#pragma once

#include "base/units.hpp"

namespace ovl {

struct WorkUnitsTag {
  static constexpr std::string_view unit = "work units";
};
struct WorkUnitsPerSecondTag {
  static constexpr std::string_view unit = "work units/s";
};
// What is queued, counted in the mean operation: three collectives of the usual size are 3.
using WorkUnits = Quantity<WorkUnitsTag, double>;
using WorkUnitsPerSecond = Quantity<WorkUnitsPerSecondTag, double>;

constexpr WorkUnits operator*(WorkUnitsPerSecond rate, Seconds time) { return WorkUnits(rate.value() * time.value()); }
constexpr WorkUnitsPerSecond operator/(WorkUnits amount, Seconds time) {
  return WorkUnitsPerSecond(amount.value() / time.value());
}
constexpr Seconds operator/(WorkUnits amount, WorkUnitsPerSecond rate) {
  return Seconds(amount.value() / rate.value());
}

struct FluidQueue {
  WorkUnitsPerSecond arrival;  // lambda
  WorkUnitsPerSecond service;  // mu
  WorkUnits backlog;           // queued at time 0, Q0
};

// All functions below throw a usage Error for a rate that is not a positive number, a backlog that is negative or not
// finite, and a time that is negative or not finite.

// Q(t) = max(0, Q0 + (lambda - mu) t). A backlog is an amount: the bound at 0 is the empty queue, not a rounded result.
WorkUnits backlog_at(const FluidQueue& queue, Seconds time);

// lambda - mu, signed: the slope of the backlog until it is empty. At or below 0 an empty queue stays empty.
WorkUnitsPerSecond growth_rate(const FluidQueue& queue);

// From when on the queue is and stays empty: Q0 / (mu - lambda); infinite where it never drains.
Seconds drain_time(const FluidQueue& queue);

// What leaves at that time: mu while there is a backlog, min(lambda, mu) from then on.
WorkUnitsPerSecond output_rate(const FluidQueue& queue, Seconds time);

// rho = lambda / mu: the load. From 1 on the backlog does not shrink.
double utilization(WorkUnitsPerSecond arrival, WorkUnitsPerSecond service);

}  // namespace ovl
