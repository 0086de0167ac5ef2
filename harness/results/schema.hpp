// SPDX-License-Identifier: Apache-2.0
//
// Every table of a run directory, each with one schema, in this one place.
#pragma once

#include <vector>

#include "results/table.hpp"

namespace ovl {

// Every observation: one row for each replay and rank. The primary data: the summary derives from it.
const Schema& samples_schema();

// The columns that every bench's summary.csv shares: what was asked, what was observed, the overlap algebra.
const std::vector<Column>& common_summary_columns();

// summary.csv of one bench: the common columns, then the bench's own.
Schema summary_schema(const std::vector<Column>& own);

// One row for each operation of the instrumented pass, the first ones of each lane (measure/runner.hpp).
const Schema& operations_schema();

// What happened over time: a queue's backlog at a moment of a replay, or of its fluid (measure/queue.hpp).
const Schema& series_schema();

// What a collective costs as a model: one row for each series, method and segment (stats/fit.hpp).
const Schema& fits_schema();

// Rows of foreign logs as they were read (results/import/).
const Schema& imported_schema();
// The own columns of summary.csv of an imported run.
const std::vector<Column>& imported_summary_columns();

// What a sweep recommends: one row for each series of cases that differ in one option (measure/choices.hpp).
const Schema& choices_schema();

// With --launches: one row a case, over its process launches.
const Schema& launches_schema();

// What overlap-compare prints: one row for each quantity of a case or series and each run after the first.
const Schema& comparison_schema();

}  // namespace ovl
