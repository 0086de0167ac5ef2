// SPDX-License-Identifier: Apache-2.0
#include "stats/summary.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "base/units.hpp"

namespace ovl {
namespace {

// A NaN has no rank, so it must be caught before anything is ordered.
bool ordered(std::span<const double> values) {
  return !values.empty() && std::none_of(values.begin(), values.end(), [](double v) { return std::isnan(v); });
}

double lerp(double a, double b, double t) { return a + (b - a) * t; }

// Reorders `values`. Selection is linear where sorting is not: the bootstrap takes thousands of medians.
double take_quantile(std::vector<double>& values, double p) {
  if (!ordered(values) || !(p >= 0 && p <= 1)) return unknown_number;
  const double position = p * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::ptrdiff_t>(position);
  const auto at = values.begin() + below;
  std::nth_element(values.begin(), at, values.end());
  const double fraction = position - static_cast<double>(below);
  return fraction == 0 ? *at : lerp(*at, *std::min_element(at + 1, values.end()), fraction);
}

}  // namespace

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::span<const double> values) { return quantile(values, 0.5); }

double median_at(std::span<const double> values, std::span<const std::size_t> at) {
  std::vector<double> chosen(at.size());
  std::transform(at.begin(), at.end(), chosen.begin(), [&](std::size_t i) { return values[i]; });
  return take_quantile(chosen, 0.5);
}

double quantile(std::span<const double> values, double p) {
  std::vector<double> copy(values.begin(), values.end());
  return take_quantile(copy, p);
}

double standard_deviation(std::span<const double> values) {
  if (values.size() < 2) return unknown_number;
  const double centre = mean(values);
  double squares = 0;
  for (const double v : values) squares += (v - centre) * (v - centre);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double coefficient_of_variation(std::span<const double> values) { return standard_deviation(values) / mean(values); }

double median_absolute_deviation(std::span<const double> values) {
  const double centre = median(values);
  std::vector<double> distances(values.begin(), values.end());
  for (double& v : distances) v = std::fabs(v - centre);
  return take_quantile(distances, 0.5);
}

Interval median_interval(std::span<const double> values, double confidence) {
  if (!ordered(values)) return {};
  // The binomial's terms go through logarithms: 2^-n underflows at n = 1075.
  const auto n = static_cast<double>(values.size());
  double log_term = -n * std::numbers::ln2;
  double tail = std::exp(log_term);  // P(Binomial(n, 1/2) < k)
  std::size_t k = 0;
  while (tail <= (1 - confidence) / 2) {
    log_term += std::log((n - static_cast<double>(k)) / static_cast<double>(k + 1));
    tail += std::exp(log_term);
    ++k;
  }
  if (k == 0) return {};
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return {sorted[k - 1], sorted[sorted.size() - k]};
}

}  // namespace ovl
