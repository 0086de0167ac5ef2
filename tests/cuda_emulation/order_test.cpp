// SPDX-License-Identifier: Apache-2.0
#include "order.hpp"

#include <gtest/gtest.h>

namespace ovl::emulation {
namespace {

TEST(EmulatedOrder, HasWhatItTickedAndJoined) {
  Clock first;
  EXPECT_FALSE(first.has(0, 1));
  EXPECT_EQ(first.tick(0), 1U);
  EXPECT_EQ(first.tick(0), 2U);
  EXPECT_TRUE(first.has(0, 1));
  EXPECT_TRUE(first.has(0, 2));
  EXPECT_FALSE(first.has(0, 3));

  Clock second;
  EXPECT_EQ(second.tick(3), 1U);
  EXPECT_FALSE(second.has(0, 1));
  second.join(first);
  EXPECT_TRUE(second.has(0, 2));
  EXPECT_TRUE(second.has(3, 1));
  EXPECT_FALSE(first.has(3, 1));  // what is joined does not learn
  EXPECT_EQ(first.tick(0), 3U);
  EXPECT_FALSE(second.has(0, 3));  // nor is it the same clock
}

}  // namespace
}  // namespace ovl::emulation
