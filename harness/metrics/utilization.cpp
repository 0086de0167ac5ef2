// SPDX-License-Identifier: Apache-2.0
#include "metrics/utilization.hpp"

namespace ovl {
namespace {

struct Sizes {
  double l;
  double h;
  double s;
  double v;
};

Sizes doubles(const TransformerSize& size) {
  return {static_cast<double>(size.layers), static_cast<double>(size.hidden), static_cast<double>(size.sequence),
          static_cast<double>(size.vocab)};
}

}  // namespace

double flops_utilization(Flops flops, Seconds time, int devices, FlopsPerSecond peak) {
  return (flops / time) / (peak * devices);
}

double transformer_parameters(const TransformerSize& size) {
  const auto [l, h, s, v] = doubles(size);
  return 12 * l * h * h * (1 + 13 / (12 * h) + (v + s) / (12 * l * h));
}

Flops hardware_flops_with_recomputation(const TransformerSize& size, std::int64_t batch) {
  const auto [l, h, s, v] = doubles(size);
  return Flops(96.0 * static_cast<double>(batch) * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h)));
}

Flops model_flops(const TransformerSize& size, std::int64_t batch) {
  const auto [l, h, s, v] = doubles(size);
  return Flops(72.0 * static_cast<double>(batch) * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h)));
}

}  // namespace ovl
