// SPDX-License-Identifier: Apache-2.0
#include "stats/bootstrap.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "base/random.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

// Fills `drawn` with blocks of consecutive rounds from random starts; the last block is cut to fit.
void draw_blocks(std::span<std::size_t> drawn, std::size_t block, Random& random) {
  const std::size_t rounds = drawn.size();
  std::size_t round = 0;
  for (std::size_t i = 0; i < rounds; ++i) {
    round = i % block == 0 ? random.below(rounds) : (round + 1) % rounds;
    drawn[i] = round;
  }
}

// Each statistic's values over the resamples, around what was measured. Empty for fewer than two rounds.
std::vector<std::vector<double>> replicates(std::size_t rounds, std::size_t count, const Statistics& statistics,
                                            const BootstrapOptions& options) {
  require(options.resamples > 0, "a bootstrap draws at least one resample");
  require(options.confidence > 0 && options.confidence < 1, "a confidence lies between 0 and 1");
  if (rounds < 2) return {};

  const auto resamples = static_cast<std::size_t>(options.resamples);
  const std::size_t block = std::min(options.block == 0 ? automatic_block(rounds) : options.block, rounds / 2);
  Random random(mix64(options.seed));  // the streams of neighbouring seeds are one stream, shifted
  std::vector<std::size_t> drawn(rounds);
  std::iota(drawn.begin(), drawn.end(), std::size_t{0});
  std::vector<double> measured(count);
  statistics(drawn, measured);

  const double widening = 1 / std::sqrt(1 - static_cast<double>(block) / static_cast<double>(rounds));
  std::vector<double> values(count);
  std::vector<std::vector<double>> resampled(count, std::vector<double>(resamples));
  for (std::size_t r = 0; r < resamples; ++r) {
    draw_blocks(drawn, block, random);
    statistics(drawn, values);
    for (std::size_t s = 0; s < count; ++s) resampled[s][r] = measured[s] + widening * (values[s] - measured[s]);
  }
  return resampled;
}

}  // namespace

std::size_t automatic_block(std::size_t rounds) {
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::lround(std::cbrt(static_cast<double>(rounds)))));
}

Interval bootstrap_interval(std::size_t rounds, const Statistic& statistic, const BootstrapOptions& options) {
  const Statistics one = [&](std::span<const std::size_t> drawn, std::span<double> values) {
    values[0] = statistic(drawn);
  };
  return bootstrap_intervals(rounds, 1, one, options)[0];
}

std::vector<Interval> bootstrap_intervals(std::size_t rounds, std::size_t count, const Statistics& statistics,
                                          const BootstrapOptions& options) {
  const std::vector<std::vector<double>> resampled = replicates(rounds, count, statistics, options);
  std::vector<Interval> intervals(count);
  const double tail = (1 - options.confidence) / 2;
  for (std::size_t s = 0; s < resampled.size(); ++s) {
    intervals[s] = {quantile(resampled[s], tail), quantile(resampled[s], 1 - tail)};
  }
  return intervals;
}

std::vector<double> bootstrap_replicates(std::size_t rounds, const Statistic& statistic,
                                         const BootstrapOptions& options) {
  const Statistics one = [&](std::span<const std::size_t> drawn, std::span<double> values) {
    values[0] = statistic(drawn);
  };
  std::vector<std::vector<double>> resampled = replicates(rounds, 1, one, options);
  return resampled.empty() ? std::vector<double>() : std::move(resampled.front());
}

}  // namespace ovl
