// SPDX-License-Identifier: Apache-2.0
//
// A case is one row of the summary: what was asked, as data, and how to build its program.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "program/placement.hpp"
#include "program/program.hpp"
#include "results/table.hpp"

namespace ovl {

// What is measured first and then fixed for all arms. It is in the row, never in the key.
struct Tuning {
  std::int64_t gemm_repeat = 1;  // GEMMs for each collective: --balance makes both take about as long
  std::int64_t repeats = 1;      // operations of each kind in one timed window

  friend bool operator==(const Tuning&, const Tuning&) = default;
};

struct Summary;

struct CaseSpec {
  std::string name;  // what --benchmark_filter sees: axis:value joined by '/'
  std::string key;   // the requested options, canonical: the identity for resume, and with the seed of all randomness
  std::string placement_name;
  Placement placement;
  bool balance = false;
  // The schedule's program, not yet placed.
  std::function<Program(const Tuning&)> build;
  // The bench's own columns: asked for, and derived from the result (only for rows with numbers).
  std::vector<std::pair<std::string, Value>> asked;
  std::function<std::vector<std::pair<std::string, Value>>(const Summary&)> derive;
};

enum class Interleave { sample, block };
template <>
struct EnumNames<Interleave> {
  static constexpr std::string_view axis = "interleave";
  static constexpr std::pair<Interleave, std::string_view> table[] = {{Interleave::sample, "sample"},
                                                                      {Interleave::block, "block"}};
};

}  // namespace ovl
