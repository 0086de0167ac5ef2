// SPDX-License-Identifier: Apache-2.0
#include "measure/runner.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "backend/distributed.hpp"
#include "base/error.hpp"
#include "schedule/pair.hpp"
#include "schedule/tensor_parallel.hpp"
#include "support/scripted.hpp"
#include "support/worlds.hpp"

namespace ovl {
namespace {

using test::constant;
using test::Script;
using test::ScriptedBackend;
using test::ScriptedClock;

// A pair small enough to verify by hand, with whatever durations a script gives it.
CaseSpec small_pair(const std::string& placement = "concurrent", bool balance = false) {
  CaseSpec spec;
  spec.name = "pair/small";
  spec.key = "pair gemm=2x2x2 bytes=16";
  spec.placement_name = placement;
  spec.placement = parse_placement(placement);
  spec.balance = balance;
  spec.build = [](const Tuning& t) {
    return pair_program(
        {.ranks = 2, .m = 2, .n = 2, .k = 2, .gemm_repeat = t.gemm_repeat, .bytes = Bytes(16), .repeats = t.repeats});
  };
  spec.derive = [](const Summary&) { return std::vector<std::pair<std::string, Value>>{}; };
  return spec;
}

struct Measured {
  CaseResult result;
  std::vector<Arm> replayed;
  std::vector<std::int64_t> slots;
};

Measured measure(const Script& script, MeasureOptions options = {}, const CaseSpec& spec = small_pair()) {
  ScriptedClock clock;
  ScriptedBackend backend(script, clock);
  const std::atomic<bool> interrupted{false};
  Runner runner(backend, clock, options, interrupted);
  CaseResult result = runner.run(spec);
  return {std::move(result), backend.replayed(), backend.slots()};
}

// A GEMM of 10 ms beside a collective of 10 ms. Together they take 13 ms: of the 20 ms they take in turn, 7 are saved,
// of 10 that could be.
TEST(Runner, SeventyPercentHiddenIsAnEquality) {
  const CaseResult r = measure(constant(milliseconds(10), milliseconds(10), milliseconds(13), milliseconds(12))).result;

  EXPECT_EQ(r.status, Status::ok);
  EXPECT_DOUBLE_EQ(r.summary.t_compute.value, 10e-3);
  EXPECT_DOUBLE_EQ(r.summary.t_comm.value, 10e-3);
  EXPECT_DOUBLE_EQ(r.summary.t_serial.value, 20e-3);
  EXPECT_DOUBLE_EQ(r.summary.t_step.value, 13e-3);
  EXPECT_DOUBLE_EQ(r.summary.t_empty.value, 0);
  EXPECT_DOUBLE_EQ(r.summary.hidden_share.value, 0.7);
  EXPECT_DOUBLE_EQ(r.summary.t_exposed.value, 3e-3);
  EXPECT_DOUBLE_EQ(r.summary.overlap.speedup_bound, 2);
  EXPECT_DOUBLE_EQ(r.summary.speedup.value, 20.0 / 13);
  EXPECT_DOUBLE_EQ(r.summary.overlap.serial_gap.value(), 0);
  EXPECT_DOUBLE_EQ(r.summary.compute_stretch, 1.3);
  EXPECT_DOUBLE_EQ(r.summary.comm_stretch, 1.2);
  EXPECT_DOUBLE_EQ(r.summary.t_path.value(), 10e-3) << "both operations at their isolated times, side by side";
  EXPECT_DOUBLE_EQ(r.summary.observer_ratio, 1);
  EXPECT_EQ(r.summary.launch_order, "compute_first");
}

// Nothing scatters in a script, so the interval is a point and the least number of rounds is enough.
TEST(Runner, StopsAtThePrecisionAfterTheLeastRounds) {
  MeasureOptions options;
  options.stop.min_rounds = 12;
  options.block = milliseconds(1);  // one round each
  const CaseResult r =
      measure(constant(milliseconds(1), milliseconds(1), milliseconds(1), milliseconds(1)), options).result;
  EXPECT_EQ(r.stop, Stop::precision);
  EXPECT_EQ(r.summary.rounds, 12);
  EXPECT_DOUBLE_EQ(r.summary.hidden_share.value, 1);
  EXPECT_DOUBLE_EQ(r.summary.hidden_share.interval.width(), 0);
}

TEST(Runner, WorseThanSerialIsNegativeAndNotClamped) {
  const CaseResult r = measure(constant(milliseconds(10), milliseconds(10), milliseconds(25), milliseconds(25))).result;
  EXPECT_DOUBLE_EQ(r.summary.hidden_share.value, -0.5);
  EXPECT_DOUBLE_EQ(r.summary.overlap.t_overlap.value(), -5e-3);
  EXPECT_DOUBLE_EQ(r.summary.t_exposed.value, 15e-3);
}

TEST(Runner, AnUnreachablePrecisionStopsAtALimitAndTheRowSaysWhich) {
  // The overlapped step scatters: 10 and 30 ms in turn.
  Script script = constant(milliseconds(10), milliseconds(10), milliseconds(10), milliseconds(10));
  script.duration = [inner = script.duration](Arm arm, const Operation& op, int replay) {
    return inner(arm, op, replay) * (arm == Arm::overlapped && replay % 2 == 0 ? 3.0 : 1.0);
  };
  MeasureOptions options;
  options.stop = {.precision = 0.001, .min_rounds = 4, .max_rounds = 30, .max_time = Seconds(1000)};
  EXPECT_EQ(measure(script, options).result.stop, Stop::max_samples);
  options.stop.max_rounds = 100000;
  options.stop.max_time = Seconds(2);
  EXPECT_EQ(measure(script, options).result.stop, Stop::max_time);
}

TEST(Runner, EveryRoundHasEveryArmOnceInAnOrderThatSeedAndKeyDecide) {
  const auto script = constant(milliseconds(10), milliseconds(10), milliseconds(10), milliseconds(10));
  const auto order_of = [](const CaseResult& r) {
    std::vector<std::vector<std::string>> rounds;
    for (const Sample& s : r.samples) {
      rounds.resize(std::max(rounds.size(), static_cast<std::size_t>(s.round) + 1));
      EXPECT_EQ(static_cast<std::size_t>(s.position), rounds[static_cast<std::size_t>(s.round)].size());
      rounds[static_cast<std::size_t>(s.round)].push_back(s.arm);
    }
    return rounds;
  };
  const CaseResult first = measure(script).result;
  const auto rounds = order_of(first);
  ASSERT_GE(rounds.size(), 20U);
  std::set<std::vector<std::string>> orders(rounds.begin(), rounds.end());
  for (const auto& round : rounds) EXPECT_EQ(std::set<std::string>(round.begin(), round.end()).size(), 5U);
  EXPECT_GT(orders.size(), 10U) << "120 orders are possible";
  EXPECT_EQ(order_of(measure(script).result), rounds);

  MeasureOptions other;
  other.seed = 2;
  EXPECT_NE(order_of(measure(script, other).result), rounds);
}

TEST(Runner, AllArmsOfARoundUseTheSameBufferCopies) {
  const CaseResult r = measure(constant(milliseconds(10), milliseconds(10), milliseconds(10), milliseconds(10))).result;
  for (const Sample& s : r.samples) EXPECT_EQ(s.slot, s.round);
}

TEST(Runner, BlockInterleavingStaysOnAnArmForItsTime) {
  MeasureOptions options;
  options.interleave = Interleave::block;
  options.block_arm = milliseconds(95);
  options.stop.min_rounds = 3;
  options.stop.max_time = Seconds(60);
  Script script = constant(milliseconds(10), milliseconds(10), milliseconds(10), milliseconds(10));
  script.duration = [inner = script.duration](Arm arm, const Operation& op, int replay) {
    return arm == Arm::empty ? milliseconds(10) : inner(arm, op, replay);
  };
  const CaseResult r = measure(script, options).result;
  std::map<std::pair<int, std::string>, int> samples;
  for (const Sample& s : r.samples) ++samples[{s.round, s.arm}];
  EXPECT_EQ((samples[{0, "overlapped"}]), 10) << "10 ms each until 95 ms have passed";
  EXPECT_EQ((samples[{0, "serial"}]), 5);
  EXPECT_EQ(r.summary.rounds, 3);
  EXPECT_DOUBLE_EQ(r.summary.hidden_share.value, 1);
  // Every arm rotates through the buffer copies from the same one.
  std::map<std::pair<int, std::string>, std::int64_t> next;
  for (const Sample& s : r.samples) {
    const auto expected = next.try_emplace({s.round, s.arm}, s.round).first;
    EXPECT_EQ(s.slot, expected->second++);
  }
}

// ---- tuning --------------------------------------------------------------------------------------------------------

TEST(Runner, BalanceRepeatsTheGemmUntilBothTakeAboutAsLong) {
  // A GEMM of 1 ms, a collective of 7.6 ms: eight GEMMs are nearest.
  const auto script = constant(milliseconds(1), milliseconds(7.6), milliseconds(1), milliseconds(7.6));
  const CaseResult r = measure(script, {}, small_pair("concurrent", true)).result;
  EXPECT_EQ(r.summary.tuning.gemm_repeat, 8);
  EXPECT_EQ(r.summary.tuning.repeats, 1);
  EXPECT_DOUBLE_EQ(r.summary.t_compute.value, 8e-3);
  EXPECT_EQ(measure(script).result.summary.tuning.gemm_repeat, 1) << "only when asked for";
}

// A pass that finds what the last one found, give or take a twentieth, ends the tuning: 2 arms of 1 + 3 replays each.
TEST(Runner, TuningStopsWhereAnotherPassWouldChangeNothing) {
  const auto script = constant(milliseconds(1), milliseconds(20), milliseconds(1), milliseconds(20));
  Script drifting = script;
  drifting.duration = [inner = script.duration](Arm arm, const Operation& op, int replay) {
    return inner(arm, op, replay) *
           (arm == Arm::comm && std::get_if<Gemm>(&op.work) == nullptr ? 1 + 0.001 * replay : 1);
  };
  MeasureOptions options;
  options.verify = false;
  const Measured m = measure(drifting, options, small_pair("concurrent", true));
  EXPECT_EQ(m.result.summary.tuning.gemm_repeat, 20);
  const auto first_empty = std::find(m.replayed.begin(), m.replayed.end(), Arm::empty);  // the warm-up begins with it
  EXPECT_EQ(first_empty - m.replayed.begin(), 2 * 2 * 4);
}

TEST(Runner, ShortOperationsRepeatWithinTheWindowAndTimesArePerOperation) {
  MeasureOptions options;
  options.window = milliseconds(1);
  const CaseResult r =
      measure(constant(microseconds(100), microseconds(150), microseconds(100), microseconds(150)), options).result;
  EXPECT_EQ(r.summary.tuning.repeats, 10) << "the shorter part fills 1 ms";
  EXPECT_NEAR(r.summary.t_compute.value, 100e-6, 1e-12);
  EXPECT_NEAR(r.summary.t_comm.value, 150e-6, 1e-12);
  EXPECT_NEAR(r.summary.t_step.value, 150e-6, 1e-12);
  EXPECT_NEAR(r.summary.t_path.value(), 150e-6, 1e-12);
  EXPECT_NEAR(r.samples.back().ranks.front().own.value(), r.samples.back().step.value(), 1e-12);
}

TEST(Runner, TheLongerPartNeverFillsMoreThanTwoWindows) {
  MeasureOptions options;
  options.window = milliseconds(1);
  const CaseResult r =
      measure(constant(microseconds(1), microseconds(400), microseconds(1), microseconds(400)), options).result;
  EXPECT_EQ(r.summary.tuning.repeats, 5);
}

// ---- conditions ----------------------------------------------------------------------------------------------------

Conditions conditions_at(double ns) {
  return {{{.name = "core_distance", .unit = "s", .value = ns * 1e-9, .change = 1.6}}};
}

TEST(Runner, ASpoiltBlockIsMeasuredAgainAndKeptInTheSamples) {
  Script script = constant(milliseconds(10), milliseconds(10), milliseconds(10), milliseconds(10));
  // The distance between the cores changes while the third block runs, and back in the fourth.
  script.conditions = [](int call) { return conditions_at(call == 3 ? 175 : 40); };
  MeasureOptions options;
  options.stop.min_rounds = 8;
  options.block = milliseconds(1);
  const CaseResult r = measure(script, options).result;
  EXPECT_EQ(r.status, Status::ok);
  EXPECT_EQ(r.summary.rounds, 8);
  EXPECT_EQ(r.rounds_spoilt, 2);
  EXPECT_EQ(r.samples.size(), 50U);
  int unused = 0;
  for (std::size_t i = 0; i < r.samples.size(); ++i) {
    const bool spoilt = r.samples[i].block == 2 || r.samples[i].block == 3;
    EXPECT_EQ(r.used[i], !spoilt);
    unused += spoilt ? 1 : 0;
    EXPECT_THAT(r.noise[i], testing::StartsWith(spoilt ? "core_distance changed from" : ""));
  }
  EXPECT_EQ(unused, 10);
}

TEST(Runner, BlocksOfTheRarerStateAreSpoiltEvenIfQuietInThemselves) {
  Script script = constant(milliseconds(10), milliseconds(10), milliseconds(10), milliseconds(10));
  script.conditions = [](int call) { return conditions_at(call < 3 ? 175 : 40); };
  MeasureOptions options;
  options.stop.min_rounds = 8;
  options.block = milliseconds(1);
  const CaseResult r = measure(script, options).result;
  EXPECT_EQ(r.summary.rounds, 8);
  EXPECT_EQ(r.rounds_spoilt, 3) << "two far ones, and the one in which it changed";
  for (const Block& b : r.used_blocks) EXPECT_DOUBLE_EQ(b.before.readings[0].value, 40e-9);
}

TEST(Runner, WithoutAQuietBlockEverythingCountsAndTheRowIsNoisy) {
  Script script = constant(milliseconds(10), milliseconds(10), milliseconds(13), milliseconds(12));
  script.conditions = [](int) {
    return Conditions{{{.name = "steal_share", .unit = "1", .value = 0.2, .limit = 0.01}}};
  };
  MeasureOptions options;
  options.stop.max_rounds = 10;
  options.block = milliseconds(1);
  const CaseResult r = measure(script, options).result;
  EXPECT_EQ(r.status, Status::noisy);
  EXPECT_EQ(r.reason, "steal_share 0.2 above 0.01");
  EXPECT_DOUBLE_EQ(r.summary.hidden_share.value, 0.7) << "never dropped";
  EXPECT_EQ(r.rounds_spoilt, 0);
  for (const bool used : r.used) EXPECT_TRUE(used);
}

TEST(Runner, OneSpoiltRoundIsNoisyHoweverFewWereAskedFor) {
  Script script = constant(milliseconds(10), milliseconds(10), milliseconds(13), milliseconds(12));
  script.conditions = [](int) {
    return Conditions{{{.name = "steal_share", .unit = "1", .value = 0.2, .limit = 0.01}}};
  };
  MeasureOptions options;
  options.stop = {.precision = 0.05, .min_rounds = 1, .max_rounds = 1000, .max_time = microseconds(1)};
  options.block = microseconds(1);
  const CaseResult r = measure(script, options).result;
  EXPECT_EQ(r.status, Status::noisy);
  EXPECT_EQ(r.summary.rounds, 1);
}

TEST(Runner, AnUnknownReadingSpoilsNothing) {
  Script script = constant(milliseconds(10), milliseconds(10), milliseconds(10), milliseconds(10));
  script.conditions = [](int) { return Conditions{{{.name = "frequency", .unit = "Hz", .limit = 1, .change = 1.1}}}; };
  EXPECT_EQ(measure(script).result.status, Status::ok);
}

// ---- verification --------------------------------------------------------------------------------------------------

TEST(Runner, AWrongSumIsAFailedRowWithoutNumbers) {
  Script script = constant(milliseconds(10), milliseconds(10), milliseconds(10), milliseconds(10));
  script.corrupt = [](const Buffer& buffer, Rank rank, std::vector<double>& contents) {
    if (buffer.name == "receive" && rank == Rank(1)) contents[3] += 1;
    return true;
  };
  const CaseResult r = measure(script).result;
  EXPECT_EQ(r.status, Status::failed_verify);
  EXPECT_FALSE(r.has_numbers());
  EXPECT_TRUE(r.samples.empty());
  EXPECT_THAT(r.reason,
              testing::MatchesRegex("%[0-9]+ all_reduce 16 f32 comm=0 on rank 1: element 3 is .*, expected .*"));
}

TEST(Runner, AWrongProductIsAFailedRow) {
  Script script = constant(milliseconds(10), milliseconds(10), milliseconds(10), milliseconds(10));
  script.corrupt = [](const Buffer& buffer, Rank, std::vector<double>& contents) {
    if (buffer.name == "c") contents[0] = std::nan("");
    return true;
  };
  EXPECT_THAT(measure(script).result.reason, testing::HasSubstr("element (0, 0) is nan, expected "));
}

TEST(Runner, AGemmThatDiffersFromItsSoloRunIsAFailedRow) {
  Script script = constant(milliseconds(10), milliseconds(10), milliseconds(10), milliseconds(10));
  script.same_bits = false;
  const CaseResult r = measure(script).result;
  EXPECT_EQ(r.status, Status::failed_verify);
  EXPECT_EQ(r.reason, "buffer c on rank 0: what a GEMM wrote differs between its solo run and the overlapped one");
}

// A step of tensor parallelism, whose first products read what was reduced before them.
CaseSpec small_step() {
  CaseSpec spec = small_pair();
  spec.build = [](const Tuning& t) {
    TensorParallelSpec tp;
    tp.layers = {.model = "tiny", .count = 1, .tokens = 4, .hidden = 2, .qkv = 8, .inner = 4};
    tp.repeats = t.repeats;
    return tensor_parallel_program(tp);
  };
  spec.by_operation = true;
  return spec;
}

// A gemm takes 1 ms and a reduction 2, and none slows another: two pairs of 2 + 2.
Script steps() { return constant(milliseconds(1), milliseconds(2), milliseconds(1), milliseconds(2)); }

TEST(Runner, ProductsOfWhatWasCommunicatedAreNotComparedWithTheirSoloRun) {
  const CaseResult r = measure(steps(), {}, small_step()).result;
  EXPECT_EQ(r.status, Status::ok) << r.reason;
  EXPECT_EQ(r.verified, "exact+random");
  EXPECT_DOUBLE_EQ(r.summary.t_exposed.value, 4e-3) << "nothing hides without tiles";
}

TEST(Runner, AStepSaysWhatStoodStillForWhat) {
  const CaseResult r = measure(steps(), {}, small_step()).result;
  const StepCostEstimates& e = r.summary.step_costs;
  EXPECT_DOUBLE_EQ(e.medians.exposed.value(), 4e-3);
  EXPECT_DOUBLE_EQ(e.medians.tail.value(), 2e-3) << "the last reduction";
  EXPECT_DOUBLE_EQ(e.medians.event_wait.value(), 2e-3) << "the second pair waits for the first reduction";
  EXPECT_DOUBLE_EQ(e.medians.launch.value(), 0);
  EXPECT_DOUBLE_EQ(e.medians.gap.value(), 0);
  EXPECT_DOUBLE_EQ(e.medians.rank_spread.value(), 0);
  EXPECT_DOUBLE_EQ(e.tail.low, 2e-3) << "twelve replays are enough for an interval";
  EXPECT_EQ(r.instrumented.size(), 15U) << "the tables have five of each of three arms as always";
  EXPECT_TRUE(std::isnan(measure(steps()).result.summary.step_costs.medians.tail.value())) << "unless it is asked for";
}

// The first product of the second pair is of what was reduced, so neither check of single operations looks at it.
TEST(Runner, ResultsAreComparedWithASerialReplay) {
  CaseSpec spec = small_step();
  spec.results = {"inner", "output"};
  EXPECT_EQ(measure(steps(), {}, spec).result.verified, "serial+exact+random");
  Script wrong = steps();
  wrong.corrupt = [](const Buffer& buffer, Rank rank, std::vector<double>& contents) {
    if (buffer.name != "inner" || rank != Rank(1)) return false;
    contents[3] = 0.5;
    return true;
  };
  const CaseResult r = measure(wrong, {}, spec).result;
  EXPECT_EQ(r.status, Status::failed_verify);
  EXPECT_EQ(r.verified, "serial failed");
  EXPECT_THAT(r.reason, testing::StartsWith("1 elements differ from a serial replay: inner[3] on rank 1 is 0.5, "));
}

TEST(Runner, VerificationCanBeSwitchedOffAndTheRowSaysSo) {
  Script script = constant(milliseconds(10), milliseconds(10), milliseconds(10), milliseconds(10));
  script.same_bits = false;
  MeasureOptions options;
  options.verify = false;
  const CaseResult r = measure(script, options).result;
  EXPECT_EQ(r.status, Status::ok);
  EXPECT_EQ(r.verified, "off");
}

// ---- what goes wrong -----------------------------------------------------------------------------------------------

TEST(Runner, WhatTheBackendCannotDoIsAnUnsupportedRowAndNothingRuns) {
  Script script = constant(milliseconds(10), milliseconds(10), milliseconds(10), milliseconds(10));
  script.unsupported = [](const Program& p) { return p.graph ? "no graphs here" : ""; };
  const Measured m = measure(script, {}, small_pair("graph"));
  EXPECT_EQ(m.result.status, Status::unsupported);
  EXPECT_EQ(m.result.reason, "no graphs here");
  EXPECT_TRUE(m.replayed.empty());
}

TEST(Runner, AHangIsATimeoutRowThatSaysWhereEveryLaneStands) {
  Script script = constant(milliseconds(10), milliseconds(10), milliseconds(10), milliseconds(10));
  script.hanging_replay = 0;
  MeasureOptions options;
  options.verify = false;
  options.deadline = milliseconds(500);
  const CaseResult r = measure(script, options).result;
  EXPECT_EQ(r.status, Status::timeout);
  EXPECT_EQ(
      r.reason,
      "a replay did not finish within 500 ms: rank 0 comm: enqueued %3 all_reduce 16 f32 comm=0, completed nothing");
}

TEST(Runner, AReplayThatComesBackTooLateIsATimeoutToo) {
  Script script = constant(milliseconds(10), milliseconds(10), milliseconds(13), milliseconds(12));
  script.hanging_replay = 3;
  script.comes_back = true;
  MeasureOptions options;
  options.verify = false;
  options.deadline = milliseconds(500);
  const Measured m = measure(script, options);
  EXPECT_EQ(m.result.status, Status::timeout);
  EXPECT_THAT(m.result.reason, testing::StartsWith("a replay did not finish within 500 ms: "));
  EXPECT_EQ(std::count(m.replayed.begin(), m.replayed.end(), Arm::overlapped), 4) << "nothing ran after it";
}

TEST(Runner, AnInterruptIsAnErrorOfItsOwnKind) {
  ScriptedClock clock;
  std::atomic<bool> interrupted{false};
  int replays = 0;
  Script script = constant(milliseconds(10), milliseconds(10), milliseconds(10), milliseconds(10));
  script.on_replay = [&](Arm) { interrupted = ++replays == 40; };
  ScriptedBackend backend(script, clock);
  Runner runner(backend, clock, {}, interrupted);
  try {
    runner.run(small_pair());
    FAIL() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::interrupted);
  }
}

// Few replays, of every phase: tuning, verification, warm-up, rounds, the instrumented pass.
MeasureOptions few() {
  MeasureOptions options;
  options.stop.min_rounds = 2;
  options.block = milliseconds(1);
  options.instrumented = 1;
  return options;
}
Script steady_script() { return constant(milliseconds(10), milliseconds(10), milliseconds(13), milliseconds(12)); }

// Runs with a script; the error's text, or "none".
std::string error_of(const Script& script, ErrorKind kind, const CaseSpec& spec = small_pair()) {
  try {
    measure(script, few(), spec);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "none";
}

TEST(Runner, WhicheverReplayFailsTheRunEndsWithTheBackendsOwnWords) {
  const std::size_t replays = measure(steady_script(), few()).replayed.size();
  ASSERT_GT(replays, 40U);
  for (std::size_t failing = 0; failing < replays; ++failing) {
    Script script = steady_script();
    script.on_replay = [&, replay = std::size_t{0}](Arm) mutable {
      if (replay++ == failing) throw failure("lane comm of rank 1 failed", "out of luck");
    };
    EXPECT_EQ(error_of(script, ErrorKind::failure), "lane comm of rank 1 failed: out of luck") << failing;
  }
}

// Building and checking programs asks too: with many operations it takes longer than a replay.
TEST(Runner, AnInterruptWhileACaseIsBuiltGivesItUpBeforeItIsPrepared) {
  for (const int builds : {1, 2, 3}) {
    ScriptedClock clock;
    std::atomic<bool> interrupted{false};
    int built = 0;
    int prepared_after = 0;
    Script script = steady_script();
    script.on_prepare = [&] { prepared_after += interrupted ? 1 : 0; };
    ScriptedBackend backend(script, clock);
    CaseSpec spec = small_pair();
    spec.build = [&, build = spec.build](const Tuning& tuning) {
      interrupted = ++built >= builds;
      return build(tuning);
    };
    Runner runner(backend, clock, few(), interrupted);
    EXPECT_THROW(runner.run(spec), Error);
    EXPECT_EQ(built, builds);
    EXPECT_EQ(prepared_after, 0) << builds;
  }
}

// The least and the greatest of five rounds hold a median in 15 of 16 cases, of six in 31 of 32.
TEST(Runner, OfFewerThanSixRoundsThereIsNoInterval) {
  for (const int rounds : {2, 5, 6}) {
    Script script = steady_script();
    script.duration = [steady = script.duration](Arm arm, const Operation& op, int replay) {
      return steady(arm, op, replay) * (1 + 0.01 * (replay % 7));
    };
    MeasureOptions options = few();
    options.stop.max_rounds = rounds;
    options.stop.precision = 1e-6;
    const Summary s = measure(script, options).result.summary;
    EXPECT_EQ(s.rounds, rounds);
    EXPECT_FALSE(std::isnan(s.hidden_share.value));
    EXPECT_EQ(std::isnan(s.hidden_share.interval.low), rounds < 6) << rounds;
    EXPECT_EQ(std::isnan(s.t_step.interval.high), rounds < 6) << rounds;
    const std::string few_text = fmt::format("only {} rounds, too few for an interval: ", rounds);
    EXPECT_EQ(s.verdict.starts_with(few_text), rounds < 6) << s.verdict;
  }
}

TEST(Runner, AnInterruptGivesUpTheCaseInEveryPhase) {
  const std::size_t replays = measure(steady_script(), few()).replayed.size();
  for (std::size_t last = 0; last + 1 < replays; ++last) {
    ScriptedClock clock;
    std::atomic<bool> interrupted{false};
    Script script = steady_script();
    script.on_replay = [&, replay = std::size_t{0}](Arm) mutable { interrupted = replay++ == last; };
    ScriptedBackend backend(script, clock);
    Runner runner(backend, clock, few(), interrupted);
    EXPECT_THROW(runner.run(small_pair()), Error);
    EXPECT_EQ(backend.replayed().size(), last + 1) << "not one more";
  }
}

TEST(Runner, AnInterruptAfterTheLastReplayKeepsTheCase) {
  const std::size_t replays = measure(steady_script(), few()).replayed.size();
  ScriptedClock clock;
  std::atomic<bool> interrupted{false};
  Script script = steady_script();
  script.on_replay = [&, replay = std::size_t{0}](Arm) mutable { interrupted = ++replay == replays; };
  ScriptedBackend backend(script, clock);
  Runner runner(backend, clock, few(), interrupted);
  EXPECT_EQ(runner.run(small_pair()).status, Status::ok);
}

// Prepared for: tuning (twice, the second confirms), exact data, random data, measuring.
TEST(Runner, WithoutMemoryTheRunEndsWhereverItRunsOut) {
  for (int short_of = 0; short_of < 4; ++short_of) {
    Script script = steady_script();
    script.on_prepare = [short_of, prepared = 0]() mutable {
      if (prepared++ == short_of)
        throw failure("no memory for 3 GiB of buffers", "2 GiB are free", "use smaller sizes");
    };
    EXPECT_EQ(error_of(script, ErrorKind::failure),
              "no memory for 3 GiB of buffers: 2 GiB are free; use smaller sizes");
  }
}

TEST(Runner, WhatTurnsOutImpossibleIsAnUnsupportedRow) {
  Script script = steady_script();
  script.on_prepare = [] { throw impossible_error("no group of 2 ranks", "the cores are taken", ""); };
  const CaseResult r = measure(script).result;
  EXPECT_EQ(r.status, Status::unsupported);
  EXPECT_EQ(r.reason, "no group of 2 ranks: the cores are taken");
}

TEST(Runner, OnlyOneCaseIsPreparedAtATime) {
  ScriptedClock clock;
  ScriptedBackend backend(steady_script(), clock);
  const std::atomic<bool> interrupted{false};
  Runner runner(backend, clock, few(), interrupted);
  runner.run(small_pair());
  runner.run(small_pair("event_chained"));
  EXPECT_EQ(backend.most_prepared(), 1);
}

TEST(Runner, AProbeThatFailsEndsTheRun) {
  Script script = steady_script();
  script.conditions = [](int call) -> Conditions {
    if (call == 2) throw failure("the probe failed", "no such file");
    return {};
  };
  EXPECT_EQ(error_of(script, ErrorKind::failure), "the probe failed: no such file");
}

// The collective writes where the GEMM writes: refused before anything is launched, in words.
TEST(Runner, AnUnsoundProgramIsNeverLaunched) {
  CaseSpec spec = small_pair();
  spec.build = [build = spec.build](const Tuning& t) {
    Program p = build(t);
    for (Operation& op : p.classes[0].body) {
      if (std::holds_alternative<Collective>(op.work)) op.writes = p.classes[0].body[0].writes;
    }
    return p;
  };
  ScriptedClock clock;
  ScriptedBackend backend(steady_script(), clock);
  const std::atomic<bool> interrupted{false};
  Runner runner(backend, clock, few(), interrupted);
  try {
    runner.run(spec);
    FAIL() << "it was launched";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::failure);
    EXPECT_THAT(error.what(), testing::StartsWith("program pair is not sound: race: "));
    EXPECT_THAT(error.what(), testing::HasSubstr("this is a defect of overlapbench"));
  }
  EXPECT_TRUE(backend.replayed().empty());
}

TEST(Runner, AHangWhileVerifyingVerifiedNothing) {
  Script script = steady_script();
  script.hanging_replay = 0;
  MeasureOptions options = few();
  options.deadline = milliseconds(500);
  const CaseResult r = measure(script, options).result;
  EXPECT_EQ(r.status, Status::timeout);
  EXPECT_EQ(r.verified, "");
  EXPECT_TRUE(r.samples.empty());
}

// ---- edges of the stopping rule ------------------------------------------------------------------------------------

TEST(Runner, OneBlockIsEnoughWhereItIsPreciseAlready) {
  MeasureOptions options;
  options.stop.min_rounds = 3;
  options.block = milliseconds(300);  // six rounds of 53 ms
  const CaseResult r = measure(steady_script(), options).result;
  EXPECT_EQ(r.stop, Stop::precision);
  EXPECT_EQ(r.blocks.size(), 1U);
  EXPECT_EQ(r.summary.rounds, 6);
}

TEST(Runner, LessTimeThanARoundStillMakesARow) {
  MeasureOptions options;
  options.stop.max_time = microseconds(1);
  options.block = microseconds(1);
  const CaseResult r = measure(steady_script(), options).result;
  EXPECT_EQ(r.status, Status::ok);
  EXPECT_EQ(r.stop, Stop::max_time);
  EXPECT_EQ(r.summary.rounds, 1);
  EXPECT_DOUBLE_EQ(r.summary.hidden_share.value, 0.7);
  EXPECT_TRUE(std::isnan(r.summary.hidden_share.interval.width())) << "of one round nothing is known";
}

TEST(Runner, ALongBlockOfShortRoundsStopsAtTheMostRounds) {
  MeasureOptions options;
  options.stop = {.precision = 0, .min_rounds = 2, .max_rounds = 30, .max_time = Seconds(1000)};
  options.block = Seconds(100);
  const CaseResult r = measure(steady_script(), options).result;
  EXPECT_EQ(r.stop, Stop::max_samples);
  EXPECT_EQ(r.summary.rounds, 30);
}

// Spoilt rounds are measured again, but not for ever: at most four times as many as asked for, and no longer.
TEST(Runner, TimeSpentOnSpoiltBlocksIsBounded) {
  Script script = steady_script();
  script.conditions = [](int) {
    return Conditions{{{.name = "steal_share", .unit = "1", .value = 0.2, .limit = 0.01}}};
  };
  MeasureOptions options;
  options.block = milliseconds(1);
  options.stop = {.precision = 0.05, .min_rounds = 2, .max_rounds = 10, .max_time = Seconds(1000)};
  Measured m = measure(script, options);
  EXPECT_EQ(m.result.stop, Stop::max_samples);
  EXPECT_EQ(m.result.samples.size(), 4U * 10 * 5);
  options.stop.max_time = milliseconds(100);
  m = measure(script, options);
  EXPECT_EQ(m.result.stop, Stop::max_time);
  EXPECT_EQ(m.result.samples.size(), 2U * 5) << "rounds of 53 ms";
}

TEST(Runner, WhatTakesNoTimeEndsAtTheMostRounds) {
  MeasureOptions options;
  options.stop.max_rounds = 40;
  const CaseResult r = measure(constant(Seconds(0), Seconds(0), Seconds(0), Seconds(0)), options).result;
  EXPECT_EQ(r.stop, Stop::max_samples) << "an unknown interval is never narrow";
  EXPECT_EQ(r.summary.tuning, Tuning());
  EXPECT_TRUE(std::isnan(r.summary.hidden_share.value));
  EXPECT_TRUE(std::isnan(r.summary.compute_stretch));
  EXPECT_EQ(r.summary.verdict, "unknown: a part was not measured or took no time");
}

TEST(Runner, ACaseWithoutCommunicationHasNothingToHide) {
  CaseSpec spec = small_pair("concurrent", true);
  spec.build = [build = spec.build](const Tuning& t) { return project(build(t), Arm::compute); };
  const CaseResult r = measure(steady_script(), few(), spec).result;
  EXPECT_EQ(r.status, Status::ok);
  EXPECT_EQ(r.summary.tuning, Tuning());
  EXPECT_DOUBLE_EQ(r.summary.t_comm.value, 0);
  EXPECT_DOUBLE_EQ(r.summary.t_exposed.value, 0);
  EXPECT_TRUE(std::isnan(r.summary.hidden_share.value));
  EXPECT_TRUE(std::isnan(r.summary.comm_stretch));
}

TEST(Runner, BlockInterleavingReadsTheConditionsAroundEveryRound) {
  Script script = steady_script();
  script.duration = [inner = script.duration](Arm arm, const Operation& op, int replay) {
    return arm == Arm::empty ? milliseconds(10) : inner(arm, op, replay);
  };
  // The second round runs on another machine.
  script.conditions = [](int call) { return conditions_at(call == 2 ? 175 : 40); };
  MeasureOptions options;
  options.interleave = Interleave::block;
  options.block_arm = milliseconds(30);
  options.stop.min_rounds = 3;
  options.stop.max_time = Seconds(60);
  const CaseResult r = measure(script, options).result;
  EXPECT_EQ(r.rounds_spoilt, 2);
  EXPECT_EQ(r.summary.rounds, 3);
  EXPECT_EQ(r.blocks.size(), 5U);
  for (const Block& b : r.blocks) EXPECT_EQ(b.rounds, 1);
  for (std::size_t i = 0; i < r.samples.size(); ++i) {
    EXPECT_EQ(r.samples[i].block, r.samples[i].round);
    EXPECT_EQ(r.used[i], r.samples[i].round != 1 && r.samples[i].round != 2);
  }
}

// ---- resume, placements, progress ----------------------------------------------------------------------------------

// What is measured before a case, or after a resume is not, changes nothing about it.
TEST(Runner, OrderAndIntervalsOfACaseDoNotDependOnTheCasesBeforeIt) {
  Script script = steady_script();
  script.duration = [inner = script.duration](Arm arm, const Operation& op, int replay) {
    return inner(arm, op, replay) * (1 + 0.1 * (replay % 3));
  };
  CaseSpec other = small_pair();
  other.key = "another";
  ScriptedClock clock;
  ScriptedBackend backend(script, clock);
  const std::atomic<bool> interrupted{false};
  Runner runner(backend, clock, few(), interrupted);
  const CaseResult before = runner.run(other);
  const CaseResult after = runner.run(small_pair());
  const CaseResult alone = measure(script, few()).result;

  const auto arms = [](const CaseResult& r) {
    std::vector<std::string> order;
    for (const Sample& s : r.samples) order.push_back(s.arm);
    return order;
  };
  EXPECT_EQ(arms(after), arms(alone));
  EXPECT_NE(arms(after), arms(before)) << "the key decides";
  EXPECT_EQ(after.summary.hidden_share.interval.low, alone.summary.hidden_share.interval.low);
  EXPECT_EQ(after.summary.hidden_share.interval.high, alone.summary.hidden_share.interval.high);
  EXPECT_EQ(after.program_hash, alone.program_hash);
}

// One after the other, whether by a lane, by events or by the host: nothing is hidden, and the path says that nothing
// could be.
TEST(Runner, WhatThePlacementPutsInTurnIsNotHidden) {
  const auto script = constant(milliseconds(10), milliseconds(4), milliseconds(10), milliseconds(4));
  for (const char* placement : {"serial", "event_chained", "global_sync"}) {
    const CaseResult r = measure(script, few(), small_pair(placement)).result;
    EXPECT_NEAR(r.summary.hidden_share.value, 0, 1e-12) << placement;
    EXPECT_DOUBLE_EQ(r.summary.t_path.value(), 14e-3) << placement;
    EXPECT_EQ(
        r.summary.verdict,
        std::string(placement) == "serial"
            ? "no overlap: one lane does one after the other, so a share other than 0 would be an artefact of the "
              "measurement; it is 0 % [0, 0]"
            : "no overlap: one runs after the other, hides 0 % [0, 0] of the communication")
        << placement;
  }
  for (const char* placement : {"concurrent", "comm_first", "compute_first"}) {
    const CaseResult r = measure(script, few(), small_pair(placement)).result;
    EXPECT_DOUBLE_EQ(r.summary.hidden_share.value, 1) << placement;
    EXPECT_DOUBLE_EQ(r.summary.t_path.value(), 10e-3) << placement;
  }
}

// A GEMM of 1 us beside a collective of 10 us, about 100 of each: the 65th GEMM begins when the 7th collective is at
// work, so the record of both lanes ends there, and nothing seems to stand alone that did not.
TEST(Runner, TheRecordOfAllLanesEndsWhereTheFirstOneIsCut) {
  MeasureOptions options = few();
  options.window = microseconds(500);
  const auto script = constant(microseconds(1), microseconds(10), microseconds(1), microseconds(10));
  const CaseResult r = measure(script, options).result;
  ASSERT_GT(r.summary.tuning.repeats, 90);
  for (const auto& [arm, timings] : r.instrumented) {
    std::map<std::pair<Rank, LaneId>, int> kept;
    for (const OperationTiming& op : timings.operations) ++kept[{op.rank, op.lane}];
    if (arm != "overlapped") continue;
    EXPECT_NEAR(timings.kept_until.value(), 64e-6, 1e-12);
    EXPECT_EQ((kept[{Rank(0), LaneId(0)}]), 64);
    EXPECT_EQ((kept[{Rank(0), LaneId(1)}]), 7);
  }
  const CaseResult all = measure(steady_script(), few()).result;
  for (const auto& [arm, timings] : all.instrumented) EXPECT_TRUE(std::isnan(timings.kept_until.value()));
}

TEST(Runner, ARowOfFewOrNoisyRoundsBeginsWithThat) {
  const auto script = constant(milliseconds(10), milliseconds(10), milliseconds(13), milliseconds(12));
  MeasureOptions hasty;
  hasty.stop.max_time = milliseconds(100);
  hasty.block = milliseconds(1);
  EXPECT_THAT(measure(script, hasty).result.summary.verdict,
              testing::MatchesRegex("only [0-9] of the 20 rounds asked for: hides 70 % .*"));
  Script spoilt = script;
  spoilt.conditions = [](int) { return Conditions{{{.name = "steal_share", .unit = "1", .value = 1, .limit = 0.1}}}; };
  EXPECT_THAT(measure(spoilt).result.summary.verdict, testing::StartsWith("noisy: hides 70 % "));
  EXPECT_THAT(measure(spoilt, hasty).result.summary.verdict,
              testing::MatchesRegex("noisy, [0-9] of the 20 rounds asked for: hides 70 % .*"));
  EXPECT_THAT(measure(script).result.summary.verdict, testing::StartsWith("hides 70 % "));
}

TEST(Runner, WhatCannotBeBalancedSaysSo) {
  const auto script = constant(milliseconds(8), milliseconds(4), milliseconds(8), milliseconds(4));
  EXPECT_THAT(measure(script, {}, small_pair("concurrent", true)).result.summary.verdict,
              testing::EndsWith("; not balanced: one GEMM alone takes 2x as long as the collective"));
  EXPECT_THAT(measure(script).result.summary.verdict, testing::Not(testing::HasSubstr("balanced"))) << "not asked for";
}

TEST(Runner, ProgressIsToldPhaseByPhase) {
  ScriptedClock clock;
  ScriptedBackend backend(steady_script(), clock);
  const std::atomic<bool> interrupted{false};
  std::vector<std::string> phases;
  int rounds = 0;
  Runner runner(backend, clock, few(), interrupted,
                [&](const std::string& phase, int used, Seconds elapsed, Interval /*watched*/) {
                  phases.push_back(phase);
                  rounds = std::max(rounds, used);
                  EXPECT_GE(elapsed, Seconds(0));
                });
  runner.run(small_pair());
  EXPECT_EQ(phases, (std::vector<std::string>{"tune", "verify", "warm up", "measure", "measure", "instrument"}));
  EXPECT_EQ(rounds, 2);
}

// Several processes run the same Runner, in step: the rows are those of one, and the clock is process 0's.
TEST(Runner, SeveralProcessesComeToTheSameResult) {
  const Script script = constant(milliseconds(10), milliseconds(10), milliseconds(13), milliseconds(12));
  const CaseResult alone = measure(script).result;
  const auto outcomes = test::run_world(3, [&](World& world) {
    ScriptedClock clock;
    const std::atomic<bool> interrupted{false};
    const auto backend =
        distribute(test::part_of(std::make_unique<ScriptedBackend>(script, clock), world.process(), 3, Seconds(0)),
                   world, interrupted);
    // Only process 0's clock runs as fast as the replays say.
    ScriptedClock stopped;
    SharedClock shared(world, world.decides() ? clock : stopped);
    Runner runner(*backend, shared, {}, interrupted);
    const CaseResult r = runner.run(small_pair());
    EXPECT_EQ(r.status, Status::ok) << r.reason;
    EXPECT_EQ(r.verified, "exact+random");
    EXPECT_EQ(r.samples.size(), alone.samples.size());
    EXPECT_EQ(r.program_hash, alone.program_hash);
    EXPECT_DOUBLE_EQ(r.summary.hidden_share.value, 0.7);
    EXPECT_EQ(r.summary.rounds, alone.summary.rounds);
  });
  EXPECT_THAT(outcomes, testing::Each(""));
}

// Spans do not tell who began where starts are not seen; the pass that looks at every operation may.
TEST(Runner, TheOrderOfTheInstrumentedPassCountsWhereSpansDoNotTell) {
  Script script = constant(milliseconds(10), milliseconds(10), milliseconds(13), milliseconds(12));
  EXPECT_EQ(measure(script).result.summary.launch_order, "compute_first");
  script.order_in_spans = "unverified";
  EXPECT_EQ(measure(script).result.summary.launch_order, "compute_first") << "as the operations have it";
  script.order_in_spans = "comm_first";
  EXPECT_EQ(measure(script).result.summary.launch_order, "comm_first") << "what was measured, where it is known";
}

// Process 1's watcher is the first to notice: the row of process 0, which writes, is a timeout all the same.
TEST(Runner, AHangOnAnotherProcessIsATimeout) {
  const Script script = constant(milliseconds(10), milliseconds(10), milliseconds(13), milliseconds(12));
  const auto outcomes = test::run_world(2, [&](World& world) {
    ScriptedClock clock;
    Script mine = script;
    if (world.process() == 1) mine.hanging_replay = 0;
    const std::atomic<bool> interrupted{false};
    const auto backend =
        distribute(test::part_of(std::make_unique<ScriptedBackend>(mine, clock), world.process(), 2, Seconds(0)), world,
                   interrupted);
    MeasureOptions options;
    options.deadline = world.process() == 1 ? milliseconds(500) : Seconds(1000);
    SharedClock shared(world, clock);
    Runner runner(*backend, shared, options, interrupted);
    const CaseResult r = runner.run(small_pair());
    EXPECT_EQ(r.status, Status::timeout);
    if (world.decides()) {
      EXPECT_THAT(r.reason, testing::HasSubstr("process 1: rank 0 comm: enqueued %3 all_reduce"));
    }
  });
  EXPECT_THAT(outcomes, testing::Each(""));
}

// ---- results held against a serial replay --------------------------------------------------------------------------

// A small pair that is held against itself in buffer c, which a script may corrupt.
CaseSpec held_pair() {
  CaseSpec spec = small_pair();
  spec.serial_check = [](const Program& placed) {
    return SerialCheck{.program = placed, .meant = placed, .buffers = {"c"}, .note = "serial"};
  };
  return spec;
}

Script corrupting_c() {
  Script script = constant(milliseconds(1), milliseconds(1), milliseconds(1), milliseconds(1));
  script.corrupt = [](const Buffer& buffer, Rank rank, std::vector<double>& values) {
    if (buffer.name != "c" || rank != Rank(1)) return false;
    values[2] += 1;
    return true;
  };
  return script;
}

TEST(Runner, ResultsThatEqualASerialReplayPass) {
  const Script script = constant(milliseconds(1), milliseconds(1), milliseconds(1), milliseconds(1));
  const CaseResult r = measure(script, {}, held_pair()).result;
  EXPECT_EQ(r.status, Status::ok) << r.reason;
  EXPECT_EQ(r.verified, "serial");
  ASSERT_TRUE(r.summary.difference.has_value());
  EXPECT_EQ(r.summary.difference->elements, 0);
}

TEST(Runner, WhatDiffersFromASerialReplayFails) {
  CaseSpec spec = held_pair();
  spec.build = [build = spec.build](const Tuning& tuning) {
    Program program = build(tuning);
    for (RankClass& c : program.classes) c.epilogue.clear();  // the serial replay alone tells
    return program;
  };
  const CaseResult r = measure(corrupting_c(), {}, spec).result;
  EXPECT_EQ(r.status, Status::failed_verify);
  EXPECT_EQ(r.verified, "serial failed");
  EXPECT_THAT(r.reason, testing::StartsWith("1 elements differ from a serial replay: c[2] on rank 1 is "));
}

// Of a program that is wrong on purpose a difference is what was asked for.
TEST(Runner, WhatIsWrongOnPurposeIsCounted) {
  CaseSpec spec = held_pair();
  spec.build = [build = spec.build](const Tuning& tuning) {
    Program program = build(tuning);
    program.expected_findings = {FindingKind::race};
    return program;
  };
  const CaseResult r = measure(corrupting_c(), {}, spec).result;
  EXPECT_EQ(r.status, Status::ok) << r.reason;
  ASSERT_TRUE(r.summary.difference.has_value());
  EXPECT_EQ(r.summary.difference->elements, 1);
}

TEST(Runner, WhatACaseShowsToBeRefusedIsSkippedAndNoDefect) {
  CaseSpec spec = small_pair();
  spec.build = [build = spec.build](const Tuning& tuning) {
    Program program = build(tuning);
    program.buffers.front().count = 1;
    return program;
  };
  EXPECT_THROW(measure(constant(milliseconds(1), milliseconds(1), milliseconds(1), milliseconds(1)), {}, spec), Error);
  spec.refused_unless = "--run-anyway runs it";
  const Measured m = measure(constant(milliseconds(1), milliseconds(1), milliseconds(1), milliseconds(1)), {}, spec);
  EXPECT_EQ(m.result.status, Status::skipped);
  EXPECT_THAT(m.result.reason, testing::StartsWith("refused before launch: shape: "));
  EXPECT_THAT(m.result.reason, testing::EndsWith("; --run-anyway runs it"));
  EXPECT_TRUE(m.replayed.empty());
}

// One window is one step, however short: 1 us in a window of 200.
TEST(Runner, ACaseThatIsNotTunedIsNotRepeated) {
  CaseSpec spec = small_pair();
  spec.tuned = false;
  const auto script = constant(microseconds(1), microseconds(1), microseconds(1), microseconds(1));
  EXPECT_EQ(measure(script, {}, spec).result.summary.tuning, Tuning{});
}

TEST(Runner, OwnEstimatesAreOfMediansAndHaveIntervals) {
  CaseSpec spec = small_pair();
  spec.estimates = {{"ratio", [](const ArmMedians& medians) {
                       return medians.step("overlapped") / medians.compute_span("compute");
                     }}};
  const CaseResult r =
      measure(constant(milliseconds(10), milliseconds(10), milliseconds(13), milliseconds(12)), {}, spec).result;
  ASSERT_EQ(r.summary.own.size(), 1U);
  EXPECT_EQ(r.summary.own[0].first, "ratio");
  EXPECT_DOUBLE_EQ(r.summary.own[0].second.value, 1.3);
  EXPECT_DOUBLE_EQ(r.summary.own[0].second.interval.width(), 0);
}

}  // namespace
}  // namespace ovl
