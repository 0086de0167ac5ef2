// SPDX-License-Identifier: Apache-2.0
//
// Logs of other people's machines are not part of this repository. Where OVL_REAL_LOGS names a folder of them with an
// INDEX.tsv (columns file and rows), every log must give as many rows as the index lists.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "results/file.hpp"
#include "results/import/formats.hpp"

namespace ovl {
namespace {

TEST(RealLogs, GiveTheRowsThatTheirIndexLists) {
  const char* folder = std::getenv("OVL_REAL_LOGS");
  if (folder == nullptr) GTEST_SKIP() << "OVL_REAL_LOGS names no folder";
  std::istringstream index(read_text(std::filesystem::path(folder) / "INDEX.tsv"));
  std::string line;
  std::getline(index, line);
  ASSERT_TRUE(line.starts_with("file\t") && line.ends_with("\trows")) << line;
  int logs = 0;
  while (std::getline(index, line)) {
    const std::string name = line.substr(0, line.find('\t'));
    const std::size_t listed = std::stoul(line.substr(line.rfind('\t') + 1));
    const std::string text = read_text(std::filesystem::path(folder) / name);
    const Imported log = import_text(text, ForeignFormat::automatic);
    std::set<std::int64_t> lines;
    for (const ImportedRow& row : log.rows) lines.insert(row.line);
    EXPECT_EQ(lines.size(), listed) << name;
    ++logs;
  }
  EXPECT_GT(logs, 0);
}

}  // namespace
}  // namespace ovl
