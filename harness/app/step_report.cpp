// SPDX-License-Identifier: Apache-2.0
#include "app/step_report.hpp"

#include <fmt/format.h>

#include <cmath>

#include "app/report.hpp"

namespace ovl {
namespace {

std::string exposed(const Row& row, const std::string& column) {
  const double value = real_of(row, column);
  if (std::isnan(value)) return "-";
  const double low = real_of(row, column + "_low");
  const double high = real_of(row, column + "_high");
  std::string text = time_text(value);
  if (high > low) text += fmt::format(" [{}, {}]", time_text(low), time_text(high));
  return text;
}

}  // namespace

std::string step_table_text(const std::vector<Row>& rows) {
  if (rows.empty()) return "no cases\n";
  std::vector<std::string> names = row_names(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    names[i] = fmt::format("{} (t{} p{} d{})", names[i], format_value(rows[i].at("tensor")),
                           format_value(rows[i].at("stages")), format_value(rows[i].at("data")));
  }
  TableLines lines{{"case", "step", "compute", "tensor exposes", "pipeline exposes", "data exposes", "together",
                    "memory", "FLOP/s", "n", "status"}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const std::string source = text_of(row, "source");
    const std::string status = text_of(row, "status") + (source == "measured" ? "" : " " + source);
    const double step = real_of(row, "t_step");
    const std::string memory =
        fmt::format("{:.3g} GB", static_cast<double>(std::get<std::int64_t>(row.at("memory"))) / 1e9);
    if (std::isnan(step)) {
      lines.push_back({names[i], "-", "-", "-", "-", "-", "-", memory, "-", "-", status});
      continue;
    }
    lines.push_back(
        {names[i], time_text(step), time_text(real_of(row, "t_compute")), exposed(row, "exposed_tensor"),
         exposed(row, "exposed_pipeline"), exposed(row, "exposed_data"), time_text(real_of(row, "exposed_together")),
         memory, fmt::format("{:.3g}", real_of(row, "model_flops") / step), format_value(row.at("rounds")), status});
  }
  std::string text = aligned(lines);
  if (const std::string words = words_text(rows, names); !words.empty()) text += "\nIn words:\n" + words;
  return text +
         "\nMedians of one step over n rounds; (t p d): ranks that a layer is cut over, stages, replicas.\n"
         "  compute  the slowest stage where nobody waits\n"
         "  exposes  what the step has beyond one whose collectives of that kind take no time; of the pipeline what "
         "is\n"
         "           left beyond compute without the others: bubble and transfers. - where the step is not cut that "
         "way\n"
         "  together what two of them expose only together (below 0: claim both), so that all add up to step - "
         "compute\n"
         "  memory   buffers of a rank\n"
         "  FLOP/s   what the model needs of a rank / step: over the device's peak that is the model FLOPs "
         "utilisation\n"
         "In summary.csv: t_step, t_compute, exposed_tensor, exposed_pipeline, exposed_data, exposed_together, "
         "memory,\n"
         "model_flops, rounds (n).\n";
}

}  // namespace ovl
