// SPDX-License-Identifier: Apache-2.0
//
// The text of the Intel MPI Benchmarks: "# Benchmarking Allreduce", "# #processes = 16", "#bytes #repetitions
// t_min[usec] t_max[usec] t_avg[usec]", rows. The time is t_avg, t_pure of the nonblocking tests, or t[usec].
#pragma once

#include "results/import/imported.hpp"

namespace ovl {

Imported read_imb(std::string_view text, const ImportHints& hints = {});

}  // namespace ovl
