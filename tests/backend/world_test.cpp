// SPDX-License-Identifier: Apache-2.0
#include "backend/world.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <stdexcept>

#include "backend/wire.hpp"
#include "base/error.hpp"
#include "support/worlds.hpp"

namespace ovl {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

std::string shared_error_text(const std::function<void()>& body) {
  try {
    body();
    return "no error";
  } catch (const SharedError& error) {
    return std::to_string(error.exit_code()) + " " + error.what();
  }
}

// What every World does, whatever joins its processes.
class WorldConformance : public testing::TestWithParam<int> {
 protected:
  // Runs `body` as every process; nobody may throw.
  static void run(const std::function<void(World&)>& body) { EXPECT_THAT(test::run_world(GetParam(), body), Each("")); }
};

TEST_P(WorldConformance, NumbersItsProcesses) {
  std::mutex mutex;
  std::vector<int> processes;
  run([&](World& world) {
    EXPECT_EQ(world.size(), GetParam());
    EXPECT_EQ(world.decides(), world.process() == 0);
    EXPECT_LT(world.local_process(), world.local_size());
    EXPECT_EQ(world.local_size(), GetParam());
    const std::lock_guard lock(mutex);
    processes.push_back(world.process());
  });
  std::sort(processes.begin(), processes.end());
  for (int p = 0; p < GetParam(); ++p) EXPECT_EQ(processes.at(static_cast<std::size_t>(p)), p);
}

TEST_P(WorldConformance, BroadcastsFromAnyProcess) {
  run([](World& world) {
    for (int from = 0; from < world.size(); ++from) {
      for (const std::string& text : {std::string(), std::string("a"), std::string("zero\0 inside", 12)}) {
        EXPECT_EQ(world.broadcast(world.process() == from ? text : "not this", from), text);
      }
    }
  });
}

TEST_P(WorldConformance, GathersInProcessOrderOnProcess0) {
  run([](World& world) {
    std::vector<std::string> expected;
    for (int p = 0; p < world.size(); ++p) expected.push_back("of " + std::to_string(p));
    const auto gathered = world.gather("of " + std::to_string(world.process()));
    EXPECT_EQ(gathered, world.decides() ? expected : std::vector<std::string>{});
    EXPECT_EQ(all_gather(world, "of " + std::to_string(world.process())), expected);
  });
}

TEST_P(WorldConformance, ReducesWhatIsKnown) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  run([](World& world) {
    const double mine = 10.5 - world.process();
    const double last = 10.5 - (world.size() - 1);
    EXPECT_EQ(world.minimum(mine), last);
    EXPECT_EQ(world.maximum(mine), 10.5);
    EXPECT_EQ(world.maximum(world.process() == world.size() - 1 ? mine : nan), last);
    EXPECT_TRUE(std::isnan(world.minimum(nan)));
  });
}

// All have come before any goes on.
TEST_P(WorldConformance, ABarrierHoldsUntilAllHaveCome) {
  std::atomic<int> arrived{0};
  run([&](World& world) {
    ++arrived;
    world.barrier();
    EXPECT_EQ(arrived, GetParam());
  });
}

TEST_P(WorldConformance, DecidedRunsOnProcess0AndAllThrowWhatItThrows) {
  std::atomic<int> ran{0};
  run([&](World& world) {
    decided(world, [&] { ++ran; });
    try {
      decided(world, [] { throw usage_error("the folder is there already", "", "type another"); });
      ADD_FAILURE() << "nobody threw";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_STREQ(error.what(), "the folder is there already; type another");
    }
    world.barrier();  // still in step
  });
  EXPECT_EQ(ran, 1);
}

INSTANTIATE_TEST_SUITE_P(Solo, WorldConformance, testing::Values(1));
INSTANTIATE_TEST_SUITE_P(Tcp, WorldConformance, testing::Values(2, 3, 5));

TEST(Together, WhatFailsOnOneFailsOnAllWithItsNumber) {
  EXPECT_THAT(test::run_world(3,
                              [](World& world) {
                                together(world, [] {});
                                const std::string error = shared_error_text([&] {
                                  together(world, [&] {
                                    if (world.process() == 1) throw impossible_error("no memory", "", "");
                                  });
                                });
                                EXPECT_EQ(error, "3 process 1: no memory");
                              }),
              Each(""));
}

// What broke counts more than what is not possible here.
TEST(Together, OfSeveralTheWorstIsToldFirst) {
  EXPECT_THAT(test::run_world(3,
                              [](World& world) {
                                const std::string error = shared_error_text([&] {
                                  together(world, [&] {
                                    if (world.process() == 0) throw impossible_error("no memory", "", "");
                                    if (world.process() == 2) throw std::runtime_error("a device broke");
                                  });
                                });
                                EXPECT_EQ(
                                    error,
                                    "1 process 2: a device broke; this is a defect of overlapbench, please report "
                                    "it; process 0: no memory");
                              }),
              Each(""));
}

TEST(Together, WhatAllSayIsSaidOnce) {
  EXPECT_THAT(test::run_world(2,
                              [](World& world) {
                                const std::string error = shared_error_text(
                                    [&] { together(world, [] { throw usage_error("--ranks 3", "", "type 2"); }); });
                                EXPECT_EQ(error, "2 --ranks 3; type 2");
                              }),
              Each(""));
}

// Every process's text, and the error that all throw.
std::string error_of(const std::vector<std::string>& texts) {
  const std::vector<std::string> outcomes = test::run_world(static_cast<int>(texts.size()), [&](World& world) {
    require_equal(world, "the plan", texts[static_cast<std::size_t>(world.process())]);
  });
  EXPECT_THAT(outcomes, Each(outcomes.front())) << "every process fails alike";
  return outcomes.front();
}

TEST(RequireEqual, NamesTheProcessAndTheFirstLineThatDiffers) {
  EXPECT_EQ(error_of({"ranks 4\nbytes 16\nend\n", "ranks 4\nbytes 16\nend\n", "ranks 4\nbytes 32\nmore\n"}),
            "2 the plan differs between process 0 and process 2: line 2: \"bytes 16\" and \"bytes 32\": every process "
            "must build the same plan; start all with the same options and environment");
}

TEST(RequireEqual, NamesTheFieldOfALineOfFields) {
  EXPECT_THAT(error_of({"pair gemm=a bytes=1MiB ranks=2", "pair gemm=a bytes=2MiB ranks=4"}),
              StartsWith("2 the plan differs between process 0 and process 1: line 1, bytes: \"pair gemm=a bytes=1MiB "
                         "ranks=2\" and \"pair gemm=a bytes=2MiB ranks=4\""));
  EXPECT_THAT(error_of({"pair gemm=a", "pair bytes=1"}), HasSubstr("process 1: line 1: \"pair gemm=a\" and"));
}

TEST(RequireEqual, OfSeveralThatDifferTheFirstProcessIsNamed) {
  EXPECT_THAT(error_of({"a", "b", "c"}),
              StartsWith("2 the plan differs between process 0 and process 1: line 1: \"a\" and \"b\""));
}

// A variable that one process lacks: the next one, which all have, stands in its place and is not what differs.
TEST(RequireEqual, ALineThatOneLacksIsToldAlone) {
  EXPECT_THAT(error_of({"A = 1\nNCCL_ALGO = Ring\nZ = 2\n", "A = 1\nZ = 2\n"}),
              StartsWith("2 the plan differs between process 0 and process 1: line 2: \"NCCL_ALGO = Ring\", which only "
                         "process 0 has: "));
  EXPECT_THAT(error_of({"A = 1\nZ = 2\n", "A = 1\nZ = 2\n", "A = 1\nNCCL_ALGO = Ring\nZ = 2\n"}),
              StartsWith("2 the plan differs between process 0 and process 2: line 2: \"NCCL_ALGO = Ring\", which only "
                         "process 2 has: "));
  EXPECT_THAT(
      error_of({"a\nb\n", "a\n", "a\nb\n"}),
      StartsWith("2 the plan differs between process 0 and process 1: line 2: \"b\", which only process 0 has"));
  EXPECT_THAT(
      error_of({"", "a", ""}),
      StartsWith("2 the plan differs between process 0 and process 1: line 1: \"a\", which only process 1 has"));
}

TEST(RequireEqual, EqualTextsPass) {
  EXPECT_EQ(error_of({"a\nb", "a\nb", "a\nb"}), "");
  EXPECT_EQ(error_of({"a"}), "");
}

// Numbers to the bit, and nothing that is not there.
TEST(Wire, ReadsWhatWasWritten) {
  WireWriter w;
  w.put(-7);
  w.put(std::uint64_t{1} << 63);
  w.put(true);
  w.put(-0.0);
  w.put(unknown_time);
  w.put("text");
  w.put_all(std::vector<int>{1, 2}, [](WireWriter& writer, int i) { writer.put(i); });
  const std::string text = std::move(w).take();
  WireReader r(text);
  EXPECT_EQ(r.integer(), -7);
  EXPECT_EQ(r.unsigned_number(), std::uint64_t{1} << 63);
  EXPECT_TRUE(r.truth());
  EXPECT_TRUE(std::signbit(r.real()));
  EXPECT_TRUE(std::isnan(r.seconds().value()));
  EXPECT_EQ(r.text(), "text");
  EXPECT_EQ(r.all([](WireReader& reader) { return reader.integer(); }), (std::vector{1, 2}));
  EXPECT_NO_THROW(r.finish());
  EXPECT_THROW(r.number(), Error);
  EXPECT_THROW(WireReader(text).finish(), Error);
  WireWriter lie;
  lie.put(~std::uint64_t{0});
  const std::string lying = std::move(lie).take();
  EXPECT_THROW(WireReader(lying).text(), Error);
  EXPECT_THROW(WireReader(lying).all([](WireReader& reader) { return reader.number(); }), Error);
}

}  // namespace
}  // namespace ovl
