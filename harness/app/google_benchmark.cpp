// SPDX-License-Identifier: Apache-2.0
#include "app/google_benchmark.hpp"

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <regex>

#include "base/error.hpp"

namespace ovl {
namespace {

// What Google Benchmark appends to the name of an entry of one iteration and manual time.
constexpr const char* entry_suffix = "/iterations:1/manual_time";

// Our own table is what people see.
class SilentReporter final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& /*runs*/) override {}
};

// Its own default reporter works only once in a process.
std::unique_ptr<benchmark::BenchmarkReporter> reporter_of(const std::string& format) {
  if (format == "json") return std::make_unique<benchmark::JSONReporter>();
  if (format == "console") return std::make_unique<benchmark::ConsoleReporter>(benchmark::ConsoleReporter::OO_None);
  return std::make_unique<SilentReporter>();
}

// Writes --benchmark_out and sees whether it could.
template <class Format>
class FileReporter final : public Format {
 public:
  explicit FileReporter(bool& written) : written_(written) {}
  void Finalize() override {
    Format::Finalize();
    written_ = static_cast<bool>(this->GetOutputStream().flush());
  }

 private:
  bool& written_;
};

// Without an option for its colours: a file has none.
class PlainConsole : public benchmark::ConsoleReporter {
 public:
  PlainConsole() : ConsoleReporter(OO_None) {}
};

// nullptr: there is no file to write.
std::unique_ptr<benchmark::BenchmarkReporter> file_reporter(const std::string& file, const std::string& format,
                                                            bool& written) {
  if (file.empty()) return nullptr;
  if (format == "console") return std::make_unique<FileReporter<PlainConsole>>(written);
  return std::make_unique<FileReporter<benchmark::JSONReporter>>(written);
}

void report(benchmark::State& state, const EntryReport& result) {
  if (!result.skipped.empty()) {
    state.SkipWithError(result.skipped.c_str());
    return;
  }
  state.SetIterationTime(result.time.value());
  for (const auto& [name, value] : result.counters) {
    if (!std::isnan(value)) state.counters[name] = value;  // unknown; and NaN is no JSON
  }
}

}  // namespace

GoogleBenchmark::GoogleBenchmark(std::vector<std::string> flags, bool quiet) : flags_(std::move(flags)) {
  if (quiet) {
    std::erase_if(flags_, [](const std::string& flag) {
      return flag.starts_with("--benchmark_") && !flag.starts_with("--benchmark_filter=");
    });
  }
  const auto value_of = [](const std::string& flag, const std::string& name, std::string& value) {
    if (flag.starts_with(name + "=")) value = flag.substr(name.size() + 1);
  };
  std::vector<char*> argv;
  for (std::string& flag : flags_) {
    value_of(flag, "--benchmark_format", format_);
    if (flag.starts_with("--benchmark_list_tests=")) lists_only_ = flag.ends_with("=true");
    value_of(flag, "--benchmark_filter", filter_);
    value_of(flag, "--benchmark_out", out_);
    value_of(flag, "--benchmark_out_format", out_format_);
    argv.push_back(flag.data());
  }
  auto argc = static_cast<int>(argv.size());
  benchmark::Initialize(&argc, argv.data());
  require(argc == 1, "Google Benchmark knows every flag that parse_command_line() lets pass");
}

void GoogleBenchmark::check(const std::vector<std::string>& names) const {
  require_selection(names);
  if (out_.empty()) return;
  const std::filesystem::path parent = std::filesystem::path(out_).parent_path();
  const bool writable = access(parent.empty() ? "." : parent.c_str(), W_OK | X_OK) == 0;
  if (!writable || std::filesystem::is_directory(out_)) {
    throw failure("cannot write --benchmark_out=" + out_, writable ? "it is a directory" : std::strerror(errno),
                  "name a file in a directory that you may write to");
  }
}

void GoogleBenchmark::require_selection(const std::vector<std::string>& names) const {
  if (filter_.empty() || filter_ == "all") return;
  try {
    if (std::any_of(names.begin(), names.end(), [&](const std::string& name) { return selects(name); })) return;
  } catch (const std::regex_error& error) {
    throw usage_error("--benchmark_filter \"" + filter_ + "\" is no regular expression", error.what(),
                      "type for example --benchmark_filter=/serial/");
  }
  throw usage_error("--benchmark_filter \"" + filter_ + "\" selects nothing", "",
                    "--benchmark_list_tests prints the names");
}

bool GoogleBenchmark::selects(const std::string& name) const {
  if (filter_.empty() || filter_ == "all") return true;
  const bool negative = filter_.front() == '-';
  const std::regex pattern(filter_.substr(negative ? 1 : 0), std::regex::extended);
  return std::regex_search(name + entry_suffix, pattern) != negative;
}

void GoogleBenchmark::run(const std::vector<Entry>& entries) {
  if (entries.empty()) return;
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
  const auto file = file_reporter(lists_only_ ? "" : out_, out_format_, written_);
  benchmark::RunSpecifiedBenchmarks(reporter_of(format_).get(), file.get());
  benchmark::ClearRegisteredBenchmarks();
  if (thrown) std::rethrow_exception(thrown);
}

void GoogleBenchmark::require_written() const {
  if (written_) return;
  throw failure("cannot write --benchmark_out=" + out_, "its disk is full or it cannot be written to",
                "name a file in a directory that you may write to");
}

}  // namespace ovl
