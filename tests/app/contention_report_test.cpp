// SPDX-License-Identifier: Apache-2.0
#include "app/contention_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "measure/contention.hpp"
#include "results/schema.hpp"

namespace ovl {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const Schema& contention_rows_schema() {
  static const Schema all = [] {
    std::vector<Column> own;
    for (const char* name : {"study", "victim", "aggressor"}) own.push_back({name, ColumnType::text, "", ""});
    for (Column& column : contention_columns()) own.push_back(std::move(column));
    return summary_schema(own);
  }();
  return all;
}

Row row_of(const std::string& study, const std::string& aggressor, double slowdown, std::int64_t channels = 0) {
  Row row(contention_rows_schema());
  row.set("key", "contention victim=gemm aggressor=" + aggressor + " channels=" + std::to_string(channels));
  row.set("launch", std::int64_t{0}).set("status", std::string("ok")).set("source", std::string("measured"));
  row.set("study", study).set("victim", std::string("gemm")).set("aggressor", aggressor);
  row.set("placement", std::string("partitioned")).set("rounds", std::int64_t{20}).set("t_victim", 25e-3);
  row.set("victim_slowdown", slowdown).set("victim_slowdown_low", slowdown - 0.1);
  return row.set("victim_slowdown_high", slowdown + 0.1);
}

TEST(ContentionTable, HasBothSidesAndTheGain) {
  Row streamed = row_of("matrix", "stream", 1.25);
  streamed.set("aggressor_slowdown", 2.0).set("aggressor_slowdown_low", 1.9).set("aggressor_slowdown_high", 2.1);
  streamed.set("pace_alone", 40e9).set("pace_loaded", 20e9).set("overlap_gain", 0.3).set("hidden_share", 0.4);
  streamed.set("bandwidth_model", 1.5);
  EXPECT_THAT(
      contention_table({streamed, row_of("matrix", "occupy", 2).set("share_model", 2.0)}),
      StartsWith(
          R"(case    victim alone  victim slowed [95 %]  model  aggressor slowed [95 %]  stream alone   beside   gain  hidden   n  status
stream       25.0 ms    1.25x [1.15, 1.35]  1.50x       2.00x [1.90, 2.10]       40 GB/s  20 GB/s  +0.30    40 %  20      ok
occupy       25.0 ms    2.00x [1.90, 2.10]  2.00x                        -             -        -      -       -  20      ok
)"));
  EXPECT_EQ(contention_table({}), "no cases\n");
}

// Of 4 ms 3 are a slowed GEMM's, 2 nobody's, and 1 was gained; what took nothing or was not seen is left out.
TEST(ContentionTable, SaysWhatTheStepLostTermByTerm) {
  Row row = row_of("matrix", "stream", 1.25);
  row.set("lost", 4e-3).set("lost_low", 3e-3).set("lost_high", 5e-3).set("lost_dependencies", -1e-3);
  row.set("lost_compute_slowdown", 3e-3).set("lost_compute_slowdown_low", 2e-3).set("lost_compute_slowdown_high", 4e-3);
  row.set("lost_comm_slowdown", 0.0).set("lost_remainder", 2e-3);
  EXPECT_THAT(contention_table({row}),
              HasSubstr("What the step of both lost, t_step - t_ideal [95 %]:\n"
                        "  contention: 4.00 ms [3.00 ms, 5.00 ms] = dependencies -1.00 ms + compute_slowdown 3.00 ms "
                        "[2.00 ms, 4.00 ms] + remainder 2.00 ms\n"));
  EXPECT_THAT(contention_table({row_of("matrix", "occupy", 2)}), Not(HasSubstr("What the step of both lost")));
}

TEST(ContentionTable, ALoadCurveSaysWhereOverlapStopsPaying) {
  std::vector<Row> curve;
  for (const auto& [pace, gain] : {std::pair{2e9, 0.5}, {4e9, -0.25}}) {
    curve.push_back(row_of("load_curve", "stream" + std::to_string(pace), 1.5));
    curve.back().set("pace_alone", pace).set("overlap_gain", gain);
  }
  EXPECT_THAT(contention_table(curve), HasSubstr("gemm partitioned: overlap stops paying at a stream of 3.33 GB/s"));
  curve.pop_back();
  EXPECT_THAT(contention_table(curve), HasSubstr("overlap pays over the whole range"));
  EXPECT_THAT(contention_table({row_of("matrix", "stream", 1)}), Not(HasSubstr("Load curve")));
}

TEST(ContentionTable, ABudgetNamesTheSettingsThatNoOtherBeats) {
  std::vector<Row> budget;
  const double settings[][2] = {{1.0, 10e9}, {1.1, 18e9}, {1.5, 20e9}, {2.0, 19e9}};
  for (std::int64_t i = 0; i < 4; ++i) {
    budget.push_back(row_of("sm_budget", "all_reduce", settings[i][0], 1 << i));
    budget.back().set("bus_bandwidth_loaded", settings[i][1]);
  }
  const std::string text = contention_table(budget);
  EXPECT_THAT(text, HasSubstr("    2: GEMM 1.10x as long, bus 18 GB/s  <- knee\n"));
  EXPECT_THAT(text, Not(HasSubstr("    8: GEMM"))) << "dearer than 4 channels and slower";
}

}  // namespace
}  // namespace ovl
