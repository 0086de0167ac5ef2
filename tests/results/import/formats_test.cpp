// SPDX-License-Identifier: Apache-2.0
#include "results/import/formats.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "results/import/says.hpp"
#include "results/import/sha256.hpp"

namespace ovl {
namespace {

using test::says;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

Imported read(std::string_view text, const ImportHints& hints = {}) {
  return import_text(text, ForeignFormat::automatic, hints);
}

const std::string osu_text =
    "\n# OSU MPI-CUDA Allreduce Latency Test v5.7\n"
    "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations\n"
    "4                      36.37             36.05             36.63        1000\n"
    "1048576              1000.00            990.00           1010.00         100\n";
const std::string imb_text =
    "# MPI_Datatype                   :   MPI_BYTE\n# MPI_Datatype for reductions    :   MPI_FLOAT\n# MPI_Op : "
    "MPI_SUM\n"
    "#-----------------------\n# Benchmarking Allreduce\n# #processes = 4\n#-----------------------\n"
    "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n"
    "            0        10000         0.13         0.41         0.16\n"
    "      1048576           10       900.00      1100.00      1000.00\n";
const std::string json_text =
    "{\"version\":2,\"args\":[\"/opt/all_gather_perf\",\"-b\",\"8\"],\"env\":[\"A=b\"],\"nccl_version\":22902,\n"
    "\"config\":{\"nthreads\":1,\"ngpus\":2,\"devices\":[{\"rank\":0},{\"rank\":2}]},\n"
    "\"results\":[{\"size\":1048576,\"count\":262144,\"type\":\"float\",\"redop\":\"none\",\"root\":\"    -1\",\n"
    "\"out_of_place\":{\"time\":100.0,\"alg_bw\":10.48576,\"bus_bw\":7.86432,\"nwrong\":0.0},\n"
    "\"in_place\":{\"time\":80.0,\"alg_bw\":13.1072,\"bus_bw\":9.8304,\"nwrong\":3.0},\"actual_iterations\":20}],\n"
    "\"out_of_bounds\":{\"count\":1,\"okay\":\"false\"},\"average_bus_bandwidith\":{\"bandwidith\":8.8,\"okay\":"
    "\"unchecked\"}}\n";
const std::string rccl_record =
    "{\"numCycle\":0, \"name\":\"AllReduce\", \"nodes\":1, \"ranks\":4, \"ranksPerNode\":4, \"gpusPerRank\":1, "
    "\"size\":1048576, "
    "\"type\":\"float\", \"redop\":\"sum\", \"inPlace\":1, \"time\":100.000000, \"algBw\":10.485760, "
    "\"busBw\":15.728640, "
    "\"wrong\":\"0\"}";

TEST(Formats, AreKnownByWhatOnlyTheyWrite) {
  EXPECT_EQ(detect_format(osu_text), ForeignFormat::osu);
  EXPECT_EQ(detect_format(imb_text), ForeignFormat::imb);
  EXPECT_EQ(detect_format(json_text), ForeignFormat::nccl_tests_json);
  EXPECT_EQ(detect_format("[\n" + rccl_record + "\n]\n"), ForeignFormat::rccl_tests_json);
  EXPECT_EQ(detect_format("# a remark\nbytes\tseconds\n8\t1e-6\n"), ForeignFormat::csv);
  EXPECT_EQ(detect_format("8,1e-6\n"), ForeignFormat::csv);
  EXPECT_EQ(detect_format("{'a': 1, 'b': 2}\n# nThread 1\n"), ForeignFormat::nccl_tests) << "a Python dictionary";
  EXPECT_EQ(detect_format("[1,0]<stdout>:# nThread\n"), ForeignFormat::nccl_tests);
  EXPECT_EQ(detect_format(""), ForeignFormat::nccl_tests);
}

TEST(Formats, TwoToolsInOneTextAreRefused) {
  EXPECT_THAT(
      [] { detect_format(osu_text + imb_text); },
      ThrowsMessage<Error>("the text holds tables of more than one tool: they are read one at a time; choose with "
                           "--format-name nccl-tests, osu or imb"));
  EXPECT_THAT([] { detect_format("\xff\xfe#\0"); }, ThrowsMessage<Error>(HasSubstr("iconv -f UTF-16 -t UTF-8")));
}

TEST(Formats, AFileMayBeNamedAfterItsCollective) {
  EXPECT_EQ(collective_in_name("runs/reduce/2024-ReduceScatter_8.log"), "reduce_scatter");
  EXPECT_EQ(collective_in_name("001_alltoall_v100.txt"), "all_to_all");
  EXPECT_EQ(collective_in_name("all_gather/log.txt"), "");
}

TEST(TestsJson, OfNcclTests) {
  const Imported log = read(json_text);
  ASSERT_EQ(log.rows.size(), 2U);
  const ImportedRow& row = log.rows[0];
  EXPECT_EQ(row.collective, "all_gather");
  EXPECT_EQ(row.dtype, "float");
  EXPECT_EQ(row.op, "none");
  EXPECT_EQ(row.bytes, 1048576);
  EXPECT_EQ(row.ranks, 4) << "two processes of two GPUs";
  EXPECT_EQ(row.in_place, false);
  EXPECT_DOUBLE_EQ(row.seconds, 100e-6);
  EXPECT_DOUBLE_EQ(row.bus_bandwidth, 7.86432e9);
  EXPECT_EQ(row.line, 3);
  EXPECT_EQ(log.rows[1].status, RowStatus::failed_verify);
  EXPECT_THAT(log.warnings, ElementsAre(says(6, "misspelling of late 2025")));
}

TEST(TestsJson, ThatBreaksOffGivesWhatStoodBefore) {
  const Imported log = read(json_text.substr(0, json_text.find("\"out_of_bounds\"")));
  EXPECT_EQ(log.rows.size(), 2U);
  EXPECT_THAT(log.warnings, ElementsAre(says(6, "breaks off")));
}

TEST(TestsJson, OfRcclTestsInAnArrayOrOneALine) {
  for (const std::string& text :
       {"[\n" + rccl_record + ",\n" + rccl_record + "\n]\n", "\n" + rccl_record + "\n" + rccl_record + "\n"}) {
    const Imported log = import_text(text.substr(text[0] == '\n' ? 1 : 0), ForeignFormat::automatic);
    ASSERT_EQ(log.rows.size(), 2U) << text;
    EXPECT_EQ(log.rows[1].collective, "all_reduce");
    EXPECT_EQ(log.rows[1].ranks, 4);
    EXPECT_EQ(log.rows[1].in_place, true);
    EXPECT_DOUBLE_EQ(log.rows[1].seconds, 100e-6);
    EXPECT_DOUBLE_EQ(log.rows[1].bus_bandwidth, 15.72864e9);
    EXPECT_EQ(log.rows[1].wrong, 0);
    EXPECT_THAT(log.warnings, IsEmpty());
  }
}

TEST(Osu, TakesTheMeanOverRanks) {
  const Imported log = read(osu_text, {.ranks = 4});
  ASSERT_EQ(log.rows.size(), 2U);
  EXPECT_EQ(log.rows[1].collective, "all_reduce");
  EXPECT_EQ(log.rows[1].bytes, 1048576);
  EXPECT_DOUBLE_EQ(log.rows[1].seconds, 1e-3);
  EXPECT_DOUBLE_EQ(log.rows[1].bus_bandwidth, 1.048576e9 * 1.5);
  EXPECT_EQ(log.rows[1].line, 5);
  EXPECT_THAT(read(osu_text).warnings, ElementsAre(says(2, "say it with --ranks")));
}

TEST(Osu, NonblockingTestsHaveAPureTimeAndGathersAPartOfTheSize) {
  const std::string text =
      "# OSU MPI Non-blocking Allgather Latency Test v7.4\n# Datatype: MPI_CHAR.\n"
      "# Size           Overall(us)       Compute(us)    Pure Comm.(us)        Overlap(%)    Validation\n"
      "1024                   300.0             100.0             200.0              0.00          Fail\n"
      "2048                   300.0\n";
  const Imported log = read(text, {.ranks = 4});
  ASSERT_EQ(log.rows.size(), 2U);
  EXPECT_EQ(log.rows[0].bytes, 4096) << "of the whole array";
  EXPECT_DOUBLE_EQ(log.rows[0].seconds, 200e-6);
  EXPECT_EQ(log.rows[0].dtype, "MPI_CHAR");
  EXPECT_EQ(log.rows[0].status, RowStatus::failed_verify);
  EXPECT_EQ(log.rows[1].status, RowStatus::unreadable);
  EXPECT_THAT(log.warnings, ElementsAre(says(4, "multiplied by 4 ranks")));
  const Imported unknown = read(text);
  EXPECT_EQ(unknown.rows[0].bytes, 1024);
  EXPECT_THAT(unknown.warnings, Contains(says(4, "sizes of all_gather are those of one rank's part")));
}

TEST(Osu, ABandwidthIsNoTime) {
  const Imported log = read("# OSU MPI Bandwidth Test v7.5\n# Size      Bandwidth (MB/s)\n1024   926.30\n");
  ASSERT_EQ(log.rows.size(), 1U);
  EXPECT_EQ(log.rows[0].status, RowStatus::skipped);
  EXPECT_DOUBLE_EQ(log.rows[0].algorithm_bandwidth, 926.3e6);
  EXPECT_TRUE(std::isnan(log.rows[0].seconds));
}

TEST(Osu, PointToPointLatencyIsOfTwoRanks) {
  const Imported log = read("# OSU MPI Latency Test v5.9\n# Size          Latency (us)\n8   1.25\n");
  ASSERT_EQ(log.rows.size(), 1U);
  EXPECT_EQ(log.rows[0].collective, "sendrecv");
  EXPECT_EQ(log.rows[0].ranks, 2);
  EXPECT_DOUBLE_EQ(log.rows[0].seconds, 1.25e-6);
}

TEST(Imb, NamesItsProcesses) {
  const Imported log = read(imb_text);
  ASSERT_EQ(log.rows.size(), 2U);
  EXPECT_EQ(log.rows[0].status, RowStatus::skipped);
  EXPECT_EQ(log.rows[1].collective, "all_reduce");
  EXPECT_EQ(log.rows[1].dtype, "MPI_FLOAT");
  EXPECT_EQ(log.rows[1].op, "MPI_SUM");
  EXPECT_EQ(log.rows[1].ranks, 4);
  EXPECT_DOUBLE_EQ(log.rows[1].seconds, 1e-3);
  EXPECT_EQ(log.rows[1].line, 10);
  EXPECT_THAT(log.warnings, IsEmpty());
}

TEST(Imb, KnowsDefectsAndMemory) {
  const Imported log = read(
      "# Benchmarking Alltoall\n# #processes = 2\n #bytes #repetitions t_min[usec] t_max[usec] t_avg[usec] defects\n"
      " 64 1000 1.0 3.0 2.0 5.00\n 128 out-of-mem.; needed X=\n");
  ASSERT_EQ(log.rows.size(), 2U);
  EXPECT_EQ(log.rows[0].bytes, 128);
  EXPECT_EQ(log.rows[0].status, RowStatus::failed_verify);
  EXPECT_EQ(log.rows[1].reason, "the benchmark ran out of memory");
}

TEST(Delimited, ReadsBytesAndSeconds) {
  const Imported log =
      read("bytes,seconds,rank,sample\n1024,2e-6,0,0\n1024,3e-6,1,0\n0,1e-6,0,1\n8,,0,1\n8\n\"x,y\",1,1,1\n",
           {.collective = "all_reduce", .ranks = 2});
  ASSERT_EQ(log.rows.size(), 6U);
  EXPECT_EQ(log.rows[1].bytes, 1024);
  EXPECT_DOUBLE_EQ(log.rows[1].seconds, 3e-6);
  EXPECT_EQ(log.rows[1].rank, 1);
  EXPECT_EQ(log.rows[1].sample, 0);
  EXPECT_NEAR(log.rows[1].bus_bandwidth, 1024 / 3e-6, 1e-3);
  EXPECT_EQ(log.rows[2].status, RowStatus::skipped);
  EXPECT_EQ(log.rows[3].reason, "\"\" is no positive time");
  EXPECT_EQ(log.rows[4].reason, "1 columns where the names are 4");
  EXPECT_EQ(log.rows[5].reason, "\"x,y\" is no whole number of bytes");
}

TEST(Delimited, UnitsStandInTheNames) {
  const Imported log = read("# a sweep\nsize_bytes;time_us;algbw_GBs;busbw_GBs\n1048576;100.0;10.49;0.00\n");
  ASSERT_EQ(log.rows.size(), 1U);
  EXPECT_DOUBLE_EQ(log.rows[0].seconds, 100e-6);
  EXPECT_DOUBLE_EQ(log.rows[0].algorithm_bandwidth, 10.49e9);
  EXPECT_TRUE(std::isnan(log.rows[0].bus_bandwidth)) << "0.00 is no bandwidth, and no collective is known";
  const Imported bare = read("bytes,time\n8,1\n");
  EXPECT_THAT(bare.rows, IsEmpty());
  EXPECT_THAT(bare.warnings, ElementsAre(says(1, "column time has no unit: name it seconds, time_ms or time_us")));
}

TEST(Delimited, WithoutNamesItSaysWhatItTook) {
  const Imported log = read("1024\t2e-6\n2048\t3e-6\n");
  EXPECT_EQ(log.rows.size(), 2U);
  EXPECT_THAT(log.warnings, ElementsAre(says(1, "taken as bytes,seconds,rank,sample")));
}

TEST(Delimited, OfRcclTestsWithTheMissingName) {
  const Imported log = read(
      "numCycle,collective,ranks,rankspernode,gpusperrank,size,type,redop,inplace,time,algbw,busbw,#wrong\n"
      "0,AllReduce,1,4,4,1,1048576,float,sum,1,100.0,10.48576,15.72864,0\n");
  ASSERT_EQ(log.rows.size(), 1U);
  EXPECT_EQ(log.rows[0].collective, "all_reduce");
  EXPECT_EQ(log.rows[0].ranks, 4);
  EXPECT_EQ(log.rows[0].bytes, 1048576);
  EXPECT_DOUBLE_EQ(log.rows[0].seconds, 100e-6);
  EXPECT_EQ(log.rows[0].in_place, true);
  EXPECT_THAT(log.warnings, ElementsAre(says(2, "a column more than names")));
}

TEST(Delimited, WhatIsNoNumberOfRanksAndNoKnownCollectiveIsTold) {
  const Imported result = read(
      "bytes,seconds,ranks,collective\n1024,1e-3,-1,all_reduce\n2048,2e-3,2.5,all_reduce\n"
      "4096,2e-3,-1,my_reduce\n8192,2e-3,4,my_reduce\n16384,2e-3,4,a b\n");
  EXPECT_THAT(result.warnings,
              ElementsAre(says(2, "\"-1\" is no known number of ranks: taken as unknown"),
                          says(3, "\"2.5\" is no known number of ranks"),
                          says(4, "\"my_reduce\" is no known collective: its bus bandwidth is unknown"),
                          says(6, "\"a b\" is no known collective: left out")));
  EXPECT_EQ(result.rows[0].ranks, 0);
  EXPECT_EQ(result.rows[1].ranks, 0);
  EXPECT_EQ(result.rows[3].ranks, 4);
  EXPECT_EQ(result.rows[3].collective, "my_reduce");
}

TEST(Formats, NumbersThatNoCollectiveHasAreUnreadableAndSayWhy) {
  const Imported result =
      read("bytes,seconds\n9223372036854775807,1\n4611686018427387904,1\n1024,1e300\n1024,1000000\n1024,1e-13\n");
  EXPECT_EQ(result.rows[0].status, RowStatus::unreadable);
  EXPECT_EQ(result.rows[0].reason, "9223372036854775807 bytes are more bytes than any memory has: at most 2^62");
  EXPECT_EQ(result.rows[1].status, RowStatus::ok);
  EXPECT_EQ(result.rows[1].bytes, std::int64_t{1} << 62);
  EXPECT_EQ(result.rows[2].status, RowStatus::unreadable);
  EXPECT_EQ(result.rows[2].reason, "1e+300 s are no time of a collective: from 1e-12 s to 1000000 s");
  EXPECT_TRUE(std::isnan(result.rows[2].seconds));
  EXPECT_EQ(result.rows[3].status, RowStatus::ok);
  EXPECT_EQ(result.rows[4].status, RowStatus::unreadable);
}

TEST(Decimal, IsAWholeTextAndNoWord) {
  EXPECT_EQ(parse_decimal("1024.50"), 1024.5);
  EXPECT_EQ(parse_decimal("-1"), -1);
  EXPECT_EQ(parse_decimal("1.57286e+06"), 1572860);
  EXPECT_EQ(parse_decimal("0.1"), 0.1);
  EXPECT_EQ(parse_decimal("123456789012345678"), 123456789012345678.0);
  for (const std::string_view word : {"", "-", ".", "1.2.3", "nan", "inf", "0x10", "1e", "12:30", "1,5", "N/A"}) {
    EXPECT_EQ(parse_decimal(word), std::nullopt) << word;
  }
}

// Examples of FIPS 180-4 and of its authors.
TEST(Sha256, IsThatOfSha256sum) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

}  // namespace
}  // namespace ovl
