// SPDX-License-Identifier: Apache-2.0
#include "app/pipeline_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "measure/bubble.hpp"
#include "results/schema.hpp"

namespace ovl {
namespace {

using testing::StartsWith;

const Schema& pipeline_schema() {
  static const Schema all = [] {
    std::vector<Column> own{{"peak_activations", ColumnType::integer, "1", ""}};
    for (Column& column : bubble_columns()) own.push_back(std::move(column));
    return summary_schema(own);
  }();
  return all;
}

TEST(PipelineTableText, HasTheBubbleBesideWhatTheScheduleLeaves) {
  Row row(pipeline_schema());
  row.set("key", std::string("pp schedule=1f1b")).set("launch", std::int64_t{0}).set("status", std::string("ok"));
  row.set("source", std::string("measured")).set("rounds", std::int64_t{20}).set("peak_activations", std::int64_t{2});
  row.set("t_step", 30e-3).set("bubble_rate", 0.25).set("bubble_rate_low", 0.24).set("bubble_rate_high", 0.26);
  row.set("bubble_rate_schedule", 0.2).set("bubble_rate_makespan", 0.27);
  row.set("t_forward", 1e-3).set("t_backward_input", 2e-3).set("t_backward_weight", 1.5e-3).set("t_transfer", 20e-6);
  row.set("verdict", std::string("idle"));
  Row unsupported(pipeline_schema());
  unsupported.set("key", std::string("pp schedule=zb_h2")).set("launch", std::int64_t{0});
  unsupported.set("status", std::string("unsupported")).set("source", std::string("model"));
  unsupported.set("reason", std::string("no rate")).set("peak_activations", std::int64_t{3});
  EXPECT_THAT(
      pipeline_table_text({row, unsupported}),
      StartsWith(
          R"(case      step           bubble [95 %]  schedule  formula  of makespan        F        B        W        c  kept   n             status
1f1b   30.0 ms  25.00 % [24.00, 26.00]   20.00 %        -      27.00 %  1.00 ms  2.00 ms  1.50 ms  20.0 us     2  20                 ok
zb_h2        -                       -         -        -            -        -        -        -        -     3   -  unsupported model

In words:
  1f1b: idle
  zb_h2: unsupported: no rate
)"));
  EXPECT_EQ(pipeline_table_text({}), "no cases\n");
}

}  // namespace
}  // namespace ovl
