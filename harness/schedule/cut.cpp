// SPDX-License-Identifier: Apache-2.0
#include "schedule/cut.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace ovl {

void require_divides(std::int64_t whole, std::int64_t by, std::string_view what, std::string_view parts,
                     std::string_view instead) {
  if (by > 0 && whole % by == 0) return;
  throw usage_error(fmt::format("{} {} do not divide by {} {}", whole, what, by, parts), "all parts are equal",
                    instead);
}

std::array<CutPair, 2> cut_pairs(const Layers& layers, int by, std::string_view parts, std::string_view instead) {
  const std::array<Matrix, 4> m = layers.matrices();
  for (const Matrix& first : {m[0], m[2]}) {
    require_divides(first.out, by, fmt::format("columns of {}", first.name), parts, instead);
  }
  for (const Matrix& second : {m[1], m[3]}) {
    require_divides(second.in, by, fmt::format("rows of {}", second.name), parts, instead);
  }
  return {{{m[0].out / by, m[1].in / by}, {m[2].out / by, m[3].in / by}}};
}

}  // namespace ovl
