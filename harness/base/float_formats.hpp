// SPDX-License-Identifier: Apache-2.0
//
// Every DType to and from double, to the bit as CUDA's own conversions: round to nearest, ties to even. f16 and bf16
// have infinities; f8e4m3 (OCP 8-bit floating point, 2023) has none and saturates at 448. There is one NaN, all bits
// but the sign set (f32 and f64 as well, so that what a kernel fills has the same bits as its host twin). Integer
// arithmetic only, so that host and device agree.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/dtype.hpp"

namespace ovl {

// Sign, exponent, fraction; the bias is half the exponent's range, subnormals are kept.
struct FloatFormat {
  int exponent_bits;
  int fraction_bits;
  bool infinities;  // else the largest exponent holds numbers too, but for the NaN

  [[nodiscard]] constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] constexpr std::uint32_t sign() const { return std::uint32_t{1} << (exponent_bits + fraction_bits); }
  [[nodiscard]] constexpr std::uint32_t nan() const { return sign() - 1; }
  [[nodiscard]] constexpr std::uint32_t infinity() const { return nan() >> fraction_bits << fraction_bits; }
  // What is too large becomes this.
  [[nodiscard]] constexpr std::uint32_t overflow() const { return infinities ? infinity() : nan() - 1; }
};

inline constexpr FloatFormat f16_format{5, 10, true};
inline constexpr FloatFormat bf16_format{8, 7, true};
inline constexpr FloatFormat f8e4m3_format{4, 3, false};

constexpr std::uint32_t encode(double value, const FloatFormat& format) {
  constexpr std::uint64_t hidden = std::uint64_t{1} << 52U;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t magnitude = bits & (~std::uint64_t{0} >> 1U);
  if (magnitude > 0x7ff0000000000000ULL) return format.nan();
  const std::uint32_t sign = bits != magnitude ? format.sign() : 0;

  // The exponent field of the result, 1 for subnormals, and how many bits of the significand lie below its last place.
  const int exponent = static_cast<int>(magnitude >> 52U) - 1023 + format.bias();
  const int field = exponent > 1 ? exponent : 1;
  const int below = 52 - format.fraction_bits + field - exponent;
  // Less than half of the smallest number; so is every subnormal double.
  if (below > 53 || magnitude < hidden) return sign;
  const std::uint64_t significand = (magnitude & (hidden - 1)) | hidden;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << below) - 1);
  const std::uint64_t half = std::uint64_t{1} << (below - 1);
  const std::uint64_t cut = significand >> below;
  const bool up = rest > half || (rest == half && (cut & 1U) != 0);
  // A carry out of the fraction belongs into the exponent, which is where it goes.
  const std::uint64_t result = (static_cast<std::uint64_t>(field - 1) << format.fraction_bits) + cut + (up ? 1 : 0);
  return sign | (result < format.overflow() ? static_cast<std::uint32_t>(result) : format.overflow());
}

constexpr double decode(std::uint32_t bits, const FloatFormat& format) {
  constexpr std::uint64_t exponent_of_double = 0x7ffULL << 52U;
  const std::uint64_t sign = (bits & format.sign()) != 0 ? std::uint64_t{1} << 63U : 0;
  const std::uint32_t magnitude = bits & format.nan();
  const std::uint32_t fraction = magnitude & ((std::uint32_t{1} << format.fraction_bits) - 1);
  const int field = static_cast<int>(magnitude >> format.fraction_bits);
  if (format.infinities && magnitude == format.infinity()) return std::bit_cast<double>(sign | exponent_of_double);
  if (format.infinities ? magnitude > format.infinity() : magnitude == format.nan()) {
    return std::bit_cast<double>(~std::uint64_t{0} >> 1U);
  }
  if (field == 0) {
    const auto last_place = static_cast<std::uint64_t>(1023 + 1 - format.bias() - format.fraction_bits) << 52U;
    return (sign != 0 ? -1.0 : 1.0) * static_cast<double>(fraction) * std::bit_cast<double>(last_place);
  }
  return std::bit_cast<double>(sign | static_cast<std::uint64_t>(field - format.bias() + 1023) << 52U |
                               static_cast<std::uint64_t>(fraction) << (52 - format.fraction_bits));
}

// The bits of an element as it lies in memory, in the low bytes_of(dtype) bytes.
constexpr std::uint64_t to_bits(double value, DType dtype) {
  const bool is_nan = value != value;
  switch (dtype) {
    case DType::f64: return is_nan ? ~std::uint64_t{0} >> 1U : std::bit_cast<std::uint64_t>(value);
    case DType::f32:
    case DType::tf32: return is_nan ? ~std::uint32_t{0} >> 1U : std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case DType::f16: return encode(value, f16_format);
    case DType::bf16: return encode(value, bf16_format);
    case DType::f8e4m3: return encode(value, f8e4m3_format);
  }
  return 0;
}

constexpr double from_bits(std::uint64_t bits, DType dtype) {
  const auto low = static_cast<std::uint32_t>(bits);
  switch (dtype) {
    case DType::f64: return std::bit_cast<double>(bits);
    case DType::f32:
    case DType::tf32: return static_cast<double>(std::bit_cast<float>(low));
    case DType::f16: return decode(low, f16_format);
    case DType::bf16: return decode(low, bf16_format);
    case DType::f8e4m3: return decode(low, f8e4m3_format);
  }
  return 0;
}

// What the dtype holds of a number.
constexpr double round_to(DType dtype, double value) { return from_bits(to_bits(value, dtype), dtype); }

// Elements of an array in host memory, of any alignment. Little-endian, as everything that CUDA runs on.
inline double load_element(const void* array, std::int64_t index, DType dtype) {
  static_assert(std::endian::native == std::endian::little);
  std::uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(array) + index * bytes_of(dtype),
              static_cast<std::size_t>(bytes_of(dtype)));
  return from_bits(bits, dtype);
}
inline void store_element(void* array, std::int64_t index, DType dtype, double value) {
  const std::uint64_t bits = to_bits(value, dtype);
  std::memcpy(static_cast<char*>(array) + index * bytes_of(dtype), &bits, static_cast<std::size_t>(bytes_of(dtype)));
}

}  // namespace ovl
