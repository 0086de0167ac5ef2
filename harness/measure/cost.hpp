// SPDX-License-Identifier: Apache-2.0
//
// How a case asks what one operation costs, alone and under load: its arms, when it stops, its columns and its words.
#pragma once

#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "measure/case.hpp"

namespace ovl {

// Arm of the whole program, in which compute covers communication.
inline constexpr std::string_view loaded_arm = "loaded";

struct CostQuestion {
  Bytes bytes;        // of the whole array
  double bus_factor;  // bus bandwidth / algorithm bandwidth; NaN: nothing crosses a link
  bool loaded = false;
};

// Sets arms (empty, comm and, loaded, the whole program under that name), what stops the case (the widest relative
// interval of the times of communication), derived columns and words.
void ask_for_cost(CaseSpec& spec, const CostQuestion& question);

// The columns that it derives, for a bench to declare.
std::vector<Column> cost_columns();

}  // namespace ovl
