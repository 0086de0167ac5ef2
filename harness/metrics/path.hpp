// SPDX-License-Identifier: Apache-2.0
//
// What the schedule alone allows: the longest chain of operations that must follow each other, each at its isolated
// time. t_path - t_ideal cannot hide behind anything; t_step - t_path is contention, launch and waiting.
#pragma once

#include <map>
#include <vector>

#include "base/units.hpp"
#include "program/program.hpp"

namespace ovl {

// What each operation of one rank class takes: ids are unique within a class only.
using Durations = std::map<OpId, Seconds>;

// Over the body of each rank class, the longest of all; order between ranks adds nothing, since an isolated collective
// already waits for its peers. Events and host_sync take no time. `durations` has one entry a class of the program.
// NaN when the duration of an operation is missing or unknown.
Seconds longest_path(const Program& program, const std::vector<Durations>& durations);

struct OperationSpan {
  Seconds start;
  Seconds end;
};
// By rank, then by position in the body of its class.
using Spans = std::vector<std::vector<OperationSpan>>;

// When each operation runs if it starts as soon as lanes, events and host_sync let it, and nothing slows anything. The
// members of a collective start together, when the last of them can, and so do both ends of a transfer, which decides
// pipelines: a rank there waits for what another computes. A start event fires when what it marks may start. Durations
// are as above and known: throws std::logic_error for one that is missing. The program passes check().
Spans earliest_spans(const Program& program, const std::vector<Durations>& durations);

// Over the ranks, the largest time from the start of the first compute operation to the end of the last one: what a
// bubble rate is of (metrics/pipeline_bubble.hpp). Zero where nothing computes.
Seconds longest_compute_span(const Program& program, const Spans& spans);

// The latest end.
Seconds makespan(const Spans& spans);

// The durations of a program whose operations are `busy`, and of no time otherwise: a given what-if.
std::vector<Durations> given_durations(const Program& program);

}  // namespace ovl
