// SPDX-License-Identifier: Apache-2.0
//
// A table has one schema, and every row has every column. Numbers are plain, in full precision (shortest text that
// reads back to the same double); what is unknown is an empty field, never a zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ovl {

enum class ColumnType { text, integer, real };

struct Column {
  std::string name;
  ColumnType type = ColumnType::real;
  std::string unit;  // "s", "B", "B/s", "1" (a ratio); empty for text
  std::string description;
};

struct Schema {
  std::string table;  // the file is <table>.csv
  int version = 1;
  std::vector<Column> columns;

  [[nodiscard]] std::size_t index_of(std::string_view column) const;  // throws std::logic_error when absent
};

// std::monostate: unknown or not applicable, an empty field.
using Value = std::variant<std::monostate, std::string, std::int64_t, double>;

class Row {
 public:
  explicit Row(const Schema& schema) : schema_(&schema), values_(schema.columns.size()) {}

  // Throws std::logic_error for an unknown column or a value of another type than the column's. A NaN is stored as
  // unknown.
  Row& set(std::string_view column, Value value);
  [[nodiscard]] const Value& at(std::string_view column) const;
  [[nodiscard]] const std::vector<Value>& values() const { return values_; }
  [[nodiscard]] const Schema& schema() const { return *schema_; }

 private:
  const Schema* schema_;
  std::vector<Value> values_;
};

// RFC 4180 with '\n': a field with a comma, quote, CR or LF is quoted, quotes doubled.
std::string csv_header(const Schema& schema);  // ends with '\n'
std::string csv_line(const Row& row);          // ends with '\n'
std::string csv_line(const std::vector<std::string>& fields);
std::string format_value(const Value& value);

// Splits one CSV text into records. An unterminated last line (no '\n') is dropped: it was being written when the
// writer died. Throws Error(failure) with the line number for text that is not CSV.
std::vector<std::vector<std::string>> parse_csv(std::string_view text);

// One record of a table, typed by its schema; the inverse of csv_line, but that an empty text reads back as unknown.
// Throws Error(failure) naming the column for a record that is not of this schema.
Row parse_row(const Schema& schema, const std::vector<std::string>& fields);

}  // namespace ovl
