// SPDX-License-Identifier: Apache-2.0
#include "app/cost_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/report.hpp"
#include "base/units.hpp"

namespace ovl {
namespace {

std::int64_t whole_of(const Row& row, std::string_view column) {
  const auto* value = std::get_if<std::int64_t>(&row.at(column));
  return value == nullptr ? 0 : *value;
}

std::string or_dash(double value, const std::string& text) { return std::isnan(value) ? "-" : text; }

std::string rate(const Row& row, std::string_view column) {
  const double value = real_of(row, column);
  return or_dash(value, fmt::format("{:.3g} GB/s", value / 1e9));
}

std::string percent_or_dash(double share) { return or_dash(share, fmt::format("{:.1f} %", 100 * share)); }

std::string cost_with_interval(const Row& row, const std::string& column) {
  const double value = real_of(row, column);
  const double low = real_of(row, column + "_low");
  if (std::isnan(value)) return "-";
  if (std::isnan(low)) return time_text(value);
  return fmt::format("{} [{}, {}]", time_text(value), time_text(low), time_text(real_of(row, column + "_high")));
}

// A size that a fit gives, for people: "1.5MiB", never a fraction of a byte.
std::string size_text(double bytes) {
  if (!(bytes >= 0) || bytes >= 0x1p62) return "-";
  static constexpr std::pair<double, const char*> units[] = {{0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"}};
  for (const auto& [size, unit] : units) {
    if (bytes >= size) return fmt::format("{:.3g}{}", bytes / size, unit);
  }
  return fmt::format("{:.0f}B", bytes);
}

std::string beta_text(double beta) { return or_dash(beta, fmt::format("{:.4g} ps/B", beta * 1e12)); }

// The rows of one series and load, whose lines are fits.
struct Fits {
  std::string name;
  const Row* headline = nullptr;
  const Row* ordinary = nullptr;
  const Row* theil_sen = nullptr;
  std::vector<const Row*> chosen;  // by size
};

std::vector<Fits> fits_by_series(const std::vector<Row>& rows) {
  std::vector<std::string> keys;
  for (const Row& row : rows) keys.push_back(text_of(row, "series"));
  const bool one = std::all_of(keys.begin(), keys.end(), [&](const std::string& key) { return key == keys.front(); });
  const std::vector<std::string> names = distinguishing_names(keys);
  std::vector<Fits> all;
  std::string last;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const std::string id = keys[i] + "\n" + text_of(row, "load");
    if (all.empty() || id != last) all.push_back({.name = one ? text_of(row, "collective") : names[i], .chosen = {}});
    last = id;
    Fits& fits = all.back();
    const std::string method = text_of(row, "method");
    if (method == "relative" && whole_of(row, "segments") == 1) fits.headline = &row;
    if (method == "ordinary") fits.ordinary = &row;
    if (method == "theil_sen") fits.theil_sen = &row;
    if (whole_of(row, "chosen") == 1) fits.chosen.push_back(&row);
  }
  return all;
}

std::string line_text(const Row* row) {
  if (row == nullptr) return "-";
  return fmt::format("{} + {}", time_text(real_of(*row, "alpha_s")), beta_text(real_of(*row, "beta_s_per_byte")));
}

std::string segments_text(const std::vector<const Row*>& segments) {
  std::string text = fmt::format("; {} segments pay:", segments.size());
  for (const Row* row : segments) {
    const bool first = row == segments.front();
    text += fmt::format("{} {} from {} on", first ? "" : ",", line_text(row),
                        first ? "0" : size_text(static_cast<double>(whole_of(*row, "breakpoint_bytes"))));
  }
  return text + fmt::format(" (error median {}, worst {})",
                            percent_or_dash(real_of(*segments[0], "median_relative_error")),
                            percent_or_dash(real_of(*segments[0], "max_relative_error")));
}

}  // namespace

std::string collective_table(const std::vector<Row>& rows) {
  if (rows.empty()) return "no cases\n";
  const std::vector<std::string> names = row_names(rows);
  TableLines lines{{"case", "idle [95 %]", "algorithm", "bus", "ranks least .. most", "loaded [95 %]", "slowdown",
                    "covered", "n", "status"}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const std::string source = text_of(row, "source");
    const std::string status = text_of(row, "status") + (source == "measured" ? "" : " " + source);
    if (std::isnan(real_of(row, "t_comm"))) {
      lines.push_back({names[i], "-", "-", "-", "-", "-", "-", "-", "-", status});
      continue;
    }
    const double slowdown = real_of(row, "comm_slowdown");
    lines.push_back({names[i], cost_with_interval(row, "t_comm"), rate(row, "algorithm_bandwidth"),
                     rate(row, "bus_bandwidth"),
                     time_text(real_of(row, "t_rank_min")) + " .. " + time_text(real_of(row, "t_rank_max")),
                     cost_with_interval(row, "t_loaded"), or_dash(slowdown, fmt::format("{:.2f}x", slowdown)),
                     percent_or_dash(real_of(row, "coverage")), format_value(row.at("rounds")), status});
  }
  std::string text = aligned(lines);
  if (const std::string words = words_text(rows, names); !words.empty()) text += "\nIn words:\n" + words;
  return text +
         "\nMedians of one collective over n rounds, alone (idle) and beside GEMMs on every rank that begin before it\n"
         "and end after it (loaded; covered: in how many of the rounds they did).\n"
         "  algorithm  bytes / idle time;  bus  algorithm times nccl-tests' factor: docs/collectives.md says where "
         "that\n"
         "             is no wire speed\n"
         "  slowdown   loaded / idle, both from the last rank's start to the last rank's end\n"
         "In summary.csv: t_comm (idle), t_rank_min, t_rank_median, t_rank_max, t_loaded, comm_slowdown, coverage,\n"
         "rounds (n).\n";
}

std::string cost_table(const std::vector<Row>& rows, bool written) {
  const std::string title = "Cost of a collective, t = alpha + beta * bytes:\n";
  if (rows.empty()) return title + "  none: a line needs two different sizes\n";
  TableLines lines{{"series", "load", "alpha [launches]", "beta", "bus", "half from", "error median, worst", "held out",
                    "ordinary", "theil_sen", "segments"}};
  std::string words;
  for (const Fits& fits : fits_by_series(rows)) {
    const Row& row = *fits.headline;
    const std::string load = text_of(row, "load");
    lines.push_back({fits.name, load, cost_with_interval(row, "alpha_s"), beta_text(real_of(row, "beta_s_per_byte")),
                     rate(row, "bus_bandwidth"), size_text(real_of(row, "half_performance_bytes")),
                     percent_or_dash(real_of(row, "median_relative_error")) + ", " +
                         percent_or_dash(real_of(row, "max_relative_error")),
                     percent_or_dash(real_of(row, "held_out_median_relative_error")) + ", " +
                         percent_or_dash(real_of(row, "held_out_max_relative_error")),
                     line_text(fits.ordinary), line_text(fits.theil_sen), std::to_string(fits.chosen.size())});
    words += fmt::format("  {} {}: {}{}\n", fits.name, load, text_of(row, "verdict"),
                         fits.chosen.size() > 1 ? segments_text(fits.chosen) : "");
  }
  return title + aligned(lines) + "\nIn words:\n" + words +
         "\nalpha, beta: the line with the least relative errors, which weighs all sizes alike; ordinary least squares "
         "follows\n"
         "the largest, Theil-Sen takes the median slope. bus: bus factor / beta. half from: the size that reaches half "
         "of it.\n"
         "Errors are |line - measured| / measured; held out: of sizes that the line has not seen." +
         (written ? " In fits.csv.\n" : "\n");
}

}  // namespace ovl
