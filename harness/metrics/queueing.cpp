// SPDX-License-Identifier: Apache-2.0
#include "metrics/queueing.hpp"

namespace ovl {
namespace {

// Everything follows from the queue: an operation stays for its wait and its service, and whoever is served is rho.
QueueMeans from_queue(WorkUnits in_queue, Seconds time_in_queue, double rho, WorkUnitsPerSecond service) {
  return {.in_system = in_queue + WorkUnits(rho),
          .time_in_system = time_in_queue + WorkUnits(1) / service,
          .in_queue = in_queue,
          .time_in_queue = time_in_queue};
}

}  // namespace

std::optional<QueueMeans> mm1(WorkUnitsPerSecond arrival, WorkUnitsPerSecond service) {
  const double rho = utilization(arrival, service);
  if (rho >= 1) return std::nullopt;
  return from_queue(WorkUnits(rho * rho / (1 - rho)), WorkUnits(rho) / (service - arrival), rho, service);
}

std::optional<QueueMeans> md1(WorkUnitsPerSecond arrival, WorkUnitsPerSecond service) {
  const double rho = utilization(arrival, service);
  if (rho >= 1) return std::nullopt;
  const WorkUnits in_queue(rho * rho / (2 * (1 - rho)));
  return from_queue(in_queue, in_queue / arrival, rho, service);
}

WorkUnits littles_law(WorkUnitsPerSecond arrival, Seconds stay) { return arrival * stay; }

}  // namespace ovl
