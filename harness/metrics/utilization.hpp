// SPDX-License-Identifier: Apache-2.0
//
// Model and hardware FLOPs utilization. MFU counts what the model needs (Chowdhery et al., "PaLM", arXiv 2204.02311,
// appendix B), HFU what the hardware did, recomputed activations too. Both are of a *dense* peak, which the row names:
// a device's, or the best GEMM rate measured here. The same run has both, and they differ by a third with full
// recomputation, so neither stands for the other.
#pragma once

#include <cstdint>

#include "base/units.hpp"

namespace ovl {

// FLOPs / (time × devices × peak of one).
double flops_utilization(Flops flops, Seconds time, int devices, FlopsPerSecond peak);

// A transformer as Narayanan et al., SC 2021, count it: l layers of width h, s tokens a sequence, V words.
struct TransformerSize {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t sequence = 0;
  std::int64_t vocab = 0;
};

// 12 l h^2 (1 + 13 / (12 h) + (V + s) / (12 l h)): their equation 2.
double transformer_parameters(const TransformerSize& size);
// One iteration over `batch` sequences. With every activation recomputed in the backward pass, their equation 3:
// 96 B s l h^2 (1 + s / (6 h) + V / (16 l h)), of which a layer's second forward pass is a quarter; without it 72 B s l
// h^2 (1 + s / (6 h) + V / (12 l h)), which is what the model needs.
Flops hardware_flops_with_recomputation(const TransformerSize& size, std::int64_t batch);
Flops model_flops(const TransformerSize& size, std::int64_t batch);

}  // namespace ovl
