// SPDX-License-Identifier: Apache-2.0
#include "results/timeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "program/builder.hpp"
#include "results/file.hpp"
#include "support/folders.hpp"

namespace ovl {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// Two ranks. Each computes a bucket of gradients (%0), sums it over the ranks (%3) and meanwhile goes on computing
// (%4):
//
//   µs        0    10   20   30   40   50
//   compute   %0########%4###
//   comm                %3#############
//   exposed                 ##########      30 .. 50
struct Example {
  Program program;
  Timings timings;
  TimelineLabels labels{.key = "all_reduce 1KiB"};
};

OperationTiming timing(int rank, int op, int lane, double start_us, double end_us) {
  return {.rank = Rank(rank),
          .op = OpId(op),
          .lane = LaneId(lane),
          .ready = microseconds(start_us - 1),
          .start = microseconds(start_us),
          .end = microseconds(end_us)};
}

Example example() {
  ProgramBuilder p("bucket", 2);
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const LaneId compute = p.lane({.name = "compute", .role = Role::compute});
  const CommId world = p.world("world", "shm", 1);
  const BufferId w = p.buffer({.name = "w", .count = 64});
  const BufferId g = p.buffer({.name = "g", .count = 256});
  const BufferId sum = p.buffer({.name = "sum", .count = 256});
  ClassBuilder all = p.all_ranks();
  all.body(compute, Gemm{.m = 16, .n = 16, .k = 4}, {p.whole(w), p.whole(w)}, {p.whole(g)});
  all.order(compute, comm);
  all.body(comm, Collective{.comm = world, .count = 256}, {p.whole(g)}, {p.whole(sum)});
  all.body(compute, Gemm{.m = 8, .n = 8, .k = 8, .repeat = 2}, {{w, 0, 64}, {w, 0, 64}}, {{w, 0, 64}});
  Timings t;
  t.start_source = "worker";
  for (const int rank : {0, 1}) {
    // Rank 1 was released 2 µs earlier: times are relative to the last origin.
    const double shift = rank == 0 ? 0 : -2;
    t.ranks.push_back({.rank = Rank(rank), .origin = microseconds(shift), .end = microseconds(50 + shift)});
    t.operations.push_back(timing(rank, 0, compute.value, 0 + shift, 20 + shift));
    t.operations.push_back(timing(rank, 3, comm.value, 20 + shift, 50 + shift));
    t.operations.push_back(timing(rank, 4, compute.value, 20 + shift, 30 + shift));
  }
  return {std::move(p).finish(), t};
}

json draw(const Example& e) { return timeline(e.program, e.timings, e.labels); }

// The events of one phase and process, in file order.
std::vector<json> events(const json& trace, const std::string& phase, int pid) {
  std::vector<json> chosen;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase && event.at("pid") == pid) chosen.push_back(event);
  }
  return chosen;
}

std::vector<std::string> names(const std::vector<json>& events) {
  std::vector<std::string> all;
  for (const json& event : events) all.push_back(event.at("name"));
  return all;
}

TEST(Timeline, OfTheExampleIsTheGoldenFile) {
  const std::filesystem::path golden = test::tests_folder() / "golden" / "timeline.json";
  const std::string drawn = draw(example()).dump(1) + "\n";
  // OVL_UPDATE_GOLDEN=1 writes what is drawn now, to be read before it is committed.
  if (std::getenv("OVL_UPDATE_GOLDEN") != nullptr) replace_text(golden, drawn);
  EXPECT_EQ(json::parse(drawn), json::parse(read_text(golden)));
}

TEST(Timeline, ARankIsAProcessAndALaneAThreadWithComputeFirst) {
  const json trace = draw(example());
  for (const int rank : {0, 1}) {
    std::vector<std::string> threads;
    for (const json& event : events(trace, "M", rank + 1)) {
      if (event.at("name") == "process_name") {
        EXPECT_EQ(event.at("args").at("name"), "rank " + std::to_string(rank));
      }
      if (event.at("name") == "thread_name") threads.push_back(event.at("args").at("name"));
    }
    EXPECT_THAT(threads, ElementsAre("compute", "comm", "exposed"));
  }
}

TEST(Timeline, AnOperationIsASliceWithItsSizeAndItsData) {
  const std::vector<json> slices = events(draw(example()), "X", 1);
  EXPECT_THAT(names(slices), ElementsAre("gemm 16x16x4", "all_reduce 1KiB", "gemm 8x8x8 x2", "exposed"));
  const json& reduce = slices[1];
  EXPECT_EQ(reduce.at("cat"), "comm");
  EXPECT_EQ(reduce.at("dur"), 30.0);
  EXPECT_EQ(reduce.at("args"), (json{{"id", 3},
                                     {"role", "comm"},
                                     {"bytes", 1024},
                                     {"reads", {"g[0:256]"}},
                                     {"writes", {"sum[0:256]"}},
                                     {"start_source", "worker"},
                                     {"source", "measured"}}));
}

TEST(Timeline, BeginsAtZeroAndSaysWhereTheOriginLies) {
  const json trace = draw(example());
  EXPECT_EQ(events(trace, "X", 2)[0].at("ts"), 0.0);
  EXPECT_EQ(events(trace, "X", 1)[0].at("ts"), 2.0);
  EXPECT_EQ(trace.at("otherData").at("origin_us"), 2.0);
}

TEST(Timeline, ExposedIsCommunicationWithoutCompute) {
  const json trace = draw(example());
  const json exposed = events(trace, "X", 1).back();
  EXPECT_EQ(exposed.at("ts"), 32.0);
  EXPECT_EQ(exposed.at("dur"), 20.0);
  std::vector<std::pair<double, int>> counter;
  for (const json& event : events(trace, "C", 1)) {
    counter.emplace_back(event.at("ts"), event.at("args").at("exposed"));
  }
  EXPECT_THAT(counter, ElementsAre(std::pair(0.0, 0), std::pair(32.0, 1), std::pair(52.0, 0)));
  EXPECT_NEAR(trace.at("otherData").at("exposed_s").at("rank 0").get<double>(), 20e-6, 1e-15);
}

TEST(Timeline, AnArrowLeadsFromWhatWasRecordedToWhatWaited) {
  const json trace = draw(example());
  const std::vector<json> slices = events(trace, "X", 1);
  const std::vector<json> starts = events(trace, "s", 1);
  const std::vector<json> ends = events(trace, "f", 1);
  ASSERT_THAT(starts, SizeIs(1));
  ASSERT_THAT(ends, SizeIs(1));
  EXPECT_EQ(starts[0].at("id"), ends[0].at("id"));
  EXPECT_NE(starts[0].at("id"), events(trace, "s", 2)[0].at("id"));
  EXPECT_EQ(starts[0].at("tid"), slices[0].at("tid"));
  EXPECT_EQ(starts[0].at("ts"), 21.999);  // the last nanosecond of the gemm, which ends at 22
  EXPECT_EQ(ends[0].at("tid"), slices[1].at("tid"));
  EXPECT_EQ(ends[0].at("ts"), 22.0);
}

TEST(Timeline, AnArrowOfAStartEventLeavesWhereTheOperationBegins) {
  Example e = example();
  // Now the communication may begin when the first gemm starts: record at start, wait, then the gemm.
  std::vector<Operation>& body = e.program.classes[0].body;
  std::get<Record>(body[1].work).moment = Moment::start;
  std::rotate(body.begin(), body.begin() + 1, body.begin() + 3);
  const json start = events(draw(e), "s", 1).at(0);
  EXPECT_EQ(start.at("ts"), 2.0);
}

TEST(Timeline, HasNoArrowWithinALane) {
  Example e = example();
  for (Operation& op : e.program.classes[0].body) op.lane = LaneId(0);
  EXPECT_THAT(events(draw(e), "s", 1), SizeIs(0));
}

TEST(Timeline, AnUnknownStartIsDrawnFromReadyAndSaysSo) {
  Example e = example();
  e.timings.operations[1].start = unknown_time;
  const json reduce = events(draw(e), "X", 1)[1];
  EXPECT_EQ(reduce.at("dur"), 31.0);
  EXPECT_EQ(reduce.at("args").at("start_source"), "ready");
}

TEST(Timeline, AnOperationWithoutAnEndIsCountedAndNotDrawn) {
  Example e = example();
  e.timings.operations[1].end = unknown_time;
  const json trace = draw(e);
  EXPECT_THAT(names(events(trace, "X", 1)), ElementsAre("gemm 16x16x4", "gemm 8x8x8 x2"));
  EXPECT_THAT(events(trace, "s", 1), SizeIs(0));
  EXPECT_EQ(trace.at("otherData").at("undrawn_operations"), 1);
}

TEST(Timeline, AModelSaysThatItIsOne) {
  Example e = example();
  e.labels.source = "model";
  const json trace = draw(e);
  EXPECT_EQ(trace.at("otherData").at("source"), "model");
  EXPECT_EQ(events(trace, "X", 1)[0].at("args").at("source"), "model");
}

TEST(Timeline, WithoutOperationsHasNamesOnly) {
  Example e = example();
  e.timings.operations.clear();
  const json trace = draw(e);
  EXPECT_THAT(events(trace, "X", 1), SizeIs(0));
  EXPECT_EQ(trace.at("otherData").at("undrawn_operations"), 6);
}

// The record of all lanes ends at 35: what was exposed behind that is not known.
TEST(Timeline, TellsWhatIsExposedUpToWhereTheRecordEnds) {
  Example e = example();
  e.timings.kept_until = microseconds(35);
  const json trace = draw(e);
  EXPECT_NEAR(trace.at("otherData").at("exposed_s").at("rank 0").get<double>(), 5e-6, 1e-12);
  EXPECT_NEAR(trace.at("otherData").at("exposed_s").at("rank 1").get<double>(), 7e-6, 1e-12) << "2 us ahead";
  EXPECT_EQ(trace.at("otherData").at("kept_until_us"), 37) << "from the first event on";
  EXPECT_TRUE(draw(example()).at("otherData").at("kept_until_us").is_null());
}

TEST(TimelinePath, IsTheValuesOfTheKeyAndItsHash) {
  EXPECT_EQ(timeline_path("pair gemm=64x64 bytes=1KiB"), "timeline/pair-64x64-1KiB-675c16c534d689e1.json");
}

TEST(TimelinePath, KeepsKeysApartThatLookAlikeAsFileNames) {
  const std::string slash = timeline_path("a/b");
  EXPECT_THAT(slash, HasSubstr("timeline/a_b-"));
  EXPECT_NE(slash, timeline_path("a:b"));
  EXPECT_EQ(timeline_path("../../x").parent_path(), "timeline");
  EXPECT_NE(timeline_path(std::string(300, 'x') + "1"), timeline_path(std::string(300, 'x') + "2"));
  EXPECT_LT(timeline_path(std::string(300, 'x')).filename().string().size(), 200U);
}

}  // namespace
}  // namespace ovl
