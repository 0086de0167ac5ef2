// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/reduce.hpp"

namespace ovl::kernels {
namespace {

template <class T>
void add_any(T* out, const T* a, const T* b, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

}  // namespace

void add(float* out, const float* a, const float* b, std::int64_t count) { add_any(out, a, b, count); }
void add(double* out, const double* a, const double* b, std::int64_t count) { add_any(out, a, b, count); }

}  // namespace ovl::kernels
