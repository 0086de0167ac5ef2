// SPDX-License-Identifier: Apache-2.0
#include "app/compare.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "app/command_line.hpp"
#include "app/options.hpp"
#include "app/report.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "results/build_info.hpp"
#include "results/loaded_run.hpp"
#include "results/schema.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

using nlohmann::json;

struct CompareOptions {
  std::vector<std::string> runs;
  ComparisonOptions comparison;
  Format format = Format::text;
};

// nullopt: --help or --version was printed.
std::optional<CompareOptions> parse_compare_options(int argc, char** argv) {
  CompareOptions o;
  CLI::App app("Which of these runs is faster, and is it certain?", "overlap-compare");
  app.set_version_flag("--version", fmt::format("overlapbench {}", build_info().version));
  app.add_option("RUN", o.runs, "run directories; the others are compared with the first")->type_name("");
  const OptionGroup judging(app, "Judging");
  judging.value("--margin", "what is the same: an interval of the ratio inside it [5%]",
                [&o](const std::string& text) { o.comparison.margin = parse_percent("--margin", text, 1000); });
  judging.value("--fail-if-slower", "exit with 1 when a quantity is slower by more than this",
                [&o](const std::string& text) { o.comparison.limit = parse_percent("--fail-if-slower", text, 1000); });
  const OptionGroup writing(app, "Results");
  writing.value("--format", "text, csv or json [text]",
                [&o](const std::string& text) { o.format = parse_enum<Format>(text); });
  app.footer(
      "Cases are matched by what was asked for. unclear is not slower.\n"
      "Exit codes: 0 compared, 1 slower than --fail-if-slower, 2 usage, or no case in common.");
  if (!parse_command_line(app, argc, argv)) return std::nullopt;
  if (o.runs.size() < 2) throw usage_error("fewer than two runs are named", "", "type overlap-compare A B");
  return o;
}

// ---- text -----------------------------------------------------------------------------------------------------------

// A, B, C ...: names of run directories are long.
std::string letter(std::size_t run) {
  return run < 26 ? std::string(1, static_cast<char>('A' + run)) : fmt::format("#{}", run + 1);
}

std::string seconds_text(double value) {
  if (value < 0) return "-" + format_seconds(Seconds(-value));
  return value == 0 ? "0 s" : format_seconds(Seconds(value));
}

std::string signed_size_text(double bytes) {
  if (std::fabs(bytes) >= 0x1p20) return fmt::format("{:.4g} MiB", bytes / 0x1p20);
  return std::fabs(bytes) >= 0x1p10 ? fmt::format("{:.4g} KiB", bytes / 0x1p10) : fmt::format("{:.4g} B", bytes);
}

std::string signed_rate_text(double value) {
  if (std::fabs(value) >= 1e8) return fmt::format("{:.4g} GB/s", value / 1e9);
  return std::fabs(value) >= 1e5 ? fmt::format("{:.4g} MB/s", value / 1e6) : fmt::format("{:.4g} kB/s", value / 1e3);
}

std::string quantity_text(double value, const std::string& unit) {
  if (!std::isfinite(value)) return "-";
  if (unit == "s") return seconds_text(value);
  if (unit == "B/s") return signed_rate_text(value);
  if (unit == "s/B") return fmt::format("{:.4g} ps/B", value * 1e12);
  if (unit == "B") return signed_size_text(value);
  return fmt::format("{:.1f} %", 100 * value);
}

std::string compared_text(const ComparedValue& e, const std::string& unit) {
  if (!std::isfinite(e.interval.low) || !std::isfinite(e.interval.high)) return quantity_text(e.value, unit);
  return fmt::format("{} [{}, {}]", quantity_text(e.value, unit), quantity_text(e.interval.low, unit),
                     quantity_text(e.interval.high, unit));
}

// What is signed has a difference, all else a ratio.
std::string difference_text(const Comparison& c, const std::string& unit) {
  const auto text = [&](double value) { return (value > 0 ? "+" : "") + quantity_text(value, unit); };
  if (!std::isfinite(c.difference_interval.low)) return text(c.difference);
  return fmt::format("{} [{}, {}]", text(c.difference), text(c.difference_interval.low),
                     text(c.difference_interval.high));
}

std::string ratio_text(const Comparison& c) {
  if (!std::isfinite(c.ratio)) return "-";
  if (!std::isfinite(c.ratio_interval.low)) return fmt::format("{:.3f}", c.ratio);
  return fmt::format("{:.3f} [{:.3f}, {:.3f}]", c.ratio, c.ratio_interval.low, c.ratio_interval.high);
}

using Lines = std::vector<std::vector<std::string>>;

std::string left_aligned(const Lines& lines) {
  std::vector<std::size_t> width;
  for (const auto& line : lines) {
    width.resize(std::max(width.size(), line.size()));
    for (std::size_t i = 0; i < line.size(); ++i) width[i] = std::max(width[i], line[i].size());
  }
  std::string text;
  for (const auto& line : lines) {
    std::string out = " ";
    for (std::size_t i = 0; i < line.size(); ++i) out += fmt::format(" {:<{}}", line[i], width[i] + 1);
    text += out.substr(0, out.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string heads_text(const RunComparison& c) {
  Lines lines;
  for (std::size_t r = 0; r < c.names.size(); ++r) lines.push_back({letter(r), c.names[r], c.about[r]});
  return fmt::format("{} runs, compared with A:\n", c.names.size()) + left_aligned(lines);
}

std::string differences_text(const RunComparison& c) {
  const bool imported = std::any_of(c.quantities.begin(), c.quantities.end(), [](const ComparedQuantity& q) {
    return q.source_before == "imported" || q.source_after == "imported";
  });
  const std::string unknown = imported ? "Of imported logs nothing is known but what they say.\n" : "";
  if (c.differences.empty()) return "\nNothing that run.json knows differs around them.\n" + unknown;
  Lines lines{{"field"}};
  for (std::size_t r = 0; r < c.names.size(); ++r) lines.front().push_back(letter(r));
  for (const EnvironmentDifference& d : c.differences) {
    lines.push_back({d.field});
    for (const std::string& value : d.values) {
      lines.back().push_back(value.empty() ? "-" : value.size() > 44 ? value.substr(0, 41) + "..." : value);
    }
  }
  return "\nWhat differs around them:\n" + left_aligned(lines) + unknown;
}

std::string cases_text(const RunComparison& c) {
  constexpr std::size_t few = 12;
  std::string text = fmt::format("\n{} case{} in all of them", c.cases, c.cases == 1 ? "" : "s");
  for (std::size_t r = 0; r < c.only_in.size(); ++r) {
    if (!c.only_in[r].empty()) text += fmt::format("; {} of {} not in all", c.only_in[r].size(), letter(r));
  }
  text += ".\n";
  for (std::size_t r = 0; r < c.only_in.size(); ++r) {
    for (std::size_t i = 0; i < std::min(few, c.only_in[r].size()); ++i) {
      text += fmt::format("  {} has: {}\n", letter(r), c.only_in[r][i]);
    }
    if (c.only_in[r].size() > few) text += fmt::format("  {} has: and {} more\n", letter(r), c.only_in[r].size() - few);
  }
  for (const std::string& remark : c.remarks) text += "  " + remark + "\n";
  return text;
}

// A blank line would tell cases apart as well; a name that is said once is easier to read.
std::string quantities_text(const RunComparison& c) {
  Lines lines{{"case", "quantity", "run", "A", "of the run", "ratio or difference [95 %]", "verdict", "basis"}};
  std::string last;
  for (const ComparedQuantity& q : c.quantities) {
    lines.push_back(
        {q.case_name == last ? "" : q.case_name, q.quantity, letter(q.run), compared_text(q.before, q.unit),
         compared_text(q.after, q.unit),
         std::isfinite(q.comparison.difference) ? difference_text(q.comparison, q.unit) : ratio_text(q.comparison),
         std::string(name(q.comparison.change)), std::string(name(q.comparison.basis))});
    last = q.case_name;
  }
  return "\n" + left_aligned(lines);
}

std::string change_text(const ComparedQuantity& q) {
  const std::string what =
      std::isfinite(q.comparison.difference)
          ? fmt::format("{} instead of {}", quantity_text(q.after.value, q.unit), quantity_text(q.before.value, q.unit))
          : fmt::format("{} times that of A", ratio_text(q.comparison));
  return fmt::format("{} of {} is {}", q.quantity, q.case_name, what);
}

// How far from A, whichever way: for the order in which changes are told.
double distance(const ComparedQuantity& q) {
  if (std::isfinite(q.comparison.difference)) return std::fabs(q.comparison.difference);
  return std::fabs(std::log(q.comparison.ratio));
}

// A bandwidth is its time again: the table has both, what is counted and said has one.
bool is_told(const ComparedQuantity& q) { return q.quantity != "bus_bandwidth"; }

std::string told(const RunComparison& c, std::size_t run, Change change) {
  constexpr std::size_t most = 5;
  std::vector<const ComparedQuantity*> found;
  std::size_t beyond = 0;  // that --fail-if-slower names
  for (const ComparedQuantity& q : c.quantities) {
    if (q.run != run || q.comparison.change != change || !is_told(q)) continue;
    q.beyond_limit ? void(++beyond) : found.push_back(&q);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto* a, const auto* b) { return distance(*a) > distance(*b); });
  std::string text;
  if (beyond > 0) text += fmt::format("    {}: {} beyond --fail-if-slower, named below\n", name(change), beyond);
  for (std::size_t i = 0; i < std::min(most, found.size()); ++i) {
    text += fmt::format("    {}: {}\n", name(change), change_text(*found[i]));
  }
  if (found.size() > most) text += fmt::format("    {}: and {} more\n", name(change), found.size() - most);
  return text;
}

// Of the times of collectives by size: one number for the whole curve, and where along it.
std::string curves_text(const RunComparison& c, std::size_t run) {
  std::vector<double> ratios;
  for (const ComparedQuantity& q : c.quantities) {
    if (q.run == run && q.quantity == "t_comm" && std::isfinite(q.comparison.ratio))
      ratios.push_back(q.comparison.ratio);
  }
  if (ratios.size() < 4) return "";
  return fmt::format("    t_comm over {} cases: {:.3f} times that of A in the middle, from {:.3f} to {:.3f}\n",
                     ratios.size(), median(ratios), quantile(ratios, 0), quantile(ratios, 1));
}

std::string basis_text(const RunComparison& c, std::size_t run) {
  std::map<Basis, std::size_t> by_basis;
  std::map<std::string, std::size_t> launches;
  for (const ComparedQuantity& q : c.quantities) {
    if (q.run != run) continue;
    ++by_basis[q.comparison.basis];
    if (q.comparison.basis == Basis::launches) ++launches[q.comparison.reason];
  }
  std::string text;
  if (by_basis[Basis::points] + by_basis[Basis::fit] > 0) {
    text += fmt::format("    {} of them have no interval: single numbers or fits are compared with the margin\n",
                        by_basis[Basis::points] + by_basis[Basis::fit]);
  }
  if (by_basis[Basis::rounds] > 0) {
    text += fmt::format(
        "    {} rest on intervals within one launch, which know nothing of how launches differ: a claim "
        "between runs needs --launches 5\n",
        by_basis[Basis::rounds]);
  }
  for (const auto& [reason, count] : launches) {
    if (reason.find("launches: ") != std::string::npos) text += fmt::format("    {} rest on {}\n", count, reason);
  }
  return text;
}

std::string sources_text(const RunComparison& c, std::size_t run) {
  std::set<std::string> before;
  std::set<std::string> after;
  for (const ComparedQuantity& q : c.quantities) {
    if (q.run != run) continue;
    before.insert(q.source_before);
    after.insert(q.source_after);
  }
  std::string text;
  if (before != after) {
    text += fmt::format("    A is {}, {} is {}: numbers of two kinds\n", fmt::join(before, " and "), letter(run),
                        fmt::join(after, " and "));
  }
  for (const auto& [which, sources] : {std::pair{letter(0), before}, std::pair{letter(run), after}}) {
    for (const char* kind : {"emulated", "proxy", "model"}) {
      if (sources.count(kind) > 0)
        text += fmt::format("    {} holds {} rows: no measurement of a fabric\n", which, kind);
    }
  }
  return text;
}

std::string words_text(const RunComparison& c, const ComparisonOptions& options) {
  std::string text = "\nIn words:\n";
  for (std::size_t run = 1; run < c.names.size(); ++run) {
    std::map<Change, std::size_t> counts;
    for (const ComparedQuantity& q : c.quantities) {
      if (q.run == run && is_told(q)) ++counts[q.comparison.change];
    }
    text += fmt::format("  {} against A: {} faster, {} slower, {} same (within {:.3g} %), {} unclear\n", letter(run),
                        counts[Change::faster], counts[Change::slower], counts[Change::same], 100 * options.margin,
                        counts[Change::unclear]);
    text += sources_text(c, run) + curves_text(c, run) + told(c, run, Change::slower) + told(c, run, Change::faster);
    std::map<std::string, std::size_t> reasons;
    for (const ComparedQuantity& q : c.quantities) {
      if (q.run == run && q.comparison.change == Change::unclear) ++reasons[q.comparison.reason];
    }
    for (const auto& [reason, count] : reasons) text += fmt::format("    unclear: {} because {}\n", count, reason);
    text += basis_text(c, run);
  }
  return text;
}

constexpr const char* legend_text =
    "\nA is the first run. A ratio is of the run over A, a difference the run less A. faster: less time (alpha, beta "
    "and\n"
    "exposed time are times), more bandwidth or a larger hidden share. same: the whole interval lies within the "
    "margin;\n"
    "unclear: it lies on both sides of it. half_performance, the size with half of the bandwidth, grows with alpha and "
    "as\n"
    "beta shrinks: it is the same or unclear.\n";

// The verdict of --fail-if-slower, and the exit code.
int verdict_of(const RunComparison& c, const ComparisonOptions& options) {
  if (options.limit == 0) return 0;
  std::size_t judged = 0;
  std::size_t slower = 0;
  std::size_t unclear = 0;
  for (const ComparedQuantity& q : c.quantities) {
    if (!is_told(q)) continue;
    ++judged;
    if (q.comparison.change == Change::unclear) ++unclear;
    if (!q.beyond_limit) continue;
    ++slower;
    print_message(fmt::format("overlap-compare: slower by more than {:.3g} %: {} ({}){}", 100 * options.limit,
                              change_text(q), c.names[q.run],
                              q.comparison.reason.empty() ? "" : "; " + q.comparison.reason));
  }
  print_message(
      fmt::format("overlap-compare: {} of {} quantities slower by more than {:.3g} %; {} unclear, which is not slower",
                  slower, judged, 100 * options.limit, unclear));
  return slower > 0 ? 1 : 0;
}

json comparison_json(const RunComparison& c) {
  json runs = json::array();
  for (std::size_t r = 0; r < c.names.size(); ++r) {
    runs.push_back({{"name", c.names[r]}, {"about", c.about[r]}, {"only_here", c.only_in[r]}});
  }
  json differences = json::array();
  for (const EnvironmentDifference& d : c.differences)
    differences.push_back({{"field", d.field}, {"values", d.values}});
  std::vector<Row> rows;
  for (const ComparedQuantity& q : c.quantities) rows.push_back(comparison_row(c, q));
  return {{"runs", runs},
          {"differences", differences},
          {"cases", c.cases},
          {"remarks", c.remarks},
          {"comparison", json::parse(rows_as_json(rows))}};
}

int compare_command(int argc, char** argv) {
  const std::optional<CompareOptions> options = parse_compare_options(argc, argv);
  if (!options) return 0;
  std::vector<LoadedRun> runs;
  for (const std::string& path : options->runs) runs.push_back(LoadedRun::read(path, {}));
  const RunComparison comparison = compare_runs(runs, options->comparison);
  switch (options->format) {
    case Format::text: print_out(comparison_text(comparison, options->comparison)); break;
    case Format::json: print_out(comparison_json(comparison).dump(1) + "\n"); break;
    case Format::csv: {
      std::vector<Row> rows;
      for (const ComparedQuantity& q : comparison.quantities) rows.push_back(comparison_row(comparison, q));
      print_out(rows_as_csv(comparison_schema(), rows));
      for (const EnvironmentDifference& d : comparison.differences) {
        print_message(fmt::format("{} differs: {}", d.field, fmt::join(d.values, " | ")));
      }
      break;
    }
  }
  return verdict_of(comparison, options->comparison);
}

}  // namespace

std::string comparison_text(const RunComparison& comparison, const ComparisonOptions& options) {
  return heads_text(comparison) + differences_text(comparison) + cases_text(comparison) + quantities_text(comparison) +
         words_text(comparison, options) + legend_text;
}

int run_compare(int argc, char** argv) {
  return guarded("overlap-compare", [&] { return compare_command(argc, argv); });
}

}  // namespace ovl
