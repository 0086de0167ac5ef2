// SPDX-License-Identifier: Apache-2.0
//
// What fuzz targets share: a condition whose failure libFuzzer keeps as a crash, and what a terminal may be shown.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace ovl::fuzz {

inline void must(bool condition) {
  if (!condition) std::abort();
}

inline bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

}  // namespace ovl::fuzz
