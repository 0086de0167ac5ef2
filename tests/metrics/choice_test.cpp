// SPDX-License-Identifier: Apache-2.0
#include "metrics/choice.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ovl {
namespace {

// Ten rounds of a step with this exposed time, beside 10 of computing; the first half is `scatter` below it and the
// rest above: rounds are resampled in pairs of neighbours, in which alternating ones would cancel.
SweptValue exposing(double exposed, double scatter = 0) {
  SweptValue value;
  for (int round = 0; round < 10; ++round) {
    value.compute.push_back(10);
    value.step.push_back(10 + exposed + (round < 5 ? -scatter : scatter));
  }
  return value;
}

// Exposed 5, 2, 3 without any scatter: the second is best in every resample, and the third exposes 1 more.
TEST(Choice, WorkedExample) {
  const std::vector<SweptValue> values{exposing(5), exposing(2), exposing(3)};
  const Choice choice = choose(values, 2, 1);
  EXPECT_EQ(choice.best, 1U);
  EXPECT_EQ(choice.low, 1U);
  EXPECT_EQ(choice.high, 1U);
  EXPECT_EQ(choice.least, 1U);
  EXPECT_TRUE(choice.clear);
  EXPECT_DOUBLE_EQ(choice.exposed.low, 2);
  EXPECT_DOUBLE_EQ(choice.exposed.high, 2);
  EXPECT_DOUBLE_EQ(choice.gain, 1);
  EXPECT_DOUBLE_EQ(choice.gain_interval.low, 1);
  EXPECT_DOUBLE_EQ(choice.gain_interval.high, 1);
}

// The exposed time is what a step takes beyond its computation: a slow round of both is none.
TEST(Choice, IsOfTheExposedTimeNotOfTheStep) {
  SweptValue slow = exposing(1);
  for (double& t : slow.step) t += 100;
  for (double& t : slow.compute) t += 100;
  const std::vector<SweptValue> values{exposing(2), slow};
  EXPECT_EQ(choose(values, 2, 1).best, 1U);
}

// Two that scatter by more than they differ, and one far off: the interval holds both and leaves out the third.
TEST(Choice, WhatScatterCoversIsInTheInterval) {
  const std::vector<SweptValue> values{exposing(9), exposing(2.1, 1), exposing(2, 1)};
  const Choice choice = choose(values, values.size(), 1);
  EXPECT_EQ(choice.best, 2U);
  EXPECT_EQ(choice.low, 1U);
  EXPECT_EQ(choice.high, 2U);
  EXPECT_TRUE(choice.clear);
  EXPECT_EQ(choice.least, 1U) << "it is not shown to expose more";
  EXPECT_TRUE(std::isnan(choice.gain)) << "nothing to compare with";
}

TEST(Choice, IsUnclearWhereAnyOfThemMayBeBest) {
  const std::vector<SweptValue> values{exposing(2, 1), exposing(2, 1), exposing(2, 1)};
  const Choice choice = choose(values, 2, 1);  // the first of equal ones is best
  EXPECT_FALSE(choice.clear);
  EXPECT_EQ(choice.low, 0U);
  EXPECT_EQ(choice.high, 2U);
  EXPECT_LT(choice.gain_interval.low, 0);
  EXPECT_GT(choice.gain_interval.high, 0);
}

TEST(Choice, OfOneValueIsThatValue) {
  const std::vector<SweptValue> values{exposing(2)};
  const Choice choice = choose(values, 0, 1);
  EXPECT_EQ(choice.best, 0U);
  EXPECT_EQ(choice.gain, 0);
}

}  // namespace
}  // namespace ovl
