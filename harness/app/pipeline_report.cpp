// SPDX-License-Identifier: Apache-2.0
#include "app/pipeline_report.hpp"

#include <fmt/format.h>

#include <cmath>

#include "app/report.hpp"

namespace ovl {
namespace {

std::string bubble_percent(double share) { return std::isnan(share) ? "-" : fmt::format("{:.2f} %", 100 * share); }

std::string bubble(const Row& row) {
  const double low = real_of(row, "bubble_rate_low");
  const double high = real_of(row, "bubble_rate_high");
  std::string text = bubble_percent(real_of(row, "bubble_rate"));
  if (high > low) text += fmt::format(" [{:.2f}, {:.2f}]", 100 * low, 100 * high);
  return text;
}

}  // namespace

std::string pipeline_table_text(const std::vector<Row>& rows) {
  if (rows.empty()) return "no cases\n";
  const std::vector<std::string> names = row_names(rows);
  TableLines lines{{"case", "step", "bubble [95 %]", "schedule", "formula", "of makespan", "F", "B", "W", "c", "kept",
                    "n", "status"}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const std::string source = text_of(row, "source");
    const std::string status = text_of(row, "status") + (source == "measured" ? "" : " " + source);
    if (std::isnan(real_of(row, "t_step"))) {
      lines.push_back({names[i], "-", "-", "-", "-", "-", "-", "-", "-", "-", format_value(row.at("peak_activations")),
                       "-", status});
      continue;
    }
    const auto time = [&](const char* column) { return time_text(real_of(row, column)); };
    lines.push_back({names[i], time("t_step"), bubble(row), bubble_percent(real_of(row, "bubble_rate_schedule")),
                     bubble_percent(real_of(row, "bubble_rate_formula")),
                     bubble_percent(real_of(row, "bubble_rate_makespan")), time("t_forward"), time("t_backward_input"),
                     time("t_backward_weight"), time("t_transfer"), format_value(row.at("peak_activations")),
                     format_value(row.at("rounds")), status});
  }
  std::string text = aligned(lines);
  if (const std::string words = words_text(rows, names); !words.empty()) text += "\nIn words:\n" + words;
  return text +
         "\nMedians of one step over n rounds.\n"
         "  bubble      share of the longest stage span, from a stage's first start to its last end, in which it does "
         "not\n"
         "              compute: 1 - (the slowest stage where nobody waits) / span\n"
         "  schedule    the same of the schedule in virtual time, in F, B, W and c: more than this is contention, "
         "launch\n"
         "              and waiting\n"
         "  formula     likewise in closed form; - where it does not hold: gpipe with transfers, transfers that are\n"
         "              received late or of microbatches that are no multiple of the stages, zb_h1 with fewer\n"
         "              microbatches than stages, zb_h2 with fewer than 2 stages - 1\n"
         "  of makespan the same of step, from the first start to the last end of any stage\n"
         "  F, B, W, c  forward pass, gradients of inputs and of weights of a microbatch on a stage, each alone; a "
         "transfer\n"
         "  kept        forward steps whose input the stage with most keeps at once, of a chunk where there are "
         "several\n"
         "In summary.csv: t_step, bubble_rate, bubble_rate_schedule, bubble_rate_formula, bubble_rate_makespan, "
         "t_forward,\n"
         "t_backward_input, t_backward_weight, t_transfer, peak_activations, rounds (n).\n";
}

}  // namespace ovl
