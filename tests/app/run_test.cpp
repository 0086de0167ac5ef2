// SPDX-License-Identifier: Apache-2.0
//
// A whole run with a scripted backend in the place of a real one: what a test of the executables cannot make happen.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "app/bench.hpp"
#include "results/file.hpp"
#include "results/table.hpp"
#include "schedule/pair.hpp"
#include "support/scripted.hpp"

namespace ovl {
namespace {

using Words = std::vector<std::string>;

// Three cases of a small pair.
const Bench toy_of_sizes{.name = "toy",
                         .question = "Does it come to an end?",
                         .axes = {{"size", "of the GEMM", "1,2,3"}},
                         .columns = {},
                         .cases = [](const AxisValues& axes, const CaseContext& context) {
                           std::vector<CaseSpec> cases;
                           for (const std::string& size : axes["size"]) {
                             const PairSpec pair{.ranks = context.ranks,
                                                 .m = std::stoi(size),
                                                 .n = 1,
                                                 .k = 1,
                                                 .bytes = Bytes(8),
                                                 .transport = context.transport};
                             CaseSpec& spec = cases.emplace_back();
                             spec.name = "toy/" + size;
                             spec.key = "toy size=" + size;
                             spec.placement_name = "concurrent";
                             spec.build = [pair](const Tuning& tuning) {
                               PairSpec tuned = pair;
                               tuned.repeats = tuning.repeats;
                               return pair_program(tuned);
                             };
                             spec.derive = [](const Summary&) { return std::vector<std::pair<std::string, Value>>{}; };
                           }
                           return cases;
                         }};

class Run : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(directory_); }
  ~Run() override { std::filesystem::remove_all(directory_); }

  // The exit code; `out_` and `err_` are what it printed.
  int run(const test::Script& script, const Words& more) {
    BackendRegistry backends;
    backends.add({"scripted", 1, [] { return std::string(); },
                  [&](World&, const SessionOptions&) -> std::unique_ptr<Backend> {
                    return std::make_unique<test::ScriptedBackend>(script, clock_);
                  }});
    Words words{"overlap-toy", "--allow-debug", "--max-time", "1ms"};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = run_bench(bench_, static_cast<int>(argv.size()), argv.data(), backends);
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return code;
  }

  // Column `index` of summary.csv, without its header.
  Words column(std::size_t index) {
    Words values;
    const auto records = parse_csv(read_text(directory_ / "summary.csv"));
    for (std::size_t i = 1; i < records.size(); ++i) values.push_back(records[i].at(index));
    return values;
  }
  Words keys() { return column(0); }
  Words statuses() { return column(3); }

  Bench bench_ = toy_of_sizes;
  test::ScriptedClock clock_;
  std::filesystem::path directory_ = std::filesystem::path(testing::TempDir()) / "ovl_run_test" /
                                     testing::UnitTest::GetInstance()->current_test_info()->name();
  std::string out_;
  std::string err_;
};

// A replay also takes a moment of real time, because blocks of rounds last for a given one.
void take_a_moment(Arm /*arm*/) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

test::Script make_steady() {
  test::Script script = test::constant(milliseconds(2), milliseconds(1), milliseconds(2), milliseconds(1));
  script.on_replay = take_a_moment;
  return script;
}
const test::Script steady_script = make_steady();

TEST_F(Run, AHangEndsTheProcessWithTheCommandThatGoesOn) {
  test::Script hanging = steady_script;
  hanging.hanging_replay = 0;
  EXPECT_EQ(run(hanging, {"--deadline", "500ms", "--out", directory_}), 1);
  EXPECT_EQ(statuses(), Words{"timeout"});
  EXPECT_NE(out_.find("timeout"), std::string::npos) << out_;  // what is finished is printed
  const std::string last = err_.substr(err_.rfind('\n', err_.size() - 2) + 1);
  EXPECT_EQ(last,
            "overlap-toy: case toy/1 hangs: its row says where, and this process cannot go on; continue with: "
            "overlap-toy --allow-debug --max-time 1ms --deadline 500ms --out " +
                directory_.string() + " --resume\n");

  // That command, with a backend that works: the others are measured, the hang is not tried again and not forgotten.
  EXPECT_EQ(run(steady_script, {"--out", directory_, "--resume"}), 1);
  EXPECT_EQ(keys(), (Words{"toy size=1", "toy size=2", "toy size=3"}));
  EXPECT_EQ(statuses(), (Words{"timeout", "ok", "ok"}));
  EXPECT_EQ(run(steady_script, {"--out", directory_, "--resume"}), 1);
  EXPECT_EQ(keys().size(), 3U);
}

TEST_F(Run, AHangWithoutADirectorySaysWhatWouldHaveHelped) {
  test::Script hanging = steady_script;
  hanging.hanging_replay = 0;
  EXPECT_EQ(run(hanging, {"--deadline", "500ms"}), 1);
  EXPECT_NE(err_.find("; with --out DIR what is finished would be kept\n"), std::string::npos) << err_;
}

TEST_F(Run, AFailedVerificationIsARowAndExitCode1) {
  test::Script wrong = steady_script;
  wrong.same_bits = false;
  EXPECT_EQ(run(wrong, {"--out", directory_}), 1);
  EXPECT_EQ(statuses(), (Words{"failed_verify", "failed_verify", "failed_verify"}));
}

TEST_F(Run, WhatIsUnsupportedIsARowAndExitCode3WhereNothingElseIsLeft) {
  test::Script picky = steady_script;
  picky.unsupported = [](const Program&) { return std::string("not on a Sunday"); };
  EXPECT_EQ(run(picky, {"--out", directory_}), 3);
  EXPECT_EQ(statuses(), (Words{"unsupported", "unsupported", "unsupported"}));
  EXPECT_NE(out_.find("not on a Sunday"), std::string::npos);
}

TEST_F(Run, ALongRunSaysHowLongBeforeItStarts) {
  EXPECT_EQ(run(steady_script, {"--max-time", "10min"}), 0);
  EXPECT_EQ(err_.find("3 cases, each up to 600 s of rounds and some seconds around them: up to about 31 minutes\n"), 0U)
      << err_;
  EXPECT_EQ(run(steady_script, {}), 0);
  EXPECT_EQ(err_.find("minutes"), std::string::npos) << err_;
}

// Building the programs of many cases takes long, and asks no flag.
TEST_F(Run, AnInterruptBeforeTheFirstCaseEndsTheProcessAtOnce) {
  const auto interrupted = [] {
    Bench slow = toy_of_sizes;
    slow.cases = [](const AxisValues&, const CaseContext&) -> std::vector<CaseSpec> {
      std::raise(SIGINT);
      std::_Exit(0);
    };
    BackendRegistry backends;
    test::ScriptedClock clock;
    backends.add({"scripted", 1, [] { return std::string(); },
                  [&](World&, const SessionOptions&) -> std::unique_ptr<Backend> {
                    return std::make_unique<test::ScriptedBackend>(steady_script, clock);
                  }});
    std::string program = "overlap-toy";
    std::array<char*, 1> argv{program.data()};
    run_bench(slow, 1, argv.data(), backends);
  };
  EXPECT_EXIT(interrupted(), testing::ExitedWithCode(130), "^overlap-toy: interrupted: nothing was begun\n$");
}

TEST_F(Run, AFailureEndsTheRunAndKeepsWhatIsFinished) {
  test::Script breaking = steady_script;
  breaking.on_replay = [replays = 0](Arm arm) mutable {
    take_a_moment(arm);
    if (++replays > 500) throw failure("a lane broke", "", "");
  };
  EXPECT_EQ(run(breaking, {"--out", directory_, "--size", "1,2,3,4"}), 1);
  EXPECT_NE(err_.find("overlap-toy: case toy/"), std::string::npos) << err_;
  EXPECT_NE(err_.find(": a lane broke; continue with: overlap-toy "), std::string::npos) << err_;
  EXPECT_NE(err_.find(" --resume\n"), std::string::npos) << err_;
  EXPECT_EQ(run(steady_script, {"--out", directory_, "--size", "1,2,3,4", "--resume"}), 0);
  EXPECT_EQ(keys().size(), 4U);
}

// What all cases say together is not written then, and not told either.
TEST_F(Run, ARunThatIsCutShortConcludesNothing) {
  bench_.series = [](const std::vector<Row>&) { return std::vector<CostSeries>(); };
  test::Script breaking = steady_script;
  breaking.on_replay = [replays = 0](Arm arm) mutable {
    take_a_moment(arm);
    if (++replays > 500) throw failure("a lane broke", "", "");
  };
  EXPECT_EQ(run(breaking, {"--out", directory_, "--size", "1,2,3,4"}), 1);
  EXPECT_EQ(out_.find("fits.csv"), std::string::npos) << out_;
  EXPECT_NE(out_.find("The run did not come to its end, so nothing is fitted yet.\n"), std::string::npos) << out_;
  EXPECT_FALSE(std::filesystem::exists(directory_ / "fits.csv"));
  EXPECT_EQ(run(steady_script, {"--out", directory_, "--size", "1,2,3,4", "--resume"}), 0);
  EXPECT_NE(out_.find("Cost of a collective"), std::string::npos) << out_;
  EXPECT_TRUE(std::filesystem::exists(directory_ / "fits.csv"));
}

TEST_F(Run, AValueAskedForTwiceIsOneCase) {
  EXPECT_EQ(run(steady_script, {"--out", directory_, "--size", "2,1,2"}), 0);
  EXPECT_EQ(keys(), (Words{"toy size=2", "toy size=1"}));
}

TEST_F(Run, AnUnknownBackendOrTransportIsNamed) {
  EXPECT_EQ(run(steady_script, {"--backend", "scriptde"}), 2);
  EXPECT_EQ(err_, "overlap-toy: backend \"scriptde\" is unknown: known are scripted, auto; did you mean scripted?\n");
  EXPECT_EQ(run(steady_script, {"--transport", "mpi"}), 2);
  EXPECT_EQ(err_, "overlap-toy: transport \"mpi\" is unknown: known are shm; did you mean shm?\n");
}

}  // namespace
}  // namespace ovl
