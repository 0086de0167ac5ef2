// SPDX-License-Identifier: Apache-2.0
//
// Google Benchmark lists, filters and reports; it times nothing. One case is one entry: one iteration, manual time, the
// rest as counters.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace ovl {

// What an entry reports.
struct EntryReport {
  std::string skipped;  // why it has no numbers; empty: it has
  Seconds time;
  std::vector<std::pair<std::string, double>> counters;
};

struct Entry {
  std::string name;
  std::function<EntryReport()> measure;
};

class GoogleBenchmark {
 public:
  // `flags`: argv[0] and the --benchmark_* words that parse_command_line() has checked.
  // `quiet`: it lists, prints and writes nothing, because another process of the run does; the filter stays.
  explicit GoogleBenchmark(std::vector<std::string> flags, bool quiet = false);

  // The user asked for its own output on standard output (--benchmark_format), or only for the list of names.
  [[nodiscard]] bool owns_output() const { return !format_.empty(); }
  [[nodiscard]] bool lists_only() const { return lists_only_; }

  // What Google Benchmark would find out too late, or not tell: throws Error(usage) when --benchmark_filter is no
  // regular expression or selects no entry of these names, Error(failure) when --benchmark_out cannot be written.
  void check(const std::vector<std::string>& names) const;

  // Whether --benchmark_filter lets an entry of this name pass.
  [[nodiscard]] bool selects(const std::string& name) const;

  // Measures every entry that passes --benchmark_filter, in order. The first exception ends the run and is thrown on.
  void run(const std::vector<Entry>& entries);

  // Throws Error(failure) when run() could not write --benchmark_out, which Google Benchmark does not tell.
  void require_written() const;

 private:
  void require_selection(const std::vector<std::string>& names) const;

  std::vector<std::string> flags_;  // Google Benchmark keeps a pointer to the first
  std::string format_;
  std::string filter_;
  std::string out_;
  std::string out_format_ = "json";
  bool written_ = true;
  bool lists_only_ = false;
};

}  // namespace ovl
