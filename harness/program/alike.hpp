// SPDX-License-Identifier: Apache-2.0
//
// Equal ranks: where nothing tells the members of a class apart, one of them does what all do, and who replays a
// program needs to play one of each class.
#pragma once

#include <cstddef>
#include <vector>

#include "program/program.hpp"

namespace ovl {

// Which class a rank is of, and which of a communicator's groups it is in.
class RankTable {
 public:
  static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

  explicit RankTable(const Program& program);
  [[nodiscard]] std::size_t class_of(Rank rank) const { return class_of_[rank.index()]; }
  // nowhere: it is in none.
  [[nodiscard]] std::size_t group_of(std::size_t comm, Rank rank) const { return group_of_[comm][rank.index()]; }

 private:
  std::vector<std::size_t> class_of_;
  std::vector<std::vector<std::size_t>> group_of_;  // by communicator, then rank
};

// Whether that is so of every class: on every communicator its members are in groups of the same classes in the same
// places, and where they exchange, with nobody else of their class.
bool members_are_alike(const Program& program, const RankTable& table);

}  // namespace ovl
