// SPDX-License-Identifier: Apache-2.0
#include "results/fits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "metrics/bus_bandwidth.hpp"
#include "results/import/imported.hpp"
#include "results/schema.hpp"
#include "stats/student.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

constexpr std::size_t most_points = 4096;   // Theil-Sen takes all pairs
constexpr std::size_t most_held_out = 60;   // and once more for each size that is left out
constexpr std::size_t enough_launches = 5;  // for a claim between runs

Value text(std::string_view value) { return value.empty() ? Value() : Value(std::string(value)); }

std::size_t sizes_of(std::span<const SizeTime> points) {
  std::set<double> sizes;
  for (const SizeTime& p : points) sizes.insert(p.bytes);
  return sizes.size();
}

// NaN where nothing crosses a link, or nobody knows how much.
double factor_of(const CostSeries& series) {
  if (series.ranks == 1) return std::numeric_limits<double>::quiet_NaN();
  for (const auto& [form, form_name] : EnumNames<CollectiveForm>::table) {
    if (series.ranks > 1 && form_name == series.collective) return bus_factor(form, series.ranks);
  }
  return known_bus_factor(series.collective, series.ranks);
}

// ---- rows of summary.csv --------------------------------------------------------------------------------------------

std::string word(const Row& row, std::string_view column) {
  const auto* value = std::get_if<std::string>(&row.at(column));
  return value == nullptr ? "" : *value;
}
std::int64_t whole(const Row& row, std::string_view column) {
  const auto* value = std::get_if<std::int64_t>(&row.at(column));
  return value == nullptr ? 0 : *value;
}

std::string without_size(const std::string& key) {
  const std::size_t at = key.find(" bytes=");
  if (at == std::string::npos) return key;
  const std::size_t end = key.find(' ', at + 1);
  return key.substr(0, at) + (end == std::string::npos ? "" : key.substr(end));
}

CostSeries series_like(const Row& row, const std::string& key, const std::string& load) {
  return {.file = {},
          .key = key,
          .source = word(row, "source"),
          .collective = word(row, "collective"),
          .dtype = word(row, "dtype"),
          .op = {},
          .ranks = static_cast<std::int32_t>(whole(row, "ranks")),
          .in_place = whole(row, "in_place") != 0,
          .load = load,
          .points = {},
          .launches = {}};
}

// ---- rows of fits.csv -----------------------------------------------------------------------------------------------

// Of one line through each launch's own points.
struct LaunchLines {
  std::vector<double> alphas;
  std::vector<double> betas;
};

LaunchLines lines_of(const CostSeries& series) {
  LaunchLines lines;
  for (const std::vector<SizeTime>& points : series.launches) {
    const CostLine line = fit_line(points, FitMethod::relative);
    if (std::isnan(line.beta)) continue;  // one size: this launch has no line
    lines.alphas.push_back(line.alpha);
    lines.betas.push_back(line.beta);
  }
  return lines;
}

std::string launches_words(const LaunchLines& lines, std::size_t alphas, std::size_t betas) {
  const std::size_t n = lines.alphas.size();
  if (n < enough_launches) return "; fewer than five launches: no claim between runs";
  return fmt::format("; launches {}: alpha of {} and beta of {} of {} lie where the others predict",
                     alphas == n && betas == n ? "agree" : "differ", alphas, betas, n);
}

void set_interval(Row& row, const std::string& column, const Interval& interval) {
  row.set(column + "_low", interval.low).set(column + "_high", interval.high);
}

Row row_of(const CostSeries& series, const CostFit& fit, const Segment& segment) {
  Row row(fits_schema());
  row.set("file", text(series.file))
      .set("series", text(series.key))
      .set("source", text(series.source))
      .set("collective", text(series.collective))
      .set("dtype", text(series.dtype))
      .set("op", text(series.op))
      .set("ranks", series.ranks == 0 ? Value() : Value(std::int64_t{series.ranks}))
      .set("in_place", series.in_place ? Value(std::int64_t{*series.in_place}) : Value())
      .set("load", text(series.load))
      .set("method", std::string(name(fit.method)))
      .set("segments", static_cast<std::int64_t>(fit.segments.size()))
      .set("alpha_s", segment.line.alpha)
      .set("beta_s_per_byte", segment.line.beta)
      .set("bus_bandwidth", factor_of(series) / segment.line.beta)
      .set("median_relative_error", fit.median_relative_error)
      .set("max_relative_error", fit.max_relative_error)
      .set("points", static_cast<std::int64_t>(fit.points));
  if (segment.from > 0) row.set("breakpoint_bytes", static_cast<std::int64_t>(segment.from));
  if (!series.launches.empty()) row.set("launches", static_cast<std::int64_t>(series.launches.size()));
  return row;
}

}  // namespace

double bus_factor(CollectiveForm form, int ranks) {
  const std::optional<CollectiveKind> kind = result_of(form);
  return kind ? bus_factor(*kind, ranks) : 1;
}

std::string CostSeries::title() const {
  std::string words = collective.empty() ? "unknown collective" : collective;
  for (const std::string* more : {&dtype, &op}) {
    if (!more->empty()) words += " " + *more;
  }
  words += ranks == 0 ? ", unknown ranks" : fmt::format(", {} ranks", ranks);
  if (in_place) words += *in_place ? ", in place" : ", out of place";
  return words;
}

std::vector<CostSeries> measured_series(const std::vector<Row>& summary) {
  std::vector<CostSeries> all;
  std::map<std::pair<std::string, std::string>, std::size_t> known;  // key and load: place in `all`
  std::map<std::pair<std::size_t, std::int64_t>, std::size_t> launches;
  for (const Row& row : summary) {
    const std::string key = without_size(word(row, "key"));
    for (const auto& [load, column] : {std::pair{"idle", "t_comm"}, {"loaded", "t_loaded"}}) {
      const auto* seconds = std::get_if<double>(&row.at(column));
      if (seconds == nullptr || !(*seconds > 0)) continue;
      const auto [place, is_new] = known.try_emplace({key, load}, all.size());
      if (is_new) all.push_back(series_like(row, key, load));
      CostSeries& series = all[place->second];
      const SizeTime point{static_cast<double>(whole(row, "bytes")), *seconds};
      const auto [launch, first] = launches.try_emplace({place->second, whole(row, "launch")}, series.launches.size());
      if (first) series.launches.emplace_back();
      series.launches[launch->second].push_back(point);
      series.points.push_back(point);
    }
  }
  return all;
}

std::vector<CostFit> fits_of(const CostSeries& series) {
  const std::size_t sizes = sizes_of(series.points);
  if (sizes < 2) return {};
  std::vector<CostFit> fits{fit_one(series.points, FitMethod::relative), fit_one(series.points, FitMethod::ordinary)};
  if (series.points.size() <= most_points) fits.push_back(fit_one(series.points, FitMethod::theil_sen));
  if (sizes > most_breakpoints) return fits;
  const int best = static_cast<int>(fit_cost(series.points).segments.size());
  for (int segments = 2; segments <= best; ++segments) fits.push_back(fit_segments(series.points, segments));
  return fits;
}

std::vector<Row> fit_rows(const CostSeries& series, std::span<const CostFit> fits) {
  std::vector<Row> rows;
  std::size_t best = 0;
  for (const CostFit& fit : fits) best = std::max(best, fit.segments.size());
  for (const CostFit& fit : fits) {
    const bool relative = fit.method == FitMethod::relative;
    const std::size_t first = rows.size();
    for (const Segment& segment : fit.segments) {
      Row& row = rows.emplace_back(row_of(series, fit, segment));
      row.set("chosen", std::int64_t{relative && fit.segments.size() == best}).set("verdict", fit_verdict(fit));
    }
    if (!relative) continue;
    const auto segments = static_cast<int>(fit.segments.size());
    if (segments == 1 || sizes_of(series.points) <= most_held_out) {
      const std::vector<double> errors = held_out_errors(series.points, segments);
      for (std::size_t i = first; i < rows.size(); ++i) {
        rows[i].set("held_out_median_relative_error", median(errors));
        rows[i].set("held_out_max_relative_error", quantile(errors, 1));
      }
    }
    for (std::size_t i = first; i < rows.size(); ++i)
      rows[i].set("half_performance_bytes", half_performance_bytes(fit));
    if (series.launches.size() < 2) continue;
    const CostIntervals intervals = cost_intervals(series.launches, segments);
    set_interval(rows[first], "alpha_s", intervals.alpha);
    set_interval(rows.back(), "beta_s_per_byte", intervals.beta);
    set_interval(rows.back(), "half_performance_bytes", intervals.half_performance);
    if (segments > 1) continue;
    const LaunchLines lines = lines_of(series);
    const std::size_t alphas = agreeing(lines.alphas);
    const std::size_t betas = agreeing(lines.betas);
    rows.back()
        .set("alpha_agree", static_cast<std::int64_t>(alphas))
        .set("beta_agree", static_cast<std::int64_t>(betas))
        .set("verdict", fit_verdict(fit) + launches_words(lines, alphas, betas));
  }
  return rows;
}

}  // namespace ovl
