// SPDX-License-Identifier: Apache-2.0
//
// What a setting costs one side and gives the other, over all settings: which ones are worth having, where more stops
// paying, and up to which intensity running together does.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace ovl {

// Less cost is better, more gain is better: the slowdown of a GEMM and the bus bandwidth of the collective beside it.
struct TradeOff {
  double cost = 0;
  double gain = 0;
};

// Indices of the settings that no other beats in one without losing in the other (Pareto's front), by ascending cost;
// of equal ones the first. Settings with a NaN are none.
std::vector<std::size_t> pareto_front(std::span<const TradeOff> settings);

// The knee of the front: the setting farthest above the line from its first to its last, both axes scaled to their
// range (Satopaa et al., "Finding a kneedle in a haystack", ICDCS workshops, 2011). Empty for a front of fewer than
// three settings, or one that nowhere bulges above that line.
std::optional<std::size_t> knee(std::span<const TradeOff> settings);

// An intensity and 1 / compute_slowdown + 1 / comm_slowdown - 1 there: above 0 overlap pays.
struct Intensity {
  double amount = 0;
  double gain = 0;
};

// Where the gain, by ascending amounts and linear in between, first falls to 0. Empty: it does not, or is not above 0
// at the first amount (then it never paid in this range).
std::optional<double> break_even(std::vector<Intensity> curve);

}  // namespace ovl
