// SPDX-License-Identifier: Apache-2.0
//
// Google Benchmark lists, filters and reports the cases; it times nothing. One case is one entry: one iteration, manual
// time t_step, the rest as counters.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "measure/case.hpp"
#include "measure/runner.hpp"

namespace ovl {

class GoogleBenchmark {
 public:
  // `flags`: argv[0] and the --benchmark_* words. Throws Error(usage) for one it does not know.
  explicit GoogleBenchmark(std::vector<std::string> flags);

  // The user asked for its own output on standard output (--benchmark_format), or only for the list of names.
  [[nodiscard]] bool owns_output() const { return owns_output_; }
  [[nodiscard]] bool lists_only() const { return lists_only_; }

  // Calls `measure` for every case that passes --benchmark_filter, in order. The first exception ends the run and is
  // thrown on. Returns how many cases passed the filter.
  std::size_t run(const std::vector<CaseSpec>& cases, const std::function<CaseResult(const CaseSpec&)>& measure);

 private:
  bool owns_output_ = false;
  bool lists_only_ = false;
};

}  // namespace ovl
