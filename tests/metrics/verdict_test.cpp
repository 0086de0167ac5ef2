// SPDX-License-Identifier: Apache-2.0
#include "metrics/verdict.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>

#include "base/units.hpp"

namespace ovl {
namespace {

// 100 ms of compute beside 80 ms of communication, together `step` ms; in turn, as long as both.
constexpr ArmTimes together(double step) {
  return {milliseconds(100), milliseconds(80), milliseconds(180), milliseconds(step)};
}

TEST(Verdict, NearTheBound) {
  EXPECT_EQ(verdict(together(101.6), {0.97, 0.99}, 1.01, 1.02),
            "hides 98 % [97, 99] of the communication: near the bound");
}

TEST(Verdict, PartlyHiddenNamesWhoSlowsWhom) {
  const Interval interval{0.58, 0.66};
  EXPECT_EQ(verdict(together(130.4), interval, 1.3, 1.42),
            "hides 62 % [58, 66] of the communication: "
            "each slows the other (compute 1.30x, communication 1.42x as long as alone)");
  EXPECT_EQ(verdict(together(130.4), interval, 1.3, 1.02),
            "hides 62 % [58, 66] of the communication: communication slows compute (1.30x as long as alone)");
  EXPECT_EQ(verdict(together(130.4), interval, 1.02, 1.6),
            "hides 62 % [58, 66] of the communication: compute slows communication (1.60x as long as alone)");
  EXPECT_EQ(verdict(together(130.4), interval, 1.02, 1.03),
            "hides 62 % [58, 66] of the communication: "
            "neither takes longer than alone, so order, launch or waiting costs the rest");
  EXPECT_EQ(verdict(together(130.4), interval, unknown_number, unknown_number),
            "hides 62 % [58, 66] of the communication: the cause was not observed");
}

TEST(Verdict, WorseThanSerialSaysByHowMuch) {
  // 180 ms in turn, 253.8 ms together: 41 % longer.
  EXPECT_EQ(verdict(together(253.8), {-1.0, -0.85}, 2.5, 3.1),
            "worse than serial: 41 % longer than compute + comm: "
            "each slows the other (compute 2.50x, communication 3.10x as long as alone)");
}

TEST(Verdict, NoOverlapWhereOneRunsAfterTheOther) {
  EXPECT_EQ(verdict(together(179.2), {-0.01, 0.02}, 1.0, 1.0),
            "no overlap: one runs after the other, hides 1 % [-1, 2] of the communication");
}

// 180 ms in turn, 182.4 ms together: -3 % of 80 ms.
TEST(Verdict, DoesNotSayThatANegativeShareHides) {
  EXPECT_EQ(verdict(together(182.4), {-0.05, 0.02}, 1.0, 1.0),
            "no overlap: one runs after the other, hides nothing of the communication (a share of -3 % [-5, 2])");
  EXPECT_EQ(verdict(together(182.4), {-0.2, 0.15}, 1.0, 1.0),
            "no measurable overlap: hides nothing of the communication (a share of -3 % [-20, 15]), "
            "the interval is too wide to tell");
}

// On one lane nothing can hide, whatever the numbers say.
TEST(Verdict, AShareOfOneLaneIsAnArtefact) {
  for (const auto& [step, interval, text] :
       {std::tuple{124.8, Interval{0.6, 0.75}, "69 % [60, 75]"}, {180.0, Interval{-0.01, 0.01}, "0 % [-1, 1]"}}) {
    EXPECT_EQ(verdict(together(step), interval, unknown_number, unknown_number, true),
              std::string("no overlap: one lane does one after the other, so a share other than 0 would be an artefact "
                          "of the measurement; it is ") +
                  text);
  }
}

// 100 + 80 ms alone, but 225 ms in turn: 25 % longer. Together 150 ms: a speedup of 1.2 or of 1.5.
TEST(SerialRemark, TellsTwoSpeedupsApart) {
  const auto in_turn = [](double serial) {
    return ArmTimes{milliseconds(100), milliseconds(80), milliseconds(serial), milliseconds(150)};
  };
  EXPECT_EQ(serial_remark(in_turn(225), {0.220, 0.230}),
            "; the serial arm took 25 % longer than compute + comm, so against it the speedup is 1.50x, not 1.20x");
  EXPECT_EQ(serial_remark(in_turn(135), {0.130, 0.140}),
            "; the serial arm took 25 % less than compute + comm, so against it the speedup is 0.90x, not 1.20x");
  EXPECT_EQ(serial_remark(in_turn(225), {0.170, 0.280}), "") << "its interval holds 180 ms";
  EXPECT_EQ(serial_remark(in_turn(190), {0.189, 0.191}), "") << "5 % are not worth a word";
  EXPECT_EQ(serial_remark(in_turn(225), {}), "") << "how surely is unknown";
  EXPECT_EQ(serial_remark({}, {}), "");
}

TEST(Verdict, NoGainWhereTheyShareWhatBothNeed) {
  EXPECT_EQ(verdict(together(180), {-0.02, 0.02}, 1.8, 2.2),
            "no gain: each slows the other (compute 1.80x, communication 2.20x as long as alone), "
            "hides 0 % [-2, 2] of the communication");
}

TEST(Verdict, ClaimsNothingWhereTheIntervalHoldsZero) {
  EXPECT_EQ(verdict(together(176.8), {-0.10, 0.18}, 1.2, 1.2),
            "no measurable overlap: hides 4 % [-10, 18] of the communication, the interval is too wide to tell");
}

TEST(Verdict, DoesNotSayNearTheBoundWhereTheIntervalReachesBelow) {
  EXPECT_EQ(verdict(together(104), {0.80, 0.99}, 1.0, 1.2),
            "hides 95 % [80, 99] of the communication: compute slows communication (1.20x as long as alone)");
}

TEST(Verdict, MoreThanEverythingIsDoubted) {
  EXPECT_EQ(verdict(together(92), {1.05, 1.15}, 0.9, 0.9),
            "hides 110 % [105, 115] of the communication: beyond the bound, so a part ran slower alone than it can; "
            "measure again");
}

TEST(Verdict, AnExactOneMayBeRoundedUp) {
  const double above = std::nextafter(1.0, 2.0);
  EXPECT_THAT(verdict(together(100), {above, above}, 1, 1), testing::EndsWith("of the communication: near the bound"));
}

TEST(Verdict, HidesTheShorterOfBoth) {
  EXPECT_EQ(verdict({milliseconds(80), milliseconds(100), milliseconds(180), milliseconds(101.6)}, {0.97, 0.99}, 1, 1),
            "hides 98 % [97, 99] of the compute: near the bound");
}

TEST(Verdict, LittleToHide) {
  EXPECT_EQ(verdict({milliseconds(100), milliseconds(2), milliseconds(102), milliseconds(100)}, {0.5, 1.5}, 1, 1),
            "little to hide: communication alone is 2.0 % of the step");
}

TEST(Verdict, SaysWhatIsUnknown) {
  EXPECT_EQ(verdict({}, {}, unknown_number, unknown_number), "unknown: a part was not measured or took no time");
  EXPECT_EQ(verdict({Seconds(1), Seconds(0), Seconds(1), Seconds(1)}, {}, 1, 1),
            "unknown: a part was not measured or took no time");
  EXPECT_EQ(verdict(together(124), {}, 1, 1), "hides 70 % of the communication, how surely is unknown");
}

}  // namespace
}  // namespace ovl
