// SPDX-License-Identifier: Apache-2.0
//
// How a case asks what each way of cutting a training step leaves exposed: its arms, estimates, columns and words.
//
// Beside the whole step an arm is measured in which the collectives of one way take no time: what the step has beyond
// it is what that way exposes, and what it would gain from a fabric on which they are free. Tensor and data parallel
// ranks are alike, so nothing but time is lost by leaving their collectives out; stages are not, so the pipeline
// exposes what is left: the step without either, beyond what the slowest stage computes where nobody waits. Two ways
// may hide behind each other, so the parts need not add up to the whole: the difference is a column.
#pragma once

#include <vector>

#include "base/units.hpp"
#include "measure/case.hpp"
#include "schedule/training_step.hpp"

namespace ovl {

// Sets arms, estimates, derived columns and words of a case that builds training_step_program(spec). A window is a
// step; there is no serial arm where there are stages: ranks meet in crossed order. `model_flops` is what the model
// needs of a rank, of which model FLOPs utilisation is made by whoever knows the peak.
void ask_for_exposure(CaseSpec& spec, const TrainingStepSpec& step);

// The columns that it derives, for a bench to declare.
std::vector<Column> exposure_columns();

}  // namespace ovl
