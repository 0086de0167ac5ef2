// SPDX-License-Identifier: Apache-2.0
//
// What is in a row, for tests that compare.
#pragma once

#include <cmath>
#include <string_view>
#include <variant>

#include "results/table.hpp"

namespace ovl::test {

inline double real(const Row& row, std::string_view column) {  // NaN where it is empty
  const auto* value = std::get_if<double>(&row.at(column));
  return value == nullptr ? std::nan("") : *value;
}

}  // namespace ovl::test
