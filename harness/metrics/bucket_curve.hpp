// SPDX-License-Identifier: Apache-2.0
//
// How much of a gradient all_reduce stays exposed, over the number of buckets that it is cut into: few buckets begin
// late, many pay the latency often, and between lies the bottom of a U. The model: gradients come out evenly over the
// backward pass, each of n equal buckets is sent when its last gradient is there, one at a time and in order, at
// latency + wire / n, and neither side slows the other.
//
//   F_k = max(F_(k-1), k T_b / n) + a + W / n        exposed = F_n - T_b
//
// Source: derived; the recurrence and the closed form are equal for every n. What it leaves out is in other places:
// contention (metrics/fluid_interference.hpp), uneven layers and PyTorch's smaller first bucket (schedule).
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.hpp"

namespace ovl {

struct BucketCurve {
  Seconds backward;  // T_b, above 0
  Seconds wire;      // W: all bytes at the bandwidth, no latency; not negative
  Seconds latency;   // a: what each bucket costs however small; not negative
};

// When each bucket's all_reduce ends, from the start of the backward pass: the recurrence. All functions throw a usage
// Error for a curve that is not as above, or for less than one bucket.
std::vector<Seconds> bucket_ends(const BucketCurve& curve, std::int64_t buckets);

// max(a + W / n, n a + W - T_b (1 - 1 / n)): the closed form of the last end less T_b. The first term is a
// communication that keeps up and leaves its last bucket, the second one that is behind from the first bucket on.
Seconds exposed_time(const BucketCurve& curve, std::int64_t buckets);

// The bottom of the U where n is any number: max((T_b - W) / a, sqrt(T_b / a)), at least 1; infinite without a latency.
double bottom_of_curve(const BucketCurve& curve);

// The whole number of buckets with the least exposed time; the curve is convex, so it is next to the bottom.
// Throws a usage Error without a latency: then smaller is always better.
std::int64_t best_bucket_count(const BucketCurve& curve);

// How many equal buckets of at most `bucket` bytes hold `total`.
std::int64_t bucket_count(Bytes total, Bytes bucket);

}  // namespace ovl
