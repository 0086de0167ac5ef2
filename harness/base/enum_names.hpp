// SPDX-License-Identifier: Apache-2.0
//
// An enum is spelled in one table, used for printing, parsing and for offering the nearest name.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace ovl {

// Specialise with: static constexpr std::string_view axis = "dtype";
//                  static constexpr std::pair<E, std::string_view> table[] = {...};
template <class E>
struct EnumNames;

template <class E>
constexpr std::string_view name(E value) {
  for (const auto& [e, text] : EnumNames<E>::table) {
    if (e == value) return text;
  }
  return "?";
}

template <class E>
std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [e, text] : EnumNames<E>::table) all.emplace_back(text);
  return all;
}

template <class E>
E parse_enum(std::string_view text) {
  for (const auto& [e, spelled] : EnumNames<E>::table) {
    if (spelled == text) return e;
  }
  throw unknown_value(EnumNames<E>::axis, text, names<E>());
}

}  // namespace ovl
