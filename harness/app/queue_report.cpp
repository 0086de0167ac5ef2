// SPDX-License-Identifier: Apache-2.0
#include "app/queue_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "app/report.hpp"
#include "metrics/queueing.hpp"

namespace ovl {
namespace {

constexpr double same_capacity = 1.1;  // times one lane's: less is not what another lane would bring

bool measured(const Row& row) { return !std::isnan(real_of(row, "capacity")); }

std::string number(double value) {
  if (std::isnan(value)) return "-";
  return std::isinf(value) ? "never" : fmt::format("{:.3g}", value);
}

std::string interval(const Row& row, const std::string& column) {
  const double low = real_of(row, column + "_low");
  const double high = real_of(row, column + "_high");
  return high > low ? fmt::format(" [{:.3g}, {:.3g}]", low, high) : "";
}

std::string number_with_interval(const Row& row, const std::string& column) {
  return number(real_of(row, column)) + interval(row, column);
}

std::string time_or_never(double seconds) {
  return std::isnan(seconds) ? "-" : std::isinf(seconds) ? "never" : time_text(seconds);
}

std::string drain(const Row& row) {
  const double value = real_of(row, "drain_time");
  if (std::isnan(value)) return "-";
  const double low = real_of(row, "drain_time_low");
  const double high = real_of(row, "drain_time_high");
  return time_text(value) + (high > low ? fmt::format(" [{}, {}]", time_text(low), time_text(high)) : "");
}

std::string status_of(const Row& row) {
  const std::string source = text_of(row, "source");
  return text_of(row, "status") + (source == "measured" ? "" : " " + source) +
         (text_of(row, "mark").empty() ? "" : " MARKED");
}

std::string table(const std::vector<Row>& rows, const std::vector<std::string>& names) {
  TableLines lines{{"case", "rho", "arrivals/s", "served/s [95 %]", "growth/s [95 %]", "fluid", "first empty [95 %]",
                    "fluid", "most", "n", "status"}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    if (!measured(row)) {
      lines.push_back({names[i], "-", "-", "-", "-", "-", "-", "-", "-", "-", status_of(row)});
      continue;
    }
    lines.push_back({names[i], number(real_of(row, "utilization")), number(real_of(row, "arrival_rate")),
                     number_with_interval(row, "capacity"), number_with_interval(row, "growth_rate"),
                     number(real_of(row, "fluid_growth_rate")), drain(row),
                     time_or_never(real_of(row, "fluid_drain_time")), number(real_of(row, "backlog_most")),
                     format_value(row.at("rounds")), status_of(row)});
  }
  return aligned(lines);
}

// The key but for the lanes: cases that differ in these alone spread the same total.
std::string but_for_lanes(const Row& row) {
  const std::string key = text_of(row, "key");
  const std::size_t begin = key.find(" lanes=");
  if (begin == std::string::npos) return key;
  const std::size_t end = key.find(' ', begin + 1);
  return key.substr(0, begin) + (end == std::string::npos ? "" : key.substr(end)) + " #" +
         format_value(row.at("launch"));
}

std::string lanes_text(const std::vector<Row>& rows, const std::vector<std::string>& names) {
  std::map<std::string, const Row*> of_one;
  for (const Row& row : rows) {
    if (format_value(row.at("lanes")) == "1" && measured(row)) of_one.emplace(but_for_lanes(row), &row);
  }
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const double gain = real_of(row, "capacity_gain");
    if (std::isnan(gain)) continue;
    const double low = real_of(row, "capacity_gain_low");
    const double high = real_of(row, "capacity_gain_high");
    const char* what = low > same_capacity    ? "capacity rises"
                       : high < same_capacity ? "capacity does not rise"
                                              : "whether capacity rises is unclear";
    text += fmt::format("  {}: {} lanes serve {:.3g}x{} what one does: {}", names[i], format_value(row.at("lanes")),
                        gain, interval(row, "capacity_gain"), what);
    const auto one = of_one.find(but_for_lanes(row));
    if (one != of_one.end()) {
      const double before = real_of(*one->second, "time_in_system");
      const double after = real_of(row, "time_in_system");
      text += fmt::format("; an operation is in the system {} of the same total over one lane and {} here, {:.3g}x",
                          time_text(before), time_text(after), after / before);
    }
    text += "\n";
  }
  return text.empty() ? text : "\nOver several lanes (communicators):\n" + text;
}

// L, W, Lq, Wq of a model, or of what was counted.
std::vector<std::string> means(const Row& row, const std::string& prefix) {
  return {number(real_of(row, prefix + "in_system")), time_or_never(real_of(row, prefix + "time_in_system")),
          number(real_of(row, prefix + "in_queue")), time_or_never(real_of(row, prefix + "time_in_queue"))};
}

std::string steady_text(const std::vector<Row>& rows, const std::vector<std::string>& names) {
  TableLines lines{{"case", "of", "L", "W", "Lq", "Wq"}};
  const auto add = [&](const std::string& name, const std::string& of, const std::vector<std::string>& values) {
    lines.push_back({name, of});
    lines.back().insert(lines.back().end(), values.begin(), values.end());
  };
  double gap = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    if (!measured(row)) continue;
    add(names[i], "this queue", means(row, ""));
    gap = std::max(gap, std::abs(real_of(row, "little_gap")));
    const std::string state = text_of(row, "steady_state");
    for (const auto& [prefix, model] : {std::pair{"mm1_", "M/M/1"}, {"md1_", "M/D/1"}}) {
      if (state == "stable") add("", model, means(row, prefix));
      if (state == "unstable") add("", model, {state, state, state, state});
    }
  }
  if (lines.size() == 1) return {};
  return "\nAverages, and means of the steady state (an operation is a work unit):\n" + aligned(lines) +
         fmt::format(
             "  L, W   operations queued or served, and how long each is, from submission to completion; Lq, "
             "Wq: waiting only\n"
             "  this queue   over a whole replay, what was queued at its beginning and its end included: no "
             "steady state\n"
             "  M/M/1  {}\n  M/D/1  {}\n"
             "Little's law, L = throughput x W, each counted by itself: {}.\n",
             mm1_assumptions, md1_assumptions,
             gap < 1e-6 ? "holds in every case" : fmt::format("BROKEN by up to {:.2g}", gap));
}

}  // namespace

std::string queue_table_text(const std::vector<Row>& rows) {
  if (rows.empty()) return "no cases\n";
  const std::vector<std::string> names = row_names(rows);
  std::string text = table(rows, names);
  if (const std::string words = words_text(rows, names); !words.empty()) text += "\nIn words:\n" + words;
  text += lanes_text(rows, names);
  text += steady_text(rows, names);
  return text +
         "\nrho: arrivals / served, served: operations a second while all lanes have work. growth: slope of the "
         "backlog "
         "until it\nis first empty; fluid: of the line that the rates give (arrivals - served). most: the largest "
         "backlog. n: replays.\n"
         "In summary.csv: utilization, arrival_rate, capacity, growth_rate, fluid_growth_rate, drain_time, "
         "fluid_drain_time,\nbacklog_most, rounds (n); the backlog over time is in series.csv.\n";
}

}  // namespace ovl
