// SPDX-License-Identifier: Apache-2.0
#include "backend/distributed.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "program/projection.hpp"
#include "schedule/pair.hpp"
#include "support/scripted.hpp"
#include "support/worlds.hpp"

namespace ovl {
namespace {

using test::run_world;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// ---- which ranks a process has --------------------------------------------------------------------------------------

TEST(RankBlock, IsEvenAndInOrder) {
  EXPECT_EQ(rank_block(0, 2, 2), (RankBlock{0, 1}));
  EXPECT_EQ(rank_block(1, 2, 2), (RankBlock{1, 1}));
  EXPECT_EQ(rank_block(1, 2, 8), (RankBlock{4, 4}));
  // 7 = 3 + 2 + 2.
  EXPECT_EQ(rank_block(0, 3, 7), (RankBlock{0, 3}));
  EXPECT_EQ(rank_block(1, 3, 7), (RankBlock{3, 2}));
  EXPECT_EQ(rank_block(2, 3, 7), (RankBlock{5, 2}));
  EXPECT_EQ(rank_block(2, 3, 2), (RankBlock{2, 0}));
}

TEST(RankBlock, EveryRankHasAnOwner) {
  EXPECT_EQ(owner_of(Rank(0), 3, 7), 0);
  EXPECT_EQ(owner_of(Rank(2), 3, 7), 0);
  EXPECT_EQ(owner_of(Rank(3), 3, 7), 1);
  EXPECT_EQ(owner_of(Rank(6), 3, 7), 2);
  EXPECT_THROW(owner_of(Rank(7), 3, 7), std::logic_error);
}

// ---- merging --------------------------------------------------------------------------------------------------------

Timings part(int rank, double epoch, double origin, double start, double end) {
  Timings t;
  t.epoch = Seconds(epoch);
  t.ranks = {{Rank(rank), Seconds(origin), Seconds(end), {{LaneId(0), Seconds(start), Seconds(end)}}}};
  t.operations = {{Rank(rank), OpId(5), LaneId(0), Seconds(-1), Seconds(0), unknown_time, Seconds(end), Seconds(0.5)}};
  t.launch_order = "comm_first";
  t.start_source = "cupti";
  return t;
}

// Process 1 was released 3 s after process 0, by the shared clock: zero moves there.
TEST(MergedTimings, StandOnOneClock) {
  const Timings t = merged({part(0, 100, 0, 1, 10), part(1, 103, 0, 1, 5)});
  EXPECT_EQ(t.epoch.value(), 103);
  ASSERT_EQ(t.ranks.size(), 2U);
  EXPECT_EQ(t.ranks[0].origin.value(), -3);
  EXPECT_EQ(t.ranks[0].end.value(), 7);
  EXPECT_EQ(t.ranks[0].lanes[0].start.value(), -2);
  EXPECT_EQ(t.ranks[1].origin.value(), 0);
  EXPECT_EQ(t.ranks[1].end.value(), 5);
  EXPECT_EQ(t.step().value(), 7);
  EXPECT_EQ(t.align_skew().value(), 3);
  EXPECT_EQ(t.operations[0].enqueued.value(), -4);
  EXPECT_EQ(t.operations[0].host_return.value(), -2.5);
  EXPECT_TRUE(std::isnan(t.operations[0].start.value())) << "what was not seen is not seen on another clock either";
  EXPECT_EQ(t.operations[1].end.value(), 5);
  EXPECT_EQ(t.launch_order, "comm_first");
  EXPECT_EQ(t.start_source, "cupti");
  EXPECT_FALSE(t.partial);
}

// Within a process the last rank is released at 0, another before that.
TEST(MergedTimings, TheLatestOriginOfAllIsZero) {
  Timings early = part(0, 50, -2, 0, 4);
  early.partial = true;
  Timings late = part(1, 49, 0, 0, 4);
  late.launch_order = "compute_first";
  late.start_source = "";
  const Timings t = merged({early, late});
  EXPECT_EQ(t.epoch.value(), 49);
  EXPECT_EQ(t.ranks[0].origin.value(), -1);
  EXPECT_EQ(t.ranks[0].end.value(), 5);
  EXPECT_EQ(t.ranks[1].end.value(), 4);
  EXPECT_TRUE(t.partial);
  EXPECT_EQ(t.launch_order, "unverified") << "they saw different orders";
  EXPECT_EQ(t.start_source, "");
}

TEST(MergedTimings, OnePartIsItself) {
  Timings one = part(0, nan, 0, 1, 2);
  EXPECT_EQ(merged(std::vector{one}).ranks[0].end.value(), 2);
  EXPECT_THROW(merged({one, part(1, 3, 0, 1, 2)}), std::logic_error) << "no clock relates them";
}

Description device(const std::string& name, std::int64_t memory) {
  return {.backend = "cuda",
          .device = name,
          .transports = {"nccl", "copy"},
          .dtypes = {DType::f32, DType::bf16},
          .default_ranks = 2,
          .most_ranks = 2,
          .last_level_cache = Bytes(50),
          .memory = Bytes(memory),
          .window = Seconds(1),
          .facts = {{"nccl", "2.28.9"}, {"uuid", "GPU-" + name}}};
}

TEST(MergedDescription, IsWhatAllHave) {
  Description b = device("b", 10);
  b.transports = {"copy", "other"};
  b.dtypes = {DType::f16, DType::f32};
  b.last_level_cache = Bytes(60);
  const Description d = merged({device("a", 20), b});
  EXPECT_EQ(d.device, "process 0: a; process 1: b");
  EXPECT_EQ(d.transports, std::vector<std::string>{"copy"});
  EXPECT_EQ(d.dtypes, std::vector<DType>{DType::f32});
  EXPECT_EQ(d.memory.value(), 10);
  EXPECT_EQ(d.last_level_cache.value(), 60);
  ASSERT_EQ(d.facts.size(), 2U);
  EXPECT_EQ(d.facts[0].value, "2.28.9");
  EXPECT_EQ(d.facts[1].value, "process 0: GPU-a; process 1: GPU-b");
  EXPECT_EQ(merged({device("a", 1), device("a", 1), device("b", 1)}).device, "process 0, 1: a; process 2: b");
  EXPECT_EQ(merged({device("a", 1), device("a", 1)}).device, "2 x a");
}

TEST(MergedDescription, IsOfOneBackend) {
  Description host = device("a", 1);
  host.backend = "host";
  try {
    merged({device("a", 1), host});
    ADD_FAILURE() << "two backends are one";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_THAT(error.what(), StartsWith("process 1 runs host with 2 ranks, process 0 cuda with 2"));
  }
}

TEST(MergedConditions, AreTheWorst) {
  const Conditions c = merged(std::vector<Conditions>{
      {{{"heat", "K", 300, 350}, {"clock", "Hz", 2, nan, 1.1}, {"fan", "1", nan}}},
      {{{"heat", "K", 360, 350}, {"clock", "Hz", 1, nan, 1.1}, {"fan", "1", nan}, {"only", "1", 7}}}});
  ASSERT_EQ(c.readings.size(), 4U);
  EXPECT_EQ(c.readings[0].value, 360);
  EXPECT_EQ(c.readings[0].limit, 350);
  EXPECT_EQ(c.readings[1].value, 1);
  EXPECT_TRUE(std::isnan(c.readings[2].value));
  EXPECT_EQ(c.readings[3].value, 7);
}

// ---- several processes ----------------------------------------------------------------------------------------------

const PairSpec pair_spec{.ranks = 3, .m = 2, .n = 2, .k = 2, .bytes = Bytes(24)};

std::vector<Program> arms() {
  std::vector<Program> all;
  for (const auto& [arm, text] : EnumNames<Arm>::table) all.push_back(project(pair_program(pair_spec), arm));
  return all;
}
constexpr auto overlapped = static_cast<std::size_t>(Arm::overlapped);

const test::Script script = test::constant(milliseconds(10), milliseconds(10), milliseconds(13), milliseconds(12));

// A scripted backend in every process, joined. `change` gives a process another script.
struct Process {
  World& world;
  Backend& backend;
  std::atomic<bool>& interrupted;
};
std::vector<std::string> run(
    int size, const std::function<void(Process)>& body,
    const std::function<void(int, test::Script&)>& change = [](int, test::Script&) {}) {
  return run_world(size, [&](World& world) {
    test::ScriptedClock clock;
    test::Script mine = script;
    change(world.process(), mine);
    std::atomic<bool> interrupted{false};
    const auto joined = distribute(test::part_of(std::make_unique<test::ScriptedBackend>(mine, clock), world.process(),
                                                 size, Seconds(1000 + world.process())),
                                   world, interrupted);
    body({world, *joined, interrupted});
  });
}

class Distributed : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Processes, Distributed, testing::Values(2, 3));

TEST_P(Distributed, EveryProcessSeesAllRanks) {
  EXPECT_THAT(run(GetParam(),
                  [](Process p) {
                    const auto prepared = p.backend.prepare(arms(), Data::exact, 1);
                    const Timings t = prepared->run(overlapped, {.recording = Recording::operations});
                    ASSERT_EQ(t.ranks.size(), 3U);
                    for (int r = 0; r < 3; ++r) EXPECT_EQ(t.ranks[static_cast<std::size_t>(r)].rank, Rank(r));
                    EXPECT_EQ(t.operations.size(), 6U);
                    // The last process is released last, a second after the one before it.
                    EXPECT_DOUBLE_EQ(t.align_skew().value(), p.world.size() - 1);
                    EXPECT_NEAR(t.step().value(), 13e-3, 1e-9);
                    EXPECT_EQ(t.launch_order, "compute_first");
                  }),
              Each(""));
}

// Of any rank, on every process: as one process alone has them.
TEST_P(Distributed, ContentsComeFromTheProcessOfTheRank) {
  test::ScriptedClock clock;
  test::ScriptedBackend alone(script, clock);
  const auto whole = alone.prepare(arms(), Data::exact, 1);
  static_cast<void>(whole->run(overlapped, {}));
  std::vector<decltype(whole->contents(BufferId(0), Rank(0), 0))> contents;
  std::vector<decltype(whole->fingerprint(BufferId(1), Rank(0), 0))> fingerprints;
  for (int r = 0; r < 3; ++r) {
    contents.push_back(whole->contents(BufferId(0), Rank(r), 0));
    fingerprints.push_back(whole->fingerprint(BufferId(1), Rank(r), 0));
  }
  EXPECT_THAT(run(GetParam(),
                  [&](Process p) {
                    const auto prepared = p.backend.prepare(arms(), Data::exact, 1);
                    prepared->run(overlapped, {});
                    for (std::size_t r = 0; r < 3; ++r) {
                      const Rank rank(static_cast<int>(r));
                      EXPECT_EQ(prepared->contents(BufferId(0), rank, 0), contents[r]);
                      EXPECT_EQ(prepared->fingerprint(BufferId(1), rank, 0), fingerprints[r]);
                    }
                    EXPECT_EQ(prepared->observed().size(), 3U);
                    EXPECT_EQ(p.backend.describe().device, std::to_string(p.world.size()) + " x a script");
                  }),
              Each(""));
}

TEST_P(Distributed, AReplayThatFailsOnOneFailsOnAll) {
  EXPECT_THAT(run(
                  GetParam(),
                  [](Process p) {
                    const auto prepared = p.backend.prepare(arms(), Data::exact, 1);
                    prepared->run(0, {});
                    prepared->run(overlapped, {});
                  },
                  [](int process, test::Script& s) {
                    if (process != 1) return;
                    s.on_replay = [](Arm arm) {
                      if (arm == Arm::overlapped) throw failure("a lane broke", "", "");
                    };
                  }),
              Each("1 process 1: a lane broke"));
}

// The others wait in their replay for the one that failed: they hear of it without any deadline.
TEST_P(Distributed, AReplayThatFailsOnOneEndsThoseThatWaitInTheirs) {
  EXPECT_THAT(run(
                  GetParam(),
                  [](Process p) {
                    const auto prepared = p.backend.prepare(arms(), Data::exact, 1);
                    prepared->run(overlapped, {});
                  },
                  [](int process, test::Script& s) {
                    if (process != 1) s.hanging_replay = 0;
                    if (process == 1) s.on_replay = [](Arm) { throw failure("a lane broke", "", ""); };
                  }),
              Each("1 process 1: a lane broke"));
}

// What cannot be done is a row, not the end: all come to the end of the replay and go on.
TEST_P(Distributed, AReplayThatIsImpossibleOnOneEndsOnlyItself) {
  EXPECT_THAT(run(
                  GetParam(),
                  [](Process p) {
                    const auto prepared = p.backend.prepare(arms(), Data::exact, 1);
                    try {
                      prepared->run(overlapped, {});
                      ADD_FAILURE() << "one process could not";
                    } catch (const Error& error) {
                      EXPECT_EQ(error.kind(), ErrorKind::impossible);
                    }
                    prepared->run(0, {});
                  },
                  [](int process, test::Script& s) {
                    if (process != 1) return;
                    s.on_replay = [](Arm arm) {
                      if (arm == Arm::overlapped) throw impossible_error("not live", "", "");
                    };
                  }),
              Each(""));
}

TEST_P(Distributed, AProgramThatOneCannotRunIsUnsupported) {
  EXPECT_THAT(run(
                  GetParam(),
                  [](Process p) { EXPECT_EQ(p.backend.supports(arms().front()).reason, "process 1: not on a Sunday"); },
                  [](int process, test::Script& s) {
                    if (process == 1) s.unsupported = [](const Program&) { return std::string("not on a Sunday"); };
                  }),
              Each(""));
}

// Also those that had their memory give it back.
TEST_P(Distributed, AllArePreparedOrNone) {
  EXPECT_THAT(run(
                  GetParam(), [](Process p) { static_cast<void>(p.backend.prepare(arms(), Data::exact, 1)); },
                  [](int process, test::Script& s) {
                    if (process == 0) s.on_prepare = [] { throw impossible_error("no memory left", "", ""); };
                  }),
              Each("3 process 0: no memory left"));
}

TEST_P(Distributed, AnotherProgramOnOneIsRefusedBeforeItRuns) {
  const auto outcomes = run(GetParam(), [](Process p) {
    static_cast<void>(p.backend.prepare(arms(), Data::exact, p.world.process() == 1 ? 2 : 1));
  });
  EXPECT_THAT(outcomes, Each(StartsWith("1 the program differs between process 0 and process 1: line 1: \"exact data, "
                                        "seed 1\" and \"exact data, seed 2\"")));
}

TEST_P(Distributed, AnInterruptOfOneEndsTheReplayOfAll) {
  EXPECT_THAT(run(GetParam(),
                  [](Process p) {
                    const auto prepared = p.backend.prepare(arms(), Data::exact, 1);
                    prepared->run(0, {});
                    if (p.world.process() == 1) p.interrupted = true;
                    prepared->run(0, {});
                  }),
              Each(StartsWith("130 process 1: interrupted")));
}

TEST_P(Distributed, ConditionsAreTheWorstOfAll) {
  EXPECT_THAT(
      run(
          GetParam(), [](Process p) { EXPECT_EQ(p.backend.conditions().readings.at(0).value, p.world.size() - 1); },
          [](int process, test::Script& s) {
            s.conditions = [process](int) { return Conditions{{{"heat", "K", static_cast<double>(process), 350}}}; };
          }),
      Each(""));
}

// One process hangs, and it is another one's watcher that notices: the first is aborted, and process 0 says where each
// stood.
TEST_P(Distributed, AHangEndsOnAllProcesses) {
  std::mutex mutex;
  std::vector<std::string> hangs;
  std::promise<void> begun;
  run(
      GetParam(),
      [&](Process p) {
        std::thread watcher;
        try {
          const auto prepared = p.backend.prepare(arms(), Data::exact, 1);
          if (p.world.process() == 0) {
            watcher = std::thread([&] {
              begun.get_future().wait();
              p.backend.abort();
            });
          }
          for (;;) prepared->run(overlapped, {});
        } catch (const HangError& error) {
          const std::lock_guard lock(mutex);
          hangs.emplace_back(error.what());
        }
        if (watcher.joinable()) watcher.join();
      },
      [&](int process, test::Script& s) {
        if (process != 1) return;
        s.hanging_replay = 0;
        s.on_replay = [&](Arm) { begun.set_value(); };
      });
  EXPECT_EQ(hangs.size(), static_cast<std::size_t>(GetParam()));
  std::sort(hangs.begin(), hangs.end());
  EXPECT_EQ(hangs.front(), "a replay does not end on process 0") << "process 0 alone tells the user";
  EXPECT_THAT(hangs.back(), StartsWith("process 0: "));
  EXPECT_THAT(hangs.back(), HasSubstr("process 1: rank 0 comm: enqueued %3 all_reduce"));
  EXPECT_THAT(hangs.back(), HasSubstr("completed nothing"));
}

// A world in which process 1 is stopped and cannot report.
class Reports final : public World {
 public:
  [[nodiscard]] int process() const override { return 0; }
  [[nodiscard]] int size() const override { return 3; }
  void barrier() override {}
  std::string broadcast(const std::string& text, int /*from*/) override { return text; }
  std::vector<std::string> gather(const std::string& text) override { return {text, text, text}; }
  double minimum(double value) override { return value; }
  double maximum(double value) override { return value; }
  void abort(const std::string& /*reason*/) noexcept override {}
  std::vector<std::optional<std::string>> reports(Seconds /*patience*/) override {
    return {"no lane had begun", std::nullopt, "rank 2 comm: enqueued %3, completed nothing"};
  }
};

TEST(ToldByAll, NamesWhoDidNotAnswer) {
  Reports world;
  EXPECT_EQ(told_by_all(world),
            "process 0: no lane had begun; process 1 did not answer: what its ranks had enqueued and completed is "
            "unknown; process 2: rank 2 comm: enqueued %3, completed nothing");
}

TEST_P(Distributed, AProcessThatEndsDoesNotLeaveOthersInAReplay) {
  const auto outcomes = run(
      GetParam(),
      [](Process p) {
        const auto prepared = p.backend.prepare(arms(), Data::exact, 1);
        if (p.world.process() == 0) {
          p.world.abort("process 0 is broken");
          return;
        }
        prepared->run(overlapped, {});
      },
      [](int process, test::Script& s) {
        if (process == 1) s.hanging_replay = 0;
      });
  EXPECT_EQ(outcomes[1], "1 process 0 is broken");
}

}  // namespace
}  // namespace ovl
