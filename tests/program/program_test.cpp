// SPDX-License-Identifier: Apache-2.0
#include "program/program.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <stdexcept>
#include <vector>

namespace ovl {
namespace {

// Ranks that stand at their place in a range, in another order, and with gaps.
TEST(Program, AClassIsFoundHoweverItsMembersStand) {
  Program program;
  program.name = "toy";
  program.ranks = 9;
  for (const std::vector<int>& members : {std::vector<int>{}, {0, 1, 2}, {5, 3, 8}, {4, 6, 7}}) {
    RankClass& c = program.classes.emplace_back();
    for (const int rank : members) c.members.emplace_back(rank);
  }
  const std::vector<std::ptrdiff_t> expected{1, 1, 1, 2, 3, 2, 3, 3, 2};
  for (int rank = 0; rank < 9; ++rank) {
    EXPECT_EQ(&program.class_of(Rank(rank)) - program.classes.data(), expected[static_cast<std::size_t>(rank)]) << rank;
  }
  EXPECT_THROW((void)program.class_of(Rank(9)), std::logic_error);
}

}  // namespace
}  // namespace ovl
