// SPDX-License-Identifier: Apache-2.0
//
// What a reducing collective does to two contributions. Twin of the device's ring kernel.
#pragma once

#include <cstdint>

namespace ovl::kernels {

// out[i] = a[i] + b[i] for i in [0, count). `out` may be `a` or `b`, but must not overlap them otherwise.
void add(float* out, const float* a, const float* b, std::int64_t count);
void add(double* out, const double* a, const double* b, std::int64_t count);

}  // namespace ovl::kernels
