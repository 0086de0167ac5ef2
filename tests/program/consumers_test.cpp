// SPDX-License-Identifier: Apache-2.0
#include "program/consumers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ovl {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr LaneId compute{0};
constexpr LaneId comm{1};
constexpr BufferId gradients{0};
constexpr BufferId reduced{1};
constexpr BufferId weights{2};

Operation reduce(int id, std::int64_t at) {
  return {OpId(id), comm, Role::communication, Collective{}, {{gradients, at, 4}}, {{reduced, at, 4}}};
}
Operation update(int id, std::int64_t at, std::int64_t count) {
  return {OpId(id), compute, Role::compute, Elementwise{}, {{reduced, at, count}}, {{weights, at, count}}};
}

// Two buckets of 4: the first is read by the update of all eight, which is also the first to read the second.
TEST(FirstConsumers, WorkedExample) {
  RankClass c;
  c.body = {reduce(1, 0), reduce(2, 4), update(3, 0, 8), update(4, 4, 4)};
  EXPECT_THAT(first_consumers(c), ElementsAre(Pair(OpId(1), OpId(3)), Pair(OpId(2), OpId(3))));
}

TEST(FirstConsumers, WhatNobodyReadsHasNone) {
  RankClass c;
  c.body = {reduce(1, 0), update(2, 4, 4)};
  EXPECT_TRUE(first_consumers(c).empty());
}

// The second reduction overwrites the result of the first before anyone reads it.
TEST(FirstConsumers, ReadsOfWhatWasOverwrittenAreOfTheLaterOne) {
  RankClass c;
  c.body = {reduce(1, 0), reduce(2, 0), update(3, 0, 4)};
  EXPECT_THAT(first_consumers(c), ElementsAre(Pair(OpId(2), OpId(3))));
}

// An all_gather after a reduce_scatter, on one lane, is no consumer that proceeds: it follows anyway.
TEST(FirstConsumers, TheLaneItselfIsNoConsumer) {
  RankClass c;
  Operation gather{OpId(2), comm, Role::communication, Collective{}, {{reduced, 0, 4}}, {{weights, 0, 4}}};
  c.body = {reduce(1, 0), gather, update(3, 0, 4)};
  EXPECT_THAT(first_consumers(c), ElementsAre(Pair(OpId(1), OpId(3))));
}

Operation computes(int id, std::int64_t at, std::int64_t count) {
  return {OpId(id), compute, Role::compute, Gemm{}, {}, {{gradients, at, count}}};
}

// A bucket of two gradients and one of a third; then the first bucket again, from one operation that writes all of it.
TEST(Producers, WorkedExample) {
  RankClass c;
  c.body = {computes(1, 0, 2), computes(2, 2, 2), reduce(3, 0), computes(4, 4, 4),
            reduce(5, 4),      computes(6, 0, 4), reduce(7, 0)};
  EXPECT_THAT(producers(c), ElementsAre(Pair(OpId(3), ElementsAre(OpId(1), OpId(2))),
                                        Pair(OpId(5), ElementsAre(OpId(4))), Pair(OpId(7), ElementsAre(OpId(6)))));
}

TEST(Producers, WhatWasThereBeforeHasNone) {
  RankClass c;
  c.body = {computes(1, 0, 4), reduce(2, 4), update(3, 4, 4)};
  EXPECT_TRUE(producers(c).empty());
}

}  // namespace
}  // namespace ovl
