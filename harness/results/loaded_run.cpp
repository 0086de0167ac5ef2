// SPDX-License-Identifier: Apache-2.0
#include "results/loaded_run.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "results/file.hpp"
#include "results/import/imported.hpp"
#include "results/json_text.hpp"

namespace ovl {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Columns are found by their names, so that a version which only adds some is read as the others are.
constexpr int newest_version = 2;
constexpr std::uintmax_t largest_description = std::uintmax_t{64} << 20U;  // of run.json: hours of logs give 1 MiB

const Value* value_in(const Row& row, std::string_view column) {
  const std::vector<Column>& columns = row.schema().columns;
  const auto found = std::find_if(columns.begin(), columns.end(), [&](const Column& c) { return c.name == column; });
  return found == columns.end() ? nullptr : &row.values()[static_cast<std::size_t>(found - columns.begin())];
}

const json* at(const json& root, std::initializer_list<std::string_view> path) {
  const json* place = &root;
  for (const std::string_view step : path) {
    if (!place->is_object()) return nullptr;
    const auto found = place->find(step);
    if (found == place->end()) return nullptr;
    place = &*found;
  }
  return place;
}

std::string plain_text(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

[[noreturn]] void not_a_run(const std::string& name, std::string_view why) {
  throw usage_error(name + " is not a run directory", why, "name a directory that an overlap bench wrote with --out");
}

json read_about(const fs::path& path, const std::string& name) {
  std::error_code error;
  if (!fs::exists(path, error)) not_a_run(name, "it is not there");
  if (!fs::is_directory(path, error)) not_a_run(name, "it is a file");
  const fs::path file = path / "run.json";
  if (!fs::exists(file, error)) not_a_run(name, "it has no run.json");
  if (!fs::is_regular_file(file, error)) not_a_run(name, "its run.json is no file");
  if (fs::file_size(file, error) > largest_description) not_a_run(name, "its run.json has more than 64 MiB");
  json about = parse_json(read_table_text(file));
  if (at(about, {"identity"}) == nullptr || at(about, {"tables", "summary"}) == nullptr) {
    not_a_run(name, "its run.json does not describe one");
  }
  return about;
}

ColumnType type_of(const std::string& text) {
  if (text == "text") return ColumnType::text;
  if (text == "integer") return ColumnType::integer;
  if (text == "real") return ColumnType::real;
  throw failure("the type of a column is \"" + printable(text) + "\"", "it is text, integer or real");
}

Schema schema_of(const json& tables, const std::string& table) {
  const json& entry = tables.at(table);
  Schema schema{table, entry.at("version").get<int>(), {}};
  std::set<std::string> names;
  for (const json& c : entry.at("columns")) {
    if (const auto name = c.at("name").get<std::string>(); !names.insert(name).second) {
      throw failure("the column \"" + printable(name) + "\" stands there twice", "");
    }
    schema.columns.push_back({c.at("name").get<std::string>(), type_of(c.at("type").get<std::string>()),
                              c.value("unit", ""), c.value("description", "")});
  }
  return schema;
}

LoadedTable read_table(const fs::path& file, const json& tables, const std::string& table) {
  LoadedTable loaded{std::make_unique<const Schema>(schema_of(tables, table)), {}};
  if (loaded.schema->version < 1 || loaded.schema->version > newest_version) {
    throw failure("its schema has version " + std::to_string(loaded.schema->version),
                  "this build reads versions 1 to " + std::to_string(newest_version));
  }
  const auto records = parse_csv(read_table_text(file));
  if (!records.empty() && csv_line(records.front()) != csv_header(*loaded.schema)) {
    throw failure("its columns are not those of run.json", "");
  }
  for (std::size_t i = 1; i < records.size(); ++i) loaded.rows.push_back(parse_row(*loaded.schema, records[i]));
  return loaded;
}

}  // namespace

double number_in(const Row& row, std::string_view column) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  const Value* value = value_in(row, column);
  if (value == nullptr) return unknown;
  if (const auto* real = std::get_if<double>(value)) return *real;
  const auto* whole = std::get_if<std::int64_t>(value);
  return whole == nullptr ? unknown : static_cast<double>(*whole);
}

std::string text_in(const Row& row, std::string_view column) {
  const Value* value = value_in(row, column);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? "" : *text;
}

std::optional<std::int64_t> whole_in(const Row& row, std::string_view column) {
  const Value* value = value_in(row, column);
  const auto* whole = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  return whole == nullptr ? std::nullopt : std::optional(*whole);
}

CaseId case_of(const Row& row) { return {text_in(row, "key"), whole_in(row, "launch").value_or(0)}; }

LoadedRun LoadedRun::read(const fs::path& path, const std::vector<std::string>& more) {
  LoadedRun run;
  run.name_ = printable(path.string(), 400);
  while (run.name_.size() > 1 && run.name_.back() == '/') run.name_.pop_back();
  run.about_ = read_about(path, run.name_);
  std::vector<std::string> tables{"summary"};
  tables.insert(tables.end(), more.begin(), more.end());
  const json& schemas = run.about_.at("tables");
  for (const std::string& table : tables) {
    const fs::path file = path / (table + ".csv");
    std::error_code error;
    if (table != "summary" && (!schemas.contains(table) || !fs::exists(file, error))) continue;
    try {
      if (!fs::exists(file, error)) throw failure("it is not there", "");
      run.tables_[table] = read_table(file, schemas, table);
    } catch (const Error& problem) {
      throw usage_error("cannot read " + run.name_ + "/" + table + ".csv", problem.what(),
                        "run it again with this version, or compare runs of one version");
    } catch (const json::exception&) {
      throw usage_error("cannot read " + run.name_ + "/run.json", "its description of " + table + ".csv is broken",
                        "run it again with this version");
    }
  }
  return run;
}

const std::vector<Row>& LoadedRun::rows(const std::string& table) const {
  static const std::vector<Row> none;
  const auto found = tables_.find(table);
  return found == tables_.end() ? none : found->second.rows;
}

std::string LoadedRun::text_at(std::initializer_list<std::string_view> path) const {
  const json* value = at(about_, path);
  return value == nullptr || !value->is_string() ? "" : value->get<std::string>();
}

std::map<std::string, std::string> LoadedRun::environment() const {
  json shown = about_.at("identity");
  if (!shown.is_object()) return {};
  for (const char* part : {"schemas", "seed", "files", "source"}) shown.erase(part);
  // The build that read foreign logs says nothing about their numbers.
  if (text_at({"identity", "bench"}) == "import") shown.erase("build");
  for (const char* part : {"memory", "governor"}) {
    if (const json* value = at(about_, {"run", part})) shown["machine." + std::string(part)] = *value;
  }
  std::map<std::string, std::string> fields;
  const json flat = shown.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    if (value.is_null()) continue;
    std::string field = pointer.substr(std::min<std::size_t>(1, pointer.size()));
    std::replace(field.begin(), field.end(), '/', '.');
    fields[field] = printable(plain_text(value), 400);
  }
  return fields;
}

}  // namespace ovl
