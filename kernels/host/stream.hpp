// SPDX-License-Identifier: Apache-2.0
//
// How a stream keeps its pace: it moves a chunk, then waits until the bytes so far are due. Late by more than a few
// chunks (somebody else had the core) it does not catch up: a burst would be another intensity than the one asked for.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ovl::kernels {

// Bytes between two looks at the clock and at the event that ends it: about 10 us at a core's bandwidth.
inline constexpr std::int64_t stream_chunk = std::int64_t{64} * 1024;

class PaceClock {
 public:
  // `pace` in bytes a unit of time, of which 0 means no pace.
  PaceClock(double pace, double now) : pace_(pace), due_(now) {}

  // When the next chunk may begin, after one of `bytes` ended `now`; in the past where it is late or has no pace.
  double after(double bytes, double now) {
    if (pace_ <= 0) return now;
    constexpr double most_chunks_late = 8;
    const double step = bytes / pace_;
    due_ = std::max(due_ + step, now - most_chunks_late * step);
    return due_;
  }

 private:
  double pace_;
  double due_;
};

}  // namespace ovl::kernels
