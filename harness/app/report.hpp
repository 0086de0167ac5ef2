// SPDX-License-Identifier: Apache-2.0
//
// What people read at the end: pure functions from rows of summary.csv to text.
#pragma once

#include <string>
#include <vector>

#include "app/options.hpp"
#include "results/table.hpp"

namespace ovl {

// A table of the cases with intervals, then each case in words.
std::string table_text(const std::vector<Row>& rows);

// Header and rows of the whole summary.
std::string rows_as_csv(const Schema& schema, const std::vector<Row>& rows);

// An array of objects; unknown values are null.
std::string rows_as_json(const std::vector<Row>& rows);

// What names a case in a table: the values of its key "bench axis=value axis=value" in which the keys differ, joined by
// a space; the bench where they do not differ.
std::vector<std::string> distinguishing_names(const std::vector<std::string>& keys);

}  // namespace ovl
