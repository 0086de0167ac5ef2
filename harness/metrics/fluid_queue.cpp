// SPDX-License-Identifier: Apache-2.0
#include "metrics/fluid_queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace ovl {
namespace {

void check_rate(std::string_view name, WorkUnitsPerSecond rate) {
  if (std::isfinite(rate.value()) && rate > WorkUnitsPerSecond(0)) return;
  throw usage_error(fmt::format("{} rate {} is not possible", name, rate.value()),
                    "a queue needs work that comes and work that goes, each at a finite rate above 0",
                    fmt::format("type the {} rate in work units a second, such as 3", name));
}

void check_queue(const FluidQueue& queue) {
  check_rate("arrival", queue.arrival);
  check_rate("service", queue.service);
  if (std::isfinite(queue.backlog.value()) && queue.backlog >= WorkUnits(0)) return;
  throw usage_error(fmt::format("backlog {} is not possible", queue.backlog.value()),
                    "it is the work queued at time 0, so finite and not negative",
                    "type it in work units, such as 4, or 0 for an empty queue");
}

void check_time(Seconds time) {
  if (std::isfinite(time.value()) && time >= Seconds(0)) return;
  throw usage_error(fmt::format("time {} s is not possible", time.value()), "the queue begins at time 0",
                    "type a finite time in seconds, from 0 on");
}

}  // namespace

WorkUnits backlog_at(const FluidQueue& queue, Seconds time) {
  check_time(time);
  if (time >= drain_time(queue)) return WorkUnits(0);  // not by the line below, which rounds
  return std::max(WorkUnits(0), queue.backlog + growth_rate(queue) * time);
}

WorkUnitsPerSecond growth_rate(const FluidQueue& queue) {
  check_queue(queue);
  return queue.arrival - queue.service;
}

Seconds drain_time(const FluidQueue& queue) {
  check_queue(queue);
  const Seconds never(std::numeric_limits<double>::infinity());
  if (queue.arrival > queue.service) return never;
  if (queue.backlog == WorkUnits(0)) return Seconds(0);
  if (queue.arrival == queue.service) return never;
  return queue.backlog / (queue.service - queue.arrival);
}

WorkUnitsPerSecond output_rate(const FluidQueue& queue, Seconds time) {
  return backlog_at(queue, time) > WorkUnits(0) ? queue.service : std::min(queue.arrival, queue.service);
}

double utilization(WorkUnitsPerSecond arrival, WorkUnitsPerSecond service) {
  check_rate("arrival", arrival);
  check_rate("service", service);
  return arrival / service;
}

}  // namespace ovl
