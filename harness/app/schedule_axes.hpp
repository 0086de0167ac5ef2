// SPDX-License-Identifier: Apache-2.0
//
// What the benches of training schedules have in common: axes for the layers of a model, and the columns of a step.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/bench.hpp"
#include "measure/case.hpp"
#include "program/program.hpp"
#include "schedule/layers.hpp"

namespace ovl {

Axis layers_axis(const std::string& fallback);
Axis scale_axis();

// A whole number from `least` on. Throws Error(usage) naming `what`.
std::int64_t parse_at_least(const std::string& text, std::string_view what, std::int64_t least,
                            std::string_view instead);

// A value of scale_axis(), and of both axes together. Throw Error(usage).
double parse_scale(const std::string& text);
Layers parse_scaled_layers(const std::string& layers, const std::string& scale);

// One that products are of too: Error(usage) says that `what` ("gradients") of another are not possible.
DType parse_product_dtype(const std::string& dtype, std::string_view what);

// As many bytes as each of so many ranks may have on this backend; none where it does not say.
std::optional<Bytes> memory_of_rank(const CaseContext& context, int ranks);

// The columns layers, scale, dtype, memory, model_flops, hardware_flops and gemm_rate, then those of a recorded step
// (measure/step_costs.hpp).
std::vector<Column> step_columns();

// Fills them: `step` is one step as the schedule builds it, `model` what one rank must compute of the model. Then
// recorded replays are enough for intervals, and `results` are compared with a serial replay.
void ask_about_step(CaseSpec& spec, const std::string& layers, const std::string& scale, const Program& step,
                    Flops model, std::vector<std::string> results);

}  // namespace ovl
