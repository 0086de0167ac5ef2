// SPDX-License-Identifier: Apache-2.0
//
// What people read at the end: pure functions from rows of summary.csv to text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/options.hpp"
#include "results/table.hpp"

namespace ovl {

// A table of the cases with intervals, then each case in words.
std::string table_text(const std::vector<Row>& rows);

// Aligned columns, the first to the left and the others to the right, under the headings of the first line.
using TableLines = std::vector<std::vector<std::string>>;
std::string aligned(const TableLines& lines);

// A number of a row, NaN where it is empty; a text, "" where it is empty.
double real_of(const Row& row, std::string_view column);
std::string text_of(const Row& row, std::string_view column);

// Three significant digits, zeros included, so that a column reads evenly: "1.86 ms", "10.0 us"; NaN is "unknown".
std::string time_text(double seconds);

// Of rows of summary.csv: distinguishing names, with the launch where there are several.
std::vector<std::string> row_names(const std::vector<Row>& rows);

// "name: verdict | status: reason", a line each, of the rows that have something to say.
std::string words_text(const std::vector<Row>& rows, const std::vector<std::string>& names);

// Of rows of choices.csv: what is recommended, how sure that is and what it gains; "" without rows.
std::string choices_text(const std::vector<Row>& choices);

// Exposed time by operation and cause, of the rows that know it (the model's): the largest parts of each; "" without
// any.
std::string exposed_text(const std::vector<Row>& rows);

// Header and rows of the whole summary.
std::string rows_as_csv(const Schema& schema, const std::vector<Row>& rows);

// An array of objects; unknown values are null.
std::string rows_as_json(const std::vector<Row>& rows);

// What names a case in a table: the values of its key "bench axis=value axis=value" in which the keys differ, joined by
// a space; where they do not differ its gemm, bytes and placement, or the bench where it has none of them.
std::vector<std::string> distinguishing_names(const std::vector<std::string>& keys);

}  // namespace ovl
