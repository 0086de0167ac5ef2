// SPDX-License-Identifier: Apache-2.0
#include "base/ids.hpp"

#include <gtest/gtest.h>

#include <type_traits>
#include <unordered_set>

namespace ovl {
namespace {

TEST(Ids, OfDifferentThingsDoNotConvert) {
  static_assert(!std::is_convertible_v<LaneId, Rank>);
  static_assert(!std::is_constructible_v<LaneId, Rank>);
  static_assert(!std::is_convertible_v<int, Rank>);
}

TEST(Ids, AreInvalidUntilSet) {
  EXPECT_FALSE(BufferId().valid());
  EXPECT_TRUE(BufferId(0).valid());
  EXPECT_EQ(BufferId(std::size_t{7}).index(), 7U);
}

TEST(Ids, OrderAndHashByValue) {
  EXPECT_LT(Rank(1), Rank(2));
  EXPECT_EQ(Rank(3), Rank(3));
  const std::unordered_set<OpId> seen{OpId(1), OpId(1), OpId(2)};
  EXPECT_EQ(seen.size(), 2U);
}

}  // namespace
}  // namespace ovl
