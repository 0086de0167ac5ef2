// SPDX-License-Identifier: Apache-2.0
//
// How fast a large log is read, in MB a second of CPU time, the best of five: rows only, and one row among twenty lines
// of the library.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>

#include "results/import/formats.hpp"

namespace {

constexpr std::size_t wanted_bytes = 100'000'000;

std::string large_log(int library_lines) {
  const std::string header =
      "# Collective test starting: all_reduce_perf\n"
      "# nThread 1 nGpus 8 minBytes 8 maxBytes 8589934592 step: 2(factor)\n"
      "#  Rank  0 Group  0 Pid   1001 on node01 device  0 [0000:41:00] a GPU\n"
      "#  Rank  7 Group  0 Pid   1001 on node01 device  7 [0000:42:00] a GPU\n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
      "#wrong\n";
  std::string log;
  while (log.size() < wanted_bytes) {
    log += header;
    for (long bytes = 8; bytes <= 1L << 33; bytes *= 2) {
      const double time = 20 + static_cast<double>(bytes) / 2.5e5;
      const double alg = static_cast<double>(bytes) / time / 1e3;
      for (int i = 0; i < library_lines; ++i) {
        log +=
            "node01:1001:1002 [0] NCCL INFO Channel 02/0 : 0[0] -> 1[1] via P2P/CUMEM/read of a long line of words\n";
      }
      log += fmt::format(
          "{:>12} {:>13} {:>9} {:>7} {:>7} {:>8.2f} {:>7.2f} {:>7.2f} {:>6} {:>8.2f} {:>7.2f} {:>7.2f} {:>6}\n", bytes,
          bytes / 4, "float", "sum", -1, time, alg, alg * 1.75, 0, time, alg, alg * 1.75, 0);
    }
    log += "# Out of bounds values : 0 OK\n";
  }
  return log;
}

void report(const char* what, const std::string& log) {
  double best = 0;
  std::size_t rows = 0;
  for (int i = 0; i < 5; ++i) {
    const std::clock_t begin = std::clock();
    const ovl::Imported imported = ovl::import_text(log, ovl::ForeignFormat::automatic);
    const double time = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    best = std::max(best, static_cast<double>(log.size()) / 1e6 / time);
    rows = imported.rows.size();
  }
  std::puts(fmt::format("{}: {:.0f} MB, {} rows, {:.0f} MB/s", what, static_cast<double>(log.size()) / 1e6, rows, best)
                .c_str());
}

}  // namespace

int main() {
  report("rows only", large_log(0));
  report("one row among 20 lines of the library", large_log(20));
}
