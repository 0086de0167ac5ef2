// SPDX-License-Identifier: Apache-2.0
#include "app/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/units.hpp"
#include "metrics/overlap.hpp"

namespace ovl {
namespace {

std::string time(const Row& row, std::string_view column) { return time_text(real_of(row, column)); }

std::string percent(double share) { return std::isnan(share) ? "?" : fmt::format("{:.1f}", 100 * share); }

// A share of a part that is next to nothing is a number without meaning; summary.csv keeps it.
bool little_to_hide(const Row& row) {
  const ArmTimes times{Seconds(real_of(row, "t_compute")), Seconds(real_of(row, "t_comm")),
                       Seconds(real_of(row, "t_serial")), Seconds(real_of(row, "t_step"))};
  return watched_statistic(times) == Watched::exposed_fraction;
}

std::string share_with_interval(const Row& row, const std::string& column) {
  if (std::isnan(real_of(row, column + "_low"))) return percent(real_of(row, column)) + " %";
  return fmt::format("{} % [{}, {}]", percent(real_of(row, column)), percent(real_of(row, column + "_low")),
                     percent(real_of(row, column + "_high")));
}

std::string integer(const Row& row, std::string_view column) { return format_value(row.at(column)); }

// "bench a=1 b=2" -> its words after the bench.
std::vector<std::string> words_of(const std::string& key) {
  std::istringstream stream(key);
  std::vector<std::string> words;
  for (std::string w; stream >> w;) words.push_back(w);
  if (!words.empty()) words.erase(words.begin());
  return words;
}

// Of a case that no axis tells from others: what it moves and multiplies, else its bench.
std::string name_alone(const std::string& key) {
  std::string name;
  for (const std::string& w : words_of(key)) {
    const bool telling = w.starts_with("gemm=") || w.starts_with("bytes=") || w.starts_with("placement=");
    if (telling) name += (name.empty() ? "" : " ") + w.substr(w.find('=') + 1);
  }
  return name.empty() ? key.substr(0, key.find(' ')) : name;
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
    names.push_back(name.empty() ? name_alone(key) : name);
  }
  return names;
}

std::string aligned(const TableLines& lines) {
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

double real_of(const Row& row, std::string_view column) {
  const auto* value = std::get_if<double>(&row.at(column));
  return value == nullptr ? std::numeric_limits<double>::quiet_NaN() : *value;
}

std::string text_of(const Row& row, std::string_view column) {
  const auto* value = std::get_if<std::string>(&row.at(column));
  return value == nullptr ? "" : *value;
}

std::string time_text(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  if (seconds == 0) return "0 s";
  const double rounded = std::stod(fmt::format("{:.2e}", seconds));
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(rounded)) + 1e-9));
  const int thousands = std::clamp(static_cast<int>(std::floor(exponent / 3.0)), -3, 0);
  constexpr std::array<const char*, 4> units{"s", "ms", "us", "ns"};
  const int decimals = std::max(0, 2 - (exponent - 3 * thousands));
  return fmt::format("{:.{}f} {}", rounded * std::pow(10, -3 * thousands), decimals,
                     units.at(static_cast<std::size_t>(-thousands)));
}

std::vector<std::string> row_names(const std::vector<Row>& rows) {
  std::vector<std::string> keys;
  std::set<std::string> launches;
  for (const Row& row : rows) {
    keys.push_back(text_of(row, "key"));
    launches.insert(integer(row, "launch"));
  }
  std::vector<std::string> names = distinguishing_names(keys);
  for (std::size_t i = 0; launches.size() > 1 && i < rows.size(); ++i) names[i] += " #" + integer(rows[i], "launch");
  return names;
}

std::string words_text(const std::vector<Row>& rows, const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::string words = text_of(rows[i], "verdict");
    if (const std::string reason = text_of(rows[i], "reason"); !reason.empty()) {
      words += (words.empty() ? "" : " | ") + text_of(rows[i], "status") + ": " + reason;
    }
    if (!words.empty()) text += fmt::format("  {}: {}\n", names[i], words);
  }
  return text;
}

std::string table_text(const std::vector<Row>& rows) {
  if (rows.empty()) return "no cases\n";
  const std::vector<std::string> names = row_names(rows);
  TableLines lines{{"case", "compute", "comm", "serial", "overlapped", "bound", "speedup", "exposed",
                    "hidden share [95 %]", "n", "status"}};
  bool oversubscribed = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const std::string status =
        text_of(row, "status") + (text_of(row, "source") == "measured" ? "" : " " + text_of(row, "source"));
    if (std::isnan(real_of(row, "t_step"))) {
      lines.push_back({names[i], "-", "-", "-", "-", "-", "-", "-", "-", "-", status});
      continue;
    }
    oversubscribed = oversubscribed || integer(row, "oversubscribed") == "1";
    lines.push_back({names[i], time(row, "t_compute"), time(row, "t_comm"), time(row, "t_serial"), time(row, "t_step"),
                     fmt::format("{:.2f}x", real_of(row, "speedup_bound")),
                     fmt::format("{:.2f}x", real_of(row, "speedup")), time(row, "t_exposed"),
                     little_to_hide(row) ? "-" : share_with_interval(row, "hidden_share"), integer(row, "rounds"),
                     status});
  }
  std::string text = aligned(lines) + "\nIn words:\n";
  text += words_text(rows, names);
  text +=
      "\nMedians of one operation over n rounds: each part alone, one after the other on one lane (serial), both at "
      "once "
      "(overlapped).\n"
      "  bound         (compute + comm) / max(compute, comm): no speedup can be more\n"
      "  speedup       (compute + comm) / overlapped\n"
      "  exposed       overlapped - compute: communication left on the wall clock\n"
      "  hidden share  (compute + comm - overlapped) / min(compute, comm): 100 % hides all that can hide, 0 % is one "
      "after\n"
      "                the other, below 0 % is worse than that; - where the smaller part is under 5 % of the step\n"
      "In summary.csv: t_compute, t_comm, t_serial, t_step (overlapped), speedup_bound, speedup, t_exposed, "
      "hidden_share, "
      "rounds (n).\n";
  if (oversubscribed) {
    text += "Fewer cores than busy lanes: lanes share cores as the column layout of summary.csv says.\n";
  }
  return text;
}

std::string choices_text(const std::vector<Row>& choices) {
  if (choices.empty()) return {};
  std::vector<std::string> series;
  for (const Row& row : choices) series.push_back(text_of(row, "series"));
  const bool several = series.size() > 1;
  const std::vector<std::string> names = distinguishing_names(series);
  const auto interval = [](const Row& row, const std::string& column) {
    if (std::isnan(real_of(row, column + "_low"))) return time(row, column);
    return fmt::format("{} [{}, {}]", time(row, column), time(row, column + "_low"), time(row, column + "_high"));
  };
  std::string text = "Recommended:\n";
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const Row& row = choices[i];
    const std::string low = text_of(row, "best_low");
    const std::string high = text_of(row, "best_high");
    text += fmt::format("  {}{} {} (best {} [{}], exposes {})", several ? names[i] + ": " : "", text_of(row, "option"),
                        text_of(row, "recommended"), text_of(row, "best"), low == high ? low : low + " .. " + high,
                        interval(row, "t_exposed"));
    const std::string reference = text_of(row, "reference");
    if (!reference.empty() && reference != text_of(row, "best")) {
      text += fmt::format("; {} exposes {} more", reference, interval(row, "gain"));
    }
    text += "\n    " + text_of(row, "verdict") + "\n";
    if (const std::string predicted = text_of(row, "predicted"); !predicted.empty()) text += "    " + predicted + "\n";
  }
  return text;
}

std::string exposed_text(const std::vector<Row>& rows) {
  constexpr std::size_t most_parts = 6;  // of a case; all are in its row
  const std::vector<std::string> names = row_names(rows);
  TableLines lines{{"case", "operation", "cause", "time", "of exposed"}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string parts = text_of(rows[i], "exposed_by");
    const double whole = real_of(rows[i], "t_exposed");
    std::size_t told = 0;
    for (std::size_t begin = 0; begin < parts.size() && told < most_parts; ++told) {
      const std::size_t end = std::min(parts.find(';', begin), parts.size());
      const std::string part = parts.substr(begin, end - begin);
      const std::size_t colon = part.find(':');
      const std::size_t equals = part.rfind('=');
      begin = end + 1;
      if (colon == std::string::npos || equals == std::string::npos || equals < colon) continue;
      const double seconds = std::stod(part.substr(equals + 1));
      lines.push_back({told == 0 ? names[i] : "", part.substr(0, colon), part.substr(colon + 1, equals - colon - 1),
                       time_text(seconds), fmt::format("{:.1f} %", 100 * seconds / whole)});
    }
  }
  if (lines.size() == 1) return {};
  return "Exposed, by operation@lane and cause (model):\n" + aligned(lines) +
         "\n  transfer  compute waits for it, and it goes as fast as alone\n"
         "  peer      a rank comes later\n"
         "  shared    memory or links are shared with (...), which slows it, or by it the computing (...)\n"
         "  units     SMs are held, by (...), or from (...) by it\n"
         "  launch    the host has not handed over what comes next, beyond what that costs compute alone\n"
         "All parts add up to t_exposed: exposed_by in summary.csv has them, operations.csv has each operation's.\n";
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
