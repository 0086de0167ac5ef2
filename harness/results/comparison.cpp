// SPDX-License-Identifier: Apache-2.0
#include "results/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "base/units.hpp"
#include "metrics/overlap.hpp"
#include "results/cost_series.hpp"
#include "results/import/imported.hpp"
#include "results/schema.hpp"
#include "stats/fit.hpp"

namespace ovl {
namespace {

using Axes = std::set<std::string, std::less<>>;

// ---- cases ----------------------------------------------------------------------------------------------------------

struct Case {
  CaseAxes axes;
  std::vector<const Row*> rows;  // one a launch
};

struct Cases {
  std::vector<Case> all;  // in the order in which they begin
  std::map<CaseAxes, std::size_t> places;

  void add(const CaseAxes& axes, const Row* row) {
    const auto [place, is_new] = places.try_emplace(axes, all.size());
    if (is_new) all.push_back({axes, {}});
    all[place->second].rows.push_back(row);
  }
  [[nodiscard]] const Case* find(const CaseAxes& axes) const {
    const auto found = places.find(axes);
    return found == places.end() ? nullptr : &all[found->second];
  }
};

std::string value_of(const CaseAxes& axes, std::string_view axis) {
  const auto found = axes.find(axis);
  return found == axes.end() ? "" : found->second;
}

std::string words_of(const CaseAxes& axes) {
  std::string words;
  for (const auto& [axis, value] : axes) words += (words.empty() ? "" : " ") + axis + "=" + value;
  return words;
}

// The values of an axis over all cases of each run.
std::map<std::string, std::vector<std::set<std::string>>> values_by_axis(
    const std::vector<std::vector<CaseAxes>>& runs) {
  std::map<std::string, std::vector<std::set<std::string>>> values;
  for (const auto& run : runs) {
    for (const CaseAxes& axes : run) {
      for (const auto& [axis, value] : axes) values[axis].resize(runs.size());
    }
  }
  for (auto& [axis, sets] : values) {
    for (std::size_t r = 0; r < runs.size(); ++r) {
      for (const CaseAxes& axes : runs[r]) sets[r].insert(value_of(axes, axis));
    }
  }
  return values;
}

std::string listed(const std::set<std::string>& values) {
  std::string text;
  std::size_t shown = 0;
  for (const std::string& value : values) {
    if (shown == 4) return text + fmt::format(" and {} more", values.size() - shown);
    text += (shown++ == 0 ? "" : ", ") + (value.empty() ? "none" : value);
  }
  return text;
}

std::string name_of_key(const CaseAxes& axes, const Axes& varying) {
  std::vector<std::string> order{"gemm", "collective", "bytes", "dtype", "placement"};
  const Axes usual{"gemm", "bytes", "placement"};
  const Axes& named = varying.empty() ? usual : varying;
  order.insert(order.end(), named.begin(), named.end());
  std::string name;
  Axes said;
  for (const std::string& axis : order) {
    const std::string value = value_of(axes, axis);
    if (named.count(axis) == 0 || value.empty() || !said.insert(axis).second) continue;
    name += (name.empty() ? "" : " ") + value;
  }
  return name.empty() ? words_of(axes) : name;
}

// ---- quantities -----------------------------------------------------------------------------------------------------

struct Kind {
  const char* column;
  const char* unit;
  Better better;
  bool is_signed;  // differences decide, against `scale_column` or, without one, against 1
  const char* scale_column;
};
constexpr std::array kinds{
    Kind{"t_comm", "s", Better::lower, false, nullptr},           Kind{"t_loaded", "s", Better::lower, false, nullptr},
    Kind{"bus_bandwidth", "B/s", Better::higher, false, nullptr}, Kind{"t_compute", "s", Better::lower, false, nullptr},
    Kind{"t_step", "s", Better::lower, false, nullptr},           Kind{"t_exposed", "s", Better::lower, true, "t_step"},
    Kind{"hidden_share", "1", Better::higher, true, nullptr}};

// A bandwidth has the interval of its time.
Interval interval_of(const Row& row, const std::string& column) {
  if (column != "bus_bandwidth") return {number_in(row, column + "_low"), number_in(row, column + "_high")};
  const double bytes = number_in(row, column) * number_in(row, "t_comm");
  return {bytes / number_in(row, "t_comm_high"), bytes / number_in(row, "t_comm_low")};
}

ComparedValue compared_value_of(const Case& of, const std::string& column) {
  std::vector<double> values;
  Interval within;
  for (const Row* row : of.rows) {
    const double value = number_in(*row, column);
    if (!std::isfinite(value)) continue;
    values.push_back(value);
    within = interval_of(*row, column);
  }
  return compared_value(values, within);
}

// A share of a part that is next to nothing is a number without meaning.
bool little_to_hide(const Case& of) {
  return std::any_of(of.rows.begin(), of.rows.end(), [](const Row* row) {
    const auto time = [&](const char* column) { return Seconds(number_in(*row, column)); };
    return watched_statistic({time("t_compute"), time("t_comm"), time("t_serial"), time("t_step")}) ==
           Watched::exposed_fraction;
  });
}

Comparison compared(const Kind& kind, const Case& before, const Case& after, double margin) {
  const ComparedValue a = compared_value_of(before, kind.column);
  const ComparedValue b = compared_value_of(after, kind.column);
  Comparison c;
  if (!kind.is_signed) {
    c = compare_ratios(a, b, kind.better, margin);
  } else {
    const double scale = kind.scale_column == nullptr ? 1 : compared_value_of(before, kind.scale_column).value;
    c = compare_differences(a, b, kind.better, margin, scale);
    if (kind.scale_column == nullptr && (little_to_hide(before) || little_to_hide(after))) {
      c.change = Change::unclear;
      c.reason = "the smaller part is under 5 % of the step: its share tells nothing";
    }
  }
  const auto noisy = [](const Case& of) {
    return std::any_of(of.rows.begin(), of.rows.end(), [](const Row* r) { return text_in(*r, "status") == "noisy"; });
  };
  if (noisy(before) || noisy(after)) c.reason += c.reason.empty() ? "noisy" : "; noisy";
  return c;
}

std::string source_of(const Case& of) { return printable(text_in(*of.rows.front(), "source")); }

// ---- fits -----------------------------------------------------------------------------------------------------------

struct FittedSeries {
  CostFit fit;
  CostIntervals intervals;
  int launches = 1;
};

std::vector<std::vector<SizeTime>> within(const LoadedSeries& series, double least, double most) {
  std::vector<std::vector<SizeTime>> launches;
  for (const auto& launch : series.launches) {
    launches.emplace_back();
    for (const SizeTime& p : launch) {
      if (p.bytes >= least && p.bytes <= most) launches.back().push_back(p);
    }
  }
  return launches;
}

std::vector<SizeTime> pooled(const std::vector<std::vector<SizeTime>>& launches) {
  std::vector<SizeTime> points;
  for (const auto& launch : launches) points.insert(points.end(), launch.begin(), launch.end());
  return points;
}

std::set<double> set_of_sizes(const std::vector<SizeTime>& points) {
  std::set<double> sizes;
  for (const SizeTime& p : points) sizes.insert(p.bytes);
  return sizes;
}

// Of the sizes that both cover, with as many segments as pay in both: else the first alpha and the last beta of one
// would be those of another range. Empty where either has fewer than four such sizes.
std::vector<FittedSeries> fits_of_both(const LoadedSeries& before, const LoadedSeries& after) {
  const std::set<double> a = set_of_sizes(before.points());
  const std::set<double> b = set_of_sizes(after.points());
  const double least = std::max(*a.begin(), *b.begin());
  const double most = std::min(*a.rbegin(), *b.rbegin());
  std::vector<std::vector<std::vector<SizeTime>>> both{within(before, least, most), within(after, least, most)};
  int segments = 3;
  for (const auto& launches : both) {
    const std::vector<SizeTime> points = pooled(launches);
    const std::size_t sizes = set_of_sizes(points).size();
    if (sizes < fewest_sizes) return {};
    segments = sizes > most_breakpoints ? 1 : std::min(segments, static_cast<int>(fit_cost(points).segments.size()));
  }
  std::vector<FittedSeries> fits;
  for (const auto& launches : both) {
    fits.push_back({fit_segments(pooled(launches), segments), cost_intervals(launches, segments),
                    static_cast<int>(launches.size())});
  }
  return fits;
}

struct Coefficient {
  const char* name;
  const char* unit;
  Better better;
  double (*value)(const CostFit&);
  Interval CostIntervals::*interval;
};
constexpr std::array coefficients{
    Coefficient{"alpha", "s", Better::lower, [](const CostFit& f) { return f.alpha(); }, &CostIntervals::alpha},
    Coefficient{"beta", "s/B", Better::lower, [](const CostFit& f) { return f.beta(); }, &CostIntervals::beta},
    Coefficient{"half_performance", "B", Better::neither, half_performance_bytes, &CostIntervals::half_performance}};

ComparedValue compared_value_of(const FittedSeries& series, const Coefficient& coefficient) {
  ComparedValue e{.value = coefficient.value(series.fit), .launches = series.launches};
  e.basis = series.launches > 1 ? Basis::launches : Basis::fit;
  e.interval = series.intervals.*coefficient.interval;
  e.spread = series.fit.median_relative_error;
  return e;
}

// ---- all of it ------------------------------------------------------------------------------------------------------

// Of logs: their names, and no device, of which nothing is known.
std::string about(const LoadedRun& run) {
  std::set<std::string> words;
  for (const Row& row : run.rows("summary")) words.insert(printable(text_in(row, "source")));
  std::string text = printable(run.text_at({"identity", "bench"}));
  for (const std::string& word : words) text += ", " + word;
  const nlohmann::json logs = run.about().value("imported", nlohmann::json::array());
  for (const nlohmann::json& log : logs) {
    if (!log.is_object() || !log.contains("file") || !log.at("file").is_string()) continue;
    text += ", " + printable(std::filesystem::path(log.at("file").get<std::string>()).filename().string(), 120);
  }
  const std::string date = printable(run.text_at({"run", "date"}));
  if (!logs.empty()) return text + ", read " + date;
  for (const std::string& more :
       {run.text_at({"identity", "backend", "name"}), run.text_at({"identity", "backend", "device"}), date}) {
    if (!more.empty()) text += ", " + printable(more, 200);
  }
  return text;
}

class Comparer {
 public:
  Comparer(std::span<const LoadedRun> runs, const ComparisonOptions& options) : runs_(runs), options_(options) {}

  RunComparison run() {
    if (runs_.size() < 2) throw usage_error("fewer than two runs are named", "", "type overlap-compare A B");
    of_series_ = holds_series(runs_.front());
    for (const LoadedRun& run : runs_) {
      result_.names.push_back(run.name());
      result_.about.push_back(about(run));
      if (holds_series(run) != of_series_) {
        throw usage_error(fmt::format("{} and {} have no case in common", runs_.front().name(), run.name()),
                          fmt::format("one is of overlap-{}, the other of overlap-{}",
                                      runs_.front().text_at({"identity", "bench"}), run.text_at({"identity", "bench"})),
                          "compare runs of one bench; those of overlap-import and overlap-collective go together");
      }
    }
    read_cases();
    read_environment();
    match();
    compare_series();
    compare_cases();
    return std::move(result_);
  }

 private:
  // The cases with numbers, without the settings that each run has once and that differ between runs.
  void read_cases() {
    std::vector<std::vector<CaseAxes>> axes(runs_.size());
    std::vector<std::vector<const Row*>> rows(runs_.size());
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      std::map<std::string, int> left_out;
      for (const Row& row : runs_[r].rows("summary")) {
        if (!has_numbers(row)) {
          ++left_out[printable(text_in(row, "status"))];
          continue;
        }
        axes[r].push_back(axes_of(runs_[r], row));
        rows[r].push_back(&row);
      }
      for (const auto& [status, count] : left_out) {
        result_.remarks.push_back(fmt::format("{}: {} row{} with status {} not compared", result_.names[r], count,
                                              count == 1 ? "" : "s", status));
      }
    }
    for (const auto& [axis, sets] : values_by_axis(axes)) {
      const bool once = std::all_of(sets.begin(), sets.end(), [](const auto& set) { return set.size() <= 1; });
      const auto& first = sets.front();
      const bool alike = std::all_of(sets.begin(), sets.end(), [&](const auto& set) { return set == first; });
      if (!alike && once && (is_setting(axis) || (of_series_ && axis == "gemm"))) {
        EnvironmentDifference difference{"case." + axis, {}};
        for (const auto& set : sets) difference.values.push_back(set.empty() ? "" : *set.begin());
        result_.differences.push_back(std::move(difference));
        dropped_.insert(axis);
      } else if (!alike || !once) {
        varying_.insert(axis);
      }
    }
    cases_.resize(runs_.size());
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      for (std::size_t i = 0; i < rows[r].size(); ++i) cases_[r].add(without_dropped(axes[r][i]), rows[r][i]);
      note_repeats(r);
    }
  }

  [[nodiscard]] CaseAxes without_dropped(CaseAxes axes) const {
    for (const std::string& axis : dropped_) axes.erase(axis);
    return axes;
  }

  // Logs of one case in several files count as launches; of a measured run every launch has one row.
  void note_repeats(std::size_t r) {
    std::size_t repeated = 0;
    for (const Case& c : cases_[r].all) {
      std::set<std::int64_t> launches;
      for (const Row* row : c.rows) launches.insert(whole_in(*row, "launch").value_or(0));
      if (launches.size() < c.rows.size()) ++repeated;
    }
    if (repeated > 0) {
      result_.remarks.push_back(fmt::format("{}: {} case{} in several files, taken as launches of one machine",
                                            result_.names[r], repeated, repeated == 1 ? "" : "s"));
    }
  }

  void read_environment() {
    std::map<std::string, std::vector<std::string>> fields;
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      for (const auto& [field, value] : runs_[r].environment()) {
        fields.try_emplace(field, runs_.size()).first->second[r] = value;
      }
    }
    // The machine first, then what it ran, then how.
    std::vector<EnvironmentDifference> found;
    for (const char* part : {"machine.", "backend.", "build.", "environment.", "settings.", ""}) {
      for (const auto& [field, values] : fields) {
        const bool named = part[0] != '\0';
        const bool elsewhere = field.starts_with("machine.") || field.starts_with("backend.") ||
                               field.starts_with("build.") || field.starts_with("environment.") ||
                               field.starts_with("settings.");
        if (named ? !field.starts_with(part) : elsewhere) continue;
        const std::string& first = values.front();
        if (std::any_of(values.begin(), values.end(), [&](const std::string& value) { return value != first; })) {
          found.push_back({field, values});
        }
      }
    }
    result_.differences.insert(result_.differences.begin(), found.begin(), found.end());
  }

  void match() {
    result_.only_in.resize(runs_.size());
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      for (const Case& c : cases_[r].all) {
        const bool everywhere = std::all_of(cases_.begin(), cases_.end(),
                                            [&](const Cases& other) { return other.find(c.axes) != nullptr; });
        if (!everywhere) {
          result_.only_in[r].push_back(name_of(c.axes));
        } else if (r == 0) {
          matched_.push_back(c.axes);
        }
      }
    }
    result_.cases = matched_.size();
    if (!matched_.empty()) return;
    std::vector<std::vector<CaseAxes>> axes(runs_.size());
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      for (const Case& c : cases_[r].all) axes[r].push_back(c.axes);
    }
    std::string why;
    for (const auto& [axis, sets] : values_by_axis(axes)) {
      for (std::size_t r = 1; r < runs_.size(); ++r) {
        std::vector<std::string> shared;
        std::set_intersection(sets[0].begin(), sets[0].end(), sets[r].begin(), sets[r].end(),
                              std::back_inserter(shared));
        if (shared.empty() && !sets[0].empty() && !sets[r].empty()) {
          why += fmt::format("{}{} is {} in {} and {} in {}", why.empty() ? "" : "; ", axis, listed(sets[0]),
                             result_.names[0], listed(sets[r]), result_.names[r]);
          break;
        }
      }
    }
    if (why.empty()) why = "no combination of their options is in all of them, or none has numbers";
    throw usage_error(fmt::format("{} have no case in common", fmt::join(result_.names, " and ")), why,
                      "measure or import the same cases");
  }

  [[nodiscard]] std::string name_of(const CaseAxes& axes) const {
    if (!of_series_) return name_of_key(axes, varying_);
    const std::string bytes = value_of(axes, "bytes");
    const std::string size = bytes.empty() ? "?" : format_bytes(Bytes(std::stoll(bytes)));
    return fmt::format("{}, {}", title_of(axes), size);
  }

  [[nodiscard]] std::string title_of(const CaseAxes& axes) const {
    Axes shown;
    for (const std::string& axis : varying_) {
      if (is_setting(axis) || axis == "gemm") shown.insert(axis);
    }
    return series_title(axes, shown);
  }

  void add(ComparedQuantity q, const std::function<Comparison(double margin)>& compare) {
    q.comparison = compare(options_.margin);
    q.beyond_limit = options_.limit > 0 && compare(options_.limit).change == Change::slower;
    result_.quantities.push_back(std::move(q));
  }

  void compare_cases() {
    for (const CaseAxes& axes : matched_) {
      const Case& before = *cases_[0].find(axes);
      for (const Kind& kind : kinds) {
        for (std::size_t r = 1; r < runs_.size(); ++r) {
          const Case& after = *cases_[r].find(axes);
          ComparedQuantity q{.quantity = kind.column,
                             .unit = kind.unit,
                             .key = words_of(axes),
                             .case_name = name_of(axes),
                             .run = r,
                             .before = compared_value_of(before, kind.column),
                             .after = compared_value_of(after, kind.column),
                             .source_before = source_of(before),
                             .source_after = source_of(after),
                             .comparison = {}};
          if (std::isnan(q.before.value) && std::isnan(q.after.value)) continue;
          add(std::move(q), [&](double margin) { return compared(kind, before, after, margin); });
        }
      }
    }
  }

  void compare_series() {
    std::vector<std::map<CaseAxes, LoadedSeries>> all(runs_.size());
    std::vector<CaseAxes> order;
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      for (LoadedSeries& series : series_in(runs_[r])) {
        CaseAxes axes = without_dropped(series.axes);
        // Logs do not say a load: they are of idle machines, as nccl-tests runs them.
        axes.try_emplace("load", "idle");
        if (r == 0) order.push_back(axes);
        all[r].try_emplace(std::move(axes), std::move(series));
      }
    }
    for (const CaseAxes& axes : order) {
      const LoadedSeries& before = all[0].at(axes);
      for (std::size_t r = 1; r < runs_.size(); ++r) {
        const auto after = all[r].find(axes);
        if (after == all[r].end()) continue;
        const std::vector<FittedSeries> fits = fits_of_both(before, after->second);
        if (fits.empty()) continue;
        for (const Coefficient& coefficient : coefficients) {
          ComparedQuantity q{.quantity = coefficient.name,
                             .unit = coefficient.unit,
                             .key = words_of(axes),
                             .case_name = title_of(axes),
                             .of_series = true,
                             .run = r,
                             .before = compared_value_of(fits[0], coefficient),
                             .after = compared_value_of(fits[1], coefficient),
                             .source_before = before.source,
                             .source_after = after->second.source,
                             .comparison = {}};
          const ComparedValue a = q.before;
          const ComparedValue b = q.after;
          add(std::move(q), [&](double margin) { return compare_ratios(a, b, coefficient.better, margin); });
        }
      }
    }
  }

  std::span<const LoadedRun> runs_;
  const ComparisonOptions& options_;
  bool of_series_ = false;
  Axes dropped_;
  Axes varying_;
  std::vector<Cases> cases_;
  std::vector<CaseAxes> matched_;
  RunComparison result_;
};

}  // namespace

RunComparison compare_runs(std::span<const LoadedRun> runs, const ComparisonOptions& options) {
  return Comparer(runs, options).run();
}

Row comparison_row(const RunComparison& comparison, const ComparedQuantity& q) {
  Row row(comparison_schema());
  row.set("case", q.key)
      .set("quantity", q.quantity)
      .set("unit", q.unit)
      .set("baseline", comparison.names.front())
      .set("run", comparison.names.at(q.run))
      .set("baseline_source", q.source_before)
      .set("source", q.source_after)
      .set("baseline_value", q.before.value)
      .set("baseline_low", q.before.interval.low)
      .set("baseline_high", q.before.interval.high)
      .set("value", q.after.value)
      .set("low", q.after.interval.low)
      .set("high", q.after.interval.high)
      .set("ratio", q.comparison.ratio)
      .set("ratio_low", q.comparison.ratio_interval.low)
      .set("ratio_high", q.comparison.ratio_interval.high)
      .set("difference", q.comparison.difference)
      .set("difference_low", q.comparison.difference_interval.low)
      .set("difference_high", q.comparison.difference_interval.high)
      .set("verdict", std::string(name(q.comparison.change)))
      .set("basis", std::string(name(q.comparison.basis)))
      .set("reason", q.comparison.reason)
      .set("beyond_limit", static_cast<std::int64_t>(q.beyond_limit));
  return row;
}

}  // namespace ovl
