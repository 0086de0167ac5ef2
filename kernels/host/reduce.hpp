// SPDX-License-Identifier: Apache-2.0
//
// What collectives do to memory: add two contributions, copy one. Twin of the device's ring kernel.
// Outputs may be inputs (same address), but must not overlap them otherwise; two outputs must not overlap.
#pragma once

#include <cstdint>

namespace ovl::kernels {

// out[i] = a[i] + b[i] for i in [0, count).
void add(float* out, const float* a, const float* b, std::int64_t count);
void add(double* out, const double* a, const double* b, std::int64_t count);

// The same into two places: what a ring's last reducing step keeps and what it passes on.
void add_twice(float* out, float* other, const float* a, const float* b, std::int64_t count);
void add_twice(double* out, double* other, const double* a, const double* b, std::int64_t count);

}  // namespace ovl::kernels
