// SPDX-License-Identifier: Apache-2.0
//
// Sharded parameters gathered ahead of use, in closed form: L equal layers, each gathered in `gather` on one lane and
// computed in `compute` on another. With depth d, d layers beyond the one that computes may be there.
#pragma once

#include <cstdint>

#include "base/units.hpp"

namespace ovl {

// One pass over the layers. d = 0: L (gather + compute). d >= 1: gather + (L - 1) max(gather, compute) + compute. Equal
// layers gain nothing from d > 1; unequal ones may.
Seconds prefetched_pass(std::int64_t layers, Seconds gather, Seconds compute, std::int64_t depth);

// (1 + d) gathered layers, no more than there are.
Bytes prefetch_memory(std::int64_t layers, Bytes layer, std::int64_t depth);

}  // namespace ovl
