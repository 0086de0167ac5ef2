// SPDX-License-Identifier: Apache-2.0
#include "results/fits.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "measure/cost.hpp"
#include "results/schema.hpp"
#include "support/cost_schema.hpp"

namespace ovl {
namespace {

using test::cost_schema;
using testing::HasSubstr;

// A row that took 10 us + 1 ns/B times `factor`, and loaded twice as long.
Row row_of(std::int64_t bytes, std::int64_t launch = 0, double factor = 1, const std::string& form = "all_reduce") {
  const double time = (10e-6 + static_cast<double>(bytes) * 1e-9) * factor;
  Row row(cost_schema());
  row.set("key", "collective collective=" + form + " bytes=" + std::to_string(bytes) + " place=out")
      .set("launch", launch)
      .set("source", std::string("measured"))
      .set("ranks", std::int64_t{4})
      .set("collective", form)
      .set("dtype", std::string("f32"))
      .set("in_place", std::int64_t{0})
      .set("bytes", bytes)
      .set("t_comm", time)
      .set("t_loaded", 2 * time);
  return row;
}

double real(const Row& row, std::string_view column) { return std::get<double>(row.at(column)); }
std::string text(const Row& row, std::string_view column) { return std::get<std::string>(row.at(column)); }

std::vector<Row> fits(const std::vector<Row>& summary, std::size_t series = 0) {
  const CostSeries one = measured_series(summary).at(series);
  return fit_rows(one, fits_of(one));
}

TEST(MeasuredSeries, AreRowsThatDifferInNothingButSizeAndLoad) {
  std::vector<Row> rows{row_of(1000), row_of(2000), row_of(1000, 0, 1, "broadcast")};
  Row idle_only = row_of(4000);
  idle_only.set("t_loaded", Value());
  rows.push_back(idle_only);
  Row failed = row_of(8000);
  failed.set("t_comm", Value()).set("t_loaded", Value());  // as a row without numbers is
  rows.push_back(failed);
  const std::vector<CostSeries> series = measured_series(rows);
  ASSERT_EQ(series.size(), 4U);
  EXPECT_EQ(series[0].key, "collective collective=all_reduce place=out");
  EXPECT_EQ(series[0].title(), "all_reduce f32, 4 ranks, out of place");
  EXPECT_EQ(series[0].load, "idle");
  EXPECT_EQ(series[0].points.size(), 3U);
  EXPECT_EQ(series[1].load, "loaded");
  EXPECT_EQ(series[1].points.size(), 2U);
  EXPECT_EQ(series[2].collective, "broadcast");
}

TEST(MeasuredSeries, KeepTheLaunchesOfTheirPoints) {
  const std::vector<CostSeries> series = measured_series({row_of(1000, 0), row_of(2000, 0), row_of(1000, 1)});
  ASSERT_EQ(series[0].launches.size(), 2U);
  EXPECT_EQ(series[0].launches[0].size(), 2U);
  EXPECT_EQ(series[0].launches[1].size(), 1U);
  EXPECT_EQ(series[0].points.size(), 3U);
}

TEST(BusFactor, OfASequenceIsThatOfTheCollectiveWhoseResultItHas) {
  EXPECT_EQ(bus_factor(CollectiveForm::all_reduce, 4), 1.5);
  EXPECT_EQ(bus_factor(CollectiveForm::reduce_scatter_all_gather, 4), 1.5);
  EXPECT_EQ(bus_factor(CollectiveForm::all_reduce_hierarchical, 4), 1.5);
  EXPECT_EQ(bus_factor(CollectiveForm::reduce_scatter, 4), 0.75);
  EXPECT_EQ(bus_factor(CollectiveForm::exchange, 4), 1);
}

// alpha 10 us, beta 1 ns/B: half of 1 GB/s from 10 kB on; the bus carries 2 (4 - 1) / 4 of it.
TEST(FitRows, WorkedExample) {
  const std::vector<Row> rows = fits({row_of(1000), row_of(2000), row_of(4000), row_of(8000), row_of(16000)});
  ASSERT_EQ(rows.size(), 3U);
  const Row& headline = rows[0];
  EXPECT_EQ(text(headline, "method"), "relative");
  EXPECT_NEAR(real(headline, "alpha_s"), 10e-6, 1e-12);
  EXPECT_NEAR(real(headline, "beta_s_per_byte"), 1e-9, 1e-15);
  EXPECT_NEAR(real(headline, "bus_bandwidth"), 1.5e9, 1);
  EXPECT_NEAR(real(headline, "half_performance_bytes"), 10000, 1e-3);
  EXPECT_NEAR(real(headline, "held_out_median_relative_error"), 0, 1e-9);
  EXPECT_EQ(headline.at("chosen"), Value(std::int64_t{1}));
  EXPECT_EQ(headline.at("launches"), Value(std::int64_t{1}));
  EXPECT_EQ(headline.at("alpha_s_low"), Value()) << "one launch tells nothing of others";
  EXPECT_EQ(text(headline, "verdict"), "good");
  EXPECT_EQ(text(rows[1], "method"), "ordinary");
  EXPECT_EQ(rows[1].at("chosen"), Value(std::int64_t{0}));
  EXPECT_EQ(rows[1].at("held_out_median_relative_error"), Value());
  EXPECT_EQ(text(rows[2], "method"), "theil_sen");
}

TEST(FitRows, ABadFitSaysSo) {
  std::vector<Row> rows{row_of(1000), row_of(2000), row_of(4000), row_of(8000)};
  rows[1].set("t_comm", 100e-6);
  EXPECT_THAT(text(fits(rows)[0], "verdict"), HasSubstr("poor: half of the sizes are off by more than"));
}

TEST(FitRows, OneRankHasNoBusBandwidth) {
  std::vector<Row> rows{row_of(1000), row_of(2000)};
  for (Row& row : rows) row.set("ranks", std::int64_t{1});
  EXPECT_EQ(fits(rows)[0].at("bus_bandwidth"), Value());
}

// Launches of which each has all of its times 1, 1.01, 1.02, 1.03 and 1.04 times as long: their lines scatter as
// little, and each lies where the other four predict.
TEST(FitRows, LaunchesThatAgreeSaySo) {
  std::vector<Row> rows;
  for (int launch = 0; launch < 5; ++launch) {
    for (const std::int64_t bytes : {1000, 4000, 16000, 64000})
      rows.push_back(row_of(bytes, launch, 1 + 0.01 * launch));
  }
  const std::vector<Row> found = fits(rows);
  EXPECT_EQ(found[0].at("launches"), Value(std::int64_t{5}));
  EXPECT_EQ(found[0].at("alpha_agree"), Value(std::int64_t{5}));
  EXPECT_EQ(found[0].at("beta_agree"), Value(std::int64_t{5}));
  EXPECT_EQ(text(found[0], "verdict"),
            "good; launches agree: alpha of 5 and beta of 5 of 5 lie where the others predict");
  EXPECT_GE(real(found[0], "alpha_s_low"), 10e-6 * (1 - 1e-9)) << "no resample is quicker than the quickest launch";
  EXPECT_LE(real(found[0], "alpha_s_high"), 10e-6 * 1.04 * (1 + 1e-9));
  EXPECT_LT(real(found[0], "beta_s_per_byte_low"), real(found[0], "beta_s_per_byte_high"));
  EXPECT_EQ(found[1].at("alpha_agree"), Value()) << "asked of the headline";
}

TEST(FitRows, ALaunchThatTheOthersDoNotPredictIsADifference) {
  std::vector<Row> rows;
  for (int launch = 0; launch < 5; ++launch) {
    for (const std::int64_t bytes : {1000, 4000, 16000, 64000})
      rows.push_back(row_of(bytes, launch, launch == 4 ? 2 : 1));
  }
  EXPECT_THAT(text(fits(rows)[0], "verdict"), HasSubstr("; launches differ: alpha of 4 and beta of 4 of 5 lie where"));
}

TEST(FitRows, FewerThanFiveLaunchesClaimNothing) {
  std::vector<Row> rows;
  for (int launch = 0; launch < 4; ++launch) {
    for (const std::int64_t bytes : {1000, 4000}) rows.push_back(row_of(bytes, launch, 1 + 0.01 * launch));
  }
  EXPECT_THAT(text(fits(rows)[0], "verdict"), HasSubstr("fewer than five launches: no claim between runs"));
}

TEST(FitRows, OneSizeIsNoLine) { EXPECT_TRUE(fits({row_of(1000)}).empty()); }

}  // namespace
}  // namespace ovl
