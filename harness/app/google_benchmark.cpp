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

void report(benchmark::State& state, const CaseResult& result) {
  if (!result.has_numbers()) {
    state.SkipWithError((std::string(name(result.status)) + ": " + result.reason).c_str());
    return;
  }
  const Summary& s = result.summary;
  state.SetIterationTime(s.t_step.value);
  state.counters["t_compute"] = s.t_compute.value;
  state.counters["t_comm"] = s.t_comm.value;
  state.counters["t_serial"] = s.t_serial.value;
  state.counters["t_exposed"] = s.t_exposed.value;
  state.counters["hidden_share"] = s.hidden_share.value;
  state.counters["hidden_share_low"] = s.hidden_share.interval.low;
  state.counters["hidden_share_high"] = s.hidden_share.interval.high;
  state.counters["speedup"] = s.speedup.value;
  state.counters["speedup_bound"] = s.overlap.speedup_bound;
  state.counters["rounds"] = s.rounds;
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

std::size_t GoogleBenchmark::run(const std::vector<CaseSpec>& cases,
                                 const std::function<CaseResult(const CaseSpec&)>& measure) {
  std::exception_ptr thrown;
  for (const CaseSpec& spec : cases) {
    benchmark::RegisterBenchmark(spec.name.c_str(),
                                 [&measure, &spec, &thrown](benchmark::State& state) {
                                   for ([[maybe_unused]] auto iteration : state) {
                                     if (thrown) {
                                       state.SkipWithError("not measured: the run ended before");
                                       break;
                                     }
                                     try {
                                       report(state, measure(spec));
                                     } catch (...) {
                                       thrown = std::current_exception();
                                       state.SkipWithError("the run ended here");
                                     }
                                   }
                                 })
        ->Iterations(1)
        ->UseManualTime();
  }
  SilentReporter silent;
  const std::size_t selected = benchmark::RunSpecifiedBenchmarks(owns_output_ || lists_only_ ? nullptr : &silent);
  benchmark::ClearRegisteredBenchmarks();
  if (thrown) std::rethrow_exception(thrown);
  return selected;
}

}  // namespace ovl
