// SPDX-License-Identifier: Apache-2.0
//
// Published numbers in tests/golden: tab separated, a header row, comments from #.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ovl::test {

using TsvRow = std::map<std::string, std::string>;

// Never empty: a file that is not there or holds no row is an error.
std::vector<TsvRow> golden_rows(const std::string& file);

}  // namespace ovl::test
