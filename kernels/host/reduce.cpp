// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/reduce.hpp"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ovl::kernels {
namespace {

// Element by element, so that in place is allowed and the result does not depend on the vector length.
template <class T>
void add_cached(T* out, const T* a, const T* b, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

template <class T>
void add_twice_cached(T* out, T* other, const T* a, const T* b, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const T sum = a[i] + b[i];
    out[i] = sum;
    other[i] = sum;
  }
}

template <class T>
void copy_cached(T* out, const T* a, std::int64_t count) {
  if (out != a) std::memcpy(out, a, static_cast<std::size_t>(count) * sizeof(T));
}

#if defined(__SSE2__)

// 16 bytes, what every x86-64 can stream; streaming is bound by memory, wider vectors do not help.
__m128 load(const float* p) { return _mm_loadu_ps(p); }
__m128d load(const double* p) { return _mm_loadu_pd(p); }
__m128 sum(__m128 a, __m128 b) { return _mm_add_ps(a, b); }
__m128d sum(__m128d a, __m128d b) { return _mm_add_pd(a, b); }
void stream(float* p, __m128 v) { _mm_stream_ps(p, v); }
void stream(double* p, __m128d v) { _mm_stream_pd(p, v); }

template <class T>
constexpr std::int64_t width = 16 / static_cast<std::int64_t>(sizeof(T));
template <class T>
constexpr std::int64_t line = 64 / static_cast<std::int64_t>(sizeof(T));

std::uintptr_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

// The elements before `out` meets a cache line: half-written lines go to memory twice. All of them where the outputs
// are not aligned alike, so that nothing can be streamed.
template <class T>
std::int64_t head(std::int64_t count, const T* out, const T* other) {
  if (address(out) % sizeof(T) != 0 || (address(out) - address(other)) % 64 != 0) return count;
  return std::min(count, static_cast<std::int64_t>((64 - address(out) % 64) % 64 / sizeof(T)));
}

// write(i) for every vector of the whole lines in [first, last); returns where these end.
template <class T, class Write>
std::int64_t for_lines(std::int64_t first, std::int64_t last, Write write) {
  for (; last - first >= line<T>; first += line<T>) {
    for (std::int64_t i = first; i < first + line<T>; i += width<T>) write(i);
  }
  _mm_sfence();  // streamed stores are not ordered with the release that tells others about them
  return first;
}

template <class T>
void add_twice_any(T* out, T* other, const T* a, const T* b, std::int64_t count, Stores stores) {
  if (stores == Stores::cached) return add_twice_cached(out, other, a, b, count);
  const std::int64_t first = head(count, out, other);
  add_twice_cached(out, other, a, b, first);
  const std::int64_t last = for_lines<T>(first, count, [=](std::int64_t i) {
    const auto v = sum(load(a + i), load(b + i));
    stream(out + i, v);
    stream(other + i, v);
  });
  add_twice_cached(out + last, other + last, a + last, b + last, count - last);
}

template <class T>
void add_any(T* out, const T* a, const T* b, std::int64_t count, Stores stores) {
  if (stores == Stores::cached) return add_cached(out, a, b, count);
  const std::int64_t first = head(count, out, out);
  add_cached(out, a, b, first);
  const std::int64_t last =
      for_lines<T>(first, count, [=](std::int64_t i) { stream(out + i, sum(load(a + i), load(b + i))); });
  add_cached(out + last, a + last, b + last, count - last);
}

template <class T>
void copy_any(T* out, const T* a, std::int64_t count, Stores stores) {
  if (stores == Stores::cached || out == a) return copy_cached(out, a, count);
  const std::int64_t first = head(count, out, out);
  copy_cached(out, a, first);
  const std::int64_t last = for_lines<T>(first, count, [=](std::int64_t i) { stream(out + i, load(a + i)); });
  copy_cached(out + last, a + last, count - last);
}

#else  // no streaming stores that C++ can name

template <class T>
void add_twice_any(T* out, T* other, const T* a, const T* b, std::int64_t count, Stores) {
  add_twice_cached(out, other, a, b, count);
}
template <class T>
void add_any(T* out, const T* a, const T* b, std::int64_t count, Stores) {
  add_cached(out, a, b, count);
}
template <class T>
void copy_any(T* out, const T* a, std::int64_t count, Stores) {
  copy_cached(out, a, count);
}

#endif

}  // namespace

void copy(float* out, const float* a, std::int64_t count, Stores stores) { copy_any(out, a, count, stores); }
void copy(double* out, const double* a, std::int64_t count, Stores stores) { copy_any(out, a, count, stores); }

void add(float* out, const float* a, const float* b, std::int64_t count, Stores stores) {
  add_any(out, a, b, count, stores);
}
void add(double* out, const double* a, const double* b, std::int64_t count, Stores stores) {
  add_any(out, a, b, count, stores);
}

void add_twice(float* out, float* other, const float* a, const float* b, std::int64_t count, Stores stores) {
  add_twice_any(out, other, a, b, count, stores);
}
void add_twice(double* out, double* other, const double* a, const double* b, std::int64_t count, Stores stores) {
  add_twice_any(out, other, a, b, count, stores);
}

}  // namespace ovl::kernels
