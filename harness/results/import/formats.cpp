// SPDX-License-Identifier: Apache-2.0
#include "results/import/formats.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "results/import/delimited.hpp"
#include "results/import/imb.hpp"
#include "results/import/nccl_tests.hpp"
#include "results/import/osu.hpp"
#include "results/import/tests_json.hpp"

namespace ovl {
namespace {

// An object or an array of objects. A Python dictionary has other quotes, a launcher's label no brace.
bool looks_json(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == npos) return false;
  const std::size_t second = text.find_first_not_of(" \t\r\n", first + 1);
  const char next = second == npos ? '\0' : text[second];
  return (text[first] == '{' && (next == '"' || next == '}')) || (text[first] == '[' && (next == '{' || next == ']'));
}

bool has_nccl_header(std::string_view text) {
  const std::size_t at = text.find("algbw");
  return at != npos && text.find("busbw", at) != npos;
}

Imported read(std::string_view text, ForeignFormat format, const ImportHints& hints) {
  switch (format) {
    case ForeignFormat::automatic: break;
    case ForeignFormat::nccl_tests:
    case ForeignFormat::rccl_tests: return read_nccl_tests(text, hints);
    case ForeignFormat::nccl_tests_json:
    case ForeignFormat::rccl_tests_json: return read_tests_json(text, hints);
    case ForeignFormat::osu: return read_osu(text, hints);
    case ForeignFormat::imb: return read_imb(text, hints);
    case ForeignFormat::csv: return read_delimited(text, hints);
  }
  return {};
}

constexpr std::string_view impossible_size = "more bytes than any memory has: at most 2^62";
constexpr std::string_view impossible_time = "no time of a collective: from 1e-12 s to 1000000 s";

// Numbers that no collective has would spoil what is computed of them, and come from a column of something else.
void require_possible(Imported& imported, ImportedRow& row) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 62;
  const auto refuse = [&](std::string_view reason) {
    row.status = RowStatus::unreadable;
    row.reason = imported.intern(reason);
    row.seconds = row.algorithm_bandwidth = row.bus_bandwidth = ImportedRow::unknown;
  };
  if (row.bytes && *row.bytes > most_bytes) {
    refuse(fmt::format("{} bytes are {}", *row.bytes, impossible_size));
    row.bytes.reset();
  } else if (row.seconds > 1e6 || row.seconds < 1e-12) {
    refuse(fmt::format("{} s are {}", row.seconds, impossible_time));
  }
}

}  // namespace

ForeignFormat detect_format(std::string_view text) {
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    throw usage_error("the text is UTF-16", "logs are read as bytes", "convert it: iconv -f UTF-16 -t UTF-8 FILE");
  }
  if (looks_json(text)) {
    return text.find("\"busBw\"") != npos ? ForeignFormat::rccl_tests_json : ForeignFormat::nccl_tests_json;
  }
  if (looks_delimited(text)) return ForeignFormat::csv;
  const bool osu = text.find("# OSU ") != npos;
  const bool imb = text.find("# Benchmarking ") != npos || text.find("#repetitions") != npos;
  const bool nccl = has_nccl_header(text);
  if (static_cast<int>(osu) + static_cast<int>(imb) + static_cast<int>(nccl) > 1) {
    throw usage_error("the text holds tables of more than one tool", "they are read one at a time",
                      "choose with --format-name nccl-tests, osu or imb");
  }
  if (osu) return ForeignFormat::osu;
  if (imb) return ForeignFormat::imb;
  return ForeignFormat::nccl_tests;
}

Imported import_text(std::string_view text, ForeignFormat format, const ImportHints& hints) {
  if (format == ForeignFormat::automatic) format = detect_format(text);
  Imported imported = read(text, format, hints);
  for (ImportedRow& row : imported.rows) require_possible(imported, row);
  std::stable_sort(imported.warnings.begin(), imported.warnings.end(),
                   [](const ImportWarning& a, const ImportWarning& b) { return a.line < b.line; });
  return imported;
}

std::string_view collective_in_name(std::string_view file_name) {
  std::string folded;
  for (const char c : lower_case(file_name.substr(file_name.find_last_of('/') + 1))) {
    if (c != '_' && c != '-') folded += c;
  }
  // Longer names first: "reducescatter" holds "reduce", "allgather" holds "gather".
  for (const std::string_view name : {"reducescatter", "allreduce", "allgather", "alltoall", "sendrecv", "broadcast",
                                      "bcast", "hypercube", "scatter", "gather", "reduce"}) {
    if (folded.find(name) != std::string::npos) return known_collective(name);
  }
  return {};
}

}  // namespace ovl
