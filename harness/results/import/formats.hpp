// SPDX-License-Identifier: Apache-2.0
//
// The foreign formats, and which of them a text is.
#pragma once

#include "base/enum_names.hpp"
#include "results/import/imported.hpp"

namespace ovl {

enum class ForeignFormat { automatic, nccl_tests, rccl_tests, nccl_tests_json, rccl_tests_json, osu, imb, csv };
template <>
struct EnumNames<ForeignFormat> {
  static constexpr std::string_view axis = "format name";
  static constexpr std::pair<ForeignFormat, std::string_view> table[] = {
      {ForeignFormat::automatic, "auto"},
      {ForeignFormat::nccl_tests, "nccl-tests"},
      {ForeignFormat::rccl_tests, "rccl-tests"},
      {ForeignFormat::nccl_tests_json, "nccl-tests-json"},
      {ForeignFormat::rccl_tests_json, "rccl-tests-json"},
      {ForeignFormat::osu, "osu"},
      {ForeignFormat::imb, "imb"},
      {ForeignFormat::csv, "csv"}};
};

// By what only one of them writes; nccl-tests where nothing says another, because its rows need no header.
// Throws Error(usage) for a text that is of two formats, and for one that is no text of bytes (UTF-16).
ForeignFormat detect_format(std::string_view text);

// Throws what detect_format() throws for ForeignFormat::automatic.
Imported import_text(std::string_view text, ForeignFormat format, const ImportHints& hints = {});

// The collective that a file is named after, "all_reduce" of "runs/2024_all_reduce_perf.log"; empty: none.
std::string_view collective_in_name(std::string_view file_name);

}  // namespace ovl
