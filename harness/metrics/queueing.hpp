// SPDX-License-Identifier: Apache-2.0
//
// Means of two queues whose theory is closed, in the steady state: long after the start, when what the queue began with
// has no say. Beside the fluid line (metrics/fluid_queue.hpp) they say what variation alone costs: below full load the
// fluid is empty and these are not.
#pragma once

#include <optional>
#include <string_view>

#include "metrics/fluid_queue.hpp"

namespace ovl {

// Averages over time and over operations.
struct QueueMeans {
  WorkUnits in_system;     // L: waiting and in service
  Seconds time_in_system;  // W
  WorkUnits in_queue;      // Lq: waiting only
  Seconds time_in_queue;   // Wq
};

// What must hold for the means to mean anything. Collectives of one size take about equally long, so of the two M/D/1
// is the nearer; a training step submits them more evenly than Poisson does, so that their queue is shorter than
// either.
inline constexpr std::string_view mm1_assumptions =
    "Poisson arrivals; exponential service times; one server, first come first served; room for any backlog; "
    "steady state; utilization below 1";
inline constexpr std::string_view md1_assumptions =
    "Poisson arrivals; every service takes equally long; one server, first come first served; room for any backlog; "
    "steady state; utilization below 1";

// nullopt is unstable: at a utilization of 1 or more the backlog grows without end and no mean exists. Never a negative
// number, which is what the formulas would give above 1. Both throw a usage Error for a rate that is not positive.
//
// L = rho / (1 - rho), W = 1 / (mu - lambda), Lq = rho^2 / (1 - rho), Wq = rho / (mu - lambda).
std::optional<QueueMeans> mm1(WorkUnitsPerSecond arrival, WorkUnitsPerSecond service);

// Pollaczek-Khinchine without variation of the service: Lq = rho^2 / (2 (1 - rho)), half of M/M/1; Wq = Lq / lambda,
// W = Wq + 1 / mu, L = Lq + rho.
std::optional<QueueMeans> md1(WorkUnitsPerSecond arrival, WorkUnitsPerSecond service);

// Little's law, L = lambda W: work in a place, by what arrives there and how long it stays. It holds for any stable
// queue and any order of service, and so checks measured averages against each other.
WorkUnits littles_law(WorkUnitsPerSecond arrival, Seconds stay);

}  // namespace ovl
