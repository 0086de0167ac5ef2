// SPDX-License-Identifier: Apache-2.0
//
// How the operations of one window rotate through memory, so that none finds its data in a cache.
#pragma once

#include <cstdint>

#include "base/units.hpp"

namespace ovl {

// No sum of sizes in a schedule may overflow: what takes more bytes is refused.
inline constexpr std::int64_t most_bytes = std::int64_t{1} << 60;

// Of numbers that are not negative, up to the largest.
constexpr std::int64_t divide_up(std::int64_t value, std::int64_t by) { return value / by + (value % by != 0 ? 1 : 0); }

// As many different sets of operands as fit in one window are slices of the buffers, the rest are copies for the
// replays that follow.
struct Rotation {
  std::int64_t slices = 1;
  int copies = 1;
};

// `operations` in one window, each on `footprint` bytes of all ranks, rotate over at least `over` bytes: at most over
// 4096 different sets, each of which has pages of its own and so is beyond any cache, however small.
Rotation rotate(Bytes over, Bytes footprint, std::int64_t operations);

}  // namespace ovl
