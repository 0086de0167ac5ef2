// SPDX-License-Identifier: Apache-2.0
#include "metrics/prefetch.hpp"

#include <gtest/gtest.h>

namespace ovl {
namespace {

// Three layers, gathered in 2 and computed in 5: one by one 21, ahead 2 + 5 + 5 + 5.
TEST(Prefetch, WorkedExample) {
  EXPECT_EQ(prefetched_pass(3, Seconds(2), Seconds(5), 0), Seconds(21));
  EXPECT_EQ(prefetched_pass(3, Seconds(2), Seconds(5), 1), Seconds(17));
  EXPECT_EQ(prefetched_pass(3, Seconds(5), Seconds(2), 1), Seconds(17)) << "the slower side decides";
}

TEST(Prefetch, EqualLayersGainNothingFromMoreDepth) {
  EXPECT_EQ(prefetched_pass(9, Seconds(2), Seconds(3), 1), prefetched_pass(9, Seconds(2), Seconds(3), 2));
}

TEST(Prefetch, OfOneLayerIsInTurn) {
  for (const std::int64_t depth : {0, 1, 2}) EXPECT_EQ(prefetched_pass(1, Seconds(2), Seconds(3), depth), Seconds(5));
}

TEST(Prefetch, MemoryIsALayerMoreForEachDepth) {
  EXPECT_EQ(prefetch_memory(8, mebibytes(10), 0), mebibytes(10));
  EXPECT_EQ(prefetch_memory(8, mebibytes(10), 1), mebibytes(20));
  EXPECT_EQ(prefetch_memory(8, mebibytes(10), 2), mebibytes(30));
  EXPECT_EQ(prefetch_memory(2, mebibytes(10), 5), mebibytes(20)) << "there are no more layers";
}

TEST(Prefetch, NeedsALayerAndADepth) {
  EXPECT_THROW((void)prefetched_pass(0, Seconds(1), Seconds(1), 0), std::logic_error);
  EXPECT_THROW((void)prefetched_pass(1, Seconds(1), Seconds(1), -1), std::logic_error);
}

}  // namespace
}  // namespace ovl
