// SPDX-License-Identifier: Apache-2.0
#include "app/google_benchmark.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/error.hpp"

namespace ovl {
namespace {

using Words = std::vector<std::string>;
using nlohmann::json;

// Its flags are global: every test sets those that another may have set.
GoogleBenchmark google(const Words& flags) {
  Words words{"a-program", "--benchmark_filter=all", "--benchmark_list_tests=false"};
  words.insert(words.end(), flags.begin(), flags.end());
  return GoogleBenchmark(words);
}

// Runs the entries and returns what stands on standard output.
std::string output(GoogleBenchmark&& benchmark, const std::vector<Entry>& entries) {
  testing::internal::CaptureStdout();
  benchmark.run(entries);
  return testing::internal::GetCapturedStdout();
}

Entry entry(const std::string& name, Words& measured) {
  return {name, [name, &measured] {
            measured.push_back(name);
            return EntryReport{.skipped = "", .time = Seconds(0.25), .counters = {{"share", 0.5}}};
          }};
}

TEST(GoogleBenchmark, MeasuresEveryEntryOnceInOrderAndSaysNothingUnasked) {
  Words measured;
  EXPECT_EQ(output(google({}), {entry("b", measured), entry("a", measured)}), "");
  EXPECT_EQ(measured, (Words{"b", "a"}));
}

TEST(GoogleBenchmark, MeasuresWhatTheFilterSelects) {
  Words measured;
  output(google({"--benchmark_filter=ser"}), {entry("concurrent", measured), entry("serial", measured)});
  output(google({"--benchmark_filter=-ser"}), {entry("concurrent", measured), entry("serial", measured)});
  EXPECT_EQ(measured, (Words{"serial", "concurrent"}));
}

TEST(GoogleBenchmark, ListsWithoutMeasuring) {
  Words measured;
  GoogleBenchmark lists = google({"--benchmark_list_tests=true"});
  EXPECT_TRUE(lists.lists_only());
  EXPECT_EQ(output(std::move(lists), {entry("a", measured), entry("b", measured)}),
            "a/iterations:1/manual_time\nb/iterations:1/manual_time\n");
  EXPECT_EQ(measured, Words{});
}

TEST(GoogleBenchmark, ReportsTimeAndKnownCountersAsJson) {
  Words measured;
  const Entry unknown{"unknown", [] {
                        return EntryReport{.skipped = "",
                                           .time = Seconds(1),
                                           .counters = {{"share", std::numeric_limits<double>::quiet_NaN()}}};
                      }};
  const Entry skipped{"skipped",
                      [] { return EntryReport{.skipped = "unsupported: no graphs", .time = {}, .counters = {}}; }};
  GoogleBenchmark reports = google({"--benchmark_format=json"});
  EXPECT_TRUE(reports.owns_output());
  const json read = json::parse(output(std::move(reports), {entry("a", measured), unknown, skipped}));
  EXPECT_EQ(read["context"]["executable"], "a-program");
  const json& entries = read["benchmarks"];
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0]["real_time"], 0.25e9);
  EXPECT_EQ(entries[0]["time_unit"], "ns");
  EXPECT_EQ(entries[0]["share"], 0.5);
  EXPECT_FALSE(entries[1].contains("share"));
  EXPECT_EQ(entries[2]["error_occurred"], true);
  EXPECT_EQ(entries[2]["error_message"], "unsupported: no graphs");
}

TEST(GoogleBenchmark, TheFirstExceptionEndsTheRunAndIsThrownOn) {
  Words measured;
  const Entry broken{"broken", []() -> EntryReport { throw failure("the disk is full", "", ""); }};
  GoogleBenchmark benchmark = google({});
  try {
    benchmark.run({entry("a", measured), broken, entry("b", measured)});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the disk is full");
  }
  EXPECT_EQ(measured, Words{"a"});
  benchmark.run({entry("c", measured)});  // nothing is left of the run before
  EXPECT_EQ(measured, (Words{"a", "c"}));
}

TEST(GoogleBenchmark, AFileThatCannotBeWrittenIsToldAfterAll) {
  const auto complaint = [](const std::string& file, const std::string& format) {
    Words measured;
    GoogleBenchmark benchmark = google({"--benchmark_out=" + file, "--benchmark_out_format=" + format});
    benchmark.run({entry("a", measured)});
    EXPECT_EQ(measured, Words{"a"});
    try {
      benchmark.require_written();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::failure);
      return std::string(error.what());
    }
    return std::string("none");
  };
  for (const char* format : {"json", "console"}) {
    EXPECT_EQ(complaint("/dev/full", format),
              "cannot write --benchmark_out=/dev/full: its disk is full or it cannot be written to; name a file in a "
              "directory that you may write to");
    EXPECT_EQ(complaint(testing::TempDir() + "ovl_google_benchmark_out", format), "none");
  }
  google({"--benchmark_out=", "--benchmark_out_format=json"});  // nothing is left for the tests behind this one
}

TEST(GoogleBenchmark, SaysBeforehandWhatItCannotDo) {
  const auto complaint = [](const std::string& flag) {
    try {
      google({flag}).check({"pair/serial", "pair/concurrent"});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(complaint("--benchmark_filter=serial"), "none");
  EXPECT_EQ(complaint("--benchmark_filter=-serial"), "none");
  EXPECT_EQ(complaint("--benchmark_filter=serial/iterations:1"), "none");  // as it lists them
  EXPECT_EQ(complaint("--benchmark_filter=graph"),
            "--benchmark_filter \"graph\" selects nothing; --benchmark_list_tests prints the names");
  EXPECT_EQ(complaint("--benchmark_filter=-pair"),
            "--benchmark_filter \"-pair\" selects nothing; --benchmark_list_tests prints the names");
  EXPECT_EQ(complaint("--benchmark_filter=(").rfind("--benchmark_filter \"(\" is no regular expression", 0), 0U);
  EXPECT_EQ(
      complaint("--benchmark_out=/nowhere/x.json"),
      "cannot write --benchmark_out=/nowhere/x.json: No such file or directory; name a file in a directory that you "
      "may write to");
  EXPECT_EQ(complaint("--benchmark_out=" + testing::TempDir()),
            "cannot write --benchmark_out=" + testing::TempDir() +
                ": it is a directory; name a file in a directory that you may write to");
  google({"--benchmark_out="});  // nothing is left for the tests behind this one
}

}  // namespace
}  // namespace ovl
