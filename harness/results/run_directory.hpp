// SPDX-License-Identifier: Apache-2.0
//
// A run directory holds run.json, samples.csv, operations.csv, where a bench looks over time series.csv, summary.csv,
// and what is derived from them.
//
// A case is the unit of commit: its samples, operations and series are written and synced first, then its row of
// summary.csv. Without that row the case never happened. So whatever kills the process, at any moment, the files hold
// every finished case, and resume() drops what a dying process left half written.
//
// One process at a time writes: the directory is locked. A parent that holds the lock may start processes that write
// in its place, one after the other (Lock::inherited); reload() then shows it what they committed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "results/file.hpp"
#include "results/table.hpp"

namespace ovl {

// take: lock the directory. inherited: a process that waits for this one holds the lock.
enum class Lock { take, inherited };

class RunDirectory {
 public:
  // A new run. `provenance` is what collect_provenance() returns, `summary` the schema of this bench's summary.csv.
  // Throws Error(usage) when `path` is there and not an empty directory, Error(failure) when it cannot be created or
  // locked.
  // `whole`: what is written is written at once, and no --resume goes on with it.
  static RunDirectory create(const std::filesystem::path& path, const nlohmann::json& provenance, const Schema& summary,
                             bool whole = false);

  // Continues a run. Throws Error(usage) when there is none, or when its identity is another: every difference is
  // named. Throws Error(failure) when the directory is locked, its tables cannot be read, or its samples and its
  // summary do not say the same (results/consistency.hpp).
  static RunDirectory resume(const std::filesystem::path& path, const nlohmann::json& provenance, const Schema& summary,
                             Lock lock = Lock::take);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  // The case has a row in summary.csv, whatever its status.
  [[nodiscard]] bool finished(const std::string& key, std::int64_t launch) const;
  // summary.csv as it stands, in the order of commits, those of earlier processes included.
  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }

  // One finished case: `summary` is its row, every row of `samples`, `operations` and `series` carries its key and
  // launch. `series` only where the provenance has that table. Throws Error(failure), for example on a full disk; the
  // cases committed before stay readable.
  void commit(const std::vector<Row>& samples, const std::vector<Row>& operations, const Row& summary,
              const std::vector<Row>& series = {});

  // Reads the tables again after another process of this run has written, and drops what it left half written. Throws
  // as resume() where they cannot be read or do not go together.
  void reload();

  // A derived table, whole, by rename.
  void write_table(const Schema& schema, const std::vector<Row>& rows);
  // By rename; makes the folders of `relative_path`.
  void write_json(const std::filesystem::path& relative_path, const nlohmann::json& json);

 private:
  struct Table {
    const Schema* schema = nullptr;
    AppendFile file;
    std::int64_t size = 0;  // bytes of committed rows: where the file must end when the next case comes
  };

  RunDirectory(std::filesystem::path path, const Schema& summary, bool over_time, Descriptor lock);
  void finish(Row row);

  std::filesystem::path path_;
  std::unique_ptr<const Schema> summary_schema_;  // rows_ point to it, wherever this object moves
  bool over_time_;
  Descriptor lock_;
  Table samples_;
  Table operations_;
  std::optional<Table> series_;
  Table summary_;
  std::vector<Row> rows_;
  std::set<std::pair<std::string, std::int64_t>> finished_;
};

}  // namespace ovl
