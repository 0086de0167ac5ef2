// SPDX-License-Identifier: Apache-2.0
#include "app/ordering_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "results/schema.hpp"

namespace ovl {
namespace {

using testing::StartsWith;

const Schema& ordering_schema() {
  static const Schema all = summary_schema({{"variant", ColumnType::text, "", ""},
                                            {"elements", ColumnType::integer, "1", ""},
                                            {"static_check", ColumnType::text, "", ""},
                                            {"correct", ColumnType::integer, "1", ""},
                                            {"elements_wrong", ColumnType::integer, "1", ""}});
  return all;
}

Row ordering_row(const std::string& variant, const std::string& check, const std::string& status) {
  Row row(ordering_schema());
  row.set("key", "ordering variant=" + variant + " ranks=2").set("launch", std::int64_t{0}).set("status", status);
  row.set("source", std::string("measured")).set("variant", variant).set("static_check", check);
  row.set("elements", std::int64_t{768});
  return row;
}

void set_result(Row& row, double step, std::int64_t wrong) {
  row.set("t_step", step).set("t_step_low", step).set("t_step_high", step).set("rounds", std::int64_t{20});
  row.set("correct", std::int64_t{wrong == 0}).set("elements_wrong", wrong);
}

TEST(OrderingTableText, HasTimeResultAndWhatWasKnownBefore) {
  Row correct = ordering_row("correct", "none", "ok");
  set_result(correct, 16e-3, 0);
  Row racy = ordering_row("missing_producer_event", "race x 6", "ok");
  set_result(racy, 12e-3, 768);
  Row refused = ordering_row("rank_misorder", "mismatch x 1", "skipped");
  refused.set("reason", std::string("refused before launch"));
  EXPECT_THAT(
      ordering_table_text({correct, racy, refused}),
      StartsWith(
          R"(case                                   step [95 %]  against correct  right  elements wrong  static check   n   status
correct                 16.0 ms [16.0 ms, 16.0 ms]            1.00x    yes        0 of 768          none  20       ok
missing_producer_event  12.0 ms [12.0 ms, 12.0 ms]            0.75x     NO      768 of 768      race x 6  20       ok
rank_misorder                                    -                -      -               -  mismatch x 1   -  skipped

In words:
  rank_misorder: skipped: refused before launch
)"));
}

}  // namespace
}  // namespace ovl
