// SPDX-License-Identifier: Apache-2.0
//
// Any bytes at all, read as every foreign format: nothing crashes, hangs or grows out of proportion, what is said is
// printable, and a row that is called ok can be fitted. The first byte chooses the format.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/error.hpp"
#include "fuzz.hpp"
#include "results/import/formats.hpp"

namespace {

using ovl::fuzz::is_printable;
using ovl::fuzz::must;

void check(std::string_view text, const ovl::Imported& imported) {
  must(imported.rows.size() <= 2 * text.size());
  must(imported.warnings.size() <= ovl::Imported::most_warnings);
  for (const ovl::ImportWarning& warning : imported.warnings) must(is_printable(warning.text) && warning.line >= 0);
  for (const ovl::ImportedRow& row : imported.rows) {
    for (const std::string_view word : {row.collective, row.dtype, row.op, row.reason}) must(is_printable(word));
    must(row.line >= 1 && row.ranks >= 0);
    must(row.status == ovl::RowStatus::ok || !row.reason.empty());
    if (row.status != ovl::RowStatus::ok) continue;
    must(row.bytes && *row.bytes > 0);
    must(row.seconds > 0 && !(row.wrong > 0) && row.ranks != 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr auto& formats = ovl::EnumNames<ovl::ForeignFormat>::table;
  const ovl::ForeignFormat format = formats[data[0] % std::size(formats)].first;
  const ovl::ImportHints hints{.collective = (data[0] & 0x80U) != 0 ? "all_gather" : "",
                               .from_file_name = (data[0] & 0x40U) != 0,
                               .ranks = data[0] & 0x20U ? 8 : 0};
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  try {
    check(text, ovl::import_text(text, format, hints));
  } catch (const ovl::Error&) {
    // a text of two formats, or UTF-16: said in one line
  }
  return 0;
}
