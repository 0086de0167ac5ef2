// SPDX-License-Identifier: Apache-2.0
//
// Imported rows as series to be fitted (results/fits.hpp) and as rows of tables. Only rows with status ok take part in
// a series.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "results/fits.hpp"
#include "results/import/imported.hpp"
#include "results/table.hpp"

namespace ovl {

struct ImportedFile {
  std::string name;    // printable
  std::string format;  // name of the ForeignFormat
  Imported content;
};

// In the order in which they begin. Times of single ranks of one sample become the slowest rank's: a collective has
// ended when all have. More than 4096 points are replaced by the median of each size.
std::vector<CostSeries> series_of(std::span<const ImportedFile> files);

// A row of imported_schema(). One at a time: a large log has millions.
Row imported_row(const ImportedFile& file, const ImportedRow& row);

// One row of summary.csv for each series and size: t_comm is the median over the rows. `schema` is
// summary_schema(imported_summary_columns()).
std::vector<Row> imported_summary(const Schema& schema, std::span<const ImportedFile> files);

}  // namespace ovl
