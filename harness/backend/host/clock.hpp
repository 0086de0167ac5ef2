// SPDX-License-Identifier: Apache-2.0
//
// One clock for all lanes of all ranks: CLOCK_MONOTONIC. The kernel keeps it in step over cores (a raw rdtscp would
// need its own calibration and an invariant counter), and a reading costs about 20 ns through the vDSO.
#pragma once

#include <cstdint>
#include <ctime>

#include "base/units.hpp"

namespace ovl::host {

// Nanoseconds since an arbitrary point, the same for all threads.
using Stamp = std::int64_t;

inline Stamp now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<Stamp>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

inline Seconds between(Stamp from, Stamp to) { return nanoseconds(static_cast<double>(to - from)); }

}  // namespace ovl::host
