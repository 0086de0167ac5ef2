// SPDX-License-Identifier: Apache-2.0
#include "results/import/delimited.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>

namespace ovl {
namespace {

constexpr std::size_t most_columns = 64;

enum class Field { bytes, seconds, rank, sample, collective, dtype, op, ranks, in_place, wrong, algbw, busbw };
constexpr std::size_t fields = 12;

struct Spelling {
  std::string_view name;
  Field field;
  double multiply = 1;  // to bytes a second
  unsigned tenths = 0;  // to seconds: over 10^tenths
};
constexpr Spelling spellings[] = {
    {"bytes", Field::bytes},
    {"size", Field::bytes},
    {"size_bytes", Field::bytes},
    {"nbytes", Field::bytes},
    {"message_size", Field::bytes},
    {"message_bytes", Field::bytes},
    {"size(b)", Field::bytes},
    {"seconds", Field::seconds},
    {"time_s", Field::seconds},
    {"t_s", Field::seconds},
    {"time(s)", Field::seconds},
    {"time_ms", Field::seconds, 1, 3},
    {"ms", Field::seconds, 1, 3},
    {"time_us", Field::seconds, 1, 6},
    {"us", Field::seconds, 1, 6},
    {"usec", Field::seconds, 1, 6},
    {"latency_us", Field::seconds, 1, 6},
    {"time(us)", Field::seconds, 1, 6},
    {"latency(us)", Field::seconds, 1, 6},
    {"time_ns", Field::seconds, 1, 9},
    {"ns", Field::seconds, 1, 9},
    {"rank", Field::rank},
    {"sample", Field::sample},
    {"iteration", Field::sample},
    {"collective", Field::collective},
    {"dtype", Field::dtype},
    {"type", Field::dtype},
    {"op", Field::op},
    {"redop", Field::op},
    {"ranks", Field::ranks},
    {"nranks", Field::ranks},
    {"in_place", Field::in_place},
    {"inplace", Field::in_place},
    {"wrong", Field::wrong},
    {"#wrong", Field::wrong},
    {"algorithm_bandwidth", Field::algbw},
    {"algbw_gbs", Field::algbw, 1e9},
    {"algbw", Field::algbw, 1e9},
    {"bus_bandwidth", Field::busbw},
    {"busbw_gbs", Field::busbw, 1e9},
    {"busbw", Field::busbw, 1e9},
};

std::string_view trimmed(std::string_view cell) {
  const std::size_t first = cell.find_first_not_of(" \t\r");
  if (first == npos) return {};
  cell = cell.substr(first, cell.find_last_not_of(" \t\r") - first + 1);
  if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"') cell = cell.substr(1, cell.size() - 2);
  return cell;
}

// A separator within quotes belongs to its cell.
std::size_t cells_of(std::string_view line, char separator, std::span<std::string_view> cells) {
  std::size_t count = 0;
  while (count < cells.size()) {
    std::size_t end = 0;
    for (bool quoted = false; end < line.size() && (quoted || line[end] != separator); ++end) {
      if (line[end] == '"') quoted = !quoted;
    }
    cells[count++] = trimmed(line.substr(0, end));
    if (end == line.size()) break;
    line.remove_prefix(end + 1);
  }
  return count;
}

const Spelling* spelled(std::string_view name) {
  const std::string folded = lower_case(name.substr(0, 32));
  const auto* found =
      std::find_if(std::begin(spellings), std::end(spellings), [&](const Spelling& s) { return s.name == folded; });
  return found == std::end(spellings) ? nullptr : found;
}

char separator_of(std::string_view line) {
  for (const char c : {'\t', ',', ';'}) {
    if (line.find(c) != npos) return c;
  }
  return '\0';
}

bool is_remark(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t");
  return first == npos || line[first] == '#';
}

bool all_numbers(std::span<const std::string_view> cells) {
  return cells.size() >= 2 && cells.size() <= 4 &&
         std::all_of(cells.begin(), cells.end(), [](std::string_view c) { return parse_decimal(c).has_value(); });
}

struct Shape {
  std::array<std::size_t, fields> column{};  // + 1; 0: not there
  std::array<double, fields> multiply{};
  std::array<unsigned, fields> tenths{};
  char separator = ',';
  std::size_t columns = 0;
  bool rccl = false;
  bool names_nodes = false;

  void set(Field field, std::size_t at, double times = 1, unsigned power = 0) {
    const auto i = static_cast<std::size_t>(field);
    if (column[i] != 0) return;
    column[i] = at + 1;
    multiply[i] = times;
    tenths[i] = power;
  }
};

class DelimitedReader {
 public:
  DelimitedReader(std::string_view text, const ImportHints& hints) : lines_(text), hints_(hints) {}

  Imported read() {
    std::array<std::string_view, most_columns> storage;
    std::string_view line;
    bool begun = false;
    while (lines_.next(line)) {
      if (is_remark(line)) continue;
      if (!begun) {
        begun = true;
        if (read_names(line)) continue;
        if (shape_.columns == 0) return std::move(result_);
      }
      read_row(std::span(storage.data(), cells_of(line, shape_.separator, storage)));
    }
    settle();
    return std::move(result_);
  }

 private:
  // Whether the first line holds names; without, shape_ has columns when it holds numbers.
  bool read_names(std::string_view line) {
    std::array<std::string_view, most_columns> storage;
    shape_.separator = separator_of(line);
    const std::span<std::string_view> cells(storage.data(), cells_of(line, shape_.separator, storage));
    if (all_numbers(cells)) {
      shape_.columns = cells.size();
      constexpr Field order[] = {Field::bytes, Field::seconds, Field::rank, Field::sample};
      for (std::size_t i = 0; i < cells.size(); ++i) shape_.set(order[i], i);
      result_.warn(lines_.number(), "no line of column names: taken as bytes,seconds,rank,sample");
      return false;
    }
    for (const std::string_view cell : cells) shape_.rccl = shape_.rccl || cell == "numCycle";
    std::string_view bare_time;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      shape_.names_nodes = shape_.names_nodes || cells[i] == "nodes";
      const std::string name = lower_case(cells[i].substr(0, 16));
      if (shape_.rccl && (name == "time" || name == "gpus")) {
        name == "time" ? shape_.set(Field::seconds, i, 1, 6) : shape_.set(Field::ranks, i);
      } else if (name == "time" || name == "latency") {
        bare_time = cells[i];
      } else if (const Spelling* known = spelled(cells[i])) {
        shape_.set(known->field, i, known->multiply, known->tenths);
      }
    }
    if (!has(Field::bytes) || !has(Field::seconds)) {
      const std::string why = !has(Field::bytes)  ? "no column is named bytes"
                              : bare_time.empty() ? "no column is named seconds (or time_us, time_ms)"
                                                  : "column " + printable(bare_time, 16) +
                                                        " has no unit: name it seconds, time_ms or time_us";
      result_.warn(lines_.number(), why);
      shape_ = {};
      return false;
    }
    shape_.columns = cells.size();
    return true;
  }

  [[nodiscard]] bool has(Field field) const { return shape_.column[static_cast<std::size_t>(field)] != 0; }

  [[nodiscard]] std::string_view cell(std::span<const std::string_view> cells, Field field) const {
    std::size_t at = shape_.column[static_cast<std::size_t>(field)];
    if (at == 0) return {};
    if (shifted_ && at > 2) ++at;
    return at <= cells.size() ? cells[at - 1] : std::string_view();
  }

  [[nodiscard]] double number(std::span<const std::string_view> cells, Field field) const {
    const auto i = static_cast<std::size_t>(field);
    const auto number = read_decimal(cell(cells, field));
    return number ? number->over_ten_to(shape_.tenths[i]) * shape_.multiply[i] : ImportedRow::unknown;
  }

  void read_row(std::span<const std::string_view> cells) {
    shifted_ = shape_.rccl && !shape_.names_nodes && cells.size() == shape_.columns + 1;
    if (shifted_ && !told_shift_) {
      told_shift_ = true;
      result_.warn(lines_.number(),
                   "rows have a column more than names, as rccl-tests wrote them: nodes, behind the collective");
    }
    ImportedRow row;
    row.line = lines_.number();
    const std::string_view collective = cell(cells, Field::collective);
    row.collective = known_collective(collective);
    if (row.collective.empty() && !collective.empty()) {
      if (is_word(collective)) row.collective = result_.intern(lower_case(collective));
      tell("collective", collective, row.collective.empty() ? "left out" : "its bus bandwidth is unknown");
    }
    row.dtype = word(cell(cells, Field::dtype));
    row.op = word(cell(cells, Field::op));
    const double ranks_said = number(cells, Field::ranks);
    row.ranks = ranks_said == std::floor(ranks_said) ? small(ranks_said, 0) : 0;
    if (const auto ranks = cell(cells, Field::ranks); row.ranks == 0 && !ranks.empty()) {
      tell("number of ranks", ranks, "taken as unknown");
    }
    row.rank = small(number(cells, Field::rank), -1);
    row.sample = small(number(cells, Field::sample), -1);
    row.in_place = truth(cell(cells, Field::in_place));
    row.wrong = number(cells, Field::wrong);
    row.algorithm_bandwidth = number(cells, Field::algbw);
    row.bus_bandwidth = number(cells, Field::busbw);
    const double bytes = number(cells, Field::bytes);
    row.bytes = parse_count(cell(cells, Field::bytes));
    if (!row.bytes && bytes >= 0 && bytes < 0x1p63 && bytes == std::floor(bytes)) {
      row.bytes = static_cast<std::int64_t>(bytes);
    }
    if (const double seconds = number(cells, Field::seconds); seconds > 0) row.seconds = seconds;
    judge(row, cells);
    result_.rows.push_back(row);
  }

  void judge(ImportedRow& row, std::span<const std::string_view> cells) {
    const auto set = [&](RowStatus status, std::string_view reason) {
      row.status = status;
      row.reason = result_.intern(reason);
    };
    if (cells.size() < shape_.columns) {
      set(RowStatus::unreadable, fmt::format("{} columns where the names are {}", cells.size(), shape_.columns));
    } else if (lines_.unterminated() && shape_.columns == cells.size() && cells.back().empty()) {
      set(RowStatus::unreadable, "the row is cut");
    } else if (!row.bytes) {
      set(RowStatus::unreadable,
          fmt::format("\"{}\" is no whole number of bytes", printable(cell(cells, Field::bytes), 24)));
    } else if (std::isnan(row.seconds)) {
      set(RowStatus::unreadable, fmt::format("\"{}\" is no positive time", printable(cell(cells, Field::seconds), 24)));
    } else if (row.wrong > 0) {
      set(RowStatus::failed_verify, fmt::format("{} elements are wrong", row.wrong));
    } else if (*row.bytes == 0) {
      set(RowStatus::skipped, "size 0: nothing is sent");
    }
  }

  // A cell that says nothing that is known, once each.
  void tell(std::string_view what, std::string_view text, std::string_view so) {
    if (!told_.emplace(fmt::format("{} {}", what, text)).second) return;
    result_.warn(lines_.number(), fmt::format("\"{}\" is no known {}: {}", printable(text, 24), what, so));
  }

  std::string_view word(std::string_view text) { return is_word(text) ? result_.intern(text) : std::string_view(); }

  static std::int32_t small(double value, std::int32_t otherwise) {
    return value >= 0 && value <= 1 << 30 ? static_cast<std::int32_t>(value) : otherwise;
  }

  static std::optional<bool> truth(std::string_view text) {
    const std::string folded = lower_case(text.substr(0, 8));
    if (folded == "1" || folded == "true" || folded == "yes") return true;
    if (folded == "0" || folded == "false" || folded == "no") return false;
    return std::nullopt;
  }

  // What the columns do not say, and bandwidths from size and time.
  void settle() {
    if (result_.rows.empty()) return;
    const std::string_view hinted = result_.intern(hints_.collective);
    bool used = false;
    for (ImportedRow& row : result_.rows) {
      if (row.collective.empty() && !hinted.empty()) {
        row.collective = hinted;
        used = true;
      }
      if (row.ranks == 0) row.ranks = hints_.ranks;
      if (row.ranks == 1 && row.status == RowStatus::ok) {
        row.status = RowStatus::skipped;
        row.reason = "one rank: no communication is measured";
      }
      if (row.ranks == 1) row.bus_bandwidth = ImportedRow::unknown;
      if (!row.bytes || *row.bytes == 0 || std::isnan(row.seconds)) continue;
      // Bandwidths are often rounded to 0.00 GB/s: size / time says more.
      if (!(row.algorithm_bandwidth >= 1e9)) row.algorithm_bandwidth = static_cast<double>(*row.bytes) / row.seconds;
      if (row.ranks != 1 && !(row.bus_bandwidth >= 1e9)) {
        row.bus_bandwidth = row.algorithm_bandwidth * known_bus_factor(row.collective, row.ranks);
      }
    }
    if (used && hints_.from_file_name) {
      result_.warn(0, fmt::format("the text does not name the collective: {} is taken from the file's name", hinted));
    }
  }

  Lines lines_;
  const ImportHints& hints_;
  Imported result_;
  Shape shape_;
  bool shifted_ = false;
  bool told_shift_ = false;
  std::set<std::string> told_;
};

}  // namespace

bool looks_delimited(std::string_view text) {
  Lines lines(text);
  for (std::string_view line; lines.next(line);) {
    if (is_remark(line)) continue;
    const char separator = separator_of(line);
    if (separator == '\0') return false;
    std::array<std::string_view, most_columns> storage;
    const std::span<std::string_view> cells(storage.data(), cells_of(line, separator, storage));
    if (all_numbers(cells)) return true;
    return std::any_of(cells.begin(), cells.end(), [](std::string_view c) {
      const Spelling* known = spelled(c);
      return known != nullptr && (known->field == Field::bytes || known->field == Field::seconds);
    });
  }
  return false;
}

Imported read_delimited(std::string_view text, const ImportHints& hints) { return DelimitedReader(text, hints).read(); }

}  // namespace ovl
