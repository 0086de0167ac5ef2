// SPDX-License-Identifier: Apache-2.0
#include "app/google_benchmark.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <exception>

#include "base/error.hpp"

namespace ovl {
namespace {

// Our own table is what people see.
class SilentReporter final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& /*runs*/) override {}
};

void report(benchmark::State& state, const EntryReport& result) {
  if (!result.skipped.empty()) {
    state.SkipWithError(result.skipped.c_str());
    return;
  }
  state.SetIterationTime(result.time.value());
  for (const auto& [name, value] : result.counters) state.counters[name] = value;
}

}  // namespace

GoogleBenchmark::GoogleBenchmark(std::vector<std::string> flags) {
  std::vector<char*> argv;
  for (std::string& flag : flags) {
    owns_output_ = owns_output_ || flag.starts_with("--benchmark_format");
    lists_only_ = lists_only_ || (flag.starts_with("--benchmark_list_tests") && flag != "--benchmark_list_tests=false");
    argv.push_back(flag.data());
  }
  auto argc = static_cast<int>(argv.size());
  benchmark::Initialize(&argc, argv.data());
  if (argc > 1) {
    throw usage_error(std::string("option ") + argv[1] + " is unknown to Google Benchmark", "",
                      "use --benchmark_filter, --benchmark_list_tests, --benchmark_format or --benchmark_out");
  }
}

void GoogleBenchmark::run(const std::vector<Entry>& entries) {
  std::exception_ptr thrown;
  for (const Entry& entry : entries) {
    const auto once = [&entry, &thrown](benchmark::State& state) {
      for ([[maybe_unused]] auto iteration : state) {
        if (thrown) {
          state.SkipWithError("not measured: the run ended before");
          break;
        }
        try {
          report(state, entry.measure());
        } catch (...) {
          thrown = std::current_exception();
          state.SkipWithError("the run ended here");
        }
      }
    };
    benchmark::RegisterBenchmark(entry.name.c_str(), once)->Iterations(1)->UseManualTime();
  }
  SilentReporter silent;
  benchmark::RunSpecifiedBenchmarks(owns_output_ || lists_only_ ? nullptr : &silent);
  benchmark::ClearRegisteredBenchmarks();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace ovl
