// SPDX-License-Identifier: Apache-2.0
#include "stats/student.hpp"

#include <cmath>
#include <numbers>

#include "base/error.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

// P(|T| < t) with t = sqrt(degrees) tan(angle).
double within_angle(double angle, int degrees) {
  const double cosine = std::cos(angle);
  const bool odd = degrees % 2 == 1;
  // Terms cos^p with p of the parity of `degrees`, up to degrees - 2; each term is the last times cos² (p - 1) / p.
  double term = odd ? cosine : 1;
  double sum = degrees == 1 ? 0 : term;
  for (int p = odd ? 3 : 2; p <= degrees - 2; p += 2) {
    term *= cosine * cosine * (p - 1) / p;
    sum += term;
  }
  sum *= std::sin(angle);
  return odd ? 2 / std::numbers::pi * (angle + sum) : sum;
}

}  // namespace

double student_t_within(double t, int degrees) {
  require(t >= 0 && degrees >= 1, "Student's t takes t >= 0 and at least one degree of freedom");
  return within_angle(std::atan(t / std::sqrt(degrees)), degrees);
}

double student_t_quantile(double p, int degrees) {
  require(p > 0 && p < 1 && degrees >= 1, "Student's quantile takes 0 < p < 1 and at least one degree of freedom");
  const double within = std::fabs(2 * p - 1);
  // Bisection over the angle, which is bounded where t is not; halving 60 times exhausts a double.
  double low = 0;
  double high = std::numbers::pi / 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (within_angle(middle, degrees) < within ? low : high) = middle;
  }
  return std::copysign(std::sqrt(degrees) * std::tan(low), p - 0.5);
}

Interval prediction_interval(std::span<const double> values, std::size_t further, double confidence) {
  require(further > 0, "a prediction is of at least one observation");
  if (values.size() < 2) return {};
  const double centre = mean(values);
  const double p = 1 - (1 - confidence) / (2 * static_cast<double>(further));
  const double reach = student_t_quantile(p, static_cast<int>(values.size()) - 1) * standard_deviation(values) *
                       std::sqrt(1 + 1 / static_cast<double>(values.size()));
  return {centre - reach, centre + reach};
}

std::size_t agreeing(std::span<const double> values) {
  std::size_t agree = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::vector<double> others(values.begin(), values.end());
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    if (prediction_interval(others, values.size()).contains(values[i])) ++agree;
  }
  return agree;
}

}  // namespace ovl
