// SPDX-License-Identifier: Apache-2.0
//
// Seeds and orders must be the same on every machine and standard library, so the generator is our own: splitmix64
// (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
#pragma once

#include <cstdint>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "base/float_formats.hpp"

namespace ovl {

constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

// FNV-1a, 64 bit: the hash of printed programs, keys and environments.
constexpr std::uint64_t hash64(std::string_view text, std::uint64_t basis = 0xcbf29ce484222325ULL) {
  for (const char c : text) {
    basis ^= static_cast<unsigned char>(c);
    basis *= 0x100000001b3ULL;
  }
  return basis;
}

class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) : state_(seed) {}

  constexpr std::uint64_t next() { return mix64(state_++ * 0x9e3779b97f4a7c15ULL); }
  // Uniform in [0, n), n > 0: values below 2^64 mod n are drawn again, so that the modulo has no bias.
  constexpr std::uint64_t below(std::uint64_t n) {
    const std::uint64_t biased = (0 - n) % n;
    std::uint64_t x = next();
    while (x < biased) x = next();
    return x % n;
  }
  // Uniform in [0, 1).
  constexpr double uniform() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }

  // A random order of 0 .. n-1 (Fisher-Yates).
  std::vector<std::size_t> permutation(std::size_t n) {
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = n; i > 1; --i) std::swap(order[i - 1], order[below(i)]);
    return order;
  }

 private:
  std::uint64_t state_;
};

// The contents of buffers, a pure function of where the element is, so that any process can recompute any other's.

// Exact data: sums that verification forms must be exact in what the dtype accumulates and stores, whatever the order.
// f64, f32, tf32: the integers -4 .. 4. 16 and 8 bits store few integers, so most elements are 0: 1 and -1 with a
// probability of 1/16 each.
constexpr double exact_element(std::uint64_t seed, std::int64_t index, DType dtype) {
  const std::uint64_t mixed = mix64(seed + static_cast<std::uint64_t>(index));
  if (bytes_of(dtype) >= 4) return static_cast<double>(static_cast<std::int64_t>(mixed % 9) - 4);
  const std::uint64_t draw = mixed >> 60U;
  return draw == 0 ? 1.0 : draw == 1 ? -1.0 : 0.0;
}

// How many products of two exact elements a GEMM that stores `dtype` may sum up. From 4 bytes on no sum of products,
// each at most 16, can leave the integers that are exact. In 16 bits the sum is formed in f32 (exact: products are -1,
// 0, 1) and stored once. A product is not 0 with a probability of 1/64, so a sum of k has a standard deviation of
// sqrt(k)/8; the bound keeps 8 of them within the 2^bits that are exact: sqrt(k) = 2^bits. One element in 10^15 is
// beyond 8 (normal limit; Bernstein's bound says one in 10^12), and the data of a seed are fixed, so a run that passes
// always does. For f8e4m3 the stored dtype is bf16.
constexpr std::int64_t most_exact_products(DType stored) {
  const int bits = significand_bits(stored);
  return std::int64_t{1} << (bytes_of(stored) >= 4 ? bits - 4 : 2 * bits);
}
// How many ranks' exact elements a collective may sum up, where every partial sum is stored: each adds at most 4 (1 in
// 16 and 8 bits), and 2^bits is exact. 2^22 in f32, 2048 in f16, 256 in bf16, 16 in f8e4m3.
constexpr std::int64_t most_exact_ranks(DType dtype) {
  return std::int64_t{1} << (significand_bits(dtype) - (bytes_of(dtype) >= 4 ? 2 : 0));
}

// Random data: uniform in [-1, 1), rounded to what the dtype holds.
constexpr double random_element(std::uint64_t seed, std::int64_t index) {
  return static_cast<double>(mix64(seed ^ (static_cast<std::uint64_t>(index) * 0x9e3779b97f4a7c15ULL)) >> 11U) *
             0x1.0p-52 -
         1.0;
}
constexpr double random_element(std::uint64_t seed, std::int64_t index, DType dtype) {
  return round_to(dtype, random_element(seed, index));
}

}  // namespace ovl
