// SPDX-License-Identifier: Apache-2.0
#include "results/import/series.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "results/schema.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

constexpr std::size_t most_points = 4096;  // that are fitted; Theil-Sen takes all pairs

using Key = std::tuple<std::string_view, std::string_view, std::string_view, std::int32_t, int>;

int place_of(const ImportedRow& row) { return row.in_place ? static_cast<int>(*row.in_place) : -1; }
Key key_of(const ImportedRow& row) { return {row.collective, row.dtype, row.op, row.ranks, place_of(row)}; }

bool counts(const ImportedRow& row) {
  return row.status == RowStatus::ok && row.bytes && *row.bytes > 0 && row.seconds > 0 && std::isfinite(row.seconds);
}

Value text(std::string_view value) { return value.empty() ? Value() : Value(std::string(value)); }
Value whole(std::int64_t value, std::int64_t unknown) { return value == unknown ? Value() : Value(value); }
Value truth(std::optional<bool> value) { return value ? Value(static_cast<std::int64_t>(*value)) : Value(); }

// What rows of one series share, as their key in summary.csv begins.
std::string key_text(const ImportedFile& file, const ImportedRow& row) {
  std::string file_word = file.name;
  std::replace(file_word.begin(), file_word.end(), ' ', '_');  // a key is words
  return fmt::format("import file={} collective={} dtype={} op={} ranks={} in_place={}", file_word, row.collective,
                     row.dtype, row.op, row.ranks, place_of(row));
}

// Rows of one series, grouped; in the order in which the series begin.
std::vector<std::vector<const ImportedRow*>> groups_of(const Imported& content) {
  std::vector<std::vector<const ImportedRow*>> groups;
  std::map<Key, std::size_t> known;
  std::size_t last = 0;
  for (const ImportedRow& row : content.rows) {
    const Key key = key_of(row);
    if (groups.empty() || key_of(*groups[last].front()) != key) {
      const auto [place, is_new] = known.try_emplace(key, groups.size());
      if (is_new) groups.emplace_back();
      last = place->second;
    }
    groups[last].push_back(&row);
  }
  return groups;
}

// Of single ranks the slowest of each sample; all others as they are.
std::vector<SizeTime> points_of(std::span<const ImportedRow* const> rows) {
  std::vector<SizeTime> points;
  std::map<std::pair<std::int64_t, std::int64_t>, double> slowest;
  for (const ImportedRow* row : rows) {
    if (!counts(*row)) continue;
    if (row->rank < 0) {
      points.push_back({static_cast<double>(*row->bytes), row->seconds});
    } else {
      double& seconds = slowest[{*row->bytes, row->sample}];
      seconds = std::max(seconds, row->seconds);
    }
  }
  for (const auto& [at, seconds] : slowest) points.push_back({static_cast<double>(at.first), seconds});
  return points;
}

std::map<double, std::vector<double>> by_size(std::span<const SizeTime> points) {
  std::map<double, std::vector<double>> sizes;
  for (const SizeTime& p : points) sizes[p.bytes].push_back(p.seconds);
  return sizes;
}

std::vector<SizeTime> medians(std::span<const SizeTime> points) {
  std::vector<SizeTime> result;
  for (const auto& [bytes, seconds] : by_size(points)) result.push_back({bytes, median(seconds)});
  return result;
}

}  // namespace

std::vector<CostSeries> series_of(std::span<const ImportedFile> files) {
  std::vector<CostSeries> all;
  for (const ImportedFile& file : files) {
    for (const std::vector<const ImportedRow*>& rows : groups_of(file.content)) {
      const ImportedRow& first = *rows.front();
      CostSeries series{.file = file.name,
                        .key = key_text(file, first),
                        .source = "imported",
                        .collective = std::string(first.collective),
                        .dtype = std::string(first.dtype),
                        .op = std::string(first.op),
                        .ranks = first.ranks,
                        .in_place = first.in_place,
                        .load = {},
                        .points = points_of(rows),
                        .launches = {}};
      if (series.points.empty()) continue;
      if (series.points.size() > most_points) series.points = medians(series.points);
      all.push_back(std::move(series));
    }
  }
  return all;
}

Row imported_row(const ImportedFile& file, const ImportedRow& from) {
  Row row(imported_schema());
  row.set("file", file.name)
      .set("collective", text(from.collective))
      .set("dtype", text(from.dtype))
      .set("op", text(from.op))
      .set("bytes", from.bytes ? Value(*from.bytes) : Value())
      .set("ranks", whole(from.ranks, 0))
      .set("in_place", truth(from.in_place))
      .set("seconds", from.seconds)
      .set("algorithm_bandwidth", from.algorithm_bandwidth)
      .set("bus_bandwidth", from.bus_bandwidth)
      .set("wrong", from.wrong)
      .set("status", std::string(name(from.status)))
      .set("reason", text(from.reason))
      .set("line", from.line);
  return row;
}

std::vector<Row> imported_summary(const Schema& schema, std::span<const ImportedFile> files) {
  std::vector<Row> rows;
  for (const ImportedFile& file : files) {
    for (const std::vector<const ImportedRow*>& group : groups_of(file.content)) {
      const ImportedRow& first = *group.front();
      const double factor = first.ranks == 1 ? ImportedRow::unknown : known_bus_factor(first.collective, first.ranks);
      for (const auto& [bytes, seconds] : by_size(points_of(group))) {
        const double time = median(seconds);
        Row row(schema);
        row.set("key", fmt::format("{} bytes={}", key_text(file, first), bytes))
            .set("bench", std::string("import"))
            .set("launch", std::int64_t{0})
            .set("status", std::string("ok"))
            .set("source", std::string("imported"))
            .set("backend", file.format)
            .set("ranks", whole(first.ranks, 0))
            .set("rounds", static_cast<std::int64_t>(seconds.size()))
            .set("t_comm", time)
            .set("file", file.name)
            .set("collective", text(first.collective))
            .set("dtype", text(first.dtype))
            .set("op", text(first.op))
            .set("in_place", truth(first.in_place))
            .set("bytes", static_cast<std::int64_t>(bytes))
            .set("algorithm_bandwidth", bytes / time)
            .set("bus_bandwidth", bytes / time * factor);
        rows.push_back(std::move(row));
      }
    }
  }
  return rows;
}

}  // namespace ovl
