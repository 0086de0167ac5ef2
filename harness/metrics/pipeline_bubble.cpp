// SPDX-License-Identifier: Apache-2.0
#include "metrics/pipeline_bubble.hpp"

namespace ovl {

Seconds gpipe_bubble(int stages, const PipelineCosts& costs) { return costs.microbatch() * (stages - 1.0); }

Seconds one_f_one_b_bubble(int stages, int microbatches, const PipelineCosts& costs) {
  const double transfers = 2.0 * (stages - 1) * microbatches / stages + 2.0 * stages - 4;
  return gpipe_bubble(stages, costs) + costs.transfer * (stages == 1 ? 0 : transfers);
}

Seconds interleaved_bubble(int stages, int chunks, const PipelineCosts& costs) {
  const double transfers = 2.0 * stages * chunks - 2;
  return gpipe_bubble(stages, costs) / static_cast<double>(chunks) + costs.transfer * (stages == 1 ? 0 : transfers);
}

Seconds zb_h1_bubble(int stages, const PipelineCosts& costs) {
  return (costs.forward + costs.backward_input - costs.backward_weight + costs.transfer * 4) * (stages - 1.0);
}

Seconds zb_h2_bubble(int stages, const PipelineCosts& costs) {
  return (costs.forward + costs.backward_input - costs.backward_weight * 2 + costs.transfer * 2) * (stages - 1.0);
}

double bubble_rate(Seconds span, int microbatches, const PipelineCosts& costs) {
  return (span - costs.microbatch() * microbatches) / span;
}

}  // namespace ovl
