// SPDX-License-Identifier: Apache-2.0
#include "results/import/tests_json.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

namespace ovl {
namespace {

using nlohmann::json;
using Event = json::parse_event_t;

// Walks a text and counts its lines for whoever holds the counter.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::int64_t* line) : at_(at), line_(line) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    if (*at_++ == '\n') ++*line_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  std::int64_t* line_;
};

// Numbers may stand in quotes; "nan", null, "N/A" and an absent key are unknown.
double number(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return ImportedRow::unknown;
  if (found->is_number()) return found->get<double>();
  if (!found->is_string()) return ImportedRow::unknown;
  return parse_decimal(found->get_ref<const std::string&>()).value_or(ImportedRow::unknown);
}

std::int64_t whole(const json& object, const char* key, std::int64_t otherwise) {
  const double value = number(object, key);
  return value >= 0 && value <= 9e18 && value == std::floor(value) ? static_cast<std::int64_t>(value) : otherwise;
}

std::string_view text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return {};
  const std::string_view text = found->get_ref<const std::string&>();
  return is_word(text) ? text : std::string_view();
}

class TestsJsonReader {
 public:
  explicit TestsJsonReader(const ImportHints& hints) : ranks_(hints.ranks), hints_(hints) {}

  void read(std::string_view text, std::int64_t first_line) {
    line_ = first_line;
    const json rest = json::parse(
        CountingIterator(text.data(), &line_), CountingIterator(text.data() + text.size(), &line_),
        [this](int depth, Event event, json& parsed) { return take(depth, event, parsed); }, false);
    starts_.clear();
    if (rest.is_discarded() && !ended_well_) {
      result_.warn(line_, "the JSON breaks off or is damaged here: what stood before it was read");
    }
    ended_well_ = false;
  }

  Imported finish() {
    std::string_view collective = collective_;
    for (ImportedRow& row : result_.rows) {
      if (row.collective.empty()) row.collective = collective.empty() ? hinted() : collective;
      if (row.ranks == 0) row.ranks = ranks_;
      const double factor = known_bus_factor(row.collective, row.ranks);
      if (row.ranks == 1) {
        row.bus_bandwidth = ImportedRow::unknown;
        if (row.status == RowStatus::ok) {
          row.status = RowStatus::skipped;
          row.reason = "one rank: no communication is measured";
        }
      } else if (std::isnan(row.bus_bandwidth)) {
        row.bus_bandwidth = row.algorithm_bandwidth * factor;
      }
    }
    if (!result_.rows.empty() && result_.rows.front().ranks == 0) {
      result_.warn(0, "the text does not say how many ranks took part; say it with --ranks");
    }
    if (!result_.rows.empty() && result_.rows.front().collective.empty()) {
      result_.warn(0, "the text does not name the collective; say it with --collective");
    }
    return std::move(result_);
  }

 private:
  std::string_view hinted() {
    if (hints_.collective.empty()) return {};
    if (hints_.from_file_name && !told_name_) {
      told_name_ = true;
      result_.warn(
          0, fmt::format("the text does not name the collective: {} is taken from the file's name", hints_.collective));
    }
    return result_.intern(hints_.collective);
  }

  // false: this value has been taken and need not be kept.
  bool take(int depth, Event event, json& parsed) {
    switch (event) {
      case Event::object_start: starts_.push_back(line_); return true;
      case Event::key: read_key(depth, parsed.get_ref<const std::string&>()); return true;
      case Event::array_end:
        if (depth == 1 && key_ == "args") read_arguments(parsed);
        if (depth == 0) ended_well_ = true;
        return true;
      case Event::object_end: {
        const std::int64_t line = starts_.back();
        starts_.pop_back();
        if (depth == 0) ended_well_ = true;
        return !read_object(parsed, line);
      }
      default: return true;
    }
  }

  void read_key(int depth, const std::string& key) {
    if (depth == 1) key_ = key;
    if (key.find("bandwidith") != std::string::npos && !told_spelling_) {
      told_spelling_ = true;
      result_.warn(line_, "key \"" + printable(key) + "\" is the misspelling of late 2025: read as bandwidth");
    }
  }

  void read_arguments(const json& arguments) {
    if (arguments.empty() || !arguments.front().is_string()) return;
    const std::string_view program = arguments.front().get_ref<const std::string&>();
    collective_ = known_collective(program.substr(program.find_last_of('/') + 1));
  }

  bool read_object(const json& object, std::int64_t line) {
    if (object.contains("size")) {
      if (object.contains("out_of_place") || object.contains("in_place")) return read_record(object, line);
      if (object.contains("inPlace") || object.contains("busBw")) return read_rccl(object, line);
    }
    if (object.contains("devices")) return read_config(object);
    if (key_ == "out_of_bounds" && object.contains("okay") && text_of(object, "okay") == "false" && failed_ == 0) {
      result_.warn(line, "the run says that results were wrong, and no row of it says which");
    }
    return false;
  }

  // A device is listed once a process, whose threads and GPUs are in the configuration.
  bool read_config(const json& config) {
    if (!config.at("devices").is_array()) return false;
    const auto processes = static_cast<double>(config.at("devices").size());
    const double each =
        static_cast<double>(whole(config, "nthreads", 1)) * static_cast<double>(whole(config, "ngpus", 1));
    if (processes * each >= 1 && processes * each < 1e7) ranks_ = static_cast<std::int32_t>(processes * each);
    return true;
  }

  // {"size": ..., "type": ..., "redop": ..., "out_of_place": {"time": us, "alg_bw": GB/s, ...}, "in_place": {...}}
  bool read_record(const json& record, std::int64_t line) {
    for (const bool in_place : {false, true}) {
      const auto found = record.find(in_place ? "in_place" : "out_of_place");
      if (found == record.end() || found->is_null()) continue;
      ImportedRow row = row_of(record, line);
      row.in_place = in_place;
      if (!found->is_object()) {
        row.status = RowStatus::unreadable;
        row.reason = "its measurement is no object";
        result_.rows.push_back(row);
        continue;
      }
      if (found->contains("cpu_time") && !told_cpu_) {
        told_cpu_ = true;
        result_.warn(line, "the times are those of the launching CPU (-C), not of the collective");
      }
      const double time = number(*found, found->contains("cpu_time") ? "cpu_time" : "time");
      add(row, time, number(*found, "alg_bw"), number(*found, "bus_bw"), number(*found, "nwrong"));
    }
    return true;
  }

  // {"name": "AllReduce", "ranks": 4, "size": ..., "inPlace": 0, "time": us, "algBw": GB/s, "busBw": ..., "wrong": "0"}
  bool read_rccl(const json& record, std::int64_t line) {
    ImportedRow row = row_of(record, line);
    const std::string_view name = text_of(record, "name");
    row.collective = known_collective(name);
    if (row.collective.empty()) row.collective = result_.intern(name);
    row.ranks =
        static_cast<std::int32_t>(std::min<std::int64_t>(whole(record, "ranks", whole(record, "gpus", 0)), 1 << 24));
    const std::int64_t in_place = whole(record, "inPlace", -1);
    if (in_place >= 0) row.in_place = in_place != 0;
    add(row, number(record, "time"), number(record, "algBw"), number(record, "busBw"),
        number(record, record.contains("#wrong") ? "#wrong" : "wrong"));
    return true;
  }

  ImportedRow row_of(const json& record, std::int64_t line) {
    ImportedRow row;
    row.line = line;
    row.dtype = result_.intern(text_of(record, "type"));
    row.op = result_.intern(text_of(record, "redop"));
    if (const std::int64_t bytes = whole(record, "size", -1); bytes >= 0) row.bytes = bytes;
    return row;
  }

  void add(ImportedRow& row, double microseconds, double alg, double bus, double wrong) {
    row.wrong = wrong;
    row.algorithm_bandwidth = alg * giga;
    row.bus_bandwidth = bus * giga;
    if (microseconds > 0) row.seconds = microseconds / 1e6;
    if (!row.bytes) {
      row.status = RowStatus::unreadable;
      row.reason = "its size is no whole number of bytes";
    } else if (wrong > 0) {
      row.status = RowStatus::failed_verify;
      row.reason = result_.intern(fmt::format("{} elements are wrong", wrong));
      ++failed_;
    } else if (!(microseconds > 0)) {
      row.status = RowStatus::unreadable;
      row.reason = "its time is no positive number";
    } else if (*row.bytes == 0) {
      row.status = RowStatus::skipped;
      row.reason = "size 0: nothing is sent";
      row.algorithm_bandwidth = row.bus_bandwidth = ImportedRow::unknown;
    } else if (std::isnan(row.algorithm_bandwidth)) {
      row.algorithm_bandwidth = static_cast<double>(*row.bytes) / row.seconds;
    }
    result_.rows.push_back(row);
  }

  Imported result_;
  std::int64_t line_ = 1;
  std::vector<std::int64_t> starts_;  // of the objects that are open
  std::string key_;                   // the last of the outermost object
  std::string_view collective_;
  std::int32_t ranks_ = 0;
  std::int64_t failed_ = 0;
  bool ended_well_ = false;
  bool told_spelling_ = false;
  bool told_cpu_ = false;
  bool told_name_ = false;
  const ImportHints& hints_;
};

bool is_whole_record(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t");
  const std::size_t last = line.find_last_not_of(" \t");
  return first != std::string_view::npos && line[first] == '{' && line[last] == '}';
}

}  // namespace

Imported read_tests_json(std::string_view text, const ImportHints& hints) {
  TestsJsonReader reader(hints);
  std::string_view first;
  std::string_view second;
  Lines probe(text);
  if (probe.next(first) && is_whole_record(first) && probe.next(second) && is_whole_record(second)) {
    Lines lines(text);
    for (std::string_view line; lines.next(line);) {
      if (line.find_first_not_of(" \t") != std::string_view::npos) reader.read(line, lines.number());
    }
  } else {
    reader.read(text, 1);
  }
  return reader.finish();
}

}  // namespace ovl
