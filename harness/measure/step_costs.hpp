// SPDX-License-Identifier: Apache-2.0
//
// Where the time of an overlapped step went, from a replay that was recorded operation by operation: what of the
// communication nothing covered, and what stood still for what.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.hpp"
#include "measure/summary.hpp"
#include "program/program.hpp"
#include "results/table.hpp"

namespace ovl {

// Of a replay of `steps` equal steps, in turn in the body of every class; times are per step and of the worst rank.
// NaN where a start or an end that it takes was not seen.
//   exposed      communication runs and nothing computes, on the same rank
//   tail         from the end of the last work that is issued before a step's last communication to the end of its
//                communication: what no schedule of that work can cover
//   launch       communication whose predecessors have finished has not begun, summed up
//   event_wait   the compute lanes stand still until something on another lane has finished, summed up
//   gap          the compute lanes stand still though nothing is missing, summed up: what launching costs the CPU or
//                device
//   rank_spread  the last rank is ready for a collective so much after the first one: median over the collectives
StepCosts step_costs(const Program& program, const Timings& timings, std::int64_t steps);

// The medians over replays, with intervals for exposed and tail. All unknown without replays.
StepCostEstimates estimate(const std::vector<StepCosts>& replays);

// The columns of a case that asks about single operations (CaseSpec::by_operation), to declare and to fill.
std::vector<Column> step_cost_columns();
std::vector<std::pair<std::string, Value>> step_cost_values(const Summary& summary);

}  // namespace ovl
