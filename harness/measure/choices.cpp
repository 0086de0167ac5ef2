// SPDX-License-Identifier: Apache-2.0
#include "measure/choices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/random.hpp"
#include "base/units.hpp"
#include "measure/summary.hpp"
#include "metrics/choice.hpp"
#include "program/projection.hpp"
#include "results/loaded_run.hpp"
#include "results/schema.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

// "ddp a=1 bucket=4KiB b=2" without "bucket=4KiB".
std::string without(const std::string& key, const std::string& option) {
  const std::size_t at = key.find(" " + option + "=");
  if (at == std::string::npos) return key;
  const std::size_t end = key.find(' ', at + 1);
  return key.substr(0, at) + (end == std::string::npos ? "" : key.substr(end));
}

// By case, round and arm: the steps of one operation.
using Steps = std::map<CaseId, std::map<std::int64_t, std::map<std::string, std::vector<double>>>>;

Steps steps_of(const std::vector<Row>& samples) {
  Steps steps;
  for (const Row& row : samples) {
    const std::string arm = text_in(row, "arm");
    if (whole_in(row, "used") != 1 || whole_in(row, "rank") != 0) continue;
    if (arm != name(Arm::compute) && arm != name(Arm::overlapped)) continue;
    const auto repeats = static_cast<double>(whole_in(row, "repeats").value_or(1));
    steps[case_of(row)][whole_in(row, "round").value_or(0)][arm].push_back(number_in(row, "step") / repeats);
  }
  return steps;
}

struct Swept {
  double place = 0;
  std::string text;
  SweptValue swept;

  // Then its resamples make no interval (measure/summary.hpp).
  [[nodiscard]] bool scatters_in_few_rounds() const {
    if (std::ssize(swept.step) >= fewest_rounds) return false;
    const auto constant = [](const std::vector<double>& values) {
      return std::all_of(values.begin(), values.end(), [&](double v) { return v == values.front(); });
    };
    return !constant(swept.step) || !constant(swept.compute);
  }
};

struct Series {
  std::string key;
  std::string left_out;  // values without numbers, and why
  std::vector<const Row*> rows;
  std::vector<Swept> values;  // in the order of the axis
};

void add(Series& series, const SweptOption& option, const Row& row, const Steps& steps) {
  series.rows.push_back(&row);
  const auto found = steps.find(case_of(row));
  if (found == steps.end()) return;
  const std::string text = text_in(row, option.name);
  auto at = std::find_if(series.values.begin(), series.values.end(), [&](const Swept& v) { return v.text == text; });
  if (at == series.values.end()) at = series.values.insert(at, Swept{option.place(row), text, {}});
  for (const auto& [round, arms] : found->second) {
    if (arms.size() < 2) continue;
    at->swept.compute.push_back(median(arms.at(std::string(name(Arm::compute)))));
    at->swept.step.push_back(median(arms.at(std::string(name(Arm::overlapped)))));
  }
}

bool few_rounds(const std::vector<Swept>& values) {
  return std::any_of(values.begin(), values.end(), [](const Swept& v) { return v.scatters_in_few_rounds(); });
}

std::string verdict(const std::vector<Swept>& values, const Choice& choice, std::size_t recommended,
                    std::size_t reference) {
  if (few_rounds(values)) return "unclear: too few rounds for an interval; measure longer (--min-samples, --max-time)";
  if (!choice.clear) return "unclear: any of them may expose least; measure longer, or with --launches 5";
  std::string text = fmt::format("{} exposes least", values[choice.best].text);
  if (recommended != choice.best) text += fmt::format(", {} not measurably more", values[recommended].text);
  if (reference == values.size() || reference == recommended) return text;
  const std::string& of = values[reference].text;
  if (choice.gain_interval.low > 0) return text + fmt::format("; {} exposes more", of);
  return text + fmt::format("; {} not measurably more", of);
}

std::string without_numbers(const SweptOption& option, const Row& row) {
  return fmt::format("{} ({})", text_in(row, option.name), text_in(row, "status"));
}

Row row_of(const SweptOption& option, const Series& series) {
  const std::vector<Swept>& values = series.values;
  std::vector<SweptValue> swept;
  for (const Swept& v : values) swept.push_back(v.swept);
  const auto reference = static_cast<std::size_t>(
      std::find_if(values.begin(), values.end(), [&](const Swept& v) { return v.text == option.reference; }) -
      values.begin());
  const Choice choice = choose(swept, reference, hash64(series.key));
  const std::size_t recommended = option.first_that_suffices ? choice.least : choice.best;
  Row row(choices_schema());
  row.set("series", series.key).set("option", option.name).set("values", std::ssize(values));
  row.set("recommended", values[recommended].text).set("best", values[choice.best].text);
  row.set("best_low", values[choice.low].text).set("best_high", values[choice.high].text);
  row.set("t_exposed", values[choice.best].swept.exposed());
  const bool known = !few_rounds(values);
  if (known) row.set("t_exposed_low", choice.exposed.low).set("t_exposed_high", choice.exposed.high);
  if (reference < values.size()) row.set("reference", option.reference);
  row.set("gain", choice.gain);
  if (known) row.set("gain_low", choice.gain_interval.low).set("gain_high", choice.gain_interval.high);
  if (option.predicted) row.set("predicted", option.predicted(series.rows));
  std::string words = verdict(values, choice, recommended, reference);
  if (!series.left_out.empty()) words += "; not among them: " + series.left_out;
  return row.set("verdict", words);
}

}  // namespace

std::vector<Row> choice_rows(const SweptOption& option, const std::vector<Row>& summary,
                             const std::vector<Row>& samples) {
  const Steps steps = steps_of(samples);
  std::vector<Series> all;
  for (const Row& row : summary) {
    const std::string status = text_in(row, "status");
    const std::string key = without(text_in(row, "key"), option.name);
    auto at = std::find_if(all.begin(), all.end(), [&](const Series& s) { return s.key == key; });
    if (at == all.end()) at = all.insert(at, Series{key, {}, {}, {}});
    if (status != "ok" && status != "noisy") {
      at->left_out += (at->left_out.empty() ? "" : ", ") + without_numbers(option, row);
      continue;
    }
    add(*at, option, row, steps);
  }
  std::vector<Row> rows;
  for (Series& series : all) {
    std::erase_if(series.values, [&](const Swept& v) {
      if (v.swept.step.size() >= 2) return false;
      series.left_out += fmt::format("{}{} (one round)", series.left_out.empty() ? "" : ", ", v.text);
      return true;
    });
    std::stable_sort(series.values.begin(), series.values.end(),
                     [](const Swept& a, const Swept& b) { return a.place < b.place; });
    if (series.values.size() > 1) rows.push_back(row_of(option, series));
  }
  return rows;
}

}  // namespace ovl
