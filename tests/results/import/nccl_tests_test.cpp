// SPDX-License-Identifier: Apache-2.0
#include "results/import/nccl_tests.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "results/import/formats.hpp"
#include "results/import/says.hpp"

namespace ovl {
namespace {

using test::says;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

const std::string run_of_two =
    "# Collective test starting: all_reduce_perf\n"
    "# nThread 1 nGpus 2 minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1\n"
    "#\n"
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid   1001 on node01 device  0 [0000:41:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid   1001 on node01 device  1 [0000:44:00] NVIDIA H100 80GB HBM3\n"
    "#\n";
const std::string header =
    "#                                                              out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
    "#wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n";
// 4 MiB in 100 us are 41.94304 GB/s; 80 us 52.4288.
const std::string row =
    "     4194304       1048576     float     sum      -1    100.0   41.94   41.94      0    80.00   52.43   52.43     "
    " 0\n";
const std::string footer = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 47.185\n#\n";

Imported read_log(const std::string& text) { return import_text(text, ForeignFormat::nccl_tests); }

TEST(NcclTests, ARowIsTwoMeasurements) {
  const Imported log = read_log(run_of_two + header + row + footer);
  ASSERT_EQ(log.rows.size(), 2U);
  const ImportedRow& out = log.rows[0];
  EXPECT_EQ(out.collective, "all_reduce");
  EXPECT_EQ(out.dtype, "float");
  EXPECT_EQ(out.op, "sum");
  EXPECT_EQ(out.bytes, 4194304);
  EXPECT_EQ(out.ranks, 2);
  EXPECT_EQ(out.in_place, false);
  EXPECT_DOUBLE_EQ(out.seconds, 100e-6);
  EXPECT_DOUBLE_EQ(out.algorithm_bandwidth, 41.94e9);
  EXPECT_DOUBLE_EQ(out.bus_bandwidth, 41.94e9);
  EXPECT_EQ(out.wrong, 0);
  EXPECT_EQ(out.status, RowStatus::ok);
  EXPECT_EQ(out.line, 11);
  EXPECT_EQ(log.rows[1].in_place, true);
  EXPECT_DOUBLE_EQ(log.rows[1].seconds, 80e-6);
  EXPECT_THAT(log.warnings, testing::IsEmpty());
}

TEST(NcclTests, WhereTwoDigitsArePrintedSizeAndTimeSayMore) {
  const Imported log =
      read_log(run_of_two + header +
               "  1024   256  float  sum  -1   20.48   0.05   0.05   0   20.48   0.05   0.05   0\n# Out "
               "of bounds values : 0 OK\n");
  EXPECT_NEAR(log.rows[0].algorithm_bandwidth, 1024 / 20.48e-6, 1);  // 0.05 GB/s exactly
  EXPECT_NEAR(log.rows[0].bus_bandwidth, 0.05e9, 1);                 // 2 (2 - 1) / 2
}

TEST(NcclTests, LabelsColoursLineEndsAndLinesOfTheLibraryDoNotMatter) {
  const std::string plain = run_of_two + header + row + footer;
  std::string odd = "\xef\xbb\xbf[node01] starting\r\n";
  std::size_t lines = 0;
  for (std::size_t at = 0; at < plain.size(); ++lines) {
    const std::size_t end = plain.find('\n', at);
    const std::string line = plain.substr(at, end - at);
    odd += lines % 3 == 0   ? "[1,0]<stdout>:" + line + "\r\n"
           : lines % 3 == 1 ? " 0: " + line + "\n"
                            : "\x1b[32m" + line + "\x1b[0m\n";
    odd += "node01:17:18 [0] NCCL INFO Channel 00/02 :    0   1\n";
    at = end + 1;
  }
  const Imported log = read_log(odd);
  ASSERT_EQ(log.rows.size(), 2U);
  EXPECT_EQ(log.rows[0].collective, "all_reduce");
  EXPECT_EQ(log.rows[0].ranks, 2);
  EXPECT_DOUBLE_EQ(log.rows[1].seconds, 80e-6);
  EXPECT_THAT(log.warnings, testing::IsEmpty());
}

TEST(NcclTests, ATornRowIsJoinedWhenItsNumbersAgree) {
  const std::string left =
      "     4194304       1048576     float     sum      -1node01:17:18 [0] NCCL INFO AllReduce: 4194304\n";
  const std::string info = "node01:17:18 [0] NCCL INFO something else 1 2 3\n";
  const Imported log =
      read_log(run_of_two + header + left + info + "    100.0   41.94   41.94      0node01:17:18 [0] NCCL INFO\n" +
               info + "    80.00   52.43   52.43      0\n" + footer);
  ASSERT_EQ(log.rows.size(), 2U);
  EXPECT_EQ(log.rows[0].bytes, 4194304);
  EXPECT_DOUBLE_EQ(log.rows[0].seconds, 100e-6);
  EXPECT_DOUBLE_EQ(log.rows[1].seconds, 80e-6);
  EXPECT_EQ(log.rows[1].line, 11);
  EXPECT_THAT(log.warnings, ElementsAre(says(11, "torn by other lines and joined")));

  const Imported other = read_log(run_of_two + header + left + "    100.0   99.99   99.99      0\n" + footer);
  ASSERT_EQ(other.rows.size(), 1U);
  EXPECT_EQ(other.rows[0].status, RowStatus::unreadable);
}

TEST(NcclTests, PrintsWithinARowAreSteppedOver) {
  const Imported log =
      read_log(run_of_two + header +
               "TimeTest(), common.cu:610,  4194304  1048576  float  sum  -1BenchTime(), common.cu:561, "
               "100.0 41.94 41.94 0BenchTime(), common.cu:561, 80.00 52.43 52.43 0TimeTest(), x\n" +
               footer);
  ASSERT_EQ(log.rows.size(), 2U);
  EXPECT_DOUBLE_EQ(log.rows[1].seconds, 80e-6);
}

TEST(NcclTests, ARightHalfAloneIsAWarning) {
  const Imported log =
      read_log(run_of_two + header + "    579.3    0.01    0.01      0    137.0    0.01    0.01      0\n" + row);
  EXPECT_EQ(log.rows.size(), 2U);
  EXPECT_THAT(log.warnings, Contains(says(11, "the left half of this row is lost")));
}

TEST(NcclTests, OnlyTheRowThatFailedIsMarked) {
  const Imported log =
      read_log(run_of_two + header +
               "  4194304  1048576  float  sum  -1  100.0  41.94  41.94  1.5e+06   80.00  52.43  52.43      0\n"
               "  4194304  1048576  float  max  -1  100.0  41.94  41.94        0   80.00  52.43  52.43    N/A\n"
               "# Out of bounds values : 1 FAILED\n# Avg bus bandwidth    : 47.185\n");
  ASSERT_EQ(log.rows.size(), 4U);
  EXPECT_EQ(log.rows[0].status, RowStatus::failed_verify);
  EXPECT_EQ(log.rows[0].wrong, 1.5e6);
  EXPECT_EQ(log.rows[0].reason, "1500000 elements are wrong");
  EXPECT_EQ(log.rows[1].status, RowStatus::ok);
  EXPECT_EQ(log.rows[2].status, RowStatus::ok);
  EXPECT_TRUE(std::isnan(log.rows[3].wrong));
  EXPECT_THAT(log.warnings, ElementsAre(says(12, "in-place results were not checked")));
}

TEST(NcclTests, AFailureWithoutAWrongRowIsTold) {
  EXPECT_THAT(read_log(run_of_two + header + row + "# Out of bounds values : 4 FAILED\n").warnings,
              Contains(says(12, "no row of it says which")));
}

TEST(NcclTests, ATimeOfTwoDigitsIsComputed) {
  // 2^40 bytes at 100.00 GB/s: 10.995 s, printed as 1.1e+07 us.
  const Imported log =
      read_log(run_of_two + header +
               "1099511627776 274877906944 float sum -1 1.1e+07 100.00 100.00 0 1.1e+07 100.00 100.00 0\n");
  EXPECT_EQ(log.rows[0].bytes, 1099511627776);
  EXPECT_DOUBLE_EQ(log.rows[0].seconds, 1099511627776 / 100e9);
  EXPECT_EQ(log.rows[0].status, RowStatus::ok);
  EXPECT_THAT(log.warnings, Contains(says(11, "the time is printed with two digits")));
}

TEST(NcclTests, OneRankMeasuresNoCommunication) {
  const Imported log = read_log(
      "# nThread 1 nGpus 1 minBytes 8 all_reduce_perf\n#  Rank  0 Pid 1 on node01 device  0 [0x00] V100\n" + header +
      "  4194304  1048576  float  sum  -1  100.0  41.94  0.00  0   0.13  32263.88  0.00  0\n# Out of bounds values : 0 "
      "OK\n");
  ASSERT_EQ(log.rows.size(), 2U);
  EXPECT_EQ(log.rows[0].status, RowStatus::skipped);
  EXPECT_TRUE(std::isnan(log.rows[0].bus_bandwidth)) << "unknown, not 0 GB/s";
  EXPECT_THAT(log.warnings, ElementsAre(says(6, "one rank: no communication is measured")));
}

TEST(NcclTests, SizeZeroSendsNothing) {
  const Imported log =
      read_log(run_of_two + header + "  0  0  float  sum  -1  0.42  0.00  0.00  0  0.46  0.00  0.00  0\n");
  EXPECT_EQ(log.rows[0].status, RowStatus::skipped);
  EXPECT_DOUBLE_EQ(log.rows[0].seconds, 0.42e-6);
  EXPECT_TRUE(std::isnan(log.rows[0].algorithm_bandwidth));
}

TEST(NcclTests, BeforeMid2020AlgbwWasBusbw) {
  // 4 ranks, 4 MiB in 100 us: size / time is 41.94, and 3 / 4 of it was printed twice.
  const Imported log = read_log(
      "./build/all_gather_perf -g 4\n# nThread 1 nGpus 4 minBytes 8\n#   Rank  3 Pid 1 on node01 device  3 [0x00] "
      "V100\n"
      "#   Rank  0 Pid 1 on node01 device  0 [0x00] V100\n#   Rank  1 Pid 1 on a device 1\n#   Rank  2 Pid 1 on a "
      "device 2\n"
      "#  size  count  type  redop  time  algbw  busbw  error  time  algbw  busbw  error\n"
      "  4194304  1048576  float        100.0  31.46  31.46  0e+00   100.0  31.46  31.46  0e+00\n# Out of bounds "
      "values : 0 OK\n");
  ASSERT_EQ(log.rows.size(), 2U);
  EXPECT_EQ(log.rows[0].ranks, 4);
  EXPECT_EQ(log.rows[0].op, "");
  EXPECT_NEAR(log.rows[0].algorithm_bandwidth, 41.94304e9, 1);
  EXPECT_DOUBLE_EQ(log.rows[0].bus_bandwidth, 31.46e9);
  EXPECT_THAT(log.warnings, ElementsAre(says(8, "before mid 2020")));
}

TEST(NcclTests, OldColumnsHaveAnErrorAndPerhapsOneGroup) {
  const Imported log =
      read_log(run_of_two + "#  size  count  type  redop  time  algbw  busbw  error  time  algbw  busbw  error\n" +
               "  4194304  1048576  float  sum  100.0  41.94  41.94  1e-07   80.00  52.43  52.43  2e-05\n"
               "  8388608  2097152  float  sum  200.0  41.94  41.94    N/A\n# Out of bounds values : 1 FAILED\n");
  ASSERT_EQ(log.rows.size(), 3U);
  EXPECT_EQ(log.rows[0].status, RowStatus::ok);
  EXPECT_TRUE(std::isnan(log.rows[0].wrong)) << "an error is no number of elements";
  EXPECT_EQ(log.rows[1].status, RowStatus::failed_verify);
  EXPECT_EQ(log.rows[1].reason, "error 2e-05 is above the test's limit 1e-05 of float");
  EXPECT_EQ(log.rows[2].status, RowStatus::ok);
  EXPECT_THAT(log.warnings, Contains(says(10, "the row ends after out-of-place")));
}

TEST(NcclTests, NcclOnePrintsMillisecondsAndDevices) {
  const Imported log = read_log(
      "$ ./build/test/single/all_reduce_test 4194304\n#   Device  0 ->  0 [0x0a] X\n#   Device  1 ->  1 [0x09] X\n"
      "#      bytes             N    type      op     time  algbw  busbw      res     time  algbw  busbw      res\n"
      "     4194304       1048576    float     sum    0.100  41.94  41.94    0e+00    0.080  52.43  52.43    0e+00\n");
  ASSERT_EQ(log.rows.size(), 2U);
  EXPECT_EQ(log.rows[0].collective, "all_reduce");
  EXPECT_EQ(log.rows[0].ranks, 2);
  EXPECT_DOUBLE_EQ(log.rows[0].seconds, 100e-6);
}

TEST(NcclTests, TimestampsAndPerIterationColumnsAreSteppedOver) {
  const Imported stamped =
      read_log(run_of_two + header +
               "  4194304  1048576  float  sum  -1  100.0  41.94  41.94  0   80.00  52.43  52.43  0  "
               "2025-11-30 12:00:00\n" +
               footer);
  EXPECT_DOUBLE_EQ(stamped.rows.at(1).seconds, 80e-6);
  const Imported detailed = read_log(
      run_of_two +
      "#  size  count  type  redop  root  time  algbw  busbw  #wrong  i_min  i_max  i_p99  i_cv%  time  algbw  busbw  "
      "#wrong  i_min  i_max  i_p99  i_cv%\n"
      "  4194304  1048576  float  sum  -1  100.0  41.94  41.94  0  90.0  110.0  109.0  3.5   80.00  52.43  52.43  7  "
      "70.0  90.0  89.0  3.5\n" +
      footer);
  ASSERT_EQ(detailed.rows.size(), 2U);
  EXPECT_DOUBLE_EQ(detailed.rows[1].seconds, 80e-6);
  EXPECT_EQ(detailed.rows[1].wrong, 7);
}

TEST(NcclTests, WhatCannotBeReadIsNotZero) {
  const Imported placeholder =
      read_log(run_of_two + header +
               "  4194304  1048576  float  sum  -1  XXXXX  XXX.XX  XXX.XX  N/A  XXXX  XXX.XX  XXX.XX  0\n");
  ASSERT_EQ(placeholder.rows.size(), 1U);
  EXPECT_EQ(placeholder.rows[0].status, RowStatus::unreadable);
  EXPECT_TRUE(std::isnan(placeholder.rows[0].seconds));
  EXPECT_EQ(placeholder.rows[0].reason, "no time: \"XXXXX\" stands in its place");

  const Imported cut =
      read_log(run_of_two + header + "  4194304  1048576  float  sum  -1  100.0  41.94  41.94  0  80.0");
  ASSERT_EQ(cut.rows.size(), 2U);
  EXPECT_EQ(cut.rows[0].status, RowStatus::ok);
  EXPECT_EQ(cut.rows[1].status, RowStatus::unreadable);
  EXPECT_EQ(cut.rows[1].reason, "the row is cut");

  const Imported big =
      read_log(run_of_two + header + "  99999999999999999999  1  float  sum  -1  1.0  1.0  1.0  0  1.0  1.0  1.0  0\n");
  EXPECT_EQ(big.rows[0].status, RowStatus::unreadable);
  EXPECT_EQ(big.rows[0].bytes, std::nullopt);
}

TEST(NcclTests, NothingOfTheTextReachesATerminal) {
  const Imported log = read_log(run_of_two + header +
                                "  8  2  float  sum  -1  \a\x01"
                                "bad\x9b[2J\n#  \x07 remark\n");
  ASSERT_EQ(log.rows.size(), 1U);
  EXPECT_EQ(log.rows[0].reason, "no time: \"bad\\x9b[2J\" stands in its place");
  EXPECT_EQ(printable("a\x1b[31m\n\xc3\xa4"), "a\\x1b[31m\\x0a\\xc3\\xa4");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
}

TEST(NcclTests, RanksThatNobodyListsFollowFromTheBandwidths) {
  // 16 ranks: 2 * 15 / 16 = 1.875.
  const std::string sixteen =
      "  1073741824  268435456  float  sum  -1  10887  98.63  184.92  0  10867  98.81  185.26  0\n";
  const Imported log = read_log("all_reduce_perf\n" + header + sixteen + "# Out of bounds values : 0 OK\n");
  EXPECT_EQ(log.rows[0].ranks, 16);
  EXPECT_THAT(log.warnings, ElementsAre(says(5, "bus / algorithm bandwidth is that of 16")));

  const Imported nameless = read_log(sixteen);
  EXPECT_EQ(nameless.rows[0].collective, "all_reduce");
  EXPECT_THAT(nameless.warnings, Contains(says(1, "is only all_reduce")));

  const Imported named = read_nccl_tests(row, {.collective = "broadcast", .from_file_name = true, .ranks = 5});
  EXPECT_EQ(named.rows[0].collective, "broadcast");
  EXPECT_EQ(named.rows[0].ranks, 5);
  EXPECT_THAT(named.warnings, Contains(says(1, "broadcast is taken from the file's name")));

  const Imported unknown = read_log(row);
  EXPECT_EQ(unknown.rows[0].collective, "");
  EXPECT_EQ(unknown.rows[0].ranks, 0);
  EXPECT_THAT(unknown.warnings, Contains(says(1, "say it with --collective")));
  EXPECT_THAT(unknown.warnings, Contains(says(1, "say it with --ranks")));
}

TEST(NcclTests, ListsOfRanksThatDoNotFitAreTold) {
  const std::string start = "all_reduce_perf\n# nThread 1 nGpus 1 minBytes 8\n";
  const std::string rank7 = "#  Rank  7 Group  0 Pid 1 on node01 device  7 [0x00] X\n";
  const Imported cut = read_log(start + rank7 + header + row);
  EXPECT_EQ(cut.rows[0].ranks, 8);
  EXPECT_THAT(cut.warnings, Contains(says(3, "the list of ranks is cut: it has 1 of 8")));
  EXPECT_THAT(cut.warnings, Contains(says(7, "which 8 ranks of all_reduce do not give")));
  const std::string rank0 = "#  Rank  0 Group  0 Pid 1 on node01 device  0 [0x00] X\n";
  EXPECT_THAT(read_log(start + rank0 + rank0 + header + row).warnings,
              Contains(says(3, "several runs write here at once")));
}

TEST(NcclTests, EachRunOfAFileKeepsItsOwnNameAndRanks) {
  std::string second = run_of_two;
  second.replace(second.find("all_reduce"), 10, "sendrecv");
  const Imported log = read_log(run_of_two + header + row + footer + second +
                                "#  Rank  2 Group  0 Pid 1 on a device 2\n" + header + row + footer);
  ASSERT_EQ(log.rows.size(), 4U);
  EXPECT_EQ(log.rows[1].collective, "all_reduce");
  EXPECT_EQ(log.rows[1].ranks, 2);
  EXPECT_EQ(log.rows[2].collective, "sendrecv");
  EXPECT_EQ(log.rows[2].ranks, 3);
  EXPECT_THAT(log.warnings, testing::IsEmpty());
}

TEST(NcclTests, WhatWasCutByHandIsTold) {
  EXPECT_THAT(read_log(run_of_two + header + "# Truncated  smaller messages\n" + row + footer).warnings,
              ElementsAre(says(11, "a remark among the rows: # Truncated  smaller messages")));
  EXPECT_THAT(read_log(run_of_two + header + row + "...\n" + footer).warnings,
              ElementsAre(says(12, "cut here by hand")));
  EXPECT_THAT(read_log(run_of_two + header + row + "# Avg bus bandwidth    : 30.1\n").warnings,
              ElementsAre(says(12, "the average 30.1 GB/s is of other rows")));
  EXPECT_THAT(read_log(run_of_two + header + row).warnings, ElementsAre(says(11, "no footer behind these rows")));
  EXPECT_THAT(read_log(run_of_two + header).warnings, ElementsAre(says(9, "has no row")));
  EXPECT_THAT(read_log(run_of_two + header + row + "node01: Test CUDA failure common.cu:1 'x'\n" + footer).warnings,
              ElementsAre(says(12, "the run failed")));
}

TEST(NcclTests, BusBandwidthAboveAnyWireIsNoError) {
  // 930 GB/s where a switch reduces: as it stands.
  const Imported log =
      read_log(run_of_two + header +
               "  17179869184  4294967296  float  sum  -1  18472.98  930.00  930.00  0  18472.98  930.00  930.00  0\n");
  EXPECT_EQ(log.rows[0].status, RowStatus::ok);
  EXPECT_DOUBLE_EQ(log.rows[0].bus_bandwidth, 930e9);
}

TEST(NcclTests, ANewerTypeIsTakenWhereARowMustBe) {
  const Imported log = read_log(
      run_of_two + header + "  4194304  4194304  f4e2m1  sum  -1  100.0  41.94  41.94  0  80.00  52.43  52.43  0\n");
  ASSERT_EQ(log.rows.size(), 2U);
  EXPECT_EQ(log.rows[0].dtype, "f4e2m1");
  EXPECT_THAT(read_log("made 2 4 widgets sum 3 4 5 6\n").rows, testing::IsEmpty());
}

TEST(NcclTests, WarningsAreBounded) {
  std::string text = run_of_two + header;
  for (int i = 0; i < 1000; ++i) text += "...\n";
  const Imported log = read_log(text);
  EXPECT_EQ(log.warnings.size(), Imported::most_warnings);
  EXPECT_GE(log.warnings_left_out, 500U);
}

}  // namespace
}  // namespace ovl
