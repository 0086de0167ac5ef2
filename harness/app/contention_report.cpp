// SPDX-License-Identifier: Apache-2.0
#include "app/contention_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "app/report.hpp"
#include "metrics/trade_off.hpp"

namespace ovl {
namespace {

std::string factor(const Row& row, const std::string& column) {
  const double value = real_of(row, column);
  if (std::isnan(value)) return "-";
  const double low = real_of(row, column + "_low");
  if (std::isnan(low)) return fmt::format("{:.2f}x", value);
  return fmt::format("{:.2f}x [{:.2f}, {:.2f}]", value, low, real_of(row, column + "_high"));
}

std::string rate(double bytes_per_second) {
  return std::isnan(bytes_per_second) ? "-" : fmt::format("{:.3g} GB/s", bytes_per_second * 1e-9);
}

std::string share(const Row& row) {
  const double value = real_of(row, "hidden_share");
  return std::isnan(value) ? "-" : fmt::format("{:.0f} %", 100 * value);
}

// What sharing SMs, or memory, would make of it; the two are never of one row.
std::string modelled(const Row& row) {
  const double shares = real_of(row, "share_model");
  const double value = std::isnan(shares) ? real_of(row, "bandwidth_model") : shares;
  return std::isnan(value) ? "-" : fmt::format("{:.2f}x", value);
}

std::string gain(const Row& row) {
  const double value = real_of(row, "overlap_gain");
  return std::isnan(value) ? "-" : fmt::format("{:+.2f}", value);
}

// Rows of a study that differ in nothing but what varies in it, in the order of the first.
std::vector<std::pair<std::string, std::vector<std::size_t>>> series_of(const std::vector<Row>& rows,
                                                                        const std::string& study,
                                                                        const std::vector<std::string>& held) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> all;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (text_of(rows[i], "study") != study) continue;
    std::string name;
    for (const std::string& column : held) name += (name.empty() ? "" : " ") + text_of(rows[i], column);
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& s) { return s.first == name; });
    if (found == all.end()) {
      all.push_back({name, {i}});
    } else {
      found->second.push_back(i);
    }
  }
  return all;
}

std::string time_with_interval(const Row& row, const std::string& column) {
  const double low = real_of(row, column + "_low");
  std::string text = time_text(real_of(row, column));
  if (std::isnan(low)) return text;
  return fmt::format("{} [{}, {}]", text, time_text(low), time_text(real_of(row, column + "_high")));
}

// Terms that took nothing (less than a nanosecond is rounding) are left out, as those without an instrument are.
std::string losses(const std::vector<Row>& rows, const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (std::isnan(real_of(rows[i], "lost"))) continue;
    text += fmt::format("  {}: {}", names[i], time_with_interval(rows[i], "lost"));
    std::string separator = " = ";
    for (const std::string term :
         {"dependencies", "start_delay", "compute_slowdown", "comm_slowdown", "clock_drop", "waiting", "remainder"}) {
      const std::string column = "lost_" + term;
      const double value = real_of(rows[i], column);
      if (!(std::abs(value) >= 1e-9)) continue;
      text += fmt::format("{}{} {}", separator, term, time_with_interval(rows[i], column));
      separator = " + ";
    }
    text += "\n";
  }
  return text.empty() ? text : "\nWhat the step of both lost, t_step - t_ideal [95 %]:\n" + text;
}

std::string load_curves(const std::vector<Row>& rows) {
  std::string text;
  for (const auto& [name, members] : series_of(rows, "load_curve", {"victim", "placement"})) {
    std::vector<Intensity> curve;
    for (const std::size_t i : members) {
      curve.push_back({real_of(rows[i], "pace_alone"), real_of(rows[i], "overlap_gain")});
    }
    const bool known = std::any_of(curve.begin(), curve.end(),
                                   [](const Intensity& c) { return !std::isnan(c.amount) && !std::isnan(c.gain); });
    if (!known) continue;
    const std::optional<double> at = break_even(curve);
    const bool pays = std::any_of(curve.begin(), curve.end(), [](const Intensity& c) { return c.gain > 0; });
    text += fmt::format("  {}: {}\n", name,
                        at     ? "overlap stops paying at a stream of " + rate(*at)
                        : pays ? "overlap pays over the whole range"
                               : "overlap pays nowhere in this range");
  }
  return text.empty() ? text : "\nLoad curve:\n" + text;
}

std::string budgets(const std::vector<Row>& rows, const std::vector<std::string>& names) {
  std::string text;
  for (const auto& [name, members] : series_of(rows, "sm_budget", {"victim", "aggressor", "placement"})) {
    std::vector<TradeOff> settings;
    for (const std::size_t i : members) {
      settings.push_back({real_of(rows[i], "victim_slowdown"), real_of(rows[i], "bus_bandwidth_loaded")});
    }
    const std::vector<std::size_t> front = pareto_front(settings);
    if (front.empty()) continue;
    const std::optional<std::size_t> best = knee(settings);
    text += fmt::format("  {}:\n", name);
    for (const std::size_t i : front) {
      text += fmt::format("    {}: GEMM {:.2f}x as long, bus {}{}\n", names[members[i]], settings[i].cost,
                          rate(settings[i].gain), best == i ? "  <- knee" : "");
    }
  }
  return text.empty() ? text : "\nSettings that no other beats:\n" + text;
}

}  // namespace

std::string contention_table(const std::vector<Row>& rows) {
  if (rows.empty()) return "no cases\n";
  const std::vector<std::string> names = row_names(rows);
  TableLines lines{{"case", "victim alone", "victim slowed [95 %]", "model", "aggressor slowed [95 %]", "stream alone",
                    "beside", "gain", "hidden", "n", "status"}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const std::string source = text_of(row, "source");
    const std::string status = text_of(row, "status") + (source == "measured" ? "" : " " + source);
    const double alone = real_of(row, "t_victim");
    if (std::isnan(alone)) {
      lines.push_back({names[i], "-", "-", "-", "-", "-", "-", "-", "-", "-", status});
      continue;
    }
    lines.push_back({names[i], time_text(alone), factor(row, "victim_slowdown"), modelled(row),
                     factor(row, "aggressor_slowdown"), rate(real_of(row, "pace_alone")),
                     rate(real_of(row, "pace_loaded")), gain(row), share(row), format_value(row.at("rounds")), status});
  }
  std::string text = aligned(lines);
  if (const std::string words = words_text(rows, names); !words.empty()) text += "\nIn words:\n" + words;
  text += losses(rows, names) + load_curves(rows) + budgets(rows, names);
  return text +
         "\nEach side alone, and while the other covers it: begins before it and ends after it.\n"
         "  slowed  time covered / time alone, of the same work in the same rounds; - for one that only holds\n"
         "  model   what it would be if only SMs were shared (beside what holds them), or only memory (of arrays)\n"
         "  gain    1 / victim's + 1 / aggressor's slowdown - 1: above 0 together they get more done than in turn\n"
         "  hidden  hidden share of both sides begun together, about equally long\n"
         "In summary.csv: t_victim, victim_slowdown, share_model, bandwidth_model, aggressor_slowdown, pace_alone,\n"
         "pace_loaded, overlap_gain, hidden_share, rounds (n), lost and its terms.\n";
}

}  // namespace ovl
