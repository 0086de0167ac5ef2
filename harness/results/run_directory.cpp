// SPDX-License-Identifier: Apache-2.0
#include "results/run_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.hpp"
#include "results/consistency.hpp"
#include "results/import/imported.hpp"
#include "results/json_text.hpp"
#include "results/loaded_run.hpp"
#include "results/schema.hpp"

namespace ovl {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path run_file(const fs::path& directory) { return directory / "run.json"; }
fs::path lock_file(const fs::path& directory) { return directory / "lock"; }
fs::path table_file(const fs::path& directory, const Schema& schema) { return directory / (schema.table + ".csv"); }

// ---- the directory -------------------------------------------------------------------------------------------------

// What is in a directory, sorted, but for what a process killed between creating the directory and writing run.json
// may leave there.
std::vector<std::string> contents(const fs::path& directory) {
  const fs::path leftovers[] = {lock_file(directory).filename(), prepared_path(run_file(directory)).filename()};
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path name = entry->path().filename();
    if (std::find(std::begin(leftovers), std::end(leftovers), name) == std::end(leftovers)) {
      names.push_back(name.string());
    }
  }
  if (error) throw_errno("read", directory, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

void require_empty(const fs::path& directory, bool whole) {
  std::error_code error;
  const fs::file_status status = fs::status(directory, error);
  if (status.type() == fs::file_type::not_found) return;
  if (error) throw_errno("read", directory, error.value());
  if (status.type() != fs::file_type::directory) {
    throw usage_error("--out " + directory.string() + " is not a directory", "", "name another --out");
  }
  const std::vector<std::string> names = contents(directory);
  if (names.empty()) return;
  constexpr std::size_t few = 4;
  std::string listed;
  for (std::size_t i = 0; i < std::min(few, names.size()); ++i) listed += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > few) listed += " and " + std::to_string(names.size() - few) + " more";
  const bool holds_run = std::find(names.begin(), names.end(), "run.json") != names.end();
  throw usage_error(
      "--out " + directory.string() + (holds_run ? " holds another run" : " is not empty"), "it has " + listed,
      holds_run && !whole ? "add --resume to continue that run, or name another --out" : "name another --out");
}

// The lock is the open file, so it goes with the last process that has it: a child keeps it when its parent dies,
// which is why the descriptor survives exec.
Descriptor take_lock(const fs::path& directory) {
  const fs::path path = lock_file(directory);
  Descriptor lock = open_own(path, O_RDWR | O_CREAT, "create");
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) throw_errno("lock", path, errno);
    std::string holder = read_table_text(path);
    holder.erase(std::find(holder.begin(), holder.end(), '\n'), holder.end());
    throw failure("another process writes to " + directory.string(), "process " + printable(holder) + " holds the lock",
                  "wait for it to end or name another --out");
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock.get(), 0) != 0 || ::pwrite(lock.get(), pid.data(), pid.size(), 0) < 0) {
    throw_errno("write", path, errno);
  }
  return lock;
}

void require_locked_by_parent(const fs::path& directory) {
  const fs::path path = lock_file(directory);
  const Descriptor probe(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!probe.valid()) throw_errno("open", path, errno);
  if (::flock(probe.get(), LOCK_EX | LOCK_NB) == 0) {
    throw failure("no process holds the lock of " + directory.string(), "the process that started this one has ended",
                  "type the same command with --resume");
  }
}

// ---- identity ------------------------------------------------------------------------------------------------------

// {"cpu": {"cores": 2}} becomes {"cpu.cores": "2"}.
std::map<std::string, std::string> fields_of(const json& object) {
  std::map<std::string, std::string> fields;
  const json flat = object.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    std::string name = pointer.substr(std::min<std::size_t>(1, pointer.size()));
    std::replace(name.begin(), name.end(), '/', '.');
    fields[name] = value.dump();
  }
  return fields;
}

// "name: was A, is B" for every field that differs, joined by "; ".
std::string differences(const json& before, const json& now) {
  std::map<std::string, std::pair<std::string, std::string>> fields;
  for (const auto& [name, value] : fields_of(before)) fields[name] = {value, "absent"};
  for (const auto& [name, value] : fields_of(now)) {
    fields.try_emplace(name, "absent", value).first->second.second = value;
  }
  std::string text;
  for (const auto& [name, values] : fields) {
    if (values.first == values.second) continue;
    text += (text.empty() ? "" : "; ") + name + ": was " + values.first + ", is " + values.second;
  }
  return text;
}

json read_run(const fs::path& directory) {
  json run = parse_json(read_table_text(run_file(directory)));
  const bool resumable =
      run.is_object() && run.contains("identity") && (!run.contains("resumed") || run.at("resumed").is_array());
  if (!resumable) {
    throw failure("cannot read " + run_file(directory).string(), "it is not the description of a run",
                  "name another --out");
  }
  return run;
}

// ---- tables --------------------------------------------------------------------------------------------------------

CaseId whole_case_of(const Row& row) {
  const auto* key = std::get_if<std::string>(&row.at("key"));
  const auto* launch = std::get_if<std::int64_t>(&row.at("launch"));
  require(key != nullptr && launch != nullptr, "every row of a case has a key and a launch");
  return {*key, *launch};
}

// The rows of a table that `keep` accepts. The file is rewritten when it holds anything else, so that it ends after the
// last of them; a table that is not there yet gets its header.
std::vector<Row> load_table(const fs::path& path, const Schema& schema, const std::function<bool(const Row&)>& keep) {
  const std::string text = read_table_text(path);
  std::string good = csv_header(schema);
  std::vector<Row> rows;
  try {
    const auto records = parse_csv(text);
    if (!records.empty() && csv_line(records.front()) != good) {
      throw failure("its columns are not those that this version writes", "");
    }
    for (std::size_t i = 1; i < records.size(); ++i) {
      Row row = parse_row(schema, records[i]);
      if (row.at("key") == Value() || row.at("launch") == Value()) {
        throw failure("a row has no key or no launch", "row " + std::to_string(i));
      }
      if (!keep(row)) continue;
      good += csv_line(records[i]);
      rows.push_back(std::move(row));
    }
  } catch (const Error& error) {
    throw failure("cannot read " + path.string(), error.what(), "name another --out");
  }
  if (good != text) replace_text(path, good);
  return rows;
}

bool looks_over_time(const json& provenance) {
  return provenance.contains("tables") && provenance.at("tables").contains(series_schema().table);
}

std::string csv_lines(const std::vector<Row>& rows) {
  std::string text;
  for (const Row& row : rows) text += csv_line(row);
  return text;
}

}  // namespace

RunDirectory::RunDirectory(fs::path path, const Schema& summary, bool over_time, Descriptor lock)
    : path_(std::move(path)),
      summary_schema_(std::make_unique<Schema>(summary)),
      over_time_(over_time),
      lock_(std::move(lock)) {
  reload();
}

RunDirectory RunDirectory::create(const fs::path& path, const json& provenance, const Schema& summary, bool whole) {
  require(provenance.contains("identity"), "provenance says what the run's identity is");
  require_empty(path, whole);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw_errno("create", path, error.value());
  Descriptor lock = take_lock(path);
  require_empty(path, whole);  // another process may have come and gone between
  replace_text(run_file(path), provenance.dump(2) + "\n");
  return {path, summary, looks_over_time(provenance), std::move(lock)};
}

RunDirectory RunDirectory::resume(const fs::path& path, const json& provenance, const Schema& summary, Lock lock) {
  std::error_code error;
  const bool holds_run = fs::exists(run_file(path), error);
  if (error) throw_errno("read", run_file(path), error.value());
  if (!holds_run) {
    throw usage_error("there is no run to resume in " + path.string(), "it has no run.json",
                      "leave out --resume to begin one");
  }
  if (fs::exists(path / "summary.csv", error) && !fs::exists(path / "samples.csv", error)) {
    throw failure("cannot resume the run in " + path.string(), "its samples.csv is missing, the primary data",
                  "put it back, or name another --out");
  }
  Descriptor held;
  if (lock == Lock::take) held = take_lock(path);
  if (lock == Lock::inherited) require_locked_by_parent(path);
  json run = read_run(path);
  const std::string difference = differences(run.at("identity"), provenance.at("identity"));
  if (!difference.empty()) {
    throw usage_error("cannot resume the run in " + path.string(), difference,
                      "continue it as it began, or name another --out");
  }
  if (lock == Lock::take) {
    run["resumed"].push_back(provenance.value("run", json::object()));
    replace_text(run_file(path), run.dump(2) + "\n");
  }
  return {path, summary, looks_over_time(provenance), std::move(held)};
}

bool RunDirectory::finished(const std::string& key, std::int64_t launch) const {
  return finished_.count({key, launch}) != 0;
}

void RunDirectory::finish(Row row) {
  finished_.insert(whole_case_of(row));
  rows_.push_back(std::move(row));
}

void RunDirectory::reload() {
  rows_.clear();
  finished_.clear();
  const auto all = [](const Row&) { return true; };
  for (Row& row : load_table(table_file(path_, *summary_schema_), *summary_schema_, all)) finish(std::move(row));
  const auto of_finished_case = [&](const Row& row) { return finished_.count(whole_case_of(row)) != 0; };
  const std::vector<Row> samples = load_table(table_file(path_, samples_schema()), samples_schema(), of_finished_case);
  load_table(table_file(path_, operations_schema()), operations_schema(), of_finished_case);
  if (over_time_) load_table(table_file(path_, series_schema()), series_schema(), of_finished_case);
  if (const std::string wrong = inconsistency(rows_, samples); !wrong.empty()) {
    throw failure("summary.csv and samples.csv of " + path_.string() + " do not go together", wrong,
                  "put back what was changed, or name another --out");
  }
  const auto open = [&](const Schema& schema) {
    AppendFile file(table_file(path_, schema));
    const std::int64_t size = file.size();
    return Table{&schema, std::move(file), size};
  };
  samples_ = open(samples_schema());
  operations_ = open(operations_schema());
  if (over_time_) series_ = open(series_schema());
  summary_ = open(*summary_schema_);
}

void RunDirectory::commit(const std::vector<Row>& samples, const std::vector<Row>& operations, const Row& summary,
                          const std::vector<Row>& series) {
  const CaseId id = whole_case_of(summary);
  require(finished_.count(id) == 0, "a case is committed once");
  const auto of_this_case = [&](const Row& row) { return whole_case_of(row) == id; };
  require(std::all_of(samples.begin(), samples.end(), of_this_case), "samples are committed with their case");
  require(std::all_of(operations.begin(), operations.end(), of_this_case), "operations are committed with their case");
  require(std::all_of(series.begin(), series.end(), of_this_case), "a series is committed with its case");
  require(series.empty() || series_.has_value(), "the run has a table for what happened over time");
  const std::string line = csv_line(summary);
  Row row = parse_row(*summary_schema_, parse_csv(line).front());

  std::vector<Table*> tables{&samples_, &operations_, &summary_};
  if (series_) tables.push_back(&*series_);
  for (const Table* table : tables) {
    if (table->file.size() != table->size) {
      throw failure("cannot write " + table->file.path().string(), "another process has changed it",
                    "type the same command with --resume");
    }
  }
  try {
    samples_.file.append(csv_lines(samples));
    operations_.file.append(csv_lines(operations));
    if (series_) series_->file.append(csv_lines(series));
    samples_.file.sync();
    operations_.file.sync();
    if (series_) series_->file.sync();
    summary_.file.append(line);
    summary_.file.sync();
    for (Table* table : tables) table->size = table->file.size();
  } catch (const Error&) {
    for (Table* table : tables) table->file.roll_back(table->size);
    throw;
  }
  finish(std::move(row));
}

void RunDirectory::write_table(const Schema& schema, const std::vector<Row>& rows) {
  replace_text(table_file(path_, schema), csv_header(schema) + csv_lines(rows));
}

void RunDirectory::write_json(const fs::path& relative_path, const json& json) {
  const fs::path path = path_ / relative_path;
  std::error_code error;
  if (fs::is_symlink(path.parent_path(), error)) {
    throw FileError("cannot write " + path.string(), "its folder is a link, which may lead anywhere",
                    "put a folder in its place, or name another --out");
  }
  fs::create_directories(path.parent_path(), error);
  if (error) throw_errno("create", path.parent_path(), error.value());
  replace_text(path, json.dump(1) + "\n");
}

}  // namespace ovl
