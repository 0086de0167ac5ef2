// SPDX-License-Identifier: Apache-2.0
//
// Summaries of a sample, in the sample's own unit. Times are skewed to the right, so the median is the headline number
// and the mean is for costs that add up (Hoefler and Belli, "Scientific benchmarking of parallel computing systems",
// SC'15, rules 3 and 8). Nothing is thrown out as an outlier. An empty sample, or one that holds a NaN, gives NaN.
#pragma once

#include <cstddef>
#include <span>

#include "stats/interval.hpp"

namespace ovl {

double mean(std::span<const double> values);
double median(std::span<const double> values);

// The median of values[i] over the indices `at`, which may repeat: what a resampled statistic is made of.
double median_at(std::span<const double> values, std::span<const std::size_t> at);

// Linear interpolation between order statistics: type 7 of Hyndman and Fan, "Sample quantiles in statistical packages",
// 1996; the default of R and NumPy. `p` is in [0, 1].
double quantile(std::span<const double> values, double p);

// Of a sample: divides by n - 1. NaN for fewer than two values.
double standard_deviation(std::span<const double> values);

// standard_deviation / mean.
double coefficient_of_variation(std::span<const double> values);

// Median absolute deviation from the median, unscaled: times 1.4826 it estimates a normal standard deviation.
double median_absolute_deviation(std::span<const double> values);

// The interval of a median between two order statistics, for independent values of any distribution: the narrowest
// symmetric pair of ranks k and n + 1 - k with coverage 1 - 2 P(Binomial(n, 1/2) < k) >= confidence (Le Boudec,
// "Performance evaluation of computer and communication systems", 2010, theorem 2.1). NaN where even the whole range
// covers too little: below 6 values at 95 %.
Interval median_interval(std::span<const double> values, double confidence = 0.95);

}  // namespace ovl
