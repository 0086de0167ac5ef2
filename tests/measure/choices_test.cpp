// SPDX-License-Identifier: Apache-2.0
#include "measure/choices.hpp"

#include <gtest/gtest.h>

#include "results/schema.hpp"

namespace ovl {
namespace {

const Schema& bucket_schema() {
  static const Schema s = summary_schema({{"bucket", ColumnType::text, "", "limit"}});
  return s;
}

// A sweep of buckets whose computation takes 10: samples of ten rounds, the ranks' rows alike, two operations a window.
struct Sweep {
  std::vector<Row> summary;
  std::vector<Row> samples;

  void add(const std::string& bucket, double exposed, std::int64_t launch = 0, const std::string& rest = "c=1") {
    const std::string key = "ddp bucket=" + bucket + " " + rest;
    Row row(bucket_schema());
    row.set("key", key).set("launch", launch).set("status", std::string("ok")).set("bucket", bucket);
    summary.push_back(row);
    for (std::int64_t round = 0; round < 10; ++round) {
      for (const auto& [arm, time] : {std::pair<const char*, double>{"compute", 10}, {"overlapped", 10 + exposed}}) {
        Row sample(samples_schema());
        sample.set("key", key).set("launch", launch).set("round", round).set("arm", std::string(arm));
        sample.set("rank", std::int64_t{0}).set("repeats", std::int64_t{2}).set("step", 2 * time);
        sample.set("used", std::int64_t{1});
        samples.push_back(sample);
      }
    }
  }
};

SweptOption option() {
  return {.name = "bucket", .reference = "25MiB", .place = [](const Row& row) {
            const auto text = std::get<std::string>(row.at("bucket"));
            return text == "all" ? 1e300 : text == "tensor" ? 0.0 : 25.0;
          }};
}

std::string text(const Row& row, const char* column) { return format_value(row.at(column)); }

TEST(Choices, WorkedExample) {
  Sweep sweep;
  sweep.add("all", 5);
  sweep.add("25MiB", 2);
  sweep.add("tensor", 1);
  const std::vector<Row> rows = choice_rows(option(), sweep.summary, sweep.samples);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(text(rows[0], "series"), "ddp c=1");
  EXPECT_EQ(text(rows[0], "option"), "bucket");
  EXPECT_EQ(text(rows[0], "values"), "3");
  EXPECT_EQ(text(rows[0], "recommended"), "tensor");
  EXPECT_EQ(text(rows[0], "best_low"), "tensor");
  EXPECT_EQ(text(rows[0], "best_high"), "tensor");
  EXPECT_EQ(text(rows[0], "t_exposed"), "1");
  EXPECT_EQ(text(rows[0], "gain"), "1");
  EXPECT_EQ(text(rows[0], "gain_low"), "1");
  EXPECT_EQ(text(rows[0], "verdict"), "tensor exposes least; 25MiB exposes more");
  EXPECT_EQ(text(rows[0], "predicted"), "");
}

TEST(Choices, SayWhichValuesHaveNoNumbers) {
  Sweep sweep;
  sweep.add("25MiB", 2);
  sweep.add("tensor", 1);
  Row row(bucket_schema());
  row.set("key", std::string("ddp bucket=all c=1")).set("launch", std::int64_t{0});
  row.set("status", std::string("unsupported")).set("bucket", std::string("all"));
  sweep.summary.push_back(row);
  const std::vector<Row> rows = choice_rows(option(), sweep.summary, sweep.samples);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(text(rows[0], "values"), "2");
  EXPECT_EQ(text(rows[0], "verdict"), "tensor exposes least; 25MiB exposes more; not among them: all (unsupported)");
}

// Five rounds that scatter make no interval of 95 %, whatever their resamples say.
TEST(Choices, ClaimNothingFromFewRounds) {
  for (const std::int64_t rounds : {5, 6}) {
    Sweep sweep;
    sweep.add("25MiB", 9);
    sweep.add("tensor", 1);
    std::erase_if(sweep.samples, [&](const Row& s) { return std::get<std::int64_t>(s.at("round")) >= rounds; });
    for (Row& s : sweep.samples) {
      const auto round = static_cast<double>(std::get<std::int64_t>(s.at("round")));
      s.set("step", std::get<double>(s.at("step")) + 0.01 * round);
    }
    const std::vector<Row> rows = choice_rows(option(), sweep.summary, sweep.samples);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(text(rows[0], "verdict").starts_with("unclear: too few rounds"), rounds == 5) << text(rows[0], "verdict");
    EXPECT_EQ(text(rows[0], "t_exposed_low").empty(), rounds == 5);
    EXPECT_EQ(text(rows[0], "gain_high").empty(), rounds == 5);
  }
}

TEST(Choices, EachSeriesHasItsRowAndLaunchesOfACaseAreOne) {
  Sweep sweep;
  for (const std::int64_t launch : {0, 1}) {
    sweep.add("tensor", 3, launch);
    sweep.add("all", 1, launch);
    sweep.add("tensor", 1, launch, "c=2");
    sweep.add("all", 3, launch, "c=2");
  }
  sweep.add("all", 1, 0, "c=3");
  const std::vector<Row> rows = choice_rows(option(), sweep.summary, sweep.samples);
  ASSERT_EQ(rows.size(), 2U) << "a series of one value has nothing to choose";
  EXPECT_EQ(text(rows[0], "recommended"), "all");
  EXPECT_EQ(text(rows[1], "recommended"), "tensor");
  EXPECT_EQ(text(rows[1], "values"), "2");
  EXPECT_EQ(text(rows[0], "reference"), "") << "25MiB was not measured";
  EXPECT_EQ(text(rows[0], "gain"), "");
}

// The first value is as good as the second: where more costs memory, it is the one to take.
TEST(Choices, TheFirstThatSuffices) {
  Sweep sweep;
  sweep.add("tensor", 1);
  sweep.add("25MiB", 1);
  sweep.add("all", 3);
  SweptOption first = option();
  first.first_that_suffices = true;
  EXPECT_EQ(text(choice_rows(first, sweep.summary, sweep.samples).at(0), "recommended"), "tensor");
}

TEST(Choices, WhereAllAreAlikeTheVerdictIsUnclear) {
  Sweep sweep;
  sweep.add("tensor", 1);
  sweep.add("all", 1);
  // Without scatter the first wins every time; with it nobody does.
  for (std::size_t i = 0; i < sweep.samples.size(); ++i) {
    if (text(sweep.samples[i], "arm") != "overlapped") continue;
    sweep.samples[i].set("step", 22.0 + (i / 2 % 10 < 5 ? -1 : 1));
  }
  const Row row = choice_rows(option(), sweep.summary, sweep.samples).at(0);
  EXPECT_EQ(text(row, "verdict"), "unclear: any of them may expose least; measure longer, or with --launches 5");
}

TEST(Choices, WhatFailedOrWasSpoiltDoesNotCount) {
  Sweep sweep;
  sweep.add("tensor", 1);
  sweep.add("25MiB", 2);
  sweep.add("all", 0);
  sweep.summary.back().set("status", std::string("failed_verify"));
  for (Row& sample : sweep.samples) {
    if (text(sample, "key") == "ddp bucket=tensor c=1" && text(sample, "arm") == "overlapped" &&
        text(sample, "round") == "0") {
      sample.set("step", 1e9).set("used", std::int64_t{0});
    }
  }
  const Row row = choice_rows(option(), sweep.summary, sweep.samples).at(0);
  EXPECT_EQ(text(row, "values"), "2");
  EXPECT_EQ(text(row, "t_exposed"), "1");
}

}  // namespace
}  // namespace ovl
