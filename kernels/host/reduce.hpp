// SPDX-License-Identifier: Apache-2.0
//
// What collectives do to memory: add two contributions, copy one. Twin of the device's ring kernel.
// Outputs may be inputs (same address), but must not overlap them otherwise; two outputs must not overlap.
#pragma once

#include <cstdint>

namespace ovl::kernels {

// streaming: past the caches, for data larger than these that nobody reads soon. It saves reading every line before it
// is overwritten, a third of the traffic. Finished when the function returns, like any other store.
enum class Stores { cached, streaming };

// out[i] = a[i] for i in [0, count).
void copy(float* out, const float* a, std::int64_t count, Stores stores);
void copy(double* out, const double* a, std::int64_t count, Stores stores);

// out[i] = a[i] + b[i].
void add(float* out, const float* a, const float* b, std::int64_t count, Stores stores);
void add(double* out, const double* a, const double* b, std::int64_t count, Stores stores);

// The same into two places: what a ring's last reducing step keeps and what it passes on.
void add_twice(float* out, float* other, const float* a, const float* b, std::int64_t count, Stores stores);
void add_twice(double* out, double* other, const double* a, const double* b, std::int64_t count, Stores stores);

}  // namespace ovl::kernels
