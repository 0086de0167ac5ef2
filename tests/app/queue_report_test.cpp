// SPDX-License-Identifier: Apache-2.0
#include "app/queue_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "measure/queue.hpp"
#include "results/schema.hpp"

namespace ovl {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const Schema& queue_rows_schema() {
  static const Schema all = [] {
    std::vector<Column> own{{"lanes", ColumnType::integer, "1", ""}, {"backlog", ColumnType::integer, "1", ""}};
    for (Column& c : queue_columns()) own.push_back(std::move(c));
    return summary_schema(own);
  }();
  return all;
}

Row queue_row(const std::string& load, std::int64_t lanes = 1, const std::string& status = "ok") {
  Row row(queue_rows_schema());
  row.set("key", "queue load=" + load + " backlog=4 lanes=" + std::to_string(lanes) + " ranks=2");
  row.set("launch", std::int64_t{0}).set("status", status).set("source", std::string("measured"));
  row.set("lanes", lanes).set("rounds", std::int64_t{20});
  return row;
}

Row growing(std::int64_t lanes = 1) {
  Row row = queue_row("1.33", lanes);
  row.set("utilization", 4.0 / 3).set("arrival_rate", 4.0).set("backlog_most", 12.0);
  row.set("capacity", 3.0).set("capacity_low", 2.9).set("capacity_high", 3.1);
  row.set("growth_rate", 1.0).set("growth_rate_low", 0.9).set("growth_rate_high", 1.1);
  row.set("fluid_growth_rate", 1.0).set("fluid_drain_time", HUGE_VAL).set("steady_state", std::string("unstable"));
  row.set("in_system", 8.0).set("time_in_system", 2.0).set("little_gap", 1e-15);
  return row;
}

Row draining() {
  Row row = queue_row("0.67");
  row.set("utilization", 2.0 / 3).set("arrival_rate", 2.0).set("backlog_most", 4.0).set("capacity", 3.0);
  row.set("growth_rate", -1.0).set("fluid_growth_rate", -1.0).set("fluid_drain_time", 4.0).set("drain_time", 3.75);
  row.set("steady_state", std::string("stable")).set("in_system", 1.5).set("time_in_system", 0.75);
  row.set("in_queue", 0.8).set("time_in_queue", 0.4).set("little_gap", 0.0);
  row.set("mm1_in_system", 2.0)
      .set("mm1_time_in_system", 1.0)
      .set("mm1_in_queue", 4.0 / 3)
      .set("mm1_time_in_queue", 2.0 / 3);
  row.set("md1_in_system", 4.0 / 3)
      .set("md1_time_in_system", 2.0 / 3)
      .set("md1_in_queue", 2.0 / 3)
      .set("md1_time_in_queue", 1.0 / 3);
  return row;
}

TEST(QueueTableText, HasWhatWasMeasuredBesideTheFluidLine) {
  Row refused = queue_row("9", 1, "unsupported");
  refused.set("reason", std::string("too many"));
  EXPECT_THAT(
      queue_table_text({growing(), draining(), refused}),
      StartsWith(
          R"(case    rho  arrivals/s  served/s [95 %]  growth/s [95 %]  fluid  first empty [95 %]   fluid  most   n       status
1.33   1.33           4     3 [2.9, 3.1]     1 [0.9, 1.1]      1                   -   never    12  20           ok
0.67  0.667           2                3               -1     -1              3.75 s  4.00 s     4  20           ok
9         -           -                -                -      -                   -       -     -   -  unsupported

In words:
  9: unsupported: too many
)"));
}

TEST(QueueTableText, TheSteadyStateIsAPartOfItsOwnAndNeverNegative) {
  const std::string text = queue_table_text({growing(), draining()});
  EXPECT_THAT(text, HasSubstr(R"(
case          of         L         W        Lq        Wq
1.33  this queue         8    2.00 s         -         -
           M/M/1  unstable  unstable  unstable  unstable
           M/D/1  unstable  unstable  unstable  unstable
0.67  this queue       1.5    750 ms       0.8    400 ms
           M/M/1         2    1.00 s      1.33    667 ms
           M/D/1      1.33    667 ms     0.667    333 ms
)"));
  EXPECT_THAT(text, HasSubstr("M/M/1  Poisson arrivals; exponential service times; one server"));
  EXPECT_THAT(text, HasSubstr("each counted by itself: holds in every case."));
  Row broken = draining();
  broken.set("little_gap", 0.02);
  EXPECT_THAT(queue_table_text({growing(), broken}), HasSubstr("BROKEN by up to 0.02"));
}

TEST(QueueTableText, WhatSeveralLanesServeIsSaidByTheData) {
  const auto with_gain = [](double gain, double low, double high) {
    Row two = growing(2);
    two.set("capacity_gain", gain).set("capacity_gain_low", low).set("capacity_gain_high", high);
    two.set("time_in_system", 1.0).set("steady_state", std::string("several servers"));
    return queue_table_text({growing(), two});
  };
  EXPECT_THAT(
      with_gain(1.02, 0.98, 1.05),
      HasSubstr("  2: 2 lanes serve 1.02x [0.98, 1.05] what one does: capacity does not rise; an operation is in "
                "the system 2.00 s of the same total over one lane and 1.00 s here, 0.5x\n"));
  EXPECT_THAT(with_gain(1.9, 1.8, 2.0), HasSubstr("what one does: capacity rises;"));
  EXPECT_THAT(with_gain(1.1, 1.0, 1.2), HasSubstr("whether capacity rises is unclear;"));
  EXPECT_THAT(queue_table_text({growing()}), Not(HasSubstr("Over several lanes")));
}

TEST(QueueTableText, AMarkedRowSaysSo) {
  Row row = growing();
  row.set("mark", std::string("late")).set("verdict", std::string("MARKED, late"));
  EXPECT_THAT(queue_table_text({row}), HasSubstr(" ok MARKED\n"));
  EXPECT_EQ(queue_table_text({}), "no cases\n");
}

}  // namespace
}  // namespace ovl
