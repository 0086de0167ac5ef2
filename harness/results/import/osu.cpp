// SPDX-License-Identifier: Apache-2.0
#include "results/import/osu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "results/import/mpi_sizes.hpp"

namespace ovl {
namespace {

// Column names have single blanks inside and stand two or more apart.
std::vector<std::string_view> column_names(std::string_view text) {
  std::vector<std::string_view> names;
  while (names.size() < 64) {
    const std::size_t first = text.find_first_not_of(" \t");
    if (first == npos) break;
    text.remove_prefix(first);
    const std::size_t end = std::min({text.find("  "), text.find('\t'), text.size()});
    std::string_view name = text.substr(0, end);
    while (!name.empty() && (name.back() == ' ' || name.back() == '\r')) name.remove_suffix(1);
    names.push_back(name);
    text.remove_prefix(end);
  }
  return names;
}

class OsuReader {
 public:
  OsuReader(std::string_view text, const ImportHints& hints) : lines_(text), hints_(hints), rows_(result_) {}

  Imported read() {
    std::array<std::string_view, 24> storage;
    for (std::string_view line; lines_.next(line);) {
      if (const std::size_t title = line.find("# OSU "); title != npos) {
        read_title(line.substr(title + 6));
      } else if (const std::size_t names = line.find("# Size"); names != npos) {
        read_columns(line.substr(names + 6));
      } else if (const std::size_t type = line.find("# Datatype: "); type != npos) {
        std::string_view name = line.substr(type + 12);
        name = name.substr(0, name.find_first_of(". \t"));
        dtype_ = is_word(name) ? result_.intern(name) : std::string_view();
      } else if (time_ != 0) {
        read_row(std::span(storage.data(), split(line, storage)));
      }
    }
    if (time_ != 0 && rows_of_table_ == 0) result_.warn(columns_line_, "the table that begins here has no row");
    return std::move(result_);
  }

 private:
  // "MPI-CUDA Allreduce Latency Test v5.7", "MPI All-to-All Personalized Exchange Latency Test", "MPI Latency Test".
  void read_title(std::string_view title) {
    if (time_ != 0 && rows_of_table_ == 0) result_.warn(columns_line_, "the table that begins here has no row");
    std::array<std::string_view, 16> words;
    const std::size_t count = split(title, words);
    collective_ = dtype_ = {};
    bool latency = false;
    bandwidth_ = false;
    time_ = 0;
    bool plain = true;  // nothing but the library, "Latency" or "Bandwidth", "Test" and the version
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view word = words[i];
      if (const std::string_view name = known_collective(word); !name.empty() && collective_.empty())
        collective_ = name;
      latency = latency || word == "Latency";
      bandwidth_ = bandwidth_ || word == "Bandwidth";
      const bool usual = i == 0 || word == "Latency" || word == "Test" || word.starts_with('v');
      plain = plain && usual;
    }
    if (collective_.empty() && latency && plain) {
      collective_ = "sendrecv";
      ranks_ = 2;
      return;
    }
    ranks_ = hints_.ranks;
    if (collective_.empty() && !hints_.collective.empty() && !bandwidth_) {
      collective_ = result_.intern(hints_.collective);
      if (hints_.from_file_name) {
        result_.warn(lines_.number(), fmt::format("no known collective in the title: {} is taken from the file's name",
                                                  hints_.collective));
      }
    }
    if (collective_.empty() && !bandwidth_) {
      result_.warn(lines_.number(), "no known collective in the title: " + printable(title));
    }
    if (ranks_ == 0 && !bandwidth_) {
      result_.warn(lines_.number(), "OSU does not say how many ranks took part; say it with --ranks");
    }
  }

  void read_columns(std::string_view text) {
    const std::vector<std::string_view> names = column_names(text);
    const auto column = [&](std::initializer_list<std::string_view> beginnings) -> std::size_t {
      for (const std::string_view beginning : beginnings) {
        for (std::size_t i = 0; i < names.size(); ++i) {
          if (names[i].starts_with(beginning)) return i + 1;  // behind the size
        }
      }
      return 0;
    };
    columns_line_ = lines_.number();
    rows_of_table_ = 0;
    columns_ = names.size() + 1;
    time_ = column({"Pure Comm", "Avg Lat", "Latency", "Avg", "Bandwidth"});
    bandwidth_ = time_ != 0 && names[time_ - 1].starts_with("Bandwidth");
    validation_ = column({"Validation"});
    const std::string_view name = time_ == 0 ? std::string_view() : names[time_ - 1];
    if (time_ == 0 || (!bandwidth_ && name.find("(us)") == npos)) {
      result_.warn(columns_line_, "no column of times in us is known here: " + printable(text));
      time_ = 0;
    }
  }

  void read_row(std::span<std::string_view> tokens) {
    if (tokens.empty()) return;
    const std::size_t label = tokens[0].find_last_of(":>]");  // "[1,0]<stdout>:1024", "0: 1024"
    if (label != npos) tokens[0] = tokens[0].substr(label + 1);
    if (tokens[0].empty()) tokens = tokens.subspan(1);
    if (tokens.empty() || !is_digits(tokens[0])) return;
    ImportedRow row;
    row.collective = collective_;
    row.dtype = dtype_;
    row.ranks = ranks_;
    row.line = lines_.number();
    row.bytes = parse_count(tokens[0]);
    const auto value = tokens.size() > time_ ? read_decimal(tokens[time_]) : std::nullopt;
    ++rows_of_table_;
    if (!value || tokens.size() < columns_) {
      row.status = RowStatus::unreadable;
      row.reason = tokens.size() < columns_ ? "the row is cut" : "its time is no number";
      rows_.add(row);
      return;
    }
    if (bandwidth_) {
      row.status = RowStatus::skipped;
      row.reason = "a bandwidth of many messages in flight: there is no time of one";
      row.algorithm_bandwidth = value->value * 1e6;
      result_.rows.push_back(row);
      return;
    }
    row.seconds = value->over_ten_to(6);
    if (validation_ != 0) {
      if (tokens[validation_] == "Pass") {
        row.wrong = 0;
      } else {
        row.status = RowStatus::failed_verify;
        row.reason = result_.intern("its validation says " + printable(tokens[validation_], 16));
      }
    }
    rows_.add(row);
  }

  Lines lines_;
  const ImportHints& hints_;
  Imported result_;
  MpiRows rows_;
  std::string_view collective_;
  std::string_view dtype_;
  std::int32_t ranks_ = 0;
  std::int64_t columns_line_ = 0;
  std::int64_t rows_of_table_ = 0;
  std::size_t columns_ = 0;
  std::size_t time_ = 0;  // its column; 0: no table
  std::size_t validation_ = 0;
  bool bandwidth_ = false;
};

}  // namespace

Imported read_osu(std::string_view text, const ImportHints& hints) { return OsuReader(text, hints).read(); }

}  // namespace ovl
