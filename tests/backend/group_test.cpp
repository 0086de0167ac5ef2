// SPDX-License-Identifier: Apache-2.0
#include "backend/host/group.hpp"

#include <gtest/gtest.h>

namespace ovl::host {
namespace {

void expect_range(Range got, std::int64_t begin, std::int64_t count) {
  EXPECT_EQ(got.begin, begin);
  EXPECT_EQ(got.count, count);
}

TEST(PartOf, TenInThreePartsOfWholePairs) {
  // 10/3 is 4 elements a part, rounded up to pairs.
  expect_range(part_of(10, 3, 0, 2), 0, 4);
  expect_range(part_of(10, 3, 1, 2), 4, 4);
  expect_range(part_of(10, 3, 2, 2), 8, 2);
}

TEST(PartOf, LastPartsAreEmptyWhereTheGrainLeavesNothing) {
  expect_range(part_of(3, 4, 0, 32), 0, 3);
  expect_range(part_of(3, 4, 1, 32), 3, 0);
  expect_range(part_of(3, 4, 3, 32), 3, 0);
  expect_range(part_of(0, 2, 1, 32), 0, 0);
}

}  // namespace
}  // namespace ovl::host
