// SPDX-License-Identifier: Apache-2.0
//
// A run directory as a reader sees it, whoever wrote it and when: tables typed by the schemas in its own run.json, so
// that a column which an older version did not write is unknown instead of an error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "results/table.hpp"

namespace ovl {

struct LoadedTable {
  std::unique_ptr<const Schema> schema;  // the rows point to it, wherever this object moves
  std::vector<Row> rows;
};

// Of one row; unknown (NaN, "", nullopt) too where the table has no such column.
double number_in(const Row& row, std::string_view column);
std::string text_in(const Row& row, std::string_view column);
std::optional<std::int64_t> whole_in(const Row& row, std::string_view column);

// Its case: key and launch.
using CaseId = std::pair<std::string, std::int64_t>;
CaseId case_of(const Row& row);

class LoadedRun {
 public:
  // Reads run.json, summary.csv and, where they are there, `more` tables. Throws Error(usage) for a path that is no run
  // directory, for a schema version that this build does not read and for tables that do not fit their schema; an
  // unterminated last line is left out, as everywhere.
  static LoadedRun read(const std::filesystem::path& path, const std::vector<std::string>& more);

  [[nodiscard]] const std::string& name() const { return name_; }  // the path as it was typed, printable
  [[nodiscard]] const nlohmann::json& about() const { return about_; }
  [[nodiscard]] const std::vector<Row>& rows(const std::string& table) const;

  // A text at a path of run.json ("identity", "bench"); empty where there is none.
  [[nodiscard]] std::string text_at(std::initializer_list<std::string_view> path) const;

  // Every leaf of run.json's identity as "machine.cpu" -> "AMD EPYC", without the seed, the names of files and the
  // hashes of schemas; of the rest of run.json the memory and the frequency governor.
  [[nodiscard]] std::map<std::string, std::string> environment() const;

 private:
  std::string name_;
  nlohmann::json about_;
  std::map<std::string, LoadedTable> tables_;
};

}  // namespace ovl
