// SPDX-License-Identifier: Apache-2.0
#include "results/table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "base/error.hpp"
#include "results/import/imported.hpp"

namespace ovl {
namespace {

// The alternative of Value that a column holds when it is known.
bool holds(const Value& value, ColumnType type) {
  switch (type) {
    case ColumnType::text: return std::holds_alternative<std::string>(value);
    case ColumnType::integer: return std::holds_alternative<std::int64_t>(value);
    case ColumnType::real: return std::holds_alternative<double>(value);
  }
  return false;
}

bool unknown(const Value& value) {
  const double* real = std::get_if<double>(&value);
  return std::holds_alternative<std::monostate>(value) || (real != nullptr && std::isnan(*real));
}

template <class Number>
std::string shortest(Number number) {
  std::array<char, 32> text{};  // the longest double takes 24
  const auto [end, ec] = std::to_chars(text.data(), text.data() + text.size(), number);
  require(ec == std::errc{}, "32 characters hold any number");
  return {text.data(), end};
}

template <class Number>
Value parse_number(const Column& column, const std::string& text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [rest, ec] = std::from_chars(text.data(), end, number);
  if (ec != std::errc{} || rest != end) {
    throw failure("column " + column.name + " holds \"" + printable(text) + "\"", "which is not a number of its type");
  }
  return number;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

// Reads one record after the other; `line` counts physical lines, for messages.
class CsvReader {
 public:
  explicit CsvReader(std::string_view text) : rest_(text) {}

  // The next record, or false at the end and before an unterminated record.
  bool next(std::vector<std::string>& record) {
    record.assign(1, {});
    while (!rest_.empty()) {
      const bool complete = rest_.front() == '"' ? quoted(record.back()) : plain(record.back());
      if (!complete) return false;
      const char separator = rest_.front();
      rest_.remove_prefix(1);
      if (separator == '\n') {
        ++line_;
        return true;
      }
      if (rest_.empty()) return false;
      record.emplace_back();
    }
    return false;
  }

 private:
  // Both leave rest_ at the ',' or '\n' behind the field, and return false when the text ends first.
  bool plain(std::string& field) {
    const std::size_t end = std::min(rest_.find_first_of(",\n"), rest_.size());
    field = rest_.substr(0, end);
    rest_.remove_prefix(end);
    if (rest_.empty()) return false;
    if (rest_.front() == '\n' && !field.empty() && field.back() == '\r') field.pop_back();
    if (field.find_first_of("\"\r") != std::string::npos) {
      throw failure("line " + std::to_string(line_) + " is not CSV", "a quote or CR stands in a field without quotes");
    }
    return true;
  }

  bool quoted(std::string& field) {
    const std::size_t first_line = line_;
    for (rest_.remove_prefix(1); !rest_.empty(); rest_.remove_prefix(1)) {
      if (rest_.front() == '\n') ++line_;
      if (rest_.front() == '"') {
        rest_.remove_prefix(1);
        if (rest_.empty() || rest_.front() != '"') break;
      }
      field += rest_.front();
    }
    if (rest_.size() >= 2 && rest_.front() == '\r' && rest_[1] == '\n') rest_.remove_prefix(1);
    if (rest_.empty() || rest_ == "\r") return false;
    if (rest_.front() != ',' && rest_.front() != '\n') {
      throw failure("line " + std::to_string(first_line) + " is not CSV", "text follows a closing quote");
    }
    return true;
  }

  std::string_view rest_;
  std::size_t line_ = 1;
};

}  // namespace

std::size_t Schema::index_of(std::string_view column) const {
  const auto found = std::find_if(columns.begin(), columns.end(), [&](const Column& c) { return c.name == column; });
  if (found == columns.end()) throw std::logic_error("table " + table + " has no column " + std::string(column));
  return static_cast<std::size_t>(found - columns.begin());
}

Row& Row::set(std::string_view column, Value value) {
  const std::size_t index = schema_->index_of(column);
  if (unknown(value)) {
    values_[index] = std::monostate{};
    return *this;
  }
  if (!holds(value, schema_->columns[index].type)) {
    throw std::logic_error("column " + std::string(column) + " of table " + schema_->table +
                           " does not hold a value of this type");
  }
  values_[index] = std::move(value);
  return *this;
}

const Value& Row::at(std::string_view column) const { return values_[schema_->index_of(column)]; }

std::string format_value(const Value& value) {
  struct Formatter {
    std::string operator()(std::monostate) const { return {}; }
    std::string operator()(const std::string& text) const { return text; }
    std::string operator()(std::int64_t number) const { return shortest(number); }
    std::string operator()(double number) const { return shortest(number); }
  };
  return std::visit(Formatter{}, value);
}

std::string csv_line(const std::vector<std::string>& fields) {
  std::string line;
  for (const std::string& field : fields) line.append(csv_field(field)).append(1, ',');
  require(!line.empty(), "a record has at least one field");
  line.back() = '\n';
  return line;
}

std::string csv_line(const Row& row) {
  std::vector<std::string> fields;
  for (const Value& value : row.values()) fields.push_back(format_value(value));
  return csv_line(fields);
}

std::string csv_header(const Schema& schema) {
  std::vector<std::string> fields;
  for (const Column& column : schema.columns) fields.push_back(column.name);
  return csv_line(fields);
}

std::vector<std::vector<std::string>> parse_csv(std::string_view text) {
  std::vector<std::vector<std::string>> records;
  std::vector<std::string> record;
  for (CsvReader reader(text); reader.next(record);) records.push_back(std::move(record));
  return records;
}

Row parse_row(const Schema& schema, const std::vector<std::string>& fields) {
  if (fields.size() != schema.columns.size()) {
    throw failure("a row of table " + schema.table + " has " + std::to_string(fields.size()) + " fields",
                  "the table has " + std::to_string(schema.columns.size()) + " columns");
  }
  Row row(schema);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const Column& column = schema.columns[i];
    if (fields[i].empty()) continue;
    switch (column.type) {
      case ColumnType::text: row.set(column.name, fields[i]); break;
      case ColumnType::integer: row.set(column.name, parse_number<std::int64_t>(column, fields[i])); break;
      case ColumnType::real: row.set(column.name, parse_number<double>(column, fields[i])); break;
    }
  }
  return row;
}

}  // namespace ovl
