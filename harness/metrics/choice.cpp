// SPDX-License-Identifier: Apache-2.0
#include "metrics/choice.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "base/random.hpp"
#include "stats/bootstrap.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

constexpr double tail = 0.025;  // on either side

Interval interval_of(const std::vector<double>& replicates) {
  return {quantile(replicates, tail), quantile(replicates, 1 - tail)};
}

std::vector<double> differences(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> all;
  for (std::size_t i = 0; i < a.size(); ++i) all.push_back(a[i] - b[i]);
  return all;
}

}  // namespace

double SweptValue::exposed() const { return median(step) - median(compute); }

Choice choose(std::span<const SweptValue> values, std::size_t reference, std::uint64_t seed) {
  require(!values.empty(), "there is something to choose from");
  std::vector<double> exposed;
  std::vector<std::vector<double>> replicates;
  for (std::size_t v = 0; v < values.size(); ++v) {
    const SweptValue& value = values[v];
    require(value.step.size() == value.compute.size() && value.step.size() >= 2, "a value was measured in rounds");
    exposed.push_back(value.exposed());
    replicates.push_back(bootstrap_replicates(value.step.size(),
                                              [&](std::span<const std::size_t> rounds) {
                                                return median_at(value.step, rounds) - median_at(value.compute, rounds);
                                              },
                                              {.seed = mix64(seed + v)}));
  }
  Choice choice;
  choice.best = static_cast<std::size_t>(std::min_element(exposed.begin(), exposed.end()) - exposed.begin());
  const std::size_t resamples = replicates.front().size();
  std::vector<std::size_t> wins(values.size());
  for (std::size_t r = 0; r < resamples; ++r) {
    std::size_t best = 0;
    for (std::size_t v = 1; v < values.size(); ++v) {
      if (replicates[v][r] < replicates[best][r]) best = v;
    }
    ++wins[best];
  }
  // The values below and above which less than a tail of the resamples lies.
  const double part = tail * static_cast<double>(resamples);
  const auto outside = [&](auto begin, auto end) {
    std::size_t left_out = 0;
    double sum = 0;
    for (auto win = begin; win != end; ++win, ++left_out) {
      sum += static_cast<double>(*win);
      if (sum > part) break;
    }
    return left_out;
  };
  choice.low = std::min(choice.best, outside(wins.begin(), wins.end()));
  choice.high = std::max(choice.best, values.size() - 1 - outside(wins.rbegin(), wins.rend()));
  choice.clear = choice.low > 0 || choice.high + 1 < values.size();
  choice.exposed = interval_of(replicates[choice.best]);
  for (choice.least = 0; choice.least < choice.best; ++choice.least) {
    if (!(interval_of(differences(replicates[choice.least], replicates[choice.best])).low > 0)) break;
  }
  if (reference < values.size()) {
    choice.gain = exposed[reference] - exposed[choice.best];
    choice.gain_interval = interval_of(differences(replicates[reference], replicates[choice.best]));
  }
  return choice;
}

}  // namespace ovl
