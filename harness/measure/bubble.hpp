// SPDX-License-Identifier: Apache-2.0
//
// How a case asks what a pipeline leaves idle: its arms, when it stops, its columns and its words.
//
// The bubble of a step is what the longest stage span (from a stage's first start to its last end) has beyond what its
// slowest stage takes where nobody waits (metrics/pipeline_bubble.hpp). Measured, that is the arm `compute`; given, the
// microbatches' durations. Beside it stand the closed form and the schedule replayed in virtual time, both in what the
// steps of a kind take alone (an arm each) and a transfer takes where stages do nothing else (the arm `comm`).
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/units.hpp"
#include "measure/case.hpp"
#include "metrics/pipeline_bubble.hpp"
#include "schedule/pipeline.hpp"

namespace ovl {

struct BubbleQuestion {
  PipelineShape shape;
  ReceivePosting receive = ReceivePosting::early;
  std::optional<PipelineCosts> given;  // durations as asked for; else they are measured
};

// Sets arms, what stops the case (the interval of its bubble rate), estimates, derived columns and words. `steps` is
// pipeline_steps of the case's program, placed as it is; not called where durations are given. Pipelines have no serial
// arm: ranks meet in crossed order.
void ask_for_bubble(CaseSpec& spec, const BubbleQuestion& question,
                    const std::function<Program(PipelineStepKind)>& steps);

// The columns that it derives, for a bench to declare.
std::vector<Column> bubble_columns();

// The closed form, or nothing where it does not hold: with transfers only where p divides m, receives are posted early
// and, for ZB-H2, from m = 2 p - 1 on, for the others from m = p on.
std::optional<Seconds> bubble_in_closed_form(const BubbleQuestion& question, const PipelineCosts& costs);

// The bubble of the schedule in virtual time: what the longest stage span, and the makespan, have beyond m (F + B + W).
struct VirtualBubble {
  Seconds of_span;
  Seconds of_makespan;
};
VirtualBubble bubble_in_virtual_time(const BubbleQuestion& question, const PipelineCosts& costs);

// How many transfers, one after another, the longest path of a program holds that only transfers: what t_comm is to be
// divided by.
double transfers_in_a_row(const Program& transfers);

}  // namespace ovl
