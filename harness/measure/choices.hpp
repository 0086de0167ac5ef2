// SPDX-License-Identifier: Apache-2.0
//
// What a sweep recommends, as rows of choices.csv: the cases that differ in one option only are a series, and of each
// series one value exposes least.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "results/table.hpp"

namespace ovl {

struct SweptOption {
  std::string name;       // the option and its column in summary.csv: the key has the word "<name>=<value>"
  std::string reference;  // the value that the recommended one is compared with
  // Where a value lies on the axis. Rows of summary.csv.
  std::function<double(const Row&)> place;
  // Recommend the first value that is not shown to expose more than the best, since the later ones cost more.
  bool first_that_suffices = false;
  // What a closed form says of the same series, in words; null: there is none.
  std::function<std::string(const std::vector<const Row*>& series)> predicted = nullptr;
};

// From the rows of summary.csv that have numbers and the rows of samples.csv, launches together. A series of one value
// has no row, nor have values with less than two rounds.
std::vector<Row> choice_rows(const SweptOption& option, const std::vector<Row>& summary,
                             const std::vector<Row>& samples);

}  // namespace ovl
