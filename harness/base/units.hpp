// SPDX-License-Identifier: Apache-2.0
//
// Units are types: a Bytes never meets a Seconds by accident, and a number leaves its unit only through value().
// Times are seconds, sizes are bytes; durations are signed, because "worse than serial" is a negative saving.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace ovl {

template <class Tag, class Rep>
class Quantity {
 public:
  using rep = Rep;

  constexpr Quantity() = default;
  explicit constexpr Quantity(Rep value) : value_(value) {}

  [[nodiscard]] constexpr Rep value() const { return value_; }
  [[nodiscard]] static constexpr std::string_view unit() { return Tag::unit; }

  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }

  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value_ + b.value_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value_ - b.value_); }
  friend constexpr Quantity operator-(Quantity a) { return Quantity(-a.value_); }
  friend constexpr Quantity operator*(Quantity a, Rep s) { return Quantity(a.value_ * s); }
  friend constexpr Quantity operator*(Rep s, Quantity a) { return Quantity(s * a.value_); }
  friend constexpr Quantity operator/(Quantity a, Rep s) { return Quantity(a.value_ / s); }
  // The ratio of two like quantities is a plain number.
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.value_) / static_cast<double>(b.value_);
  }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

 private:
  Rep value_{};
};

struct BytesTag {
  static constexpr std::string_view unit = "B";
};
struct SecondsTag {
  static constexpr std::string_view unit = "s";
};
struct FlopsTag {
  static constexpr std::string_view unit = "FLOP";
};
struct BytesPerSecondTag {
  static constexpr std::string_view unit = "B/s";
};
struct FlopsPerSecondTag {
  static constexpr std::string_view unit = "FLOP/s";
};

using Bytes = Quantity<BytesTag, std::int64_t>;
using Seconds = Quantity<SecondsTag, double>;
using Flops = Quantity<FlopsTag, double>;
using BytesPerSecond = Quantity<BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<FlopsPerSecondTag, double>;

constexpr Seconds milliseconds(double ms) { return Seconds(ms * 1e-3); }
constexpr Seconds microseconds(double us) { return Seconds(us * 1e-6); }
constexpr Seconds nanoseconds(double ns) { return Seconds(ns * 1e-9); }
constexpr Bytes kibibytes(std::int64_t n) { return Bytes(n * 1024); }
constexpr Bytes mebibytes(std::int64_t n) { return Bytes(n * 1024 * 1024); }

constexpr BytesPerSecond operator/(Bytes amount, Seconds time) {
  return BytesPerSecond(static_cast<double>(amount.value()) / time.value());
}
constexpr FlopsPerSecond operator/(Flops amount, Seconds time) { return FlopsPerSecond(amount.value() / time.value()); }
constexpr Seconds operator/(Bytes amount, BytesPerSecond rate) {
  return Seconds(static_cast<double>(amount.value()) / rate.value());
}
constexpr Seconds operator/(Flops amount, FlopsPerSecond rate) { return Seconds(amount.value() / rate.value()); }

// What was not observed. Never a zero: a zero is a measurement.
inline constexpr double unknown_number = std::numeric_limits<double>::quiet_NaN();
inline constexpr Seconds unknown_time{unknown_number};

// "64KiB", "1.5MiB", "25MB", "26214400". KiB, MiB, GiB are powers of 1024; kB, MB, GB powers of 1000; a plain integer
// is bytes. Throws a usage Error naming the text and what to type instead: for an unknown or ambiguous suffix ("1M"),
// for zero, a negative number, a fraction of a byte or a size above 2^63 - 1.
Bytes parse_bytes(std::string_view text);

// The shortest of the above that is exact: 26214400 -> "25MiB", 1000 -> "1kB", 12345 -> "12345".
std::string format_bytes(Bytes size);

// Four significant digits with a fitting prefix, for people: "24.61 ms", "187.2 us". NaN is "unknown".
std::string format_seconds(Seconds time);

}  // namespace ovl
