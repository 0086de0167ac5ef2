// SPDX-License-Identifier: Apache-2.0
#include "results/import/series.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "results/import/formats.hpp"
#include "results/schema.hpp"

namespace ovl {
namespace {

ImportedFile file_of(std::string_view text, const ImportHints& hints = {}) {
  return {"log", "csv", import_text(text, ForeignFormat::csv, hints)};
}

double number(const Row& row, std::string_view column) { return std::get<double>(row.at(column)); }

// t = 10 us + bytes / 1 GB/s, two series of it; one row failed its check and one is of another collective.
const std::string two_series =
    "bytes,time_us,collective,ranks,in_place,wrong\n"
    "1000,11,all_reduce,4,0,0\n1000,21,all_reduce,4,1,0\n2000,12,all_reduce,4,0,0\n2000,22,all_reduce,4,1,0\n"
    "4000,14,all_reduce,4,0,0\n4000,24,all_reduce,4,1,0\n8000,999,all_reduce,4,0,5\n9000,1,broadcast,4,0,0\n";

TEST(Series, AreRowsThatDifferOnlyInSize) {
  const ImportedFile file = file_of(two_series);
  const std::vector<CostSeries> series = series_of(std::span(&file, 1));
  ASSERT_EQ(series.size(), 3U);
  EXPECT_EQ(series[0].title(), "all_reduce, 4 ranks, out of place");
  EXPECT_EQ(series[1].title(), "all_reduce, 4 ranks, in place");
  EXPECT_EQ(series[0].points.size(), 3U) << "a row that failed its check is in no fit";
  EXPECT_TRUE(fits_of(series[2]).empty()) << "one size makes no line";
}

TEST(Series, AreFitted) {
  const ImportedFile file = file_of(two_series);
  const CostSeries series = series_of(std::span(&file, 1)).front();
  const std::vector<CostFit> fits = fits_of(series);
  ASSERT_EQ(fits.size(), 3U);
  const std::vector<Row> rows = fit_rows(series, fits);
  ASSERT_EQ(rows.size(), 3U);
  for (const Row& row : rows) {
    EXPECT_NEAR(number(row, "alpha_s"), 10e-6, 1e-12);
    EXPECT_NEAR(number(row, "beta_s_per_byte"), 1e-9, 1e-15);
    EXPECT_NEAR(number(row, "bus_bandwidth"), 1.5e9, 1) << "2 (4 - 1) / 4 of 1 GB/s";
    EXPECT_EQ(row.at("points"), Value(std::int64_t{3}));
    EXPECT_EQ(row.at("breakpoint_bytes"), Value());
  }
  EXPECT_EQ(rows[0].at("method"), Value(std::string("relative")));
}

TEST(Series, BreakpointsThatPayAreAddedWithTheirSize) {
  std::string text = "bytes,time_us\n";
  for (int i = 0; i < 8; ++i) text += std::to_string(1000 * (i + 1)) + "," + std::to_string(10 + i + 1) + "\n";
  for (int i = 0; i < 8; ++i)
    text += std::to_string(100000 * (i + 1)) + "," + std::to_string(200 + 10 * (i + 1)) + "\n";
  const ImportedFile file = file_of(text);
  const CostSeries series = series_of(std::span(&file, 1)).front();
  const std::vector<Row> rows = fit_rows(series, fits_of(series));
  ASSERT_EQ(rows.size(), 5U);
  EXPECT_EQ(rows[3].at("segments"), Value(std::int64_t{2}));
  EXPECT_EQ(rows[3].at("breakpoint_bytes"), Value());
  EXPECT_EQ(rows[4].at("breakpoint_bytes"), Value(std::int64_t{100000}));
  EXPECT_NEAR(number(rows[4], "alpha_s"), 200e-6, 1e-9);
  EXPECT_EQ(rows[4].at("bus_bandwidth"), Value()) << "nobody said which collective";
}

TEST(Series, OfRanksTheSlowestCounts) {
  const ImportedFile file = file_of("bytes,seconds,rank,sample\n8,1,0,0\n8,3,1,0\n8,2,0,1\n8,1,1,1\n");
  const std::vector<SizeTime> points = series_of(std::span(&file, 1)).front().points;
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].seconds, 3);
  EXPECT_EQ(points[1].seconds, 2);
}

TEST(Series, LargeOnesAreTheMediansOfTheirSizes) {
  std::string text = "bytes,seconds\n";
  for (int i = 0; i < 5000; ++i) text += std::to_string(8 + i % 2) + ",1\n";
  const ImportedFile file = file_of(text);
  EXPECT_EQ(series_of(std::span(&file, 1)).front().points.size(), 2U);
}

TEST(Series, BecomeRowsOfTheSummary) {
  const ImportedFile file = file_of(two_series);
  const Schema schema = summary_schema(imported_summary_columns());
  const std::vector<Row> rows = imported_summary(schema, std::span(&file, 1));
  ASSERT_EQ(rows.size(), 7U);
  EXPECT_EQ(rows[0].at("source"), Value(std::string("imported")));
  EXPECT_EQ(rows[0].at("key"),
            Value(std::string("import file=log collective=all_reduce dtype= op= ranks=4 in_place=0 bytes=1000")));
  EXPECT_EQ(rows[0].at("t_comm"), Value(11e-6));
  EXPECT_EQ(rows[0].at("t_step"), Value());
  EXPECT_EQ(imported_row(file, file.content.rows[6]).at("status"), Value(std::string("failed_verify")));
}

}  // namespace
}  // namespace ovl
