// SPDX-License-Identifier: Apache-2.0
#include "app/launches.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "results/schema.hpp"

namespace ovl {
namespace {

const Schema& launches_schema() {
  static const Schema summary = summary_schema({});
  return summary;
}

std::vector<Row> launches_of(const std::string& key, const std::vector<double>& shares) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    Row& row = rows.emplace_back(launches_schema());
    row.set("key", key).set("launch", static_cast<std::int64_t>(i)).set("hidden_share", shares[i]);
    row.set("t_compute", 3e-3).set("t_comm", 2e-3).set("t_step", 5e-3 - shares[i] * 2e-3);
  }
  return rows;
}

double real(const Row& row, const char* column) { return std::get<double>(row.at(column)); }
std::int64_t integer(const Row& row, const char* column) { return std::get<std::int64_t>(row.at(column)); }
std::string text(const Row& row, const char* column) { return std::get<std::string>(row.at(column)); }

// Mean 0.94; squared distances 16 + 4 + 0 + 4 + 16 = 40e-4, so s = sqrt(10e-4) = 0.0316228; five further
// launches together take t(1 - 0.05 / 10, 4) = 4.604095; reach = t s sqrt(1 + 1/5) = 0.1594905.
TEST(LaunchRows, PredictAsManyFurtherLaunches) {
  const std::vector<Row> rows = launch_rows(launches_of("pair a=1", {0.98, 0.90, 0.94, 0.96, 0.92}));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(text(rows[0], "key"), "pair a=1");
  EXPECT_EQ(integer(rows[0], "launches"), 5);
  EXPECT_DOUBLE_EQ(real(rows[0], "hidden_share"), 0.94);
  EXPECT_NEAR(real(rows[0], "hidden_share_low"), 0.94 - 0.1594905, 1e-6);
  EXPECT_NEAR(real(rows[0], "hidden_share_high"), 0.94 + 0.1594905, 1e-6);
  EXPECT_EQ(real(rows[0], "hidden_share_least"), 0.90);
  EXPECT_EQ(real(rows[0], "hidden_share_most"), 0.98);
  EXPECT_DOUBLE_EQ(real(rows[0], "t_compute_low"), 3e-3);  // it never varied
  EXPECT_NEAR(real(rows[0], "t_step_high") - real(rows[0], "t_step"), 0.1594905 * 2e-3, 1e-9);
  EXPECT_EQ(integer(rows[0], "agree"), 5);
  EXPECT_EQ(text(rows[0], "verdict"), "5 of 5 launches lie where the others predict");
}

// The four equal ones predict exactly themselves, not 0.5; those that see 0.5 among them predict widely.
TEST(LaunchRows, CountsTheLaunchesThatTheOthersPredict) {
  const std::vector<Row> rows = launch_rows(launches_of("pair a=1", {0.875, 0.875, 0.875, 0.875, 0.5}));
  EXPECT_EQ(integer(rows[0], "agree"), 4);
  EXPECT_EQ(text(rows[0], "verdict"), "4 of 5 launches lie where the others predict");
}

TEST(LaunchRows, ClaimNothingFromFewerThanFive) {
  const std::vector<Row> rows = launch_rows(launches_of("pair a=1", {0.9, 0.8, 0.9, 0.8}));
  EXPECT_EQ(text(rows[0], "verdict"), "fewer than five launches: no claim between runs");
  // Nor bounds: Student's t of two launches would put a time below zero.
  EXPECT_DOUBLE_EQ(real(rows[0], "t_step"), 5e-3 - 0.85 * 2e-3);
  for (const char* bound : {"t_compute_low", "t_step_low", "t_step_high", "hidden_share_low", "hidden_share_high"}) {
    EXPECT_TRUE(std::holds_alternative<std::monostate>(rows[0].at(bound))) << bound;
  }
}

TEST(LaunchRows, KnowNoIntervalFromOne) {
  const std::vector<Row> rows = launch_rows(launches_of("pair a=1", {0.9}));
  EXPECT_EQ(real(rows[0], "hidden_share"), 0.9);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(rows[0].at("hidden_share_low")));
  EXPECT_EQ(integer(rows[0], "agree"), 0);
}

TEST(LaunchRows, StandInTheOrderOfTheCasesAndLeaveOutRowsWithoutNumbers) {
  std::vector<Row> summary = launches_of("pair b=1", {0.5});
  Row unsupported(launches_schema());
  summary.push_back(unsupported.set("key", std::string("pair c=1")).set("launch", std::int64_t{0}));
  for (const Row& row : launches_of("pair a=1", {0.9, 0.8})) summary.push_back(row);
  const std::vector<Row> rows = launch_rows(summary);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(text(rows[0], "key"), "pair b=1");
  EXPECT_EQ(text(rows[1], "key"), "pair a=1");
  EXPECT_EQ(integer(rows[1], "launches"), 2);
}

TEST(LaunchesText, IsOneLineACase) {
  std::vector<Row> summary = launches_of("pair a=1 b=2", {0.98, 0.90, 0.94, 0.96, 0.92});
  for (const Row& row : launches_of("pair a=3 b=2", {-0.25})) summary.push_back(row);
  EXPECT_EQ(launches_text(launch_rows(summary)),
            "Between launches (hidden share, and where as many further launches all lie in 95 % of cases):\n"
            "  1: 94.0 % [78.1, 109.9], seen 90.0 .. 98.0, 5 of 5 launches lie where the others predict\n"
            "  3: -25.0 %, seen -25.0 .. -25.0, fewer than five launches: no claim between runs\n");
}

}  // namespace
}  // namespace ovl
