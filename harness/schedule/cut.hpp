// SPDX-License-Identifier: Apache-2.0
//
// Layers in equal parts: how tensor parallel ranks divide a layer's matrices (tensor_parallel.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "schedule/layers.hpp"

namespace ovl {

// Throws Error(usage), "<whole> <what> do not divide by <by> <parts>", with what to type instead.
void require_divides(std::int64_t whole, std::int64_t by, std::string_view what, std::string_view parts,
                     std::string_view instead);

// Two matrices of a layer on one of several ranks: of the first some columns, of the second the rows that belong to
// them.
struct CutPair {
  std::int64_t first_out = 0;
  std::int64_t second_in = 0;
};

// qkv and proj, mlp and down. Throws Error(usage) where a width does not divide.
std::array<CutPair, 2> cut_pairs(const Layers& layers, int by, std::string_view parts, std::string_view instead);

}  // namespace ovl
