// SPDX-License-Identifier: Apache-2.0
//
// What a pipeline schedule leaves idle, in closed form. p stages, m microbatches; a stage computes each microbatch's
// forward pass, input gradient and weight gradient in F, B and W, and a result reaches the next stage c later. The
// bubble is what the longest stage span (from its first start to its last end) has beyond m (F + B + W).
// The parts without c: Huang et al., "GPipe", NeurIPS 2019; Narayanan et al., "Efficient large-scale language model
// training on GPU clusters using Megatron-LM", SC 2021, section 2.2; Qi et al., "Zero bubble pipeline parallelism",
// arXiv 2401.10241, table 2. The parts with c hold where p divides m and c is small beside F, B and W; with them the
// paper's table 5 comes out to its four decimals.
#pragma once

#include "base/units.hpp"

namespace ovl {

struct PipelineCosts {
  Seconds forward;          // F
  Seconds backward_input;   // B
  Seconds backward_weight;  // W
  Seconds transfer;         // c

  [[nodiscard]] Seconds microbatch() const { return forward + backward_input + backward_weight; }
};

// (p - 1)(F + B + W), for any c that is zero. GPipe and 1F1B have the same bubble: 1F1B needs less memory.
Seconds gpipe_bubble(int stages, const PipelineCosts& costs);
// (p - 1)(F + B + W) + (2 (p - 1) m / p + 2 p - 4) c.
Seconds one_f_one_b_bubble(int stages, int microbatches, const PipelineCosts& costs);
// (p - 1)(F + B + W) / v + (2 p v - 2) c, in Megatron-LM's order: v chunks a stage, m a multiple of p.
Seconds interleaved_bubble(int stages, int chunks, const PipelineCosts& costs);
// (p - 1)(F + B - W) + 4 (p - 1) c, from m = p on.
Seconds zb_h1_bubble(int stages, const PipelineCosts& costs);
// (p - 1)(F + B - 2 W) + 2 (p - 1) c, from m = 2 p - 1 on.
Seconds zb_h2_bubble(int stages, const PipelineCosts& costs);

// (span - m (F + B + W)) / span: idle time as a share of the longest stage span. Of the makespan it is another number
// (ZB-H2: stages start and end at different times), so columns name which.
double bubble_rate(Seconds span, int microbatches, const PipelineCosts& costs);

}  // namespace ovl
