// SPDX-License-Identifier: Apache-2.0
#include "results/comparison.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "base/error.hpp"
#include "results/cost_series.hpp"
#include "support/run_files.hpp"

namespace ovl {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::vector<double> sizes{1024, 4096, 16384, 65536, 262144, 1048576};

RunComparison compare(const std::vector<fs::path>& paths, const ComparisonOptions& options = {}) {
  std::vector<LoadedRun> runs;
  for (const fs::path& path : paths) runs.push_back(LoadedRun::read(path, {}));
  return compare_runs(runs, options);
}

const ComparedQuantity& find(const RunComparison& c, const std::string& quantity, const std::string& part = "",
                             std::size_t run = 1) {
  const auto found = std::find_if(c.quantities.begin(), c.quantities.end(), [&](const ComparedQuantity& q) {
    return q.quantity == quantity && q.run == run && q.case_name.find(part) != std::string::npos;
  });
  if (found == c.quantities.end()) throw std::out_of_range("no " + quantity + " of " + part);
  return *found;
}

TEST(CompareRuns, WorkedExample) {
  // A: 20 us + bytes / 100 GB/s. B: 30 us + bytes / 100 GB/s: alpha grew by half, beta is the same, and at 1 KiB, where
  // alpha is all, so did the time; at 1 MiB 30.49 us became 40.49 us.
  const RunFiles files;
  const RunComparison c =
      compare({files.collectives("a", 20e-6, 1e-11, 0.01, sizes), files.collectives("b", 30e-6, 1e-11, 0.01, sizes)});
  EXPECT_EQ(c.cases, 6U);
  const auto& alpha = find(c, "alpha");
  EXPECT_NEAR(alpha.comparison.ratio, 1.5, 1e-6);
  EXPECT_EQ(alpha.comparison.change, Change::slower);
  EXPECT_EQ(alpha.comparison.basis, Basis::fit);
  EXPECT_EQ(find(c, "beta").comparison.change, Change::same);
  // The size with half of the bandwidth is alpha / beta: from 2 MB to 3 MB.
  EXPECT_NEAR(find(c, "half_performance").after.value, 3e6, 1);
  EXPECT_EQ(find(c, "half_performance").comparison.change, Change::unclear);
  const auto& time = find(c, "t_comm", "1MiB");
  EXPECT_NEAR(time.comparison.ratio, 40.48576 / 30.48576, 1e-6);
  EXPECT_EQ(time.comparison.change, Change::slower);
  EXPECT_EQ(time.comparison.basis, Basis::rounds);
  EXPECT_EQ(time.case_name, "all_reduce f32 sum, 8 ranks, out of place, 1MiB");
  const auto& bandwidth = find(c, "bus_bandwidth", "1MiB");
  EXPECT_EQ(bandwidth.comparison.change, Change::slower);
  EXPECT_NEAR(bandwidth.before.interval.high, bandwidth.before.value / 0.99, 1);  // that of its time
}

TEST(CompareRuns, IdenticalRunsAreTheSame) {
  const RunFiles files;
  const fs::path a = files.collectives("a", 20e-6, 1e-11, 0.01, sizes);
  const RunComparison c = compare({a, a}, {.margin = 0.05, .limit = 0.01});
  for (const ComparedQuantity& q : c.quantities) {
    EXPECT_EQ(q.comparison.change, Change::same) << q.quantity << " of " << q.case_name;
    EXPECT_FALSE(q.beyond_limit);
  }
  EXPECT_THAT(c.differences, testing::IsEmpty());
  EXPECT_THAT(c.only_in, ElementsAre(testing::IsEmpty(), testing::IsEmpty()));
}

TEST(CompareRuns, TheLimitHasItsOwnMargin) {
  const RunFiles files;
  const auto paths = std::vector<fs::path>{files.collectives("a", 20e-6, 1e-11, 0.001, sizes),
                                           files.collectives("b", 22e-6, 1.1e-11, 0.001, sizes)};
  const RunComparison tight = compare(paths, {.margin = 0.05, .limit = 0.05});
  EXPECT_TRUE(find(tight, "t_comm", "1MiB").beyond_limit);
  const RunComparison loose = compare(paths, {.margin = 0.05, .limit = 0.2});
  EXPECT_EQ(find(loose, "t_comm", "1MiB").comparison.change, Change::slower);
  EXPECT_FALSE(find(loose, "t_comm", "1MiB").beyond_limit);
}

TEST(CompareRuns, EnvironmentsAreComparedFieldByFieldTheMachineFirst) {
  const RunFiles files;
  const json one{{"machine", {{"cpu", "one cpu"}, {"logical_cpus", 2}}},
                 {"environment", {{"NCCL_ALGO", "Ring"}}},
                 {"build", {{"flags", "-O3"}}},
                 {"schemas", {{"summary", "a hash"}}}};
  json other = one;
  other["machine"]["cpu"] = "another cpu";
  other["environment"] = {{"NCCL_PROTO", "LL"}};
  other["schemas"]["summary"] = "another hash";
  const RunComparison c = compare(
      {files.collectives("a", 20e-6, 1e-11, 0, sizes, one), files.collectives("b", 20e-6, 1e-11, 0, sizes, other)});
  std::vector<std::string> fields;
  for (const EnvironmentDifference& d : c.differences) fields.push_back(d.field);
  EXPECT_THAT(fields, ElementsAre("machine.cpu", "environment.NCCL_ALGO", "environment.NCCL_PROTO"));
  EXPECT_THAT(c.differences[0].values, ElementsAre("one cpu", "another cpu"));
  EXPECT_THAT(c.differences[1].values, ElementsAre("Ring", ""));
}

TEST(CompareRuns, CasesOfOneRunAloneAreListed) {
  const RunFiles files;
  const RunComparison c = compare(
      {files.collectives("a", 20e-6, 1e-11, 0, {1024, 4096}), files.collectives("b", 20e-6, 1e-11, 0, {4096, 16384})});
  EXPECT_EQ(c.cases, 1U);
  EXPECT_THAT(c.only_in[0], ElementsAre("all_reduce f32 sum, 8 ranks, out of place, 1KiB"));
  EXPECT_THAT(c.only_in[1], ElementsAre("all_reduce f32 sum, 8 ranks, out of place, 16KiB"));
}

TEST(CompareRuns, EachOfSeveralIsComparedWithTheFirst) {
  const RunFiles files;
  const RunComparison c =
      compare({files.collectives("a", 20e-6, 1e-11, 0, sizes), files.collectives("b", 40e-6, 1e-11, 0, sizes),
               files.collectives("c", 10e-6, 1e-11, 0, sizes)});
  EXPECT_NEAR(find(c, "alpha", "", 1).comparison.ratio, 2, 1e-6);
  EXPECT_EQ(find(c, "alpha", "", 1).comparison.change, Change::slower);
  EXPECT_NEAR(find(c, "alpha", "", 2).comparison.ratio, 0.5, 1e-6);
  EXPECT_EQ(find(c, "alpha", "", 2).comparison.change, Change::faster);
}

TEST(CompareRuns, FitsAreOfTheSizesThatBothCover) {
  // Beyond 64 KiB B would be ten times slower a byte; A ends there.
  const RunFiles files;
  const std::vector<double> small{1024, 4096, 16384, 65536};
  const std::vector<double> to_large{1024, 4096, 16384, 65536, 262144, 1048576, 4194304};
  const fs::path a = files.collectives("a", 20e-6, 1e-10, 0, small);
  const fs::path b =
      files.run("b", {{"bench", "collective"}},
                "key:t launch:i status:t source:t ranks:i collective:t dtype:t in_place:i bytes:i t_comm:r", [&] {
                  std::vector<std::string> rows;
                  for (const double bytes : to_large) {
                    rows.push_back(fmt::format("k,0,ok,measured,8,all_reduce,f32,0,{},{}", bytes,
                                               20e-6 + bytes * (bytes > 65536 ? 1e-9 : 1e-10)));
                  }
                  return rows;
                }());
  EXPECT_NEAR(find(compare({a, b}), "beta").comparison.ratio, 1, 1e-9);
}

TEST(CompareRuns, ImportedNamesAreOurs) {
  const RunFiles files;
  const fs::path measured = files.collectives("measured", 20e-6, 1e-11, 0, {1024});
  const fs::path imported =
      files.run("imported", {{"bench", "import"}},
                "key:t launch:i status:t source:t ranks:i collective:t dtype:t op:t in_place:i bytes:i t_comm:r",
                {"k,0,ok,imported,8,all_reduce,float,sum,0,1024,4e-05"});
  const RunComparison c = compare({measured, imported});
  const auto& time = find(c, "t_comm");
  EXPECT_EQ(time.source_before, "measured");
  EXPECT_EQ(time.source_after, "imported");
  EXPECT_NEAR(time.comparison.ratio, 40.0 / 20.01024, 1e-6);
  // The transport is known of one of them only: it is a difference, not another case.
  EXPECT_EQ(c.differences.back().field, "case.transport");
  EXPECT_THAT(c.differences.back().values, ElementsAre("shm", ""));
}

TEST(CompareRuns, LogsOfOneCaseInSeveralFilesAreLaunches) {
  const RunFiles files;
  const char* columns =
      "key:t launch:i status:t source:t file:t ranks:i collective:t dtype:t op:t in_place:i bytes:i t_comm:r";
  const auto rows = [](double factor) {
    std::vector<std::string> all;
    for (int i = 0; i < 5; ++i) {
      all.push_back("k,0,ok,imported,log" + std::to_string(i) + ",8,all_reduce,float,sum,0,1024," +
                    std::to_string(factor * (1e-3 + i * 1e-6)));
    }
    return all;
  };
  const RunComparison c = compare({files.run("a", {{"bench", "import"}}, columns, rows(1)),
                                   files.run("b", {{"bench", "import"}}, columns, rows(2))});
  EXPECT_EQ(find(c, "t_comm").comparison.basis, Basis::launches);
  EXPECT_EQ(find(c, "t_comm").comparison.change, Change::slower);
  EXPECT_EQ(find(c, "t_comm").comparison.reason, "");
  EXPECT_NEAR(find(c, "t_comm").before.value, 1.002e-3, 1e-9);
  EXPECT_THAT(c.remarks, Contains(HasSubstr("1 case in several files, taken as launches of one machine")));
}

TEST(CompareRuns, AnOptionThatOnlyTheKeyNamesTellsCasesApart) {
  const RunFiles files;
  const char* columns = "key:t launch:i status:t source:t ranks:i collective:t dtype:t in_place:i bytes:i t_comm:r";
  const auto row = [](const std::string& progress, double time) {
    return fmt::format("collective bytes=1KiB place=out progress={},0,ok,measured,2,all_reduce,f32,0,1024,{}", progress,
                       time);
  };
  const json bench{{"bench", "collective"}};
  const fs::path both = files.run("both", bench, columns, {row("poll", 1e-5), row("thread", 2e-5)});
  const RunComparison c = compare({both, both});
  EXPECT_EQ(c.cases, 2U);
  EXPECT_THAT(c.remarks, testing::IsEmpty());
  EXPECT_EQ(find(c, "t_comm", "progress thread").before.value, 2e-5);
  // Where each run has one, it is what is compared.
  const RunComparison one = compare({files.run("poll", bench, columns, {row("poll", 1e-5)}),
                                     files.run("thread", bench, columns, {row("thread", 2e-5)})});
  EXPECT_EQ(one.differences.back().field, "case.progress");
  EXPECT_NEAR(find(one, "t_comm").comparison.ratio, 2, 1e-9);
}

TEST(CompareRuns, RowsWithoutNumbersAreCountedAndNotCompared) {
  const RunFiles files;
  const char* columns = "key:t launch:i status:t source:t ranks:i collective:t dtype:t in_place:i bytes:i t_comm:r";
  const auto run = [&](const char* name, const char* status) {
    return files.run(name, {{"bench", "collective"}}, columns,
                     {"k,0,ok,measured,8,all_reduce,f32,0,1024,4e-05",
                      std::string("k,0,") + status + ",measured,8,all_reduce,f32,0,2048,5e-05"});
  };
  const RunComparison c = compare({run("a", "ok"), run("b", "failed_verify")});
  EXPECT_EQ(c.cases, 1U);
  EXPECT_THAT(c.remarks, ElementsAre(HasSubstr("1 row with status failed_verify not compared")));
}

const char* const pair_columns =
    "key:t launch:i status:t source:t t_compute:r t_comm:r t_serial:r t_step:r t_step_low:r t_step_high:r t_exposed:r "
    "hidden_share:r hidden_share_low:r hidden_share_high:r";

TEST(CompareRuns, HiddenShareAndExposedTimeAreComparedByDifference) {
  // 10 ms beside 8 ms. Hidden: A 7.2 of 8 ms (step 10.8), B 4 (step 14).
  const RunFiles files;
  const json pair{{"bench", "pair"}};
  const RunComparison c = compare(
      {files.run("a", pair, pair_columns,
                 {"pair gemm=g bytes=1MiB "
                  "placement=partitioned,0,ok,measured,0.010,0.008,0.018,0.0108,0.0107,0.0109,0.0008,0.9,0.88,0.92"}),
       files.run("b", pair, pair_columns,
                 {"pair gemm=g bytes=1MiB "
                  "placement=serial,0,noisy,measured,0.010,0.008,0.018,0.014,0.0139,0.0141,0.004,0.5,0.45,0.55"})});
  EXPECT_EQ(find(c, "hidden_share").comparison.change, Change::slower);
  EXPECT_THAT(find(c, "hidden_share").comparison.reason, HasSubstr("noisy"));
  EXPECT_EQ(find(c, "t_step").comparison.change, Change::slower);
  // 3.2 ms more exposed, of a step of 10.8 ms.
  EXPECT_EQ(find(c, "t_exposed").comparison.change, Change::slower);
  EXPECT_EQ(find(c, "t_compute").comparison.change, Change::same);
  // Each run has one placement: that is what is compared.
  EXPECT_EQ(c.differences.back().field, "case.placement");
  EXPECT_EQ(find(c, "t_step").case_name, "g 1MiB");
}

TEST(CompareRuns, AShareOfNextToNothingIsUnclear) {
  const RunFiles files;
  const char* row = "pair gemm=g bytes=8 placement=serial,0,ok,measured,0.010,0.0001,0.0101,0.010,,,0,0.9,0.88,0.92";
  const json pair{{"bench", "pair"}};
  const RunComparison c =
      compare({files.run("a", pair, pair_columns, {row}), files.run("b", pair, pair_columns, {row})});
  EXPECT_EQ(find(c, "hidden_share").comparison.change, Change::unclear);
  EXPECT_THAT(find(c, "hidden_share").comparison.reason, HasSubstr("under 5 % of the step"));
}

TEST(CompareRuns, LaunchesGiveTheInterval) {
  const RunFiles files;
  const json pair{{"bench", "pair"}};
  const auto rows = [](double step) {
    std::vector<std::string> all;
    for (int launch = 0; launch < 5; ++launch) {
      all.push_back("pair gemm=g bytes=1MiB," + std::to_string(launch) + ",ok,measured,0.010,0.008,0.018," +
                    std::to_string(step + launch * 1e-5) + ",0,1,0.001,0.9,0.88,0.92");
    }
    return all;
  };
  const RunComparison c =
      compare({files.run("a", pair, pair_columns, rows(0.011)), files.run("b", pair, pair_columns, rows(0.013))});
  const auto& step = find(c, "t_step");
  EXPECT_EQ(step.comparison.basis, Basis::launches);
  EXPECT_EQ(step.before.launches, 5);
  EXPECT_EQ(step.comparison.change, Change::slower);
  EXPECT_GT(step.before.interval.low, 0.0109);  // not that of the rounds, 0 to 1
}

TEST(CompareRuns, WithoutACommonCaseItIsSaidWhatDiffers) {
  const RunFiles files;
  const fs::path a = files.collectives("a", 20e-6, 1e-11, 0, {1024, 2048});
  const fs::path b = files.collectives("b", 20e-6, 1e-11, 0, {4096});
  EXPECT_THAT(
      [&] {
        compare({a, b});
      },
      ThrowsMessage<Error>(testing::AllOf(HasSubstr("have no case in common: bytes is 1024, 2048 in "),
                                          HasSubstr("measure or import the same cases"))));
  const fs::path pair = files.run("pair", {{"bench", "pair"}}, pair_columns, {});
  EXPECT_THAT(
      [&] {
        compare({a, pair});
      },
      ThrowsMessage<Error>(HasSubstr("one is of overlap-collective, the other of overlap-pair")));
  EXPECT_THAT([&] { compare({a}); }, ThrowsMessage<Error>(HasSubstr("type overlap-compare A B")));
}

TEST(LoadedRun, RefusesWhatIsNoRun) {
  const RunFiles files;
  const auto read = [](const fs::path& path) { return [path] { LoadedRun::read(path, {}); }; };
  EXPECT_THAT(read(files.folder() / "none"),
              ThrowsMessage<Error>(HasSubstr("is not a run directory: it is not there")));
  EXPECT_THAT(read(files.folder()), ThrowsMessage<Error>(HasSubstr("it has no run.json")));
  std::ofstream(files.folder() / "file") << "x";
  EXPECT_THAT(read(files.folder() / "file"), ThrowsMessage<Error>(HasSubstr("it is a file")));
  std::ofstream(files.folder() / "run.json") << "{}";
  EXPECT_THAT(read(files.folder()), ThrowsMessage<Error>(HasSubstr("does not describe one")));
}

TEST(LoadedRun, RefusesAnotherSchema) {
  const RunFiles files;
  const fs::path newer = files.run("newer", {{"bench", "pair"}}, "key:t", {"k"}, 3);
  EXPECT_THAT([&] { LoadedRun::read(newer, {}); },
              ThrowsMessage<Error>(testing::AllOf(HasSubstr("newer/summary.csv: its schema has version 3"),
                                                  HasSubstr("this build reads versions 1 to 2"))));
  const fs::path other = files.run("other", {{"bench", "pair"}}, "key:t", {});
  std::ofstream(other / "summary.csv") << "kex\n";
  EXPECT_THAT([&] { LoadedRun::read(other, {}); },
              ThrowsMessage<Error>(HasSubstr("its columns are not those of run.json")));
  std::ofstream(other / "summary.csv") << "key\n\"broken";
  EXPECT_TRUE(LoadedRun::read(other, {}).rows("summary").empty());  // it was being written
}

TEST(LoadedRun, AColumnThatIsNotThereIsUnknown) {
  const RunFiles files;
  const LoadedRun run = LoadedRun::read(files.run("old", {{"bench", "pair"}}, "key:t n:i x:r", {"k,7,"}), {"fits"});
  const Row& row = run.rows("summary").front();
  EXPECT_EQ(text_in(row, "key"), "k");
  EXPECT_EQ(text_in(row, "verdict"), "");
  EXPECT_EQ(number_in(row, "n"), 7);
  EXPECT_TRUE(std::isnan(number_in(row, "x")));
  EXPECT_TRUE(std::isnan(number_in(row, "t_step")));
  EXPECT_EQ(whole_in(row, "bytes"), std::nullopt);
  EXPECT_TRUE(run.rows("fits").empty());
}

TEST(CostSeries, ARowWithALoadedTimeIsAPointOfTwoSeries) {
  const RunFiles files;
  const LoadedRun run = LoadedRun::read(
      files.run("c", {{"bench", "collective"}},
                "key:t launch:i status:t source:t ranks:i collective:t dtype:t in_place:i bytes:i t_comm:r t_loaded:r",
                {"k,0,ok,measured,2,all_gather,f32,1,1024,1e-05,2e-05",
                 "k,1,ok,measured,2,all_gather,f32,1,1024,1.1e-05,2.1e-05"}),
      {});
  const auto series = series_in(run);
  ASSERT_EQ(series.size(), 2U);
  EXPECT_EQ(series_title(series[0].axes), "all_gather f32, 2 ranks, in place");
  EXPECT_EQ(series_title(series[1].axes), "all_gather f32, 2 ranks, in place, loaded");
  EXPECT_EQ(series[1].launches.size(), 2U);
  EXPECT_DOUBLE_EQ(series[1].launches[1].front().seconds, 2.1e-5);
}

}  // namespace
}  // namespace ovl
