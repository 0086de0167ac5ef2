// SPDX-License-Identifier: Apache-2.0
#include "app/cost_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "measure/cost.hpp"
#include "results/fits.hpp"
#include "results/schema.hpp"
#include "support/cost_schema.hpp"

namespace ovl {
namespace {

using test::cost_schema;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Row row_of(std::int64_t bytes, double seconds) {
  Row row(cost_schema());
  row.set("key", "collective collective=all_reduce bytes=" + std::to_string(bytes) + " place=out")
      .set("launch", std::int64_t{0})
      .set("status", std::string("ok"))
      .set("source", std::string("measured"))
      .set("ranks", std::int64_t{2})
      .set("rounds", std::int64_t{20})
      .set("collective", std::string("all_reduce"))
      .set("dtype", std::string("f32"))
      .set("in_place", std::int64_t{0})
      .set("bytes", bytes)
      .set("t_comm", seconds)
      .set("t_comm_low", 0.9 * seconds)
      .set("t_comm_high", 1.1 * seconds);
  return row;
}

TEST(CollectiveTable, HasIdleAndLoadedSideBySide) {
  Row loaded = row_of(2000, 2e-3);
  loaded.set("algorithm_bandwidth", 1e6).set("bus_bandwidth", 1e6).set("t_rank_min", 1e-3).set("t_rank_max", 2e-3);
  loaded.set("t_loaded", 5e-3).set("t_loaded_low", 4e-3).set("t_loaded_high", 6e-3);
  loaded.set("comm_slowdown", 2.5).set("coverage", 1.0).set("verdict", std::string("beside GEMMs 2.50x as long"));
  Row unsupported(cost_schema());
  unsupported.set("key", std::string("collective collective=all_to_all bytes=2000 place=in"))
      .set("launch", std::int64_t{0})
      .set("status", std::string("unsupported"))
      .set("source", std::string("measured"))
      .set("reason", std::string("cannot work in place"));
  EXPECT_THAT(
      collective_table({loaded, unsupported}),
      StartsWith(
          R"(case                           idle [95 %]   algorithm         bus  ranks least .. most               loaded [95 %]  slowdown  covered   n       status
all_reduce out  2.00 ms [1.80 ms, 2.20 ms]  0.001 GB/s  0.001 GB/s   1.00 ms .. 2.00 ms  5.00 ms [4.00 ms, 6.00 ms]     2.50x  100.0 %  20           ok
all_to_all in                            -           -           -                    -                           -         -        -   -  unsupported

In words:
  all_reduce out: beside GEMMs 2.50x as long
  all_to_all in: unsupported: cannot work in place
)"));
  EXPECT_EQ(collective_table({}), "no cases\n");
}

// alpha 10 us, beta 1 ns/B.
TEST(CostTable, IsOneLineASeriesWithItsVerdict) {
  std::vector<Row> rows;
  for (const std::int64_t bytes : {1000, 2000, 4000, 8000, 16000}) {
    rows.push_back(row_of(bytes, 10e-6 + static_cast<double>(bytes) * 1e-9));
    rows.back().set("t_loaded", 2 * (10e-6 + static_cast<double>(bytes) * 1e-9));
  }
  std::vector<Row> fits;
  for (const CostSeries& series : measured_series(rows)) {
    for (Row& row : fit_rows(series, fits_of(series))) fits.push_back(std::move(row));
  }
  const std::string text = cost_table(fits, true);
  EXPECT_THAT(text, StartsWith("Cost of a collective, t = alpha + beta * bytes:\nseries      "));
  EXPECT_THAT(text,
              testing::ContainsRegex("all_reduce +idle +10.0 us +1000 ps/B +1 GB/s +9.77KiB +0.0 %, 0.0 % +0.0 %, "
                                     "0.0 % +10.0 us . 1000 ps/B +10.0 us . 1000 ps/B +1\n"));
  EXPECT_THAT(text, testing::ContainsRegex("all_reduce +loaded +20.0 us +2000 ps/B +0.5 GB/s +9.77KiB"));
  EXPECT_THAT(text, HasSubstr("In words:\n  all_reduce idle: good\n  all_reduce loaded: good\n"));
  EXPECT_THAT(text, Not(HasSubstr("segments pay")));
}

TEST(CostTable, SaysWhereSegmentsPay) {
  std::vector<Row> rows;
  for (const std::int64_t k : {1, 2, 4, 8}) rows.push_back(row_of(1000 * k, 10e-6 + static_cast<double>(k) * 1e-6));
  for (const std::int64_t k : {100, 200, 400, 800}) {
    rows.push_back(row_of(1000 * k, 200e-6 + static_cast<double>(k) * 10e-6));
  }
  const CostSeries series = measured_series(rows).at(0);
  EXPECT_THAT(cost_table(fit_rows(series, fits_of(series)), true),
              HasSubstr("; 2 segments pay: 10.0 us + 1000 ps/B from 0 on, 200 us + 1e+04 ps/B from 97.7KiB on (error "
                        "median 0.0 %, worst 0.0 %)\n"));
}

TEST(CostTable, WithoutALineSaysWhy) {
  EXPECT_EQ(cost_table({}, true),
            "Cost of a collective, t = alpha + beta * bytes:\n  none: a line needs two different sizes\n");
}

}  // namespace
}  // namespace ovl
