// SPDX-License-Identifier: Apache-2.0
//
// The exposed time of a case by operation and cause, from a backend that knows why a rank does not compute: what the
// model says of its critical rank, held against t_step - t_compute.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.hpp"
#include "measure/summary.hpp"
#include "program/program.hpp"
#include "results/table.hpp"

namespace ovl {

// The parts by operation and lane, per step, the largest first; they add up to t_exposed = t_step - t_compute. Where
// the host hands over within the window, what that costs compute alone is in t_compute, so it is taken off the launch
// part. Nothing where they do not add up otherwise: then compute alone is no sum of what is computed.
std::optional<std::vector<ExposedLine>> exposed_lines(const Program& program, const ExposedTime& exposed,
                                                      Seconds t_exposed, Seconds t_step, double repeats);

// "all_reduce@data:transfer=0.012;all_reduce@tensor:shared(gemm@compute)=0.003"
std::string text_of(const std::vector<ExposedLine>& lines);

// The columns of a row: one for each cause, and the text.
std::vector<std::pair<std::string, Value>> exposed_cause_values(const std::vector<ExposedLine>& lines);

}  // namespace ovl
