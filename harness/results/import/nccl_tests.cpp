// SPDX-License-Identifier: Apache-2.0
#include "results/import/nccl_tests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace ovl {
namespace {

constexpr double half_digit = 0.0051;  // GB/s: bandwidths are printed with two decimals

constexpr std::string_view dtypes[] = {"float", "half",  "bfloat16", "double",  "f8e4m3",  "f8e5m2", "fp8_e4m3",
                                       "int8",  "uint8", "int32",    "uint32",  "int64",   "uint64", "char",
                                       "int",   "uint",  "float16",  "float32", "float64", "bf16",   "fp8_e5m2"};
constexpr std::string_view operations[] = {"sum", "none", "prod", "max", "min", "avg", "mulsum", "premulsum"};

// The largest relative error that tests with a column "error" or "res" let pass (DeltaMaxValue of nccl-tests).
double error_limit(std::string_view dtype) {
  if (dtype == "half" || dtype == "bfloat16" || dtype == "float16" || dtype == "bf16") return 1e-2;
  if (dtype == "float" || dtype == "float32") return 1e-5;
  if (dtype == "double" || dtype == "float64") return 1e-12;
  return 0;
}

template <std::size_t n>
std::string_view one_of(const std::string_view (&known)[n], std::string_view word) {
  const auto* found = std::find(std::begin(known), std::end(known), word);
  return found == std::end(known) ? std::string_view() : *found;
}

using Tokens = std::span<const std::string_view>;

std::size_t find_token(Tokens tokens, std::string_view word, std::size_t most = 64) {
  const std::size_t end = std::min(tokens.size(), most);
  for (std::size_t i = 0; i < end; ++i) {
    if (tokens[i] == word) return i;
  }
  return std::string_view::npos;
}

// "12288" of "[STAT]:12288", "1024" of "[1,0]<stdout>:1024".
std::string_view behind_label(std::string_view token) {
  const std::size_t end = token.find_last_of(":>]");
  return end == std::string_view::npos ? token : token.substr(end + 1);
}

// The number that `token` begins with, and how many characters it has.
std::pair<std::optional<double>, std::size_t> leading_number(std::string_view token) {
  std::size_t end = token.starts_with('-') ? 1 : 0;
  while (end < token.size() && token[end] >= '0' && token[end] <= '9') ++end;
  return {parse_decimal(token.substr(0, end)), end};
}

// What the header of a table says of its rows.
struct Columns {
  std::int64_t line = 0;  // 0: no header was seen, and these are today's columns
  bool redop = true;
  bool root = true;
  bool counts_wrong = true;  // "#wrong", not "error" or "res"
  bool cpu_time = false;
  unsigned tenths = 6;  // printed times are seconds / 10^tenths
  std::size_t group = 4;
  std::size_t algbw = 1;
  std::size_t busbw = 2;
  std::size_t wrong = 3;
};

// N/A: a NaN.
using Value = Decimal;
constexpr Value not_available{.value = ImportedRow::unknown};

constexpr std::size_t most_values = 32;  // two groups of up to 16 columns

// A row whose values may still come: another line may stand between its halves.
struct Pending {
  std::int64_t line = 0;  // 0: none
  std::optional<std::int64_t> bytes;
  std::string_view size_text;
  std::string_view dtype;
  std::string_view op;
  std::array<Value, most_values> values;
  std::size_t count = 0;
  std::string_view junk;  // what stands where a value should

  void begin(std::int64_t at) {  // the values are as many as count says: nothing to clear
    line = at;
    op = size_text = junk = {};
    count = 0;
  }
};

// Something that may happen on every line of a table and is told once.
struct Told {
  std::int64_t line = 0;
  std::int64_t count = 0;
  void operator()(std::int64_t at) {
    if (count++ == 0) line = at;
  }
};

class NcclTestsReader {
 public:
  NcclTestsReader(std::string_view text, const ImportHints& hints) : lines_(text), hints_(hints) {
    // Half as many bytes a row as any has: what is not touched costs nothing, and growing would copy it all.
    if (text.size() > 1U << 20U) result_.rows.reserve(text.size() / 64);
  }

  Imported read() {
    std::string_view line;
    std::array<std::string_view, 48> storage;
    while (lines_.next(line)) {
      const Tokens tokens(storage.data(), split(line, storage));
      if (tokens.empty() || read_row(tokens) || read_rest_of_row(tokens)) continue;
      read_context(line, tokens);
    }
    end_table();
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::int64_t here() const { return lines_.number(); }

  // ---- rows ---------------------------------------------------------------------------------------------------------

  bool read_row(Tokens tokens) {
    for (std::size_t type = 2; type < tokens.size(); ++type) {
      const char first = tokens[type].front();
      if (first < 'a' || first > 'z' || !is_digits(tokens[type - 1])) continue;
      const std::string_view size = behind_label(tokens[type - 2]);
      if (!is_digits(size)) continue;
      std::string_view dtype = one_of(dtypes, tokens[type]);
      if (dtype.empty()) {  // a type that is newer than this list: only where a row must be
        const bool begins = type == 2 || (type == 3 && tokens[0].find_first_of(":>]") != std::string_view::npos);
        const bool goes_on = type + 1 < tokens.size() && !one_of(operations, tokens[type + 1]).empty();
        if (columns_.line == 0 || !begins || !goes_on || !is_word(tokens[type])) continue;
        dtype = result_.intern(tokens[type]);
      }
      flush_pending();
      pending_.begin(here());
      pending_.bytes = parse_count(size);
      pending_.dtype = dtype;
      if (!pending_.bytes) pending_.size_text = result_.intern(printable(size, 24));
      read_values(tokens.subspan(type + 1));
      return true;
    }
    return false;
  }

  // Operation, root and the values of both groups.
  void read_values(Tokens tokens) {
    if (!tokens.empty()) {
      pending_.op = one_of(operations, tokens.front());
      if (pending_.op.empty() && tokens.size() > 1 && is_word(tokens[0]) && parse_decimal(tokens[1])) {
        pending_.op = result_.intern(tokens.front());
      }
      if (!pending_.op.empty()) tokens = tokens.subspan(1);
    }
    if (!tokens.empty() && has_root(tokens)) {
      const auto [root, length] = leading_number(tokens.front());
      if (root && length == tokens.front().size()) {
        tokens = tokens.subspan(1);
      } else if (root && tokens.front()[length] != '.') {  // "-1node01:17:17": a line of the library is glued to it
        pending_.junk = result_.intern(printable(tokens.front().substr(length), 40));
        absorb(tokens.subspan(1));
        return;
      }
    }
    const std::size_t used = take_values(tokens, pending_);
    if (pending_.count >= 2 * columns_.group) {
      flush_pending();
    } else {
      absorb(tokens.subspan(used));
    }
  }

  // Groups of values that stand behind something else, and agree with the size of the row that waits for them.
  bool absorb(Tokens tokens) {
    const std::size_t group = columns_.group;
    bool any = false;
    for (std::size_t at = 0; at + group <= tokens.size() && pending_.line != 0;) {
      if (!parse_decimal(tokens[at])) {
        ++at;
        continue;
      }
      Pending rest;
      at += std::max<std::size_t>(1, take_values(tokens.subspan(at), rest));
      if (rest.count < group || pending_.count % group != 0 || pending_.count + rest.count > 2 * group ||
          !agrees(pending_, rest)) {
        continue;
      }
      std::copy_n(rest.values.begin(), rest.count,
                  pending_.values.begin() + static_cast<std::ptrdiff_t>(pending_.count));
      pending_.count += rest.count;
      pending_.junk = rest.junk;
      if (joined_line_ != pending_.line) joined_(pending_.line);
      joined_line_ = pending_.line;
      any = true;
      if (pending_.count == 2 * group) flush_pending();
    }
    return any;
  }

  [[nodiscard]] bool has_root(Tokens tokens) const {
    if (columns_.line != 0) return columns_.root;
    std::size_t numbers = 0;
    while (numbers < tokens.size() && (tokens[numbers] == "N/A" || parse_decimal(tokens[numbers]))) ++numbers;
    return numbers == 0 || numbers % columns_.group == 1;
  }

  // Fills up to two groups; the last value of a group may be glued to what follows.
  // Returns how many tokens were looked at.
  std::size_t take_values(Tokens tokens, Pending& row) {
    const std::size_t most = 2 * columns_.group;
    std::size_t used = 0;
    for (const std::string_view token : tokens) {
      if (row.count == most) return used;  // a timestamp, a number of iterations
      ++used;
      if (const auto number = read_decimal(token)) {
        row.values[row.count++] = *number;
        continue;
      }
      if (token == "N/A") {
        row.values[row.count++] = not_available;
        continue;
      }
      std::string_view rest = token;
      if (row.count % columns_.group == columns_.group - 1) {
        if (token.starts_with("N/A")) {
          row.values[row.count++] = not_available;
          rest.remove_prefix(3);
        } else if (const auto [number, length] = leading_number(token); number && *number >= 0) {
          row.values[row.count++] = {.value = *number};
          rest.remove_prefix(length);
        }
      }
      row.junk = result_.intern(printable(rest, 40));
      return used;
    }
    return used;
  }

  // Values that another line tore from their row.
  bool read_rest_of_row(Tokens tokens) {
    if (tokens.front().find_last_of(":>]") != std::string_view::npos) {
      const std::string_view rest = behind_label(tokens.front());
      if (rest.empty()) tokens = tokens.subspan(1);
    }
    if (tokens.size() < columns_.group || !parse_decimal(tokens.front())) return false;
    if (pending_.line != 0 && absorb(tokens)) return true;
    Pending rest;
    take_values(tokens, rest);
    if (rest.count < columns_.group) return false;
    if (columns_.line != 0 && table_open_ && rest.junk.empty() && rest.count == tokens.size() &&
        rest.count % columns_.group == 0 && rest.values[0].point) {
      result_.warn(here(), "values without size, count and type: the left half of this row is lost");
      return true;
    }
    return false;
  }

  // The size of one line and the time of the other give the bandwidth that is printed.
  [[nodiscard]] bool agrees(const Pending& left, const Pending& right) const {
    if (!left.bytes) return false;
    const Value& time = right.values[0];
    const double printed = right.values[columns_.algbw].value;
    const double computed = static_cast<double>(*left.bytes) / time.over_ten_to(columns_.tenths) / giga;
    return *left.bytes == 0 || std::abs(computed - printed) <= tolerance(computed, time) + 0.01 * computed;
  }

  // Of size / time in GB/s, by the digits of the printed time, and the half digit of the printed bandwidth.
  static double tolerance(double bandwidth, const Value& time) {
    constexpr std::array<double, 8> digits{1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7};
    const double last_digit =
        time.exponent ? 0.06 * time.value : digits[std::min<std::size_t>(time.decimals, digits.size() - 1)];
    return half_digit + bandwidth * 0.51 * last_digit / time.value;
  }

  void flush_pending() {
    if (pending_.line == 0) return;
    const Pending& row = pending_;
    begin_row(row);
    add_groups(row);
    pending_.line = 0;
  }

  void add_groups(const Pending& row) {
    if (row.count == 0) {
      add_unreadable(row, std::nullopt, "no time");
      return;
    }
    for (std::size_t group = 0; group < 2; ++group) {
      const std::size_t first = group * columns_.group;
      if (row.count >= first + columns_.group) {
        add(row, first, group == 1);
      } else if (row.count > first || (group == 1 && !row.junk.empty())) {
        add_unreadable(row, group == 1, "the row is cut");
      } else if (group == 1) {
        one_group_(row.line);
      }
    }
  }

  void begin_row(const Pending& row) {
    if (columns_.line == 0 && row.bytes && *row.bytes <= last_size_ && table_rows_ > 0) {
      settle_table();
      result_.warn(row.line, "sizes begin anew without a header: taken as another run");
    }
    last_size_ = row.bytes.value_or(last_size_);
    table_open_ = true;
    ++table_rows_;
  }

  ImportedRow row_of(const Pending& row, std::optional<bool> in_place) const {
    ImportedRow out;
    out.dtype = row.dtype;
    out.op = row.op;
    out.bytes = row.bytes;
    out.line = row.line;
    out.in_place = in_place;
    return out;
  }

  void add_unreadable(const Pending& row, std::optional<bool> in_place, std::string_view what) {
    ImportedRow out = row_of(row, in_place);
    out.status = RowStatus::unreadable;
    out.reason = result_.intern(row.junk.empty() ? std::string(what)
                                                 : fmt::format("{}: \"{}\" stands in its place", what, row.junk));
    result_.rows.push_back(out);
    values_.push_back({});
  }

  void add(const Pending& row, std::size_t first, bool in_place) {
    ImportedRow out = row_of(row, in_place);
    const Value& time = row.values[first];
    const Value& wrong = row.values[first + columns_.wrong];
    out.seconds = time.over_ten_to(columns_.tenths);
    out.algorithm_bandwidth = row.values[first + columns_.algbw].value * giga;
    out.bus_bandwidth = row.values[first + columns_.busbw].value * giga;
    if (std::isnan(wrong.value)) {
      (in_place ? unchecked_in_place_ : unchecked_)(row.line);
    } else if (columns_.counts_wrong) {
      out.wrong = wrong.value;
      if (wrong.value > 0) fail(out, fmt::format("{} elements are wrong", wrong.value));
    } else if (wrong.value > error_limit(row.dtype)) {
      fail(out, fmt::format("error {:g} is above the test's limit {:g} of {}", wrong.value, error_limit(row.dtype),
                            row.dtype));
    }
    if (!std::isnan(out.bus_bandwidth)) {
      bus_sum_ += out.bus_bandwidth / giga;
      ++bus_count_;
    }
    if (!row.bytes) {
      out.status = RowStatus::unreadable;
      out.reason = result_.intern(fmt::format("size {} does not fit 63 bits", row.size_text));
    } else if (!(time.value > 0)) {
      out.status = std::isnan(time.value) || time.value < 0 ? RowStatus::unreadable : RowStatus::skipped;
      out.reason = time.value < 0 ? "its time is negative" : "no time: N/A, or below the resolution of the print";
      out.seconds = ImportedRow::unknown;
    } else if (*row.bytes == 0) {
      if (out.status == RowStatus::ok) skip(out, "size 0: nothing is sent");
    }
    result_.rows.push_back(out);
    values_.push_back({time, row.values[first + columns_.algbw]});
  }

  void fail(ImportedRow& row, const std::string& reason) {
    row.status = RowStatus::failed_verify;
    row.reason = result_.intern(reason);
    ++failed_rows_;
  }

  static void skip(ImportedRow& row, std::string_view static_reason) {
    row.status = RowStatus::skipped;
    row.reason = static_reason;
  }

  // ---- what stands around the rows ----------------------------------------------------------------------------------

  void read_context(std::string_view line, Tokens tokens) {
    if (line.find("nranks") != std::string_view::npos) read_nranks(line);
    if (line.find("NCCL INFO") != std::string_view::npos) return;
    if (line.find("_perf") != std::string_view::npos || line.find("_test") != std::string_view::npos) {
      read_collective(line, tokens);
    }
    if (read_header(tokens) || read_rank(tokens) || read_footer(line, tokens)) return;
    if (find_token(tokens, "minBytes", 12) != std::string_view::npos) {
      begin_run();
      return;
    }
    for (const std::string_view failure :
         {"Test failure", "Test CUDA failure", "Test NCCL failure", "Segmentation fault", "exited on signal"}) {
      if (line.find(failure) != std::string_view::npos) {
        result_.warn(here(), "the run failed: " + printable(line));
        return;
      }
    }
    if (line.find("Reducing maxBytes") != std::string_view::npos) {
      result_.warn(here(), "fewer sizes than asked for: " + printable(line));
      return;
    }
    if (columns_.line == 0) read_title(line);
    if (table_open_ || columns_.line != 0) read_remark(line, tokens);
  }

  // "#       size         count      type ..." and, in the line below it, the units.
  bool read_header(Tokens tokens) {
    std::size_t size = find_token(tokens, "size", 4);
    const bool old = size == std::string_view::npos && find_token(tokens, "bytes", 4) != std::string_view::npos;
    if (old) size = find_token(tokens, "bytes", 4);
    if (size == std::string_view::npos || size + 3 >= tokens.size() || tokens[size + 1] != (old ? "N" : "count")) {
      return false;
    }
    const auto is_time = [](std::string_view t) { return t == "time" || t == "cputime"; };
    const auto time = std::find_if(tokens.begin(), tokens.end(), is_time);
    if (time == tokens.end()) return false;
    const auto first = static_cast<std::size_t>(time - tokens.begin());
    const auto next = std::find_if(time + 1, tokens.end(), is_time);
    const Tokens group = tokens.subspan(first, static_cast<std::size_t>(next - time));
    const Tokens lead = tokens.subspan(0, first);
    Columns columns{.line = here(), .cpu_time = *time == "cputime", .group = group.size()};
    columns.redop =
        find_token(lead, "redop") != std::string_view::npos || find_token(lead, "op") != std::string_view::npos;
    columns.root = find_token(lead, "root") != std::string_view::npos;
    columns.algbw = find_token(group, "algbw");
    columns.busbw = find_token(group, "busbw");
    columns.wrong = std::string_view::npos;
    for (const std::string_view name : {"#wrong", "wrong", "error", "res"}) {
      if (columns.wrong == std::string_view::npos) columns.wrong = find_token(group, name);
    }
    if (columns.algbw == std::string_view::npos || columns.busbw == std::string_view::npos ||
        columns.wrong == std::string_view::npos || 2 * columns.group > most_values) {
      result_.warn(here(), "a header of a table with other columns than time, algbw, busbw and #wrong is not read: " +
                               printable(fmt::format("{}", fmt::join(tokens, " "))));
      return true;
    }
    const std::string_view wrong = group[columns.wrong];
    columns.counts_wrong = wrong == "#wrong" || wrong == "wrong";
    if (old) columns.tenths = 3;  // NCCL 1.x prints milliseconds
    flush_pending();
    if (table_open_ && table_rows_ == 0) warn_no_row();
    finish_table();
    columns_ = columns;
    table_open_ = true;
    footer_ = false;
    if (columns.cpu_time) {
      result_.warn(here(), "the times of this table are those of the launching CPU (-C), not of the collective");
    }
    return true;
  }

  // "#  Rank  0 Group  0 Pid  1001 on ..." and NCCL 1.x's "#   Device  0 ->  0 [0x0a] ...".
  bool read_rank(Tokens tokens) {
    const std::size_t at = find_token(tokens, "Rank", 6);
    if (at != std::string_view::npos && at + 2 < tokens.size() &&
        (tokens[at + 2] == "Group" || tokens[at + 2] == "Pid")) {
      if (const auto rank = parse_count(tokens[at + 1]); rank && *rank < most_ranks) {
        ranks_listed_ = std::max(ranks_listed_, static_cast<std::int32_t>(*rank) + 1);
        if (rank_lines_++ == 0) rank_line_ = here();
        return true;
      }
    }
    const std::size_t device = find_token(tokens, "Device", 4);
    if (device != std::string_view::npos && device + 2 < tokens.size() && tokens[device + 2] == "->") {
      if (rank_lines_++ == 0) rank_line_ = here();
      ++ranks_listed_;
      return true;
    }
    return false;
  }

  // "nranks 8" and "[nranks=8]" of the library's own lines.
  void read_nranks(std::string_view line) {
    const std::string_view rest = line.substr(line.find("nranks") + 6);
    std::size_t end = 1;
    while (end < rest.size() && rest[end] >= '0' && rest[end] <= '9') ++end;
    if (rest.empty()) return;
    if (const auto ranks = parse_count(rest.substr(1, end - 1)); ranks && *ranks < most_ranks) {
      nranks_ = std::max(nranks_, static_cast<std::int32_t>(*ranks));
    }
  }

  // "Collective test starting: all_reduce_perf" and commands like "./build/all_reduce_perf -b 8".
  void read_collective(std::string_view line, Tokens tokens) {
    if (line.find("test concluded") != std::string_view::npos) return;
    const bool starting = line.find("test starting") != std::string_view::npos;
    for (std::string_view token : tokens) {
      token = token.substr(token.find_last_of('/') + 1);
      std::size_t end = token.rfind("_perf");
      if (end == std::string_view::npos) end = token.rfind("_test");
      if (end == std::string_view::npos) continue;
      const std::size_t first = token.find_first_not_of("`'\"([");
      if (first >= end) continue;
      const std::string_view name = known_collective(token.substr(first, end - first));
      if (name.empty()) continue;
      flush_pending();
      if (table_rows_ > 0) finish_table();
      collective_ = name;
      announced_ = starting;
      run_of_name_ = run_ + 1;
      return;
    }
  }

  void begin_run() {
    end_table();
    ++run_;
    // A name that a run announced is that run's only; a command's holds for all that follows it.
    if (announced_ && run_ > run_of_name_) collective_ = {};
    ranks_listed_ = 0;
    nranks_ = 0;
    rank_lines_ = 0;
    table_open_ = false;
  }

  bool read_footer(std::string_view line, Tokens tokens) {
    const std::size_t colon = find_token(tokens, ":");
    if (colon == std::string_view::npos || colon + 1 >= tokens.size()) return false;
    if (line.find("Out of bounds values") != std::string_view::npos) {
      flush_pending();
      footer_ = true;
      if (line.find("FAILED") != std::string_view::npos && failed_rows_ == 0) {
        result_.warn(here(), "the run says that results were wrong, and no row of it says which: " + printable(line));
      }
      return true;
    }
    if (line.find("Avg bus bandwidth") == std::string_view::npos) return false;
    flush_pending();
    footer_ = true;
    const double mean = bus_sum_ / static_cast<double>(bus_count_);
    const auto average = parse_decimal(tokens[colon + 1]);
    if (average && bus_count_ > 0 && std::abs(*average - mean) > half_digit + 0.01 * std::abs(mean)) {
      result_.warn(here(), fmt::format("the average {} GB/s is of other rows than those that stand here (mean {:.4g})",
                                       *average, mean));
    }
    finish_table();
    table_open_ = false;
    return true;
  }

  // "### GPUS=4" over rows that have no header.
  void read_title(std::string_view line) {
    const std::size_t at = line.find("GPUS=");
    if (at == std::string_view::npos) return;
    const std::string_view digits = line.substr(at + 5);
    const auto ranks = parse_count(digits.substr(0, digits.find_first_not_of("0123456789")));
    if (!ranks || *ranks < 1 || *ranks >= most_ranks) return;
    end_table();
    ranks_titled_ = static_cast<std::int32_t>(*ranks);
    result_.warn(here(), fmt::format("{} ranks are taken from this title: {}", *ranks, printable(line, 40)));
  }

  // A comment or dots among the rows: somebody cut here.
  void read_remark(std::string_view line, Tokens tokens) {
    std::string_view first = tokens.front();
    if (first.find(':') != std::string_view::npos) first = behind_label(first);
    if (first.empty() && tokens.size() > 1) first = tokens[1];
    if (first == "..." || first == "<snip>" || first == "[...]") {
      if (table_open_) result_.warn(here(), "rows were cut here by hand: " + printable(line, 40));
      return;
    }
    if (!table_open_ || !first.starts_with('#')) return;
    for (const std::string_view usual :
         {"out-of-place", "(us)", "(ms)", "Using devices", "nccl-tests version", "Collective test", "GPU memory usage",
          "Enabled", "Per-Iteration", "error:", "Errors with asterisks"}) {
      if (line.find(usual) != std::string_view::npos) return;
    }
    if (tokens.size() > 1) result_.warn(here(), "a remark among the rows: " + printable(line));
  }

  // ---- the end of a table -------------------------------------------------------------------------------------------

  void warn_no_row() {
    if (columns_.line != 0) result_.warn(columns_.line, "the table that begins here has no row");
  }

  // Where a table must have come to its end: at the next run, and at the end of the text.
  void end_table() {
    flush_pending();
    if (table_open_ && table_rows_ == 0) warn_no_row();
    if (table_open_ && table_rows_ > 0 && !footer_) {
      result_.warn(result_.rows.back().line, "no footer behind these rows: the run did not end, or it was cut out");
    }
    finish_table();
    table_open_ = false;
  }

  void finish_table() {
    flush_pending();
    settle_table();
  }

  void settle_table() {
    settle();
    tell(joined_, "a row was torn by other lines and joined again: size, time and bandwidth agree");
    tell(one_group_, "the row ends after out-of-place: there is no in-place measurement");
    if (unchecked_.count > 0) {
      tell(unchecked_, "results were not checked (N/A)");
    } else {
      tell(unchecked_in_place_, "in-place results were not checked (N/A)");
    }
    joined_ = one_group_ = unchecked_ = unchecked_in_place_ = {};
    first_row_ = result_.rows.size();
    values_.clear();
    table_rows_ = 0;
    last_size_ = -1;
    bus_sum_ = 0;
    bus_count_ = 0;
    failed_rows_ = 0;
  }

  void tell(const Told& told, const std::string& what) {
    if (told.count == 0) return;
    const std::string more = told.count == 1 ? "" : fmt::format("; so {} rows of this table", told.count);
    result_.warn(told.line, what + more);
  }

  // Rows know their collective and ranks only now; then their bandwidths are judged.
  void settle() {
    const std::span<ImportedRow> rows = std::span(result_.rows).subspan(first_row_);
    if (rows.empty()) return;
    std::string_view collective = collective_;
    const Ratio ratio = ratio_of(rows);
    if (collective.empty() && !hints_.collective.empty()) {
      collective = result_.intern(hints_.collective);
      if (hints_.from_file_name && !std::exchange(told_name_, true)) {
        result_.warn(
            rows.front().line,
            fmt::format("the text does not name the collective: {} is taken from the file's name", collective));
      }
    }
    if (collective.empty() && ratio.low > 1) {
      collective = "all_reduce";
      result_.warn(rows.front().line,
                   "the text does not name the collective: bus above algorithm bandwidth is only all_reduce");
    }
    if (collective.empty()) {
      result_.warn(rows.front().line, "the text does not name the collective; say it with --collective");
    }
    const std::int32_t ranks = ranks_of(collective, ratio, rows.front().line);
    const double factor = known_bus_factor(collective, ranks);
    Told one_rank;
    Told old_convention;
    Told coarse;
    Told contradicts;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ImportedRow& row = rows[i];
      row.collective = collective;
      row.ranks = ranks;
      if (ranks == 1) {
        row.bus_bandwidth = ImportedRow::unknown;
        one_rank(row.line);
        if (row.status == RowStatus::ok) skip(row, "one rank: no communication is measured");
      }
      if (std::isnan(row.seconds)) continue;
      const Value& time = values_[i].time;
      const double printed = row.algorithm_bandwidth;
      if (time.exponent && printed >= giga) {
        row.seconds = static_cast<double>(*row.bytes) / printed;
        coarse(row.line);
        continue;
      }
      const double computed = static_cast<double>(*row.bytes) / row.seconds;
      const double allowed = giga * tolerance(computed / giga, time);
      if (std::abs(printed - computed) > allowed) {
        if (is_share(collective) && ranks > 1 && row.bus_bandwidth == printed &&
            std::abs(printed - computed * factor) <= allowed) {
          row.algorithm_bandwidth = computed;
          old_convention(row.line);
        } else {
          contradicts(row.line);
        }
        continue;
      }
      if (std::isnan(printed) || printed < giga)
        row.algorithm_bandwidth = *row.bytes == 0 ? ImportedRow::unknown : computed;
      if (ranks != 1 && row.bus_bandwidth < giga) {
        row.bus_bandwidth = *row.bytes == 0 ? ImportedRow::unknown : row.algorithm_bandwidth * factor;
      }
    }
    tell(one_rank, "one rank: no communication is measured, its bus bandwidth is unknown and not 0");
    tell(old_convention,
         "algbw equals busbw, as nccl-tests printed it before mid 2020: algorithm bandwidth is size / time");
    tell(coarse, "the time is printed with two digits: it is computed from size and algorithm bandwidth");
    tell(contradicts, "size / time is not the algorithm bandwidth that is printed; the printed one is kept");
  }

  static bool is_share(std::string_view collective) {
    return collective == "all_gather" || collective == "reduce_scatter";
  }

  struct Ratio {  // bus over algorithm bandwidth, as closely as all rows of a table tell
    double low = 0;
    double high = std::numeric_limits<double>::infinity();
  };

  static Ratio ratio_of(std::span<const ImportedRow> rows) {
    Ratio ratio;
    for (const ImportedRow& row : rows) {
      const double alg = row.algorithm_bandwidth / giga;
      const double bus = row.bus_bandwidth / giga;
      if (!(alg >= 1) || std::isnan(bus)) continue;
      ratio.low = std::max(ratio.low, (bus - half_digit) / (alg + half_digit));
      ratio.high = std::min(ratio.high, (bus + half_digit) / (alg - half_digit));
    }
    return ratio;
  }

  // The only number of ranks that the ratio allows; 0: none or several.
  static std::int32_t ranks_by(std::string_view collective, const Ratio& ratio) {
    if (!(ratio.low <= ratio.high) || std::isinf(ratio.high)) return 0;
    const double at_two = known_bus_factor(collective, 2);
    if (std::isnan(at_two) || known_bus_factor(collective, 3) == at_two) return 0;
    std::int32_t found = 0;
    for (std::int32_t n = 1; n < 1 << 16; ++n) {
      const double factor = known_bus_factor(collective, n);
      if (factor > ratio.high) break;
      if (factor < ratio.low) continue;
      if (found != 0) return 0;
      found = n;
    }
    return found;
  }

  std::int32_t ranks_of(std::string_view collective, const Ratio& ratio, std::int64_t line) {
    std::int32_t said = hints_.ranks;
    for (const std::int32_t better : {ranks_titled_, nranks_, ranks_listed_}) {
      if (better > 0) said = better;
    }
    if (said > 0) {
      warn_rank_list();
      const double factor = known_bus_factor(collective, said);
      const bool old = is_share(collective) && ratio.low <= 1 && ratio.high >= 1;
      if (!old && (factor < ratio.low - 1e-9 || factor > ratio.high + 1e-9) && ratio.low <= ratio.high) {
        result_.warn(line,
                     fmt::format("bus / algorithm bandwidth is {:.4g} to {:.4g}, which {} ranks of {} do not give",
                                 ratio.low, ratio.high, said, collective));
      }
      return said;
    }
    const std::int32_t derived = ranks_by(collective, ratio);
    if (derived > 0) {
      result_.warn(line,
                   fmt::format("the text does not list its ranks: bus / algorithm bandwidth is that of {}", derived));
    } else {
      result_.warn(line, "the text does not say how many ranks took part; say it with --ranks");
    }
    return derived;
  }

  // Once a list.
  void warn_rank_list() {
    const std::int64_t lines = std::exchange(rank_lines_, 0);
    if (lines == 0 || lines == ranks_listed_) return;
    if (lines < ranks_listed_) {
      result_.warn(rank_line_, fmt::format("the list of ranks is cut: it has {} of {}", lines, ranks_listed_));
    } else {
      result_.warn(rank_line_,
                   fmt::format("{} lines list {} ranks: several runs write here at once, as mpirun makes of "
                               "a test that was built without MPI",
                               lines, ranks_listed_));
    }
  }

  static constexpr std::int64_t most_ranks = 1 << 24;

  struct Printed {
    Value time;
    Value algbw;
  };

  Lines lines_;
  const ImportHints& hints_;
  Imported result_;

  // of the run
  std::string_view collective_;
  bool announced_ = false;  // by the run itself, not by a command
  std::int64_t run_ = 0;
  std::int64_t run_of_name_ = 0;  // the run that was to come when the collective was named
  std::int32_t ranks_listed_ = 0;
  std::int32_t nranks_ = 0;
  std::int64_t rank_lines_ = 0;
  std::int64_t rank_line_ = 0;  // the first
  bool footer_ = false;
  bool told_name_ = false;
  std::int32_t ranks_titled_ = 0;  // by a title over rows without a header

  // of the table
  Columns columns_;
  bool table_open_ = false;
  std::int64_t table_rows_ = 0;
  std::size_t first_row_ = 0;    // into result_.rows
  std::vector<Printed> values_;  // of these rows
  std::int64_t last_size_ = -1;
  double bus_sum_ = 0;  // GB/s
  std::int64_t bus_count_ = 0;
  std::int64_t failed_rows_ = 0;
  Told joined_;
  std::int64_t joined_line_ = 0;
  Told one_group_;
  Told unchecked_;
  Told unchecked_in_place_;

  Pending pending_;
};

}  // namespace

Imported read_nccl_tests(std::string_view text, const ImportHints& hints) {
  return NcclTestsReader(text, hints).read();
}

}  // namespace ovl
