// SPDX-License-Identifier: Apache-2.0
#include "metrics/attribution.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ovl {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pair;

constexpr double rounding = 1e-12;

// A step whose compute takes 10 s and communication 6 s: ideal is 10 s. What is planted on top is what the attribution
// must give back, each by its own instrument.
struct Planted {
  Seconds dependencies{0};
  Seconds start_delay{0};
  Seconds compute_slowdown{0};
  Seconds clock_drop{0};
  Seconds waiting{0};
  Seconds unexplained{0};

  [[nodiscard]] AttributionInputs seen() const {
    const Seconds step =
        Seconds(10) + dependencies + start_delay + compute_slowdown + clock_drop + waiting + unexplained;
    const Seconds together(6);
    return {.times = {Seconds(10), Seconds(6), Seconds(16), step},
            .t_path = Seconds(10) + dependencies,
            .start_delay = start_delay,
            // While both ran, compute got 1 / s of its rate: 6 s · (1 - 1 / s) of work were not done.
            .compute_slowdown = 1 / (1 - compute_slowdown / together),
            .comm_slowdown = 1,
            .together = together,
            .clock_ratio = Seconds(10) / (Seconds(10) + clock_drop),
            .waiting = waiting};
  }
};

void expect_planted(const Planted& planted) {
  const Attribution a = attribute(planted.seen());
  EXPECT_THAT(a.dependencies->value(), DoubleNear(planted.dependencies.value(), rounding));
  EXPECT_THAT(a.start_delay->value(), DoubleNear(planted.start_delay.value(), rounding));
  EXPECT_THAT(a.compute_slowdown->value(), DoubleNear(planted.compute_slowdown.value(), rounding));
  EXPECT_THAT(a.comm_slowdown->value(), DoubleNear(0, rounding)) << "communication is not what the step waits for";
  EXPECT_THAT(a.clock_drop->value(), DoubleNear(planted.clock_drop.value(), rounding));
  EXPECT_THAT(a.waiting->value(), DoubleNear(planted.waiting.value(), rounding));
  EXPECT_THAT(a.remainder.value(), DoubleNear(planted.unexplained.value(), rounding));
}

// Four seconds over the ideal: the schedule forces 1.5 of them, a late start half a second, and beside the collective,
// for 3 s, the GEMM had two thirds of its rate: another second. One second nobody saw.
TEST(Attribution, WorkedExample) {
  const Attribution a = attribute({.times = {Seconds(10), Seconds(6), Seconds(16), Seconds(14)},
                                   .t_path = Seconds(11.5),
                                   .start_delay = Seconds(0.5),
                                   .compute_slowdown = 1.5,
                                   .together = Seconds(3)});
  EXPECT_EQ(a.total, Seconds(4));
  EXPECT_EQ(a.dependencies, Seconds(1.5));
  EXPECT_EQ(a.start_delay, Seconds(0.5));
  EXPECT_THAT(a.compute_slowdown->value(), DoubleNear(1, rounding));
  EXPECT_FALSE(a.comm_slowdown || a.clock_drop || a.waiting) << "no instrument, no term";
  EXPECT_THAT(a.remainder.value(), DoubleNear(1, rounding)) << "which stays in the remainder";
}

TEST(Attribution, NothingPlantedIsNothingFound) { expect_planted({}); }
TEST(Attribution, FindsDependencies) { expect_planted({.dependencies = Seconds(1.5)}); }
TEST(Attribution, FindsAStartDelay) { expect_planted({.start_delay = Seconds(0.25)}); }
TEST(Attribution, FindsComputeSlowedByCommunication) { expect_planted({.compute_slowdown = Seconds(2)}); }
TEST(Attribution, FindsADropOfTheClock) { expect_planted({.clock_drop = Seconds(0.75)}); }
TEST(Attribution, FindsWaitingForTheSlowestRank) { expect_planted({.waiting = Seconds(0.4)}); }
TEST(Attribution, ShowsWhatNoInstrumentSaw) { expect_planted({.unexplained = Seconds(0.9)}); }
TEST(Attribution, FindsAllOfThemTogether) {
  expect_planted({Seconds(1.5), Seconds(0.25), Seconds(2), Seconds(0.75), Seconds(0.4), Seconds(0.9)});
}

TEST(Attribution, CommunicationSlowedByComputeIsFoundWhereTheStepWaitsForIt) {
  // The collective takes 10 s, its 4 s beside the GEMM at half its rate.
  const Attribution a = attribute({.times = {Seconds(4), Seconds(10), Seconds(14), Seconds(12)},
                                   .compute_slowdown = 3,
                                   .comm_slowdown = 2,
                                   .together = Seconds(4)});
  EXPECT_EQ(a.comm_slowdown, Seconds(2));
  EXPECT_EQ(a.compute_slowdown, Seconds(0)) << "in the shadow of the collective";
  EXPECT_EQ(a.remainder, Seconds(0));
}

TEST(Attribution, AnInstrumentThatSawNothingIsNone) {
  const Seconds nothing(std::numeric_limits<double>::quiet_NaN());
  const Attribution a = attribute({.times = {Seconds(10), Seconds(6), Seconds(16), Seconds(13)},
                                   .t_path = nothing,
                                   .start_delay = nothing,
                                   .compute_slowdown = nothing.value(),
                                   .together = Seconds(3),
                                   .clock_ratio = nothing.value(),
                                   .waiting = nothing});
  EXPECT_THAT(named_terms(a), ElementsAre(Pair("remainder", Seconds(3))));
}

TEST(Attribution, IsSignedAndSumsToTheTotal) {
  // Quicker than ideal: an isolated time was measured in a worse state.
  const Attribution a = attribute({.times = {Seconds(10), Seconds(6), Seconds(16), Seconds(9)}, .waiting = Seconds(1)});
  EXPECT_EQ(a.total, Seconds(-1));
  Seconds sum(0);
  for (const auto& [name, term] : named_terms(a)) sum += term;
  EXPECT_EQ(sum, a.total);
  EXPECT_THAT(named_terms(a), ElementsAre(Pair("waiting", Seconds(1)), Pair("remainder", Seconds(-2))));
}

TEST(ShareModel, UnitsThatAreLeft) {
  EXPECT_EQ(share_slowdown(4, 1), 4.0 / 3);
  EXPECT_EQ(share_slowdown(132, 0), 1);
  EXPECT_EQ(share_slowdown(2, 2), std::numeric_limits<double>::infinity());
}

TEST(BandwidthModel, BothGetTheirPartOfAFullResource) {
  const auto rate = [](double gigabytes) { return BytesPerSecond(gigabytes * 1e9); };
  EXPECT_EQ(bandwidth_slowdown(rate(30), rate(10), rate(50)), 1) << "there is enough for both";
  EXPECT_EQ(bandwidth_slowdown(rate(40), rate(40), rate(50)), 1.6);
}

}  // namespace
}  // namespace ovl
