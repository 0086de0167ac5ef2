// SPDX-License-Identifier: Apache-2.0
#include "support/cost_schema.hpp"

#include <utility>
#include <vector>

#include "measure/cost.hpp"
#include "results/schema.hpp"

namespace ovl::test {

const Schema& cost_schema() {
  static const Schema summary = [] {
    std::vector<Column> own{{"collective", ColumnType::text, "", ""},
                            {"bytes", ColumnType::integer, "B", ""},
                            {"dtype", ColumnType::text, "", ""},
                            {"in_place", ColumnType::integer, "1", ""}};
    for (Column& column : cost_columns()) own.push_back(std::move(column));
    return summary_schema(own);
  }();
  return summary;
}

}  // namespace ovl::test
