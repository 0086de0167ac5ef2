// SPDX-License-Identifier: Apache-2.0
//
// What every reader of a foreign format gives back: rows as they stand in the text, and warnings. A reader is a pure
// function of the text, line based, in one pass; what it cannot be sure of becomes a row's status or a warning that
// names the line, never a silent guess. Memory is bounded by the size of the text.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.hpp"

namespace ovl {

enum class RowStatus {
  ok,
  failed_verify,  // the tool that wrote it found wrong results: never in a fit
  skipped,        // read, but nothing to compare or fit: size 0, one rank, a bandwidth without a time
  unreadable      // cut, or not a number
};
template <>
struct EnumNames<RowStatus> {
  static constexpr std::string_view axis = "status";
  static constexpr std::pair<RowStatus, std::string_view> table[] = {{RowStatus::ok, "ok"},
                                                                     {RowStatus::failed_verify, "failed_verify"},
                                                                     {RowStatus::skipped, "skipped"},
                                                                     {RowStatus::unreadable, "unreadable"}};
};

// One measurement of one size. What the text does not say is empty or NaN. Texts point into static tables or into
// Imported::words, so that a large log does not hold a million copies of "float".
struct ImportedRow {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  std::string_view collective;  // our name where there is one: all_to_all, not alltoall
  std::string_view dtype;       // as the text spells it
  std::string_view op;
  std::string_view reason;            // why, when the status is not ok
  std::optional<std::int64_t> bytes;  // the whole array, nccl-tests' convention
  double seconds = unknown;
  double algorithm_bandwidth = unknown;  // bytes a second
  double bus_bandwidth = unknown;
  double wrong = unknown;  // elements; unknown: not checked
  std::int64_t line = 0;   // of the text, from 1: where the row begins
  std::int32_t ranks = 0;  // 0: unknown
  std::int32_t rank = -1;  // of one rank alone; -1: over all
  std::int64_t sample = -1;
  std::optional<bool> in_place;
  RowStatus status = RowStatus::ok;
};

struct ImportWarning {
  std::int64_t line = 0;  // 0: the whole text
  std::string text;       // printable: nothing of the text in it that a terminal would obey
};

struct Imported {
  static constexpr std::size_t most_warnings = 500;

  Imported() = default;
  Imported(Imported&&) = default;
  Imported& operator=(Imported&&) = default;
  Imported(const Imported&) = delete;  // rows point into words
  Imported& operator=(const Imported&) = delete;

  std::vector<ImportedRow> rows;
  std::vector<ImportWarning> warnings;
  std::size_t warnings_left_out = 0;
  std::set<std::string, std::less<>> words;

  std::string_view intern(std::string_view text);
  void warn(std::int64_t line, std::string text);
};

// What the user, or the file's name, says of a text; it fills in only what the text leaves out.
struct ImportHints {
  std::string collective;
  bool from_file_name = false;  // the collective is a guess from a name: to be told
  int ranks = 0;                // 0: not said
};

// ---- texts ----------------------------------------------------------------------------------------------------------

// Every byte that is no printable ASCII as \xNN; cut to `most` characters with "..." behind.
std::string printable(std::string_view text, std::size_t most = 80);

// Our name of a collective in any of the tools' spellings ("AllReduce", "alltoall", "all_reduce_perf"); empty: none.
std::string_view known_collective(std::string_view word);

// Bus bandwidth over algorithm bandwidth (metrics/bus_bandwidth.hpp; also for reduce, gather, scatter, sendrecv).
// NaN: not known for this collective, or for an unknown number of ranks.
double known_bus_factor(std::string_view collective, int ranks);

// What the readers share.
inline constexpr std::size_t npos = std::string_view::npos;
inline constexpr double giga = 1e9;  // GB/s are printed

// Lines of a text without their ends. Colours and other escapes of a terminal are taken out.
class Lines {
 public:
  explicit Lines(std::string_view text);

  bool next(std::string_view& line);
  [[nodiscard]] std::int64_t number() const { return number_; }
  // The text ended without an end of line, and this is its last one.
  [[nodiscard]] bool unterminated() const { return unterminated_; }

 private:
  std::string_view without_escapes(std::string_view line);

  std::string_view rest_;
  bool escapes_ = false;  // anywhere in the text
  std::string cleaned_;
  std::int64_t number_ = 0;
  bool unterminated_ = false;
};

// Splits at blanks into `tokens`; how many. The rest of a line with more is left out.
std::size_t split(std::string_view line, std::span<std::string_view> tokens);

// A decimal number that is the whole text: digits, sign, point, exponent. No "nan", no "inf", no hexadecimal.
struct Decimal {
  double value = 0;
  bool exponent = false;
  bool point = false;
  std::uint8_t decimals = 0;  // digits behind the point
  std::int64_t digits = -1;   // all of them as one number, without sign; -1: too many, or an exponent

  // value / 10^power, rounded once: "30.49" microseconds are 3.049e-05 s and not 3.0489999999999998e-05.
  [[nodiscard]] double over_ten_to(unsigned power) const;
};
std::optional<Decimal> read_decimal(std::string_view text);
std::optional<double> parse_decimal(std::string_view text);
// Digits only, below 2^63.
std::optional<std::int64_t> parse_count(std::string_view text);

bool is_digits(std::string_view text);
// A letter, then letters, digits and _ + - . only: what may stand in a column as it is.
bool is_word(std::string_view text);
std::string lower_case(std::string_view text);

}  // namespace ovl
