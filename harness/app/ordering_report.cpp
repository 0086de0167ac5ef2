// SPDX-License-Identifier: Apache-2.0
#include "app/ordering_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "app/report.hpp"

namespace ovl {
namespace {

// The key but for the variant, and whether it is run although refused: cases that differ in these alone are compared.
std::string rest_of_key(const Row& row) {
  std::string key = text_of(row, "key");
  key = key.substr(0, key.find(" run_anyway="));
  const std::size_t begin = key.find("variant=");
  const std::size_t end = begin == std::string::npos ? begin : key.find(' ', begin);
  return end == std::string::npos ? key : key.substr(0, begin) + key.substr(end);
}

double time_of_correct(const std::vector<Row>& rows, const Row& like) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) {
    return text_of(row, "variant") == "correct" && rest_of_key(row) == rest_of_key(like) &&
           row.at("launch") == like.at("launch");
  });
  return found == rows.end() ? std::numeric_limits<double>::quiet_NaN() : real_of(*found, "t_step");
}

std::string step(const Row& row) {
  const double value = real_of(row, "t_step");
  if (std::isnan(value)) return "-";
  if (std::isnan(real_of(row, "t_step_low"))) return time_text(value);
  return fmt::format("{} [{}, {}]", time_text(value), time_text(real_of(row, "t_step_low")),
                     time_text(real_of(row, "t_step_high")));
}

}  // namespace

std::string ordering_table_text(const std::vector<Row>& rows) {
  if (rows.empty()) return "no cases\n";
  const std::vector<std::string> names = row_names(rows);
  TableLines lines{
      {"case", "step [95 %]", "against correct", "right", "elements wrong", "static check", "n", "status"}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const double against = real_of(row, "t_step") / time_of_correct(rows, row);
    const std::string correct = format_value(row.at("correct"));
    const std::string wrong = format_value(row.at("elements_wrong"));
    const std::string source = text_of(row, "source");
    lines.push_back({names[i], step(row), std::isnan(against) ? "-" : fmt::format("{:.2f}x", against),
                     correct.empty()  ? "-"
                     : correct == "1" ? "yes"
                                      : "NO",
                     wrong.empty() ? "-" : fmt::format("{} of {}", wrong, format_value(row.at("elements"))),
                     text_of(row, "static_check"),
                     std::isnan(real_of(row, "t_step")) ? "-" : format_value(row.at("rounds")),
                     text_of(row, "status") + (source == "measured" ? "" : " " + source)});
  }
  std::string text = aligned(lines);
  if (const std::string words = words_text(rows, names); !words.empty()) text += "\nIn words:\n" + words;
  return text +
         "\nstep: median of one step over n rounds. elements wrong: weights on all ranks that one replay on exact data "
         "left\n"
         "otherwise than a serial one. static check: what is known of the program before anything is launched.\n"
         "In summary.csv: t_step, correct, elements_wrong, static_check, first_finding, rounds (n).\n";
}

}  // namespace ovl
