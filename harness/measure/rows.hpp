// SPDX-License-Identifier: Apache-2.0
//
// A case's result as rows of the tables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "measure/runner.hpp"
#include "results/table.hpp"

namespace ovl {

// What a result does not know about itself.
struct RowContext {
  std::string bench;
  std::int64_t launch = 0;
  std::string source = "measured";
  std::string backend;
  MeasureOptions options;
};

std::vector<Row> sample_rows(const CaseSpec& spec, const CaseResult& result, const RowContext& context);
std::vector<Row> operation_rows(const CaseSpec& spec, const CaseResult& result, const RowContext& context);
// Of a case that tells what happened over time (CaseSpec::over_time); else none.
std::vector<Row> series_rows(const CaseSpec& spec, const CaseResult& result, const RowContext& context);
Row summary_row(const Schema& schema, const CaseSpec& spec, const CaseResult& result, const RowContext& context);

}  // namespace ovl
