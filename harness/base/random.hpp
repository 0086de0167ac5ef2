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

namespace ovl {

// The full product of two 64-bit numbers; __extension__ because ISO C++ has no such type.
__extension__ using uint128 = unsigned __int128;

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
  // Uniform in [0, n), n > 0, without modulo bias (Lemire's multiply-shift with rejection).
  constexpr std::uint64_t below(std::uint64_t n) {
    const std::uint64_t limit = (0 - n) % n;
    for (;;) {
      const auto product = static_cast<uint128>(next()) * n;
      if (static_cast<std::uint64_t>(product) >= limit) return static_cast<std::uint64_t>(product >> 64U);
    }
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
// Exact data are the integers -4 .. 4: sums of 2^20 products of two are exact in f32. Random data are uniform in [-1,
// 1).
constexpr double exact_element(std::uint64_t seed, std::int64_t index) {
  return static_cast<double>(static_cast<std::int64_t>(mix64(seed + static_cast<std::uint64_t>(index)) % 9) - 4);
}
constexpr double random_element(std::uint64_t seed, std::int64_t index) {
  return static_cast<double>(mix64(seed ^ (static_cast<std::uint64_t>(index) * 0x9e3779b97f4a7c15ULL)) >> 11U) *
             0x1.0p-52 -
         1.0;
}

}  // namespace ovl
