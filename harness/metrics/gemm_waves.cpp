// SPDX-License-Identifier: Apache-2.0
#include "metrics/gemm_waves.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace ovl {
namespace {

constexpr TileShape tiles_to_try[] = {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}};

std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

Bytes traffic(const Gemm& g) {
  return size_of(g.dtype) * (g.m * g.k + g.k * g.n) + size_of(gemm_output(g.dtype)) * (g.m * g.n);
}

GemmWaves with_memory(GemmWaves w, const Gemm& g, const GemmDevice& device) {
  w.compute = w.wave * static_cast<double>(w.waves);
  w.memory = device.memory.value() > 0 ? traffic(g) / device.memory : Seconds(0);
  w.time = std::max(w.compute, w.memory);
  return w;
}

}  // namespace

GemmWaves gemm_waves(const Gemm& g, const GemmDevice& device, int units, TileShape tile) {
  require(device.units >= 1 && units >= 1, "a GEMM runs on units");
  GemmWaves w;
  w.tile = tile;
  w.tiles = divide_up(g.m, tile.m) * divide_up(g.n, tile.n);
  w.waves = divide_up(w.tiles, units);
  const Flops one_tile(2.0 * static_cast<double>(tile.m) * static_cast<double>(tile.n) * static_cast<double>(g.k));
  w.wave = one_tile / (device.rate / static_cast<double>(device.units));
  return with_memory(w, g, device);
}

GemmWaves fastest_gemm(const Gemm& g, const GemmDevice& device) {
  if (device.units == 1) return with_memory(gemm_waves(g, device, 1, {g.m, g.n}), g, device);
  const int units = g.sm_target > 0 ? std::min(g.sm_target, device.units) : device.units;
  GemmWaves best;
  for (const TileShape tile : tiles_to_try) {
    const GemmWaves w = gemm_waves(g, device, units, tile);
    if (best.tiles == 0 || w.time < best.time) best = w;
  }
  return best;
}

}  // namespace ovl
