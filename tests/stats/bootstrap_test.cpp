// SPDX-License-Identifier: Apache-2.0
#include "stats/bootstrap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>
#include <vector>

#include "base/random.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

double mean_at(std::span<const double> values, std::span<const std::size_t> at) {
  double sum = 0;
  for (const std::size_t i : at) sum += values[i];
  return sum / static_cast<double>(at.size());
}

// Box and Muller.
double normal(Random& random) {
  return std::sqrt(-2 * std::log(1 - random.uniform())) * std::cos(2 * std::numbers::pi * random.uniform());
}

TEST(Bootstrap, OfTwoRoundsWorkedByHand) {
  // Resamples of {0, 1} in blocks of one have the mean 0, 1/2, 1/2 or 1, equally often: a quarter lies at either end,
  // so the 2.5 % and 97.5 % percentiles are 1/2 ± 1/2. Widened by 1 / sqrt(1 - 1/2).
  const std::vector<double> values{0, 1};
  const Interval interval = bootstrap_interval(2, [&](auto rounds) { return mean_at(values, rounds); }, {.block = 1});
  EXPECT_DOUBLE_EQ(interval.low, 0.5 - std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(interval.high, 0.5 + std::sqrt(0.5));
}

TEST(Bootstrap, OfConstantRoundsIsAPoint) {
  const std::vector<double> values(20, 3.5);
  const Interval interval = bootstrap_interval(20, [&](auto rounds) { return median_at(values, rounds); });
  EXPECT_DOUBLE_EQ(interval.low, 3.5);
  EXPECT_DOUBLE_EQ(interval.high, 3.5);
}

TEST(Bootstrap, KeepsARoundInOnePiece) {
  // Both arms double in every other round: their ratio never changes, and a paired resample must not find otherwise.
  std::vector<double> compute;
  std::vector<double> step;
  for (int i = 0; i < 30; ++i) {
    compute.push_back(i % 2 == 0 ? 1 : 2);
    step.push_back(1.5 * compute.back());
  }
  const Interval interval = bootstrap_interval(
      30, [&](auto rounds) { return mean_at(step, rounds) / mean_at(compute, rounds); }, {.block = 1});
  EXPECT_DOUBLE_EQ(interval.low, 1.5);
  EXPECT_DOUBLE_EQ(interval.high, 1.5);
}

TEST(Bootstrap, DrawsBlocksOfConsecutiveRoundsThatWrapAround) {
  std::set<std::size_t> starts;
  bool wrapped = false;
  const Statistic inspect = [&](std::span<const std::size_t> rounds) {
    EXPECT_EQ(rounds.size(), 10U);
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      if (i % 4 == 0) {
        starts.insert(rounds[i]);
      } else {
        EXPECT_EQ(rounds[i], (rounds[i - 1] + 1) % 10);
        wrapped = wrapped || rounds[i] == 0;
      }
    }
    return 0.0;
  };
  bootstrap_interval(10, inspect, {.block = 4});
  EXPECT_EQ(starts.size(), 10U);  // every round may begin a block, so that all are drawn equally often
  EXPECT_TRUE(wrapped);
}

TEST(Bootstrap, AutomaticBlockIsTheCubeRoot) {
  EXPECT_EQ(automatic_block(1), 1U);
  EXPECT_EQ(automatic_block(27), 3U);
  EXPECT_EQ(automatic_block(100), 5U);
  EXPECT_EQ(automatic_block(1000), 10U);
}

TEST(Bootstrap, IsDeterminedByItsSeed) {
  std::vector<double> values;
  Random random(9);
  for (int i = 0; i < 25; ++i) values.push_back(random.uniform());
  const Statistic statistic = [&](auto rounds) { return mean_at(values, rounds); };
  const Interval once = bootstrap_interval(25, statistic, {.seed = 4});
  const Interval again = bootstrap_interval(25, statistic, {.seed = 4});
  const Interval other = bootstrap_interval(25, statistic, {.seed = 5});
  EXPECT_EQ(once.low, again.low);
  EXPECT_EQ(once.high, again.high);
  EXPECT_NE(once.low, other.low);
}

TEST(Bootstrap, OfSeveralStatisticsGivesTheSameIntervalsAsOneByOne) {
  std::vector<double> values;
  Random random(10);
  for (int i = 0; i < 25; ++i) values.push_back(random.uniform());
  const auto both = bootstrap_intervals(25, 2, [&](auto rounds, std::span<double> out) {
    out[0] = median_at(values, rounds);
    out[1] = mean_at(values, rounds);
  });
  const Interval medians = bootstrap_interval(25, [&](auto rounds) { return median_at(values, rounds); });
  const Interval means = bootstrap_interval(25, [&](auto rounds) { return mean_at(values, rounds); });
  EXPECT_EQ(both[0].low, medians.low);
  EXPECT_EQ(both[0].high, medians.high);
  EXPECT_EQ(both[1].low, means.low);
  EXPECT_EQ(both[1].high, means.high);
}

TEST(Bootstrap, OfFewerThanTwoRoundsIsUnknown) {
  const Statistic zero = [](auto) { return 0.0; };
  EXPECT_TRUE(std::isnan(bootstrap_interval(0, zero).width()));
  EXPECT_TRUE(std::isnan(bootstrap_interval(1, zero).width()));
}

TEST(Bootstrap, IsUnknownWhereAResampleIs) {
  // The statistic of a resample without round 0 is unknown; leaving those out would narrow the interval.
  const Interval interval = bootstrap_interval(10, [](std::span<const std::size_t> rounds) {
    const bool drawn = std::find(rounds.begin(), rounds.end(), 0U) != rounds.end();
    return drawn ? 1.0 : std::numeric_limits<double>::quiet_NaN();
  });
  EXPECT_TRUE(std::isnan(interval.low));
  EXPECT_TRUE(std::isnan(interval.high));
}

// How often the 95 % interval of the hidden share holds the true one, over 200 synthetic cases of 60 rounds. In every
// round compute takes 1, communication 0.8 and the step 1.2, each with its own noise, and the step has a drift that
// keeps `memory` of itself from round to round.
double coverage(double memory, std::size_t block) {
  constexpr double truth = (1 + 0.8 - 1.2) / 0.8;
  constexpr int experiments = 200;
  constexpr std::size_t rounds = 60;
  int held = 0;
  for (int e = 0; e < experiments; ++e) {
    Random random(mix64(1000 + static_cast<std::uint64_t>(e)));
    std::vector<double> compute(rounds);
    std::vector<double> comm(rounds);
    std::vector<double> step(rounds);
    double drift = normal(random) / std::sqrt(1 - memory * memory);
    for (std::size_t r = 0; r < rounds; ++r) {
      compute[r] = 1 + 0.01 * normal(random);
      comm[r] = 0.8 + 0.01 * normal(random);
      step[r] = 1.2 + 0.01 * normal(random) + 0.02 * drift;
      drift = memory * drift + normal(random);
    }
    const Interval interval =
        bootstrap_interval(rounds,
                           [&](auto drawn) {
                             const double c = median_at(compute, drawn);
                             const double m = median_at(comm, drawn);
                             return (c + m - median_at(step, drawn)) / std::min(c, m);
                           },
                           {.resamples = 500, .block = block, .seed = static_cast<std::uint64_t>(e)});
    held += interval.contains(truth) ? 1 : 0;
  }
  return static_cast<double>(held) / experiments;
}

TEST(Bootstrap, CoversTheTruthAsOftenAsItSays) {
  const double covered = coverage(0, 0);
  EXPECT_GE(covered, 0.90);
  EXPECT_LE(covered, 0.99);
}

TEST(Bootstrap, BlocksHelpWhereNeighbouringRoundsAreAlike) {
  const double memory = 0.8;
  const std::size_t automatic = 0;
  const std::size_t single_rounds = 1;
  EXPECT_GT(coverage(memory, automatic), coverage(memory, single_rounds) + 0.1);
}

// An interval is between percentiles of these.
TEST(Bootstrap, ReplicatesAreWhatAnIntervalIsMadeOf) {
  const std::vector<double> values{1, 2, 3, 4, 5, 6, 7, 8, 9, 12};
  const auto statistic = [&](std::span<const std::size_t> rounds) { return median_at(values, rounds); };
  const std::vector<double> replicates = bootstrap_replicates(values.size(), statistic, {.seed = 5});
  const Interval interval = bootstrap_interval(values.size(), statistic, {.seed = 5});
  EXPECT_EQ(replicates.size(), 1000U);
  EXPECT_EQ(quantile(replicates, 0.025), interval.low);
  EXPECT_EQ(quantile(replicates, 0.975), interval.high);
  EXPECT_TRUE(bootstrap_replicates(1, statistic).empty());
}

}  // namespace
}  // namespace ovl
