// SPDX-License-Identifier: Apache-2.0
//
// What a GEMM takes on a device of many equal units: its result is cut into tiles, each unit works on one tile at a
// time, so the tiles run in waves, and the last wave takes as long as a full one (wave quantisation: NVIDIA, "Matrix
// Multiplication Background User's Guide", sections 4 and 5). Beside that, operands and result pass memory once
// (roofline: Williams, Waterman and Patterson, CACM 52, 2009). The longer of both is the time.
#pragma once

#include <cstdint>

#include "base/units.hpp"
#include "program/program.hpp"

namespace ovl {

struct TileShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
};

struct GemmDevice {
  int units = 1;             // SMs, CUs
  FlopsPerSecond rate;       // all units together, of tiles that are whole
  BytesPerSecond memory{0};  // 0: memory never limits
};

struct GemmWaves {
  TileShape tile;
  std::int64_t tiles = 0;
  std::int64_t waves = 0;  // on all units
  Seconds wave;            // of one tile on one unit
  Seconds compute;         // waves · wave
  Seconds memory;          // operands and result once, at the device's bandwidth
  Seconds time;            // the longer
};

// One GEMM (Gemm::repeat is not looked at) on `units` of the device's units with a given tile; edge tiles cost as much
// as whole ones.
GemmWaves gemm_waves(const Gemm& gemm, const GemmDevice& device, int units, TileShape tile);

// With the tile that takes the least time on all units among 256x128, 128x256, 128x128, 128x64, 64x128 and 64x64; of
// equal times the largest. Gemm::sm_target counts as the units there are. Without units (1) nothing is quantised:
// the time is 2mnk / rate.
GemmWaves fastest_gemm(const Gemm& gemm, const GemmDevice& device);

}  // namespace ovl
