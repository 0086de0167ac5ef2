// SPDX-License-Identifier: Apache-2.0
#include "stats/fit.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.hpp"

namespace ovl {
namespace {

// Two published nccl-tests sweeps, out of place, {bytes, microseconds}.
// all_reduce, float, 16 H100 on two AWS p5.48xlarge nodes (EFA).
const std::vector<SizeTime> efa_microseconds{
    {8, 69.12},           {16, 72.64},           {32, 74.06},           {64, 65.48},
    {128, 74.92},         {256, 74.12},          {512, 69.5},           {1024, 69.24},
    {2048, 72.22},        {4096, 78.58},         {8192, 81.44},         {16384, 94.36},
    {32768, 111.7},       {65536, 135.1},        {131072, 108.9},       {262144, 128.0},
    {524288, 123.7},      {1048576, 123.2},      {2097152, 147.2},      {4194304, 168.6},
    {8388608, 204.8},     {16777216, 298.1},     {33554432, 439.7},     {67108864, 601.5},
    {134217728, 870.3},   {268435456, 1468.2},   {536870912, 2559.2},   {1073741824, 4607.6},
    {2147483648, 9074.5}, {4294967296, 17286.0}, {8589934592, 33605.0}, {17179869184, 66132.0}};
// sendrecv, two A100-SXM-64GB with four NVLink3, NCCL 2.22.3 (NVIDIA/nccl-tests issue 331).
const std::vector<SizeTime> nvlink_microseconds{{8, 9.85},
                                                {16, 9.76},
                                                {32, 9.88},
                                                {64, 9.86},
                                                {128, 9.94},
                                                {256, 9.96},
                                                {512, 10.02},
                                                {1024, 10.35},
                                                {2048, 10.33},
                                                {4096, 11.07},
                                                {8192, 12.28},
                                                {16384, 13.08},
                                                {32768, 13.35},
                                                {65536, 15.66},
                                                {131072, 19.45},
                                                {262144, 24.17},
                                                {524288, 30.84},
                                                {1048576, 45.34},
                                                {2097152, 71.38},
                                                {4194304, 108.9},
                                                {8388608, 180.6},
                                                {16777216, 330.2},
                                                {33554432, 631.3},
                                                {67108864, 1215.9},
                                                {134217728, 1833.5},
                                                {268435456, 3655.1},
                                                {536870912, 7460.2},
                                                {1073741824, 14892.0},
                                                {2147483648, 29935.0}};

std::vector<SizeTime> in_seconds(std::vector<SizeTime> points) {
  for (SizeTime& p : points) p.seconds *= 1e-6;
  return points;
}

struct Reference {
  const std::vector<SizeTime>& points;
  FitMethod method;
  double alpha_us;
  double beta_us_per_byte;
  double median_percent;
  double max_percent;
};

// Reference values of an independent fitter (NumPy's lstsq), to four digits.
TEST(FitOne, ReproducesTheReferenceFitsOfPublishedSweeps) {
  for (const Reference& r : {Reference{efa_microseconds, FitMethod::ordinary, 203.50, 3.858499e-06, 63.0, 210.8},
                             {efa_microseconds, FitMethod::relative, 84.43, 4.615047e-06, 20.8, 45.7},
                             {efa_microseconds, FitMethod::theil_sen, 74.52, 6.391889e-06, 32.0, 66.2},
                             {nvlink_microseconds, FitMethod::ordinary, 30.22, 1.390298e-05, 64.8, 209.7},
                             {nvlink_microseconds, FitMethod::relative, 11.09, 1.638861e-05, 13.4, 37.6},
                             {nvlink_microseconds, FitMethod::theil_sen, 10.01, 1.909409e-05, 17.2, 40.5}}) {
    SCOPED_TRACE(std::string(name(r.method)));
    const CostFit fit = fit_one(in_seconds(r.points), r.method);
    EXPECT_NEAR(fit.alpha() * 1e6, r.alpha_us, 0.005);
    EXPECT_NEAR(fit.beta() * 1e6, r.beta_us_per_byte, 5e-5 * r.beta_us_per_byte);
    EXPECT_NEAR(fit.median_relative_error * 100, r.median_percent, 0.05);
    EXPECT_NEAR(fit.max_relative_error * 100, r.max_percent, 0.05);
    EXPECT_EQ(fit.points, r.points.size());
  }
}

TEST(FitSegments, MeetsTheReferenceOfTwoSegments) {
  const CostFit efa = fit_segments(in_seconds(efa_microseconds), 2);
  ASSERT_EQ(efa.segments.size(), 2U);
  EXPECT_EQ(efa.segments[1].from, 65536);
  EXPECT_NEAR(efa.segments[0].line.alpha * 1e6, 70.71, 0.005);
  EXPECT_NEAR(efa.segments[1].line.beta * 1e6, 4.431819e-06, 5e-10);
  EXPECT_LE(efa.median_relative_error, 0.0585);
  EXPECT_LE(efa.max_relative_error, 0.3595);
  const CostFit nvlink = fit_segments(in_seconds(nvlink_microseconds), 2);
  EXPECT_EQ(nvlink.segments[1].from, 1048576);
  EXPECT_LE(nvlink.median_relative_error, 0.0745);
  EXPECT_LE(nvlink.max_relative_error, 0.1535);
}

// t = 10 µs + bytes / 1 GB/s.
std::vector<SizeTime> one_line(std::initializer_list<double> sizes) {
  std::vector<SizeTime> points;
  for (const double bytes : sizes) points.push_back({bytes, 10e-6 + bytes * 1e-9});
  return points;
}
const std::vector<SizeTime> line = one_line({1e3, 2e3, 4e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9});

// 10 µs + 1 ns a byte below 64 KB, 40 µs + 0.1 ns a byte from there on: a library that changes its protocol.
std::vector<SizeTime> two_protocols() {
  std::vector<SizeTime> points;
  for (double bytes = 1e3; bytes < 2e9; bytes *= 2) {
    points.push_back({bytes, bytes < 64e3 ? 10e-6 + bytes * 1e-9 : 40e-6 + bytes * 1e-10});
  }
  return points;
}

TEST(FitOne, FindsAnExactLineByEveryMethod) {
  for (const auto& [method, text] : EnumNames<FitMethod>::table) {
    const CostFit fit = fit_one(line, method);
    EXPECT_NEAR(fit.alpha(), 10e-6, 1e-12) << text;
    EXPECT_NEAR(fit.beta(), 1e-9, 1e-16) << text;
    EXPECT_LT(fit.max_relative_error, 1e-6) << text;
  }
}

TEST(FitCost, TakesOneLineWhereOneIsEnough) {
  EXPECT_EQ(fit_cost(line).segments.size(), 1U);
  EXPECT_EQ(fit_verdict(fit_cost(line)), "good");
  CostFit below = fit_cost(line);
  below.segments.front().line.alpha = -1e-6;
  EXPECT_EQ(fit_verdict(below), "good; alpha is negative, which is no physical latency");
}

TEST(FitCost, TakesTwoWhereTheyPay) {
  const CostFit fit = fit_cost(two_protocols());
  ASSERT_EQ(fit.segments.size(), 2U);
  EXPECT_EQ(fit.segments[1].from, 64e3);
  EXPECT_NEAR(fit.alpha(), 10e-6, 1e-10);
  EXPECT_NEAR(fit.beta(), 1e-10, 1e-15);
  EXPECT_LT(fit.at(63e3), 74e-6);  // on the first line
  EXPECT_NEAR(fit.at(64e3), 46.4e-6, 1e-10);
}

// 5 % of noise does not invent protocols: in at most one sweep of twenty.
TEST(FitCost, IsNotFooledByNoise) {
  Random random(1);
  int more = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<SizeTime> noisy;
    for (double bytes = 1e3; bytes < 2e9; bytes *= 2) {
      noisy.push_back({bytes, (10e-6 + bytes * 1e-9) * (1 + 0.1 * (random.uniform() - 0.5))});
    }
    more += fit_cost(noisy).segments.size() > 1 ? 1 : 0;
  }
  EXPECT_LE(more, 10);
}

TEST(HalfPerformance, IsAlphaOverBetaOnOneLine) {
  EXPECT_NEAR(half_performance_bytes(fit_one(line, FitMethod::relative)), 1e4, 1e-3);
}

// The last segment's bandwidth is 10 GB/s; half of it is reached at 40 µs + x / 10 GB/s = 2 x / 10 GB/s: 400 KB.
TEST(HalfPerformance, OfSegmentsIsHalfOfTheLast) {
  EXPECT_NEAR(half_performance_bytes(fit_segments(two_protocols(), 2)), 400e3, 1);
}

TEST(HalfPerformance, IsUnknownWhereTimeDoesNotGrow) {
  EXPECT_TRUE(std::isnan(
      half_performance_bytes(fit_one(std::vector<SizeTime>{{1, 2e-6}, {10, 1e-6}, {100, 1e-6}}, FitMethod::ordinary))));
}

TEST(HeldOut, PredictsWhatALineHasNotSeen) {
  const std::vector<double> errors = held_out_errors(line, 1);
  ASSERT_EQ(errors.size(), 7U);  // nine sizes but the smallest and the largest
  for (const double e : errors) EXPECT_LT(e, 1e-6);
}

TEST(HeldOut, IsWorseThanTheFitItself) {
  const std::vector<SizeTime> points = in_seconds(efa_microseconds);
  const std::vector<double> errors = held_out_errors(points, 2);
  ASSERT_EQ(errors.size(), points.size() - 2);
  double sum = 0;
  for (const double e : errors) sum += e * e;
  const CostFit fit = fit_segments(points, 2);
  double seen = 0;
  for (std::size_t i = 1; i + 1 < points.size(); ++i) {
    seen += std::pow(fit.at(points[i].bytes) / points[i].seconds - 1, 2);
  }
  EXPECT_GT(sum, seen);
}

TEST(FitVerdict, SaysWhatABadFitIs) {
  EXPECT_EQ(fit_verdict(fit_one(in_seconds(efa_microseconds), FitMethod::relative)),
            "poor: half of the sizes are off by more than 21 %, the worst by 46 %");
  EXPECT_EQ(fit_verdict(fit_segments(in_seconds(nvlink_microseconds), 2)),
            "fair: half of the sizes are off by more than 7 %, the worst by 15 %");
  EXPECT_EQ(fit_verdict(fit_one(std::vector<SizeTime>{{8, 1e-6}}, FitMethod::relative)),
            "none: a line needs two different sizes");
}

TEST(FitSegments, GivesFewerWhereThereAreTooFewSizes) {
  EXPECT_EQ(fit_segments(one_line({1e3, 1e4, 1e5, 1e6, 1e7}), 3).segments.size(), 1U);
  EXPECT_EQ(fit_segments(one_line({1e3, 1e4, 1e5, 1e6, 1e7, 1e8}), 3).segments.size(), 2U);
}

TEST(FitSegments, OrderOfThePointsDoesNotMatter) {
  std::vector<SizeTime> points = two_protocols();
  std::vector<SizeTime> turned(points.rbegin(), points.rend());
  EXPECT_EQ(fit_segments(points, 2).segments[1].from, fit_segments(turned, 2).segments[1].from);
}

// Launches that differ by their alpha alone, 9 .. 11 µs: alpha's interval lies within, beta's is a point.
TEST(CostIntervals, AreOverLaunches) {
  std::vector<std::vector<SizeTime>> launches;
  for (const double alpha : {9e-6, 9.5e-6, 10e-6, 10.5e-6, 11e-6}) {
    std::vector<SizeTime> points;
    for (double bytes = 1e3; bytes < 2e9; bytes *= 10) points.push_back({bytes, alpha + bytes * 1e-9});
    launches.push_back(points);
  }
  const CostIntervals found = cost_intervals(launches, 1);
  EXPECT_TRUE(found.alpha.contains(10e-6));
  EXPECT_GT(found.alpha.width(), 0.2e-6);
  EXPECT_LT(found.alpha.width(), 2.1e-6);
  EXPECT_LT(found.beta.width(), 1e-12);
  EXPECT_TRUE(std::isnan(cost_intervals(std::span(launches).first(1), 1).alpha.width()));
}

}  // namespace
}  // namespace ovl
