// SPDX-License-Identifier: Apache-2.0
//
// Student's t, for the few process launches of a case: too few to bootstrap.
#pragma once

#include <cstddef>
#include <span>

#include "stats/interval.hpp"

namespace ovl {

// P(|T| < t) for t >= 0 and whole degrees of freedom >= 1: a finite trigonometric sum (Abramowitz and Stegun, "Handbook
// of mathematical functions", 26.7.3 and 26.7.4).
double student_t_within(double t, int degrees);

// The quantile of T at p, 0 < p < 1: student_t_quantile(0.975, 4) is 2.776445.
double student_t_quantile(double p, int degrees);

// Where all of `further` more observations lie together, if they and `values` are normal: mean ± t s sqrt(1 + 1/n) with
// t at 1 - (1 - confidence) / (2 further), Bonferroni's bound (Hahn and Meeker, "Statistical intervals", 4.8). Wider
// than an interval of the mean, which would shrink to nothing with more launches. NaN for fewer than two values.
Interval prediction_interval(std::span<const double> values, std::size_t further = 1, double confidence = 0.95);

// How many of the values lie where the others predict as many as there are; one in twenty sets of normal values has one
// that does not (with the bound for all of them together this is Grubbs' test for outliers).
std::size_t agreeing(std::span<const double> values);

}  // namespace ovl
