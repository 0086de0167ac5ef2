// SPDX-License-Identifier: Apache-2.0
#include "metrics/gemm_waves.hpp"

#include <gtest/gtest.h>

namespace ovl {
namespace {

// 100 units of 1 TFLOP/s each, 1 TB/s.
constexpr GemmDevice device{.units = 100, .rate = FlopsPerSecond(100e12), .memory = BytesPerSecond(1e12)};

TEST(GemmWaves, WholeWavesByHand) {
  // 1280 x 1280 in tiles of 128 x 128: 100 tiles, one wave; each is 2 · 128 · 128 · 4096 FLOP on 1 TFLOP/s.
  const GemmWaves w = gemm_waves({1280, 1280, 4096, DType::bf16}, device, 100, {128, 128});
  EXPECT_EQ(w.tiles, 100);
  EXPECT_EQ(w.waves, 1);
  EXPECT_NEAR(w.wave.value() * 1e6, 134.217728, 1e-9);
  EXPECT_EQ(w.compute, w.wave);
  // Operands and result once: (1280·4096·2 + 1280²) · 2 B at 1 TB/s, hidden behind the arithmetic.
  EXPECT_NEAR(w.memory.value() * 1e6, (2 * 1280.0 * 4096 + 1280.0 * 1280) * 2 * 1e-6, 1e-9);
  EXPECT_EQ(w.time, w.compute);
}

TEST(GemmWaves, OneTileMoreIsAWaveMore) {
  EXPECT_EQ(gemm_waves({1281, 1280, 64, DType::bf16}, device, 100, {128, 128}).tiles, 110);
  EXPECT_EQ(gemm_waves({1281, 1280, 64, DType::bf16}, device, 100, {128, 128}).waves, 2);
}

// A collective that takes 32 of 304 units costs a GEMM of 4 whole waves a fifth wave, +25 %, where its share of the
// units would say +11.8 %; taking 64 costs the same 5 waves to 1/5. Published for MI300X: +17 % and +27 %.
TEST(GemmWaves, FewerUnitsCostWholeWaves) {
  constexpr GemmDevice many{.units = 304, .rate = FlopsPerSecond(1e15)};
  const Gemm gemm{128 * 32, 128 * 38, 1024, DType::bf16};  // 1216 tiles
  EXPECT_EQ(gemm_waves(gemm, many, 304, {128, 128}).waves, 4);
  EXPECT_EQ(gemm_waves(gemm, many, 272, {128, 128}).waves, 5);
  EXPECT_EQ(gemm_waves(gemm, many, 244, {128, 128}).waves, 5);
  EXPECT_EQ(gemm_waves(gemm, many, 243, {128, 128}).waves, 6);
}

TEST(GemmWaves, AThinGemmIsBoundByMemory) {
  const GemmWaves w = fastest_gemm({16, 8192, 8192, DType::bf16}, device);
  EXPECT_EQ(w.time, w.memory);
  EXPECT_NEAR(w.memory.value(), (16.0 * 8192 + 8192.0 * 8192 + 16 * 8192) * 2 / 1e12, 1e-12);
}

TEST(GemmWaves, TakesTheTileThatWastesLeast) {
  // 640 x 640: 25 tiles of 128 x 128 leave 75 units idle for a whole tile; 100 of 64 x 64 keep all busy a quarter of
  // it.
  const GemmWaves w = fastest_gemm({640, 640, 4096, DType::bf16}, device);
  EXPECT_EQ(w.tile.m, 64);
  EXPECT_EQ(w.tile.n, 64);
  EXPECT_EQ(w.tiles, 100);
}

TEST(GemmWaves, AnSmTargetIsAllThereIs) {
  Gemm gemm{1280, 1280, 4096, DType::bf16};
  const Seconds all = fastest_gemm(gemm, device).time;
  gemm.sm_target = 50;
  EXPECT_NEAR(fastest_gemm(gemm, device).time / all, 2, 1e-12);
}

TEST(GemmWaves, WithoutUnitsOnlyTheRateCounts) {
  const GemmWaves w = fastest_gemm({100, 100, 100, DType::f32}, {.units = 1, .rate = FlopsPerSecond(1e9)});
  EXPECT_NEAR(w.time.value(), 2e6 / 1e9, 1e-15);
}

}  // namespace
}  // namespace ovl
