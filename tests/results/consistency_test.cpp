// SPDX-License-Identifier: Apache-2.0
#include "results/consistency.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "results/loaded_run.hpp"
#include "results/schema.hpp"
#include "support/folders.hpp"

namespace ovl {
namespace {

using testing::HasSubstr;

const Schema& summary() {
  static const Schema schema = summary_schema({});
  return schema;
}

// Three rounds of two arms on two ranks, windows of two operations, and what the summary says of them.
struct Tables {
  std::vector<Row> rows;
  std::vector<Row> samples;

  Tables() {
    Row& row = rows.emplace_back(summary());
    row.set("key", std::string("pair a=1")).set("launch", std::int64_t{0}).set("status", std::string("ok"));
    row.set("rounds", std::int64_t{3}).set("t_compute", 2.0).set("t_empty", 1.0);
    for (std::int64_t round = 0; round < 3; ++round) {
      for (const auto& [arm, step] : {std::pair<const char*, double>{"empty", 1}, {"compute", 4}}) {
        for (std::int64_t rank = 0; rank < 2; ++rank) {
          Row& sample = samples.emplace_back(samples_schema());
          sample.set("key", std::string("pair a=1")).set("launch", std::int64_t{0}).set("round", round);
          sample.set("arm", std::string(arm)).set("rank", rank).set("position", rank * 0).set("slot", round);
          sample.set("repeats", std::int64_t{2}).set("step", step).set("used", std::int64_t{1});
        }
      }
    }
  }
  [[nodiscard]] std::string wrong() const { return inconsistency(rows, samples); }
};

TEST(Consistency, OfARunThatNobodyTouched) { EXPECT_EQ(Tables().wrong(), ""); }

TEST(Consistency, ARowOfSamplesIsMissed) {
  Tables run;
  run.samples.erase(run.samples.begin() + 5);
  EXPECT_EQ(run.wrong(),
            "the case \"pair a=1\" of launch 0: round 1 of its arm empty has samples of 1 ranks and others of 2");
  run.samples.erase(run.samples.begin() + 4);
  EXPECT_THAT(run.wrong(), HasSubstr("its arms compute and empty have samples of different rounds"));
  run.samples.clear();
  EXPECT_THAT(run.wrong(), HasSubstr("it has no samples"));
}

TEST(Consistency, AChangedNumberIsSeen) {
  Tables run;
  run.rows[0].set("t_compute", 2.0000001);
  EXPECT_THAT(run.wrong(), HasSubstr("its row says t_compute 2.0000001, the median of its samples is 2"));
  run = Tables();
  run.rows[0].set("rounds", std::int64_t{4});
  EXPECT_THAT(run.wrong(), HasSubstr("its row says 4 rounds, its samples have 3"));
  run = Tables();
  for (Row& sample : run.samples) sample.set("step", 5.0);
  EXPECT_THAT(run.wrong(), HasSubstr("its row says t_empty 1, the median of its samples is 5"));
}

TEST(Consistency, ACaseHasOneRow) {
  Tables run;
  run.rows.push_back(run.rows[0]);
  EXPECT_THAT(run.wrong(), HasSubstr("it has two rows"));
}

TEST(Consistency, CasesWithoutNumbersAndSamplesThatAreNotUsedAreLeftAlone) {
  Tables run;
  for (Row& sample : run.samples) {
    if (sample.at("round") == Value(std::int64_t{2})) sample.set("used", std::int64_t{0}).set("step", 99.0);
  }
  run.rows[0].set("rounds", std::int64_t{2});
  EXPECT_EQ(run.wrong(), "");
  run.rows[0].set("status", std::string("timeout")).set("rounds", std::int64_t{7});
  EXPECT_EQ(run.wrong(), "");
}

// Every bench's own arms among them.
TEST(Consistency, OfTheCommittedRuns) {
  int runs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::tests_folder().parent_path() / "results")) {
    if (!std::filesystem::exists(entry.path() / "samples.csv")) continue;
    const LoadedRun run = LoadedRun::read(entry.path(), {"samples"});
    EXPECT_EQ(inconsistency(run.rows("summary"), run.rows("samples")), "") << entry.path();
    ++runs;
  }
  EXPECT_GE(runs, 9);
}

}  // namespace
}  // namespace ovl
