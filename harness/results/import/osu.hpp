// SPDX-License-Identifier: Apache-2.0
//
// The text of the OSU micro-benchmarks: "# OSU MPI-CUDA Allreduce Latency Test v5.7", a line of column names, rows.
// The time is the mean over ranks that the suite headlines ("Avg Latency"), or the pure communication of its
// nonblocking tests. Its sizes are those of one rank where a collective gathers or scatters.
#pragma once

#include "results/import/imported.hpp"

namespace ovl {

Imported read_osu(std::string_view text, const ImportHints& hints = {});

}  // namespace ovl
