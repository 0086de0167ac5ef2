// SPDX-License-Identifier: Apache-2.0
//
// CSV, TSV or semicolons with a line of column names: bytes and seconds (or time_us, time_ms ...), and if they are
// there rank, sample, collective, dtype, op, ranks, in_place, wrong, algbw, busbw. Without names two to four columns of
// numbers are bytes, seconds, rank, sample. Also the CSV of rccl-tests (-Z csv), whose times are in microseconds.
#pragma once

#include "results/import/imported.hpp"

namespace ovl {

// The first line that is no comment is one of column names or of numbers.
bool looks_delimited(std::string_view text);

Imported read_delimited(std::string_view text, const ImportHints& hints = {});

}  // namespace ovl
