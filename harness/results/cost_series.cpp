// SPDX-License-Identifier: Apache-2.0
#include "results/cost_series.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>
#include <tuple>
#include <utility>

#include "results/import/imported.hpp"

namespace ovl {
namespace {

constexpr std::pair<std::string_view, std::string_view> dtype_names[] = {
    {"float", "f32"},  {"float32", "f32"}, {"half", "f16"},        {"float16", "f16"},    {"bfloat16", "bf16"},
    {"double", "f64"}, {"float64", "f64"}, {"fp8_e4m3", "f8e4m3"}, {"fp8_e5m2", "f8e5m2"}};
constexpr std::string_view settings[] = {"transport", "waiting", "channels", "buffers",
                                         "placement", "balance", "progress"};

bool reduces(std::string_view collective) {
  return collective.starts_with("all_reduce") || collective.starts_with("reduce");
}

// Texts of a run are somebody else's: a terminal must obey nothing in them.
void add(CaseAxes& axes, const std::string& axis, const std::string& value) {
  if (!value.empty()) axes[printable(axis)] = printable(value, 200);
}

std::string whole_text(const Row& row, std::string_view column) {
  const std::optional<std::int64_t> value = whole_in(row, column);
  return value ? std::to_string(*value) : "";
}

// "pair a=1 b=2".
CaseAxes axes_of_key(const std::string& key) {
  CaseAxes axes;
  std::istringstream words(key);
  std::string word;
  while (words >> word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) {
      add(axes, "bench", word);
    } else {
      add(axes, word.substr(0, equals), word.substr(equals + 1));
    }
  }
  return axes;
}

// The words of a measured case's key, so that no option which a later version adds is lost; what logs name as well
// comes from the columns. Of a log the key says no more than they do.
CaseAxes axes_of_collective(const Row& row, bool imported) {
  CaseAxes axes = imported ? CaseAxes() : axes_of_key(text_in(row, "key"));
  for (const char* word : {"bench", "place", "bytes"}) axes.erase(word);
  if (axes["channels"] == "0") axes.erase("channels");  // the library's choice
  const std::string collective = text_in(row, "collective");
  add(axes, "collective", collective);
  add(axes, "dtype", std::string(common_dtype(text_in(row, "dtype"))));
  const std::string op = text_in(row, "op");
  if (reduces(collective)) add(axes, "op", op.empty() || op == "none" ? "sum" : op);
  for (const char* column : {"bytes", "ranks", "in_place"}) add(axes, column, whole_text(row, column));
  for (const char* column : {"transport", "waiting", "buffers", "placement", "gemm"}) {
    add(axes, column, text_in(row, column));
  }
  if (axes["gemm"] == "none") axes.erase("gemm");
  std::erase_if(axes, [](const auto& axis) { return axis.second.empty(); });
  return axes;
}

}  // namespace

bool holds_series(const LoadedRun& run) {
  const std::string bench = run.text_at({"identity", "bench"});
  return bench == "import" || bench == "collective";
}

CaseAxes axes_of(const LoadedRun& run, const Row& row) {
  if (!holds_series(run)) return axes_of_key(text_in(row, "key"));
  return axes_of_collective(row, run.text_at({"identity", "bench"}) == "import");
}

std::string_view common_dtype(std::string_view dtype) {
  for (const auto& [theirs, ours] : dtype_names) {
    if (dtype == theirs) return ours;
  }
  return dtype;
}

bool is_setting(std::string_view axis) {
  return std::find(std::begin(settings), std::end(settings), axis) != std::end(settings);
}

std::string series_title(const CaseAxes& axes, const std::set<std::string, std::less<>>& shown) {
  const auto value = [&](std::string_view axis) {
    const auto found = axes.find(axis);
    return found == axes.end() ? std::string() : found->second;
  };
  std::string title = value("collective").empty() ? "unknown collective" : value("collective");
  for (const char* axis : {"dtype", "op"}) {
    if (!value(axis).empty()) title += " " + value(axis);
  }
  title += value("ranks").empty() ? ", unknown ranks" : fmt::format(", {} ranks", value("ranks"));
  if (!value("in_place").empty()) title += value("in_place") == "1" ? ", in place" : ", out of place";
  for (const std::string& axis : shown) {
    if (!value(axis).empty()) title += fmt::format(", {} {}", axis, value(axis));
  }
  if (value("load") == "loaded") title += ", loaded";
  return title;
}

bool has_numbers(const Row& row) {
  const std::string status = text_in(row, "status");
  return status == "ok" || status == "noisy";
}

std::vector<SizeTime> LoadedSeries::points() const {
  std::vector<SizeTime> all;
  for (const std::vector<SizeTime>& launch : launches) all.insert(all.end(), launch.begin(), launch.end());
  return all;
}

std::vector<LoadedSeries> series_in(const LoadedRun& run) {
  std::vector<LoadedSeries> all;
  if (!holds_series(run)) return all;
  std::map<CaseAxes, std::size_t> known;
  // Points of one launch and file are one list of their series.
  std::map<std::tuple<std::size_t, std::int64_t, std::string>, std::size_t> lists;
  const bool imported = run.text_at({"identity", "bench"}) == "import";
  for (const Row& row : run.rows("summary")) {
    const double bytes = number_in(row, "bytes");
    if (!has_numbers(row) || !(bytes > 0)) continue;
    CaseAxes axes = axes_of(run, row);
    axes.erase("bytes");
    for (const auto& [load, column] : {std::pair{"idle", "t_comm"}, std::pair{"loaded", "t_loaded"}}) {
      const double seconds = number_in(row, column);
      if (!(seconds > 0) || !std::isfinite(seconds)) continue;
      if (!imported) axes["load"] = load;
      const auto [place, is_new] = known.try_emplace(axes, all.size());
      if (is_new) all.push_back({axes, printable(text_in(row, "source")), {}});
      LoadedSeries& series = all[place->second];
      const auto [list, is_first] = lists.try_emplace(
          {place->second, whole_in(row, "launch").value_or(0), text_in(row, "file")}, series.launches.size());
      if (is_first) series.launches.emplace_back();
      series.launches[list->second].push_back({bytes, seconds});
    }
  }
  return all;
}

}  // namespace ovl
