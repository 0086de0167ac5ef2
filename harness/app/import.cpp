// SPDX-License-Identifier: Apache-2.0
#include "app/import.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "app/command_line.hpp"
#include "app/options.hpp"
#include "app/report.hpp"
#include "base/error.hpp"
#include "results/build_info.hpp"
#include "results/file.hpp"
#include "results/fits.hpp"
#include "results/import/formats.hpp"
#include "results/import/series.hpp"
#include "results/import/sha256.hpp"
#include "results/provenance.hpp"
#include "results/run_directory.hpp"
#include "results/schema.hpp"

namespace ovl {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct ImportOptions {
  std::vector<std::string> files;
  ForeignFormat format_name = ForeignFormat::automatic;
  std::string collective;
  int ranks = 0;
  std::string out;
  bool fit = false;
  bool rows = false;
  Format format = Format::text;
  std::vector<std::string> command_line;
};

// nullopt: --help or --version was printed.
std::optional<ImportOptions> parse_import_options(int argc, char** argv) {
  ImportOptions o;
  for (int i = 0; i < argc; ++i) o.command_line.emplace_back(argv[i]);
  CLI::App app("What do the logs that I have say?", "overlap-import");
  app.set_version_flag("--version", fmt::format("overlapbench {}", build_info().version));
  app.add_option("FILE", o.files, "logs to read; - is standard input")->type_name("");
  const OptionGroup reading(app, "Reading");
  reading.value("--format-name",
                fmt::format("what wrote the files: {} [auto]", fmt::join(names<ForeignFormat>(), ", ")),
                [&o](const std::string& text) { o.format_name = parse_enum<ForeignFormat>(text); });
  reading.value("--collective", "the collective, where a file does not say it", [&o](const std::string& text) {
    o.collective = known_collective(text);
    if (o.collective.empty()) {
      throw unknown_value("collective", text,
                          {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "reduce", "gather",
                           "scatter", "sendrecv"});
    }
  });
  reading.whole("--ranks", o.ranks, 1, 1'000'000, "how many ranks took part, where a file does not say it");
  const OptionGroup writing(app, "Results");
  writing.flag("--rows", o.rows, "print the rows as read");
  writing.flag("--fit", o.fit, "fit alpha + beta * bytes to each series and print the fits");
  writing.value("--format", "text, csv or json [text]",
                [&o](const std::string& text) { o.format = parse_enum<Format>(text); });
  writing.text("--out", o.out, "a run directory of what was read, with each file's name and SHA-256");
  app.footer(
      "Warnings name the file and the line, on standard error. Rows that failed their check are never fitted.\n"
      "Exit codes: 0 good, 1 cannot be written, 2 usage, or a file without a usable row.");
  if (!parse_command_line(app, argc, argv)) return std::nullopt;
  if (o.files.empty()) throw usage_error("no file is named", "", "type overlap-import FILE...");
  if (o.fit && o.rows && o.format != Format::text) {
    throw usage_error("--rows and --fit are two tables", "a csv or json output holds one",
                      "run it once for each, or write both with --out DIR");
  }
  return o;
}

std::string text_of_file(const std::string& path) {
  const fs::path file = path == "-" ? "/dev/stdin" : path;
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (status.type() == fs::file_type::not_found) {
    throw usage_error("there is no file " + printable(path, 200), "", "name a log");
  }
  if (status.type() == fs::file_type::directory) {
    throw usage_error(printable(path, 200) + " is a directory", "",
                      "name the logs in it: " + printable(path, 200) + "/*");
  }
  const bool device = status.type() == fs::file_type::character || status.type() == fs::file_type::block;
  if (device && path != "-") {  // such as /dev/zero, which has no end
    throw usage_error(printable(path, 200) + " is a device", "", "name a log, or - for standard input");
  }
  return read_text(file);
}

struct ReadFile {
  ImportedFile file;
  std::string sha256;
  std::size_t size = 0;
  std::string problem;  // why it cannot be used; empty: it can
};

std::array<std::int64_t, 4> count_by_status(const Imported& content) {
  std::array<std::int64_t, 4> counts{};
  for (const ImportedRow& row : content.rows) ++counts[static_cast<std::size_t>(row.status)];
  return counts;
}

// A row of which a number is known that says something: not one that failed its check, sent nothing or had one rank.
bool usable(const ImportedRow& row) {
  if (row.status == RowStatus::ok) return true;
  return row.status == RowStatus::skipped && std::isnan(row.seconds) && !std::isnan(row.algorithm_bandwidth);
}

std::string problem_of(const ImportedFile& file) {
  const std::vector<ImportedRow>& rows = file.content.rows;
  if (std::any_of(rows.begin(), rows.end(), usable)) return {};
  if (!rows.empty()) {
    const ImportedRow& first = rows.front();
    return fmt::format("{} has no usable row among {}, the first in line {}: {}", file.name, rows.size(), first.line,
                       first.reason);
  }
  const std::vector<ImportWarning>& warnings = file.content.warnings;
  const std::string why =
      warnings.empty() ? "" : fmt::format(", line {}: {}", warnings.front().line, warnings.front().text);
  return fmt::format("{} has no row that {} would write{}; name another format with --format-name, or leave it out",
                     file.name, file.format, why);
}

ReadFile read_file(const std::string& path, const ImportOptions& o) {
  ReadFile read;
  read.file.name = printable(path, 400);
  const std::string text = text_of_file(path);
  read.size = text.size();
  if (!o.out.empty() || o.files.size() > 1) read.sha256 = sha256_hex(text);
  ImportHints hints{.collective = o.collective, .ranks = o.ranks};
  if (hints.collective.empty()) {
    hints.collective = collective_in_name(path);
    hints.from_file_name = true;
  }
  try {
    const ForeignFormat format = o.format_name == ForeignFormat::automatic ? detect_format(text) : o.format_name;
    read.file.format = name(format);
    read.file.content = import_text(text, format, hints);
    read.problem = problem_of(read.file);
  } catch (const Error& error) {
    read.problem = read.file.name + ": " + error.what();
  }
  return read;
}

// A log that is read twice would count as two launches.
void require_distinct(const std::vector<std::string>& files) {
  std::set<std::string> seen;
  for (const std::string& path : files) {
    std::error_code error;
    const fs::path real = path == "-" ? fs::path(path) : fs::canonical(path, error);
    if (error || seen.insert(real.string()).second) continue;
    throw usage_error(printable(path, 200) + " is named twice", "one log is one measurement", "name each log once");
  }
}

// Two files of the same bytes may be meant, but are no two measurements.
void print_copies(const std::vector<ReadFile>& files) {
  std::map<std::string, std::string> first;  // by SHA-256
  for (const ReadFile& read : files) {
    if (read.sha256.empty() || !read.problem.empty()) continue;
    const auto [at, is_new] = first.try_emplace(read.sha256, read.file.name);
    if (is_new) continue;
    print_message(fmt::format("{}: the same bytes as {}: one measurement, not two", read.file.name, at->second));
  }
}

// What is wrong with the files that cannot be used, in one line: all of the first one, the names of the others.
std::string problems_text(const std::vector<ReadFile>& files) {
  std::string text;
  std::vector<std::string> others;
  for (const ReadFile& read : files) {
    if (read.problem.empty()) continue;
    text.empty() ? text = read.problem : others.emplace_back(read.file.name);
  }
  if (others.empty()) return text;
  return text + fmt::format("; nor can {} be used", fmt::join(others, ", "));
}

void print_warnings(const ImportedFile& file) {
  for (const ImportWarning& warning : file.content.warnings) {
    const std::string where = warning.line == 0 ? "" : fmt::format(" line {}:", warning.line);
    print_message(fmt::format("{}:{} {}", file.name, where, warning.text));
  }
  if (file.content.warnings_left_out > 0) {
    print_message(fmt::format("{}: and {} more warnings", file.name, file.content.warnings_left_out));
  }
}

// ---- tables ---------------------------------------------------------------------------------------------------------

// The columns from the one at `first` on.
Schema without(const Schema& schema, std::size_t first) {
  Schema rest{schema.table, schema.version, {}};
  rest.columns.assign(schema.columns.begin() + static_cast<std::ptrdiff_t>(first), schema.columns.end());
  return rest;
}

Row narrowed(const Schema& schema, const Row& row) {
  Row narrow(schema);
  for (const Column& column : schema.columns) narrow.set(column.name, row.at(column.name));
  return narrow;
}

std::vector<Row> all_rows(const std::vector<ImportedFile>& files) {
  std::vector<Row> rows;
  for (const ImportedFile& file : files) {
    for (const ImportedRow& row : file.content.rows) rows.push_back(imported_row(file, row));
  }
  return rows;
}

// Columns that name the file stand only where there are several, those that name a series likewise.
void print_rows(Format format, const std::vector<ImportedFile>& files) {
  const Schema schema = without(imported_schema(), files.size() > 1 ? 0 : 1);
  if (format == Format::csv) print_out(csv_header(schema));
  std::vector<Row> kept;
  for (const ImportedFile& file : files) {
    for (const ImportedRow& row : file.content.rows) {
      Row narrow = narrowed(schema, imported_row(file, row));
      if (format == Format::csv) {
        print_out(csv_line(narrow));
      } else {
        kept.push_back(std::move(narrow));
      }
    }
  }
  if (format == Format::json) print_out(rows_as_json(kept));
}

// The columns that say what a series is, where there are several, and those of its lines; fits.csv has more.
Schema printed_fits(std::size_t files, std::size_t series) {
  std::vector<std::string> columns;
  if (files > 1) columns.emplace_back("file");
  if (files > 1 || series > 1) columns.insert(columns.end(), {"collective", "dtype", "op", "ranks", "in_place"});
  columns.insert(columns.end(), {"method", "segments", "breakpoint_bytes", "alpha_s", "beta_s_per_byte",
                                 "bus_bandwidth", "median_relative_error", "max_relative_error", "points"});
  Schema schema{fits_schema().table, fits_schema().version, {}};
  for (const std::string& name : columns) schema.columns.push_back(fits_schema().columns[fits_schema().index_of(name)]);
  return schema;
}

void print_fits(Format format, const std::vector<ImportedFile>& files, const std::vector<CostSeries>& series,
                const std::vector<Row>& rows) {
  const Schema schema = printed_fits(files.size(), series.size());
  std::vector<Row> narrow;
  for (const Row& row : rows) narrow.push_back(narrowed(schema, row));
  print_out(format == Format::json ? rows_as_json(narrow) : rows_as_csv(schema, narrow));
}

// ---- text -----------------------------------------------------------------------------------------------------------

std::string rate_text(double bytes_per_second) {
  return std::isfinite(bytes_per_second) ? fmt::format("{:.4g} GB/s", bytes_per_second / 1e9) : "unknown";
}

std::string percent_text(double share) { return std::isnan(share) ? "?" : fmt::format("{:.1f} %", 100 * share); }

std::string bytes_text(double bytes) { return format_bytes(Bytes(static_cast<std::int64_t>(bytes))); }

std::string file_text(const ImportedFile& file) {
  const auto counts = count_by_status(file.content);
  std::string text = fmt::format("{} ({}): {} rows", file.name, file.format, file.content.rows.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) text += fmt::format(", {} {}", counts[i], name(static_cast<RowStatus>(i)));
  }
  return text + "\n";
}

std::string series_text(const CostSeries& series) {
  const auto [least, most] =
      std::minmax_element(series.points.begin(), series.points.end(),
                          [](const SizeTime& a, const SizeTime& b) { return a.bytes < b.bytes; });
  return fmt::format("  {}: {} points, {} to {}\n", series.title(), series.points.size(), bytes_text(least->bytes),
                     bytes_text(most->bytes));
}

std::string rows_text(const ImportedFile& file) {
  std::string text =
      fmt::format("  {:>7} {:<14} {:<9} {:<5} {:>14} {:>5} {:>8} {:>12} {:>14} {:>14}  {}\n", "line", "collective",
                  "dtype", "op", "bytes", "ranks", "in_place", "time", "algorithm", "bus", "status");
  for (const ImportedRow& row : file.content.rows) {
    text += fmt::format("  {:>7} {:<14} {:<9} {:<5} {:>14} {:>5} {:>8} {:>12} {:>14} {:>14}  {}{}{}\n", row.line,
                        row.collective, row.dtype, row.op, row.bytes ? std::to_string(*row.bytes) : "-",
                        row.ranks == 0 ? "-" : std::to_string(row.ranks),
                        !row.in_place   ? "-"
                        : *row.in_place ? "yes"
                                        : "no",
                        format_seconds(Seconds(row.seconds)), rate_text(row.algorithm_bandwidth),
                        rate_text(row.bus_bandwidth), name(row.status), row.reason.empty() ? "" : ": ", row.reason);
  }
  return text;
}

std::string fits_text(const std::vector<Row>& rows) {
  if (rows.empty()) return "    one size: no line\n";
  const auto real = [](const Row& row, std::string_view column) {
    const auto* value = std::get_if<double>(&row.at(column));
    return value == nullptr ? std::numeric_limits<double>::quiet_NaN() : *value;
  };
  std::string text;
  for (const Row& row : rows) {
    const bool first = row.at("breakpoint_bytes") == Value();
    const bool several = row.at("segments") != Value(std::int64_t{1});
    std::string method = std::get<std::string>(row.at("method"));
    if (several) {
      method += " from ";
      method += first ? "0" : format_bytes(Bytes(std::get<std::int64_t>(row.at("breakpoint_bytes"))));
    }
    text += fmt::format("    {:<28} alpha {:>10}  beta {:>11.4g} s/B  bus {:>12}", method,
                        format_seconds(Seconds(real(row, "alpha_s"))), real(row, "beta_s_per_byte"),
                        rate_text(real(row, "bus_bandwidth")));
    if (first) {
      text += fmt::format("  error median {}, worst {}", percent_text(real(row, "median_relative_error")),
                          percent_text(real(row, "max_relative_error")));
      if (const double held_out = real(row, "held_out_median_relative_error"); !std::isnan(held_out)) {
        text += fmt::format("; of sizes held out {}, {}", percent_text(held_out),
                            percent_text(real(row, "held_out_max_relative_error")));
      }
      text += "  " + std::get<std::string>(row.at("verdict"));
    }
    text += "\n";
  }
  const double half = real(rows.front(), "half_performance_bytes");
  if (std::isfinite(half) && half >= 1 && half < 0x1p62) {
    text += fmt::format("    half of the bandwidth of the relative line from {} on\n", bytes_text(std::round(half)));
  }
  return text;
}

// ---- the run directory ----------------------------------------------------------------------------------------------

// Of the numbers this machine knows nothing: what it is goes to the part that says who imported.
json provenance_of(const ImportOptions& o, const std::vector<ReadFile>& files, const Schema& summary) {
  std::vector<std::string> words;
  for (const std::string& word : o.command_line) words.push_back(printable(word, 4096));
  json provenance = collect_provenance(
      {.bench = "import",
       .command_line = words,
       .backend = {.backend = "imported", .device = "unknown: foreign logs"},
       .tables = {summary, samples_schema(), operations_schema(), imported_schema(), fits_schema()}});
  json& identity = provenance["identity"];
  provenance["run"]["imported_on"] = identity["machine"];
  identity["machine"] = nullptr;
  identity["environment"] = json::object();
  identity["source"] = "imported";
  identity["files"] = json::array();
  provenance["imported"] = json::array();
  for (const ReadFile& read : files) {
    const fs::path path(read.file.name);
    identity["files"].push_back({{"name", path.filename().string()}, {"sha256", read.sha256}});
    json warnings = json::array();
    for (const ImportWarning& warning : read.file.content.warnings) {
      warnings.push_back({{"line", warning.line}, {"text", warning.text}});
    }
    json statuses = json::object();
    const auto counts = count_by_status(read.file.content);
    for (std::size_t i = 0; i < counts.size(); ++i) statuses[std::string(name(static_cast<RowStatus>(i)))] = counts[i];
    provenance["imported"].push_back({{"file", read.file.name},
                                      {"sha256", read.sha256},
                                      {"bytes", read.size},
                                      {"format", read.file.format},
                                      {"rows", statuses},
                                      {"warnings", warnings},
                                      {"warnings_left_out", read.file.content.warnings_left_out}});
  }
  return provenance;
}

int import_command(int argc, char** argv) {
  const std::optional<ImportOptions> options = parse_import_options(argc, argv);
  if (!options) return 0;
  const ImportOptions& o = *options;

  require_distinct(o.files);
  std::vector<ReadFile> read;
  for (const std::string& path : o.files) {
    read.push_back(read_file(path, o));
    if (read.back().problem.empty()) print_warnings(read.back().file);  // else the problem says what is to be said
  }
  const std::string problem = problems_text(read);
  if (!problem.empty() && !o.out.empty()) {
    throw Error(ErrorKind::usage, problem + "; nothing is written to " + printable(o.out, 200));
  }
  print_copies(read);
  const json provenance = o.out.empty() ? json() : provenance_of(o, read, summary_schema(imported_summary_columns()));

  std::vector<ImportedFile> files;
  for (ReadFile& one : read) files.push_back(std::move(one.file));
  std::vector<CostSeries> series;
  std::vector<std::vector<Row>> fits;  // of each series
  std::vector<Row> fitted;
  if (o.fit || !o.out.empty() || o.format == Format::text) series = series_of(files);
  if (o.fit && series.empty() && problem.empty()) {
    print_message("overlap-import: no row with status ok, so there is nothing to fit");
  }
  if (o.fit || !o.out.empty()) {
    for (const CostSeries& one : series) {
      fits.push_back(fit_rows(one, fits_of(one)));
      if (fits.back().empty()) print_message(fmt::format("{}: {}: one size, no line", one.file, one.title()));
      fitted.insert(fitted.end(), fits.back().begin(), fits.back().end());
    }
  }

  if (o.format == Format::text) {
    for (const ImportedFile& file : files) {
      print_out(file_text(file));
      if (o.rows) print_out(rows_text(file));
      for (std::size_t i = 0; i < series.size(); ++i) {
        if (series[i].file != file.name) continue;
        print_out(series_text(series[i]));
        if (o.fit) print_out(fits_text(fits[i]));
      }
    }
  } else if (o.fit) {
    print_fits(o.format, files, series, fitted);
  } else {
    print_rows(o.format, files);
  }

  if (!o.out.empty()) {
    const Schema summary = summary_schema(imported_summary_columns());
    without_resume("name another --out, in a place with room that you may write to", [&] {
      RunDirectory directory = RunDirectory::create(o.out, provenance, summary, true);
      directory.write_table(imported_schema(), all_rows(files));
      directory.write_table(fits_schema(), fitted);
      directory.write_table(summary, imported_summary(summary, files));
    });
    if (o.format == Format::text) print_out("\nResults: " + printable(o.out, 400) + "\n");
  }
  if (!problem.empty()) throw Error(ErrorKind::usage, problem);
  return 0;
}

}  // namespace

int run_import(int argc, char** argv) {
  return guarded("overlap-import", [&] { return import_command(argc, argv); });
}

}  // namespace ovl
