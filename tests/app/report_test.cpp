// SPDX-License-Identifier: Apache-2.0
#include "app/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "results/schema.hpp"

namespace ovl {
namespace {

const Schema& report_schema() {
  static const Schema summary = summary_schema({{"gemm", ColumnType::text, "", "shape"}});
  return summary;
}

Row report_row(const std::string& placement, const std::string& bytes, const std::string& status) {
  Row row(report_schema());
  row.set("key", "pair gemm=64x64x64 bytes=" + bytes + " placement=" + placement).set("bench", std::string("pair"));
  row.set("launch", std::int64_t{0}).set("status", status).set("source", std::string("measured"));
  return row;
}

// A row whose GEMM takes 3 ms and whose collective 2 ms, alone.
Row with_numbers(Row row, double step_ms, double low, double high) {
  const double share = (3 + 2 - step_ms) / 2;
  row.set("t_compute", 3e-3).set("t_comm", 2e-3).set("t_serial", 5.1e-3).set("t_step", step_ms * 1e-3);
  row.set("speedup_bound", 5.0 / 3).set("speedup", 5 / step_ms).set("t_exposed", (step_ms - 3) * 1e-3);
  row.set("hidden_share", share).set("hidden_share_low", low).set("hidden_share_high", high);
  return row.set("rounds", std::int64_t{20}).set("oversubscribed", std::int64_t{0});
}

// One row of each kind. 3 + 2 - 3.6 of 2 ms hide: 70 %. 3 + 2 - 5.5: -25 %, worse than serial, and exposed 2.5 ms.
TEST(TableText, NamesRowsByWhatDiffersAndTellsEachInWords) {
  std::vector<Row> rows;
  rows.push_back(with_numbers(report_row("concurrent", "1MiB", "ok"), 3.6, 0.65, 0.75));
  rows.back().set("verdict", std::string("hides 70 %"));
  rows.push_back(with_numbers(report_row("serial", "1MiB", "noisy"), 5.5, -0.5, -0.125));
  rows.back().set("verdict", std::string("worse than serial")).set("reason", std::string("steal_share 0.2"));
  rows.push_back(report_row("graph", "1MiB", "unsupported"));
  rows.back().set("reason", std::string("no graphs here"));
  rows.push_back(with_numbers(report_row("concurrent", "2MiB", "ok"), 3, unknown_number, unknown_number));
  rows.back()
      .set("t_serial", unknown_number)
      .set("source", std::string("model"))
      .set("oversubscribed", std::int64_t{1});
  EXPECT_EQ(
      table_text(rows),
      R"(case             compute     comm   serial  overlapped  bound  speedup  exposed     hidden share [95 %]   n       status
1MiB concurrent  3.00 ms  2.00 ms  5.10 ms     3.60 ms  1.67x    1.39x   600 us     70.0 % [65.0, 75.0]  20           ok
1MiB serial      3.00 ms  2.00 ms  5.10 ms     5.50 ms  1.67x    0.91x  2.50 ms  -25.0 % [-50.0, -12.5]  20        noisy
1MiB graph             -        -        -           -      -        -        -                       -   -  unsupported
2MiB concurrent  3.00 ms  2.00 ms  unknown     3.00 ms  1.67x    1.67x      0 s                 100.0 %  20     ok model

In words:
  1MiB concurrent: hides 70 %
  1MiB serial: worse than serial | noisy: steal_share 0.2
  1MiB graph: unsupported: no graphs here

Medians of one operation over n rounds: each part alone, one after the other on one lane (serial), both at once (overlapped).
  bound         (compute + comm) / max(compute, comm): no speedup can be more
  speedup       (compute + comm) / overlapped
  exposed       overlapped - compute: communication left on the wall clock
  hidden share  (compute + comm - overlapped) / min(compute, comm): 100 % hides all that can hide, 0 % is one after
                the other, below 0 % is worse than that; - where the smaller part is under 5 % of the step
In summary.csv: t_compute, t_comm, t_serial, t_step (overlapped), speedup_bound, speedup, t_exposed, hidden_share, rounds (n).
Fewer cores than busy lanes: lanes share cores as the column layout of summary.csv says.
)");
}

// 10 us of communication beside 3 ms of compute: a share of 10 us tells nothing, and half a per cent is no loss.
TEST(TableText, LeavesOutTheShareOfNextToNothing) {
  Row row = with_numbers(report_row("serial", "1MiB", "ok"), 3.0, -521.74, 17);
  row.set("t_comm", 10e-6).set("hidden_share", -521.74);
  const std::string text = table_text({row});
  EXPECT_EQ(text.find("521"), std::string::npos) << text;
  EXPECT_NE(text.find("10.0 us"), std::string::npos) << text;
}

TEST(TableText, TimesHaveThreeDigits) {
  Row row = with_numbers(report_row("serial", "1MiB", "ok"), 3.6, 0.65, 0.75);
  row.set("t_compute", 999.6e-6).set("t_comm", 1.2345).set("t_serial", 12.34e-9).set("t_exposed", -98.76e-3);
  const std::string text = table_text({row});
  for (const char* time : {" 1.00 ms ", " 1.23 s ", " 12.3 ns ", " -98.8 ms "}) {
    EXPECT_NE(text.find(time), std::string::npos) << time << text;
  }
}

TEST(TableText, SaysSoWhenThereAreNoCases) { EXPECT_EQ(table_text({}), "no cases\n"); }

TEST(TableText, NamesLaunchesWhereThereAreSeveral) {
  std::vector<Row> rows{report_row("serial", "1MiB", "skipped"), report_row("serial", "1MiB", "skipped")};
  rows[1].set("launch", std::int64_t{1});
  const std::string text = table_text(rows);
  EXPECT_NE(text.find("64x64x64 1MiB serial #0"), std::string::npos) << text;
  EXPECT_NE(text.find("64x64x64 1MiB serial #1"), std::string::npos) << text;
}

TEST(DistinguishingNames, AreTheValuesOfTheAxesThatDiffer) {
  EXPECT_EQ(distinguishing_names({"pair a=1 b=2 c=3", "pair a=1 b=4 c=3", "pair a=1 b=4 c=5"}),
            (std::vector<std::string>{"2 3", "4 3", "4 5"}));
}

TEST(DistinguishingNames, OfALoneCaseAreItsShapeSizeAndPlacement) {
  EXPECT_EQ(distinguishing_names({"pair gemm=64x64x64 collective=all_reduce bytes=1MiB placement=serial ranks=2"}),
            std::vector<std::string>{"64x64x64 1MiB serial"});
}

TEST(DistinguishingNames, AreTheBenchWhereNothingTells) {
  EXPECT_EQ(distinguishing_names({"pair a=1", "pair a=1"}), (std::vector<std::string>{"pair", "pair"}));
  EXPECT_EQ(distinguishing_names({}), std::vector<std::string>{});
}

TEST(ExposedText, NamesTheLargestPartsOfEveryCase) {
  Row first = report_row("graph", "1MiB", "ok");
  const Row measured = report_row("serial", "1MiB", "ok");
  first.set("t_exposed", 4e-3);
  first.set("exposed_by", std::string("all_reduce@data:transfer=0.003;all_reduce@data:shared(gemm@compute)=0.001"));
  EXPECT_THAT(exposed_text({first, measured}),
              testing::StartsWith("Exposed, by operation@lane and cause (model):\n"
                                  "case         operation                 cause     time  of exposed\n"
                                  "graph  all_reduce@data              transfer  3.00 ms      75.0 %\n"
                                  "       all_reduce@data  shared(gemm@compute)  1.00 ms      25.0 %\n"));
  EXPECT_EQ(exposed_text({measured}), "") << "what was measured does not know";
  EXPECT_EQ(exposed_text({}), "");
}

TEST(RowsAsCsv, IsTheHeaderAndEveryColumnOfEveryRow) {
  const std::vector<Row> rows{report_row("graph", "1MiB", "unsupported")};
  EXPECT_EQ(rows_as_csv(report_schema(), rows), csv_header(report_schema()) + csv_line(rows[0]));
  EXPECT_EQ(rows_as_csv(report_schema(), {}), csv_header(report_schema()));
}

TEST(RowsAsJson, KeepsTypesAndWritesTheUnknownAsNull) {
  Row row = with_numbers(report_row("serial", "1MiB", "ok"), 5.5, -0.5, -0.125);
  row.set("reason", std::string("caf\xC3\xA9, \"quoted\""));
  const auto read = nlohmann::json::parse(rows_as_json({row}));
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].size(), report_schema().columns.size());
  EXPECT_EQ(read[0]["hidden_share"], -0.25);
  EXPECT_EQ(read[0]["rounds"], 20);
  EXPECT_TRUE(read[0]["rounds"].is_number_integer());
  EXPECT_EQ(read[0]["reason"], "caf\xC3\xA9, \"quoted\"");
  EXPECT_TRUE(read[0]["t_path"].is_null());
}

TEST(RowsAsJson, IsJsonForBytesThatAreNoText) {
  Row row = report_row("serial", "1MiB", "ok");
  row.set("reason", std::string("bad \xFF byte"));
  EXPECT_EQ(nlohmann::json::parse(rows_as_json({row}))[0]["reason"], "bad \xEF\xBF\xBD byte");
  EXPECT_EQ(rows_as_json({}), "[]\n");
}

// ---- choices -------------------------------------------------------------------------------------------------------

Row choice(const std::string& series) {
  Row row(choices_schema());
  row.set("series", series).set("option", std::string("bucket")).set("recommended", std::string("1MiB"));
  row.set("best", std::string("1MiB")).set("best_low", std::string("256KiB")).set("best_high", std::string("1MiB"));
  row.set("t_exposed", 1e-3).set("t_exposed_low", 0.9e-3).set("t_exposed_high", 1.1e-3);
  return row.set("verdict", std::string("1MiB exposes least"));
}

TEST(ChoicesText, SaysWhatIsRecommendedHowSureThatIsAndWhatItGains) {
  Row row = choice("ddp c=1");
  row.set("reference", std::string("25MiB")).set("gain", 2e-3).set("gain_low", 1e-3).set("gain_high", 3e-3);
  row.set("predicted", std::string("closed form: 3 buckets"));
  EXPECT_EQ(
      choices_text({row}),
      "Recommended:\n"
      "  bucket 1MiB (best 1MiB [256KiB .. 1MiB], exposes 1.00 ms [900 us, 1.10 ms]); 25MiB exposes 2.00 ms [1.00 "
      "ms, 3.00 ms] more\n"
      "    1MiB exposes least\n"
      "    closed form: 3 buckets\n");
}

TEST(ChoicesText, NamesSeriesByWhatDiffersAndIsNothingWithoutAny) {
  EXPECT_EQ(choices_text({}), "");
  Row other = choice("ddp c=2");
  other.set("best_low", std::string("1MiB"));
  EXPECT_EQ(choices_text({choice("ddp c=1"), other}),
            "Recommended:\n"
            "  1: bucket 1MiB (best 1MiB [256KiB .. 1MiB], exposes 1.00 ms [900 us, 1.10 ms])\n"
            "    1MiB exposes least\n"
            "  2: bucket 1MiB (best 1MiB [1MiB], exposes 1.00 ms [900 us, 1.10 ms])\n"
            "    1MiB exposes least\n");
}

}  // namespace
}  // namespace ovl
