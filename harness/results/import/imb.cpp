// SPDX-License-Identifier: Apache-2.0
#include "results/import/imb.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "results/import/mpi_sizes.hpp"

namespace ovl {
namespace {

using Tokens = std::span<const std::string_view>;

class ImbReader {
 public:
  ImbReader(std::string_view text, const ImportHints& hints)
      : lines_(text), hints_(hints), rows_(result_), ranks_(hints.ranks) {}

  Imported read() {
    std::array<std::string_view, 24> storage;
    for (std::string_view line; lines_.next(line);) {
      const Tokens tokens(storage.data(), split(line, storage));
      if (tokens.empty() || read_context(line, tokens) || read_columns(tokens)) continue;
      if (time_ != 0) read_row(tokens);
    }
    if (time_ != 0 && rows_of_table_ == 0) warn_no_row();
    return std::move(result_);
  }

 private:
  bool read_context(std::string_view line, Tokens tokens) {
    constexpr std::string_view benchmarking = "# Benchmarking ";
    if (const std::size_t at = line.find(benchmarking); at != npos) {
      if (time_ != 0 && rows_of_table_ == 0) warn_no_row();
      std::array<std::string_view, 1> name;
      time_ = 0;
      collective_ = {};
      if (split(line.substr(at + benchmarking.size()), name) == 1) read_name(name[0]);
      return true;
    }
    if (const std::size_t at = line.find("#processes ="); at != npos) {
      std::array<std::string_view, 1> number;
      if (split(line.substr(at + 12), number) == 1) {
        if (const auto ranks = parse_count(number[0]); ranks && *ranks <= 1 << 24)
          ranks_ = static_cast<std::int32_t>(*ranks);
      }
      return true;
    }
    if (!tokens.back().starts_with("MPI_")) return false;
    const std::string_view value = is_word(tokens.back()) ? result_.intern(tokens.back()) : std::string_view();
    if (line.find("MPI_Datatype for reductions") != npos) {
      reduction_dtype_ = value;
    } else if (line.find("# MPI_Datatype") != npos) {
      dtype_ = value;
    } else if (line.find("# MPI_Op") != npos) {
      op_ = value;
    } else {
      return false;
    }
    return true;
  }

  // "Allreduce", "Iallreduce" (nonblocking), "PingPong".
  void read_name(std::string_view name) {
    collective_ = known_collective(name);
    if (collective_.empty() && (name.starts_with('I') || name.starts_with('i')))
      collective_ = known_collective(name.substr(1));
    if (collective_.empty() && is_word(name)) collective_ = result_.intern(lower_case(name));
  }

  bool read_columns(Tokens tokens) {
    const auto begins = [](std::string_view token) { return token == "#bytes" || token.ends_with(":#bytes"); };
    const auto first = std::find_if(tokens.begin(), tokens.end(), begins);
    if (first == tokens.end()) return false;
    if (time_ != 0 && rows_of_table_ == 0) warn_no_row();
    columns_line_ = lines_.number();
    rows_of_table_ = 0;
    time_ = defects_ = 0;
    const Tokens names = tokens.subspan(static_cast<std::size_t>(first - tokens.begin()));
    for (const std::string_view wanted : {"t_pure[usec]", "t_avg[usec]", "t[usec]"}) {
      const auto found = std::find(names.begin(), names.end(), wanted);
      if (time_ == 0 && found != names.end()) time_ = static_cast<std::size_t>(found - names.begin());
    }
    const auto defects = std::find(names.begin(), names.end(), "defects");
    if (defects != names.end()) defects_ = static_cast<std::size_t>(defects - names.begin());
    columns_ = names.size();
    if (time_ == 0) result_.warn(columns_line_, "no column t_avg, t_pure or t in usec: this table is not read");
    if (collective_.empty() && !hints_.collective.empty()) {
      collective_ = result_.intern(hints_.collective);
      if (hints_.from_file_name) {
        result_.warn(
            columns_line_,
            fmt::format("the text does not name the benchmark: {} is taken from the file's name", hints_.collective));
      }
    }
    if (ranks_ == 0)
      result_.warn(columns_line_, "the text does not say how many processes took part; say it with --ranks");
    return true;
  }

  void read_row(Tokens tokens) {
    std::string_view size = tokens[0];
    if (const std::size_t label = size.find_last_of(":>]"); label != npos) {
      size = size.substr(label + 1);
      if (size.empty()) {
        tokens = tokens.subspan(1);
        if (tokens.empty()) return;
        size = tokens[0];
      }
    }
    if (!is_digits(size) || tokens.size() < 2) return;
    ImportedRow row;
    row.collective = collective_;
    const bool reduces = collective_.find("reduce") != npos;
    row.dtype = reduces ? reduction_dtype_ : dtype_;
    if (reduces) row.op = op_;
    row.ranks = ranks_;
    row.line = lines_.number();
    row.bytes = parse_count(size);
    ++rows_of_table_;
    const auto time = tokens.size() > time_ ? read_decimal(tokens[time_]) : std::nullopt;
    if (!time || tokens.size() < columns_) {
      row.status = RowStatus::unreadable;
      row.reason = tokens[1].starts_with("out-of-mem") ? "the benchmark ran out of memory" : "the row is cut";
    } else {
      row.seconds = time->over_ten_to(6);
      if (defects_ != 0) {
        const double defects = parse_decimal(tokens[defects_]).value_or(ImportedRow::unknown);
        if (defects > 0) {
          row.status = RowStatus::failed_verify;
          row.reason = result_.intern(fmt::format("defects {}", defects));
        }
      }
    }
    rows_.add(row);
  }

  void warn_no_row() { result_.warn(columns_line_, "the table that begins here has no row"); }

  Lines lines_;
  const ImportHints& hints_;
  Imported result_;
  MpiRows rows_;
  std::string_view collective_;
  std::string_view dtype_;
  std::string_view reduction_dtype_;
  std::string_view op_;
  std::int32_t ranks_ = 0;
  std::int64_t columns_line_ = 0;
  std::int64_t rows_of_table_ = 0;
  std::size_t columns_ = 0;
  std::size_t time_ = 0;  // its column; 0: no table
  std::size_t defects_ = 0;
};

}  // namespace

Imported read_imb(std::string_view text, const ImportHints& hints) { return ImbReader(text, hints).read(); }

}  // namespace ovl
