// SPDX-License-Identifier: Apache-2.0
#include "metrics/pipeline_bubble.hpp"

#include <gtest/gtest.h>

namespace ovl {
namespace {

// F = 3, B = 2, W = 1, c = 0.5 on p = 4 stages, m = 8 microbatches.
constexpr PipelineCosts costs{Seconds(3), Seconds(2), Seconds(1), Seconds(0.5)};

TEST(PipelineBubble, WorkedExample) {
  EXPECT_EQ(gpipe_bubble(4, costs), Seconds(18)) << "3 · (3 + 2 + 1)";
  EXPECT_EQ(one_f_one_b_bubble(4, 8, costs), Seconds(18 + 16 * 0.5)) << "2 · 3 · 8 / 4 + 2 · 4 - 4 = 16 transfers";
  EXPECT_EQ(interleaved_bubble(4, 2, costs), Seconds(9 + 14 * 0.5)) << "2 · 4 · 2 - 2 = 14 transfers";
  EXPECT_EQ(zb_h1_bubble(4, costs), Seconds(12 + 12 * 0.5)) << "3 · (3 + 2 - 1), 4 · 3 transfers";
  EXPECT_EQ(zb_h2_bubble(4, costs), Seconds(9 + 6 * 0.5)) << "3 · (3 + 2 - 2), 2 · 3 transfers";
}

// Of 48 useful seconds on a stage that is there for 66 the rest is idle.
TEST(PipelineBubble, RateIsOfTheSpan) {
  EXPECT_DOUBLE_EQ(bubble_rate(Seconds(66), 8, costs), 18.0 / 66);
  EXPECT_DOUBLE_EQ(bubble_rate(Seconds(48), 8, costs), 0);
}

// Equal steps: with as much weight work as is needed nothing is idle.
TEST(PipelineBubble, OfEqualStepsIsZeroWithTwiceTheMemory) {
  constexpr PipelineCosts equal{Seconds(1), Seconds(1), Seconds(1), Seconds(0)};
  EXPECT_EQ(gpipe_bubble(8, equal), Seconds(21));
  EXPECT_EQ(one_f_one_b_bubble(8, 16, equal), Seconds(21)) << "1F1B has GPipe's bubble: it saves memory";
  EXPECT_EQ(zb_h1_bubble(8, equal), Seconds(7));
  EXPECT_EQ(zb_h2_bubble(8, equal), Seconds(0));
}

TEST(PipelineBubble, IsSignedAndNotClamped) {
  constexpr PipelineCosts much{Seconds(1), Seconds(1), Seconds(4), Seconds(0)};
  EXPECT_EQ(zb_h1_bubble(2, much), Seconds(-2)) << "outside the formula's range, and it shows";
}

TEST(PipelineBubble, OfOneStageIsNothing) {
  EXPECT_EQ(gpipe_bubble(1, costs), Seconds(0));
  EXPECT_EQ(one_f_one_b_bubble(1, 8, costs), Seconds(0));
  EXPECT_EQ(interleaved_bubble(1, 2, costs), Seconds(0));
  EXPECT_EQ(zb_h1_bubble(1, costs), Seconds(0));
  EXPECT_EQ(zb_h2_bubble(1, costs), Seconds(0));
}

}  // namespace
}  // namespace ovl
