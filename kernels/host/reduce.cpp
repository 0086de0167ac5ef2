// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/reduce.hpp"

namespace ovl::kernels {
namespace {

// Element by element, so that in place is allowed and the result does not depend on the vector length.
template <class T>
void add_any(T* out, const T* a, const T* b, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

template <class T>
void add_twice_any(T* out, T* other, const T* a, const T* b, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const T sum = a[i] + b[i];
    out[i] = sum;
    other[i] = sum;
  }
}

}  // namespace

void add(float* out, const float* a, const float* b, std::int64_t count) { add_any(out, a, b, count); }
void add(double* out, const double* a, const double* b, std::int64_t count) { add_any(out, a, b, count); }

void add_twice(float* out, float* other, const float* a, const float* b, std::int64_t count) {
  add_twice_any(out, other, a, b, count);
}
void add_twice(double* out, double* other, const double* a, const double* b, std::int64_t count) {
  add_twice_any(out, other, a, b, count);
}

}  // namespace ovl::kernels
