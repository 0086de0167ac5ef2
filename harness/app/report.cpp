// SPDX-License-Identifier: Apache-2.0
#include "app/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/units.hpp"

namespace ovl {
namespace {

double number(const Row& row, std::string_view column) {
  const auto* value = std::get_if<double>(&row.at(column));
  return value == nullptr ? std::numeric_limits<double>::quiet_NaN() : *value;
}

std::string word(const Row& row, std::string_view column) {
  const auto* value = std::get_if<std::string>(&row.at(column));
  return value == nullptr ? "" : *value;
}

std::string time(const Row& row, std::string_view column) { return format_seconds(Seconds(number(row, column))); }

std::string percent(double share) { return std::isnan(share) ? "?" : fmt::format("{:.1f}", 100 * share); }

std::string with_interval(const Row& row, const std::string& column) {
  return fmt::format("{} % [{}, {}]", percent(number(row, column)), percent(number(row, column + "_low")),
                     percent(number(row, column + "_high")));
}

std::string integer(const Row& row, std::string_view column) { return format_value(row.at(column)); }

using Lines = std::vector<std::vector<std::string>>;

// Left-aligned first column, right-aligned others.
std::string aligned(const Lines& lines) {
  std::vector<std::size_t> width(lines.front().size());
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) width[i] = std::max(width[i], line[i].size());
  }
  std::string text;
  for (const auto& line : lines) {
    std::string out = fmt::format("{:<{}}", line[0], width[0]);
    for (std::size_t i = 1; i < line.size(); ++i) out += fmt::format("  {:>{}}", line[i], width[i]);
    text += out.substr(0, out.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

// "bench a=1 b=2" -> its words after the bench.
std::vector<std::string> words_of(const std::string& key) {
  std::istringstream stream(key);
  std::vector<std::string> words;
  for (std::string w; stream >> w;) words.push_back(w);
  if (!words.empty()) words.erase(words.begin());
  return words;
}

// Of rows of summary.csv; with the launch where there are several.
std::vector<std::string> row_names(const std::vector<Row>& rows) {
  std::vector<std::string> keys;
  std::set<std::string> launches;
  for (const Row& row : rows) {
    keys.push_back(word(row, "key"));
    launches.insert(integer(row, "launch"));
  }
  std::vector<std::string> names = distinguishing_names(keys);
  for (std::size_t i = 0; launches.size() > 1 && i < rows.size(); ++i) names[i] += " #" + integer(rows[i], "launch");
  return names;
}

}  // namespace

std::vector<std::string> distinguishing_names(const std::vector<std::string>& keys) {
  std::map<std::string, std::set<std::string>> values;  // of each axis
  const auto axis = [](const std::string& w) { return w.substr(0, w.find('=')); };
  for (const std::string& key : keys) {
    for (const std::string& w : words_of(key)) values[axis(w)].insert(w);
  }
  std::vector<std::string> names;
  for (const std::string& key : keys) {
    std::string name;
    for (const std::string& w : words_of(key)) {
      if (values[axis(w)].size() > 1) name += (name.empty() ? "" : " ") + w.substr(w.find('=') + 1);
    }
    names.push_back(name.empty() ? key.substr(0, key.find(' ')) : name);
  }
  return names;
}

std::string table_text(const std::vector<Row>& rows) {
  if (rows.empty()) return "no cases\n";
  const std::vector<std::string> names = row_names(rows);
  Lines lines{{"case", "compute", "comm", "serial", "overlapped", "bound", "speedup", "exposed", "hidden share [95 %]",
               "n", "status"}};
  bool oversubscribed = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const std::string status =
        word(row, "status") + (word(row, "source") == "measured" ? "" : " " + word(row, "source"));
    if (std::isnan(number(row, "t_step"))) {
      lines.push_back({names[i], "-", "-", "-", "-", "-", "-", "-", "-", "-", status});
      continue;
    }
    oversubscribed = oversubscribed || integer(row, "oversubscribed") == "1";
    lines.push_back({names[i], time(row, "t_compute"), time(row, "t_comm"), time(row, "t_serial"), time(row, "t_step"),
                     fmt::format("{:.2f}x", number(row, "speedup_bound")),
                     fmt::format("{:.2f}x", number(row, "speedup")), time(row, "t_exposed"),
                     with_interval(row, "hidden_share"), integer(row, "rounds"), status});
  }
  std::string text = aligned(lines) + "\nIn words:\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::string words = word(rows[i], "verdict");
    if (const std::string reason = word(rows[i], "reason"); !reason.empty()) {
      words += (words.empty() ? "" : " | ") + word(rows[i], "status") + ": " + reason;
    }
    if (!words.empty()) text += fmt::format("  {}: {}\n", names[i], words);
  }
  text +=
      "\nTimes are medians of one operation. hidden share = (compute + comm - overlapped) / min(compute, comm):\n"
      "100 % hides all that can hide, 0 % is one after the other, below 0 % is worse than that.\n";
  if (oversubscribed) text += "Fewer cores than busy lanes: lanes share cores as the column layout says.\n";
  return text;
}

std::string rows_as_csv(const Schema& schema, const std::vector<Row>& rows) {
  std::string text = csv_header(schema);
  for (const Row& row : rows) text += csv_line(row);
  return text;
}

std::string rows_as_json(const std::vector<Row>& rows) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    nlohmann::ordered_json object;
    for (std::size_t i = 0; i < row.values().size(); ++i) {
      const std::string& column = row.schema().columns[i].name;
      object[column] = nullptr;
      const Value& value = row.values()[i];
      if (const auto* t = std::get_if<std::string>(&value)) object[column] = *t;
      if (const auto* n = std::get_if<std::int64_t>(&value)) object[column] = *n;
      if (const auto* d = std::get_if<double>(&value)) object[column] = *d;
    }
    array.push_back(std::move(object));
  }
  return array.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace ovl
