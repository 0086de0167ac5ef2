// SPDX-License-Identifier: Apache-2.0
//
// The text of nccl-tests and rccl-tests, of any year and from any terminal:
//
//   # Collective test starting: all_reduce_perf
//   # nThread 1 nGpus 8 minBytes 8 ...
//   #  Rank  0 Group  0 Pid  1001 on node01 device  0 ...
//   #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw
//   #wrong
//        1048576        262144     float     sum      -1    477.3    2.20    2.20      0    492.8    2.13    2.13 0
//   # Out of bounds values : 0 OK
//   # Avg bus bandwidth    : 4.79995
//
// A row is known by its size, count and type, wherever in a line it begins: behind a launcher's label or glued to a
// line of the library's. What such a line tore off is joined again when size, time and bandwidth agree. Times are those
// printed, so a million rows read as fast as they are split. Bandwidths are as printed where three digits are, else
// size / time, which agrees with them.
#pragma once

#include "results/import/imported.hpp"

namespace ovl {

Imported read_nccl_tests(std::string_view text, const ImportHints& hints = {});

}  // namespace ovl
