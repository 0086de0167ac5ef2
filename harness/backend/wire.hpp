// SPDX-License-Identifier: Apache-2.0
//
// Values as text that another process reads back: little-endian, the same on every machine, doubles to the bit (NaN and
// its payload included). The reader trusts nothing: what is too short or too long is an Error(failure).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"

namespace ovl {

class WireWriter {
 public:
  void put(std::uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) text_.push_back(static_cast<char>((value >> shift) & 0xff));
  }
  void put(std::int64_t value) { put(static_cast<std::uint64_t>(value)); }
  void put(int value) { put(std::int64_t{value}); }
  void put(bool value) { put(std::uint64_t{value}); }
  void put(double value) { put(std::bit_cast<std::uint64_t>(value)); }
  void put(Seconds value) { put(value.value()); }
  void put(std::string_view value) {
    put(static_cast<std::uint64_t>(value.size()));
    text_.append(value);
  }
  void put(const std::string& value) { put(std::string_view(value)); }
  void put(const char* value) { put(std::string_view(value)); }
  // Each element by `put_element(*this, element)`.
  template <class Element, class Put>
  void put_all(const std::vector<Element>& elements, Put put_element) {
    put(static_cast<std::uint64_t>(elements.size()));
    for (const Element& element : elements) put_element(*this, element);
  }

  [[nodiscard]] std::string take() && { return std::move(text_); }

 private:
  std::string text_;
};

class WireReader {
 public:
  explicit WireReader(std::string_view text) : rest_(text) {}

  std::uint64_t unsigned_number() {
    const std::string_view bytes = raw(8);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i) value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    return value;
  }
  std::int64_t number() { return static_cast<std::int64_t>(unsigned_number()); }
  int integer() { return static_cast<int>(number()); }
  bool truth() { return unsigned_number() != 0; }
  double real() { return std::bit_cast<double>(unsigned_number()); }
  Seconds seconds() { return Seconds(real()); }
  std::string text() { return std::string(raw(unsigned_number())); }
  template <class Get>
  auto all(Get get_element) {
    std::vector<decltype(get_element(*this))> elements;
    // The count is not believed: what is not there ends it.
    for (std::uint64_t count = unsigned_number(); count > 0; --count) elements.push_back(get_element(*this));
    return elements;
  }

  void finish() const {
    if (!rest_.empty()) throw failure("a message of another process is longer than it should be", "");
  }

 private:
  std::string_view raw(std::uint64_t size) {
    if (size > rest_.size()) throw failure("a message of another process is cut short", "");
    const std::string_view bytes = rest_.substr(0, static_cast<std::size_t>(size));
    rest_.remove_prefix(bytes.size());
    return bytes;
  }

  std::string_view rest_;
};

}  // namespace ovl
