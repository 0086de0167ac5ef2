// SPDX-License-Identifier: Apache-2.0
#include "support/tsv.hpp"

#include <cstddef>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "support/folders.hpp"

namespace ovl::test {

std::vector<TsvRow> golden_rows(const std::string& file) {
  std::ifstream in(tests_folder() / "golden" / file);
  const auto cells = [](const std::string& line) {
    std::vector<std::string> parts;
    std::istringstream text(line);
    for (std::string part; std::getline(text, part, '\t');) parts.push_back(part);
    return parts;
  };
  std::vector<std::string> header;
  std::vector<TsvRow> rows;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.front() == '#') continue;
    const std::vector<std::string> parts = cells(line);
    if (header.empty()) {
      header = parts;
      continue;
    }
    TsvRow& row = rows.emplace_back();
    for (std::size_t i = 0; i < header.size(); ++i) row[header[i]] = parts.at(i);
  }
  if (rows.empty()) throw std::runtime_error("tests/golden/" + file + " has no rows");
  return rows;
}

}  // namespace ovl::test
