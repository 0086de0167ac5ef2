// SPDX-License-Identifier: Apache-2.0
#include "measure/selfcheck.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/units.hpp"
#include "support/scripted.hpp"

namespace ovl {
namespace {

using test::Script;
using test::ScriptedBackend;
using test::ScriptedClock;
using testing::HasSubstr;
using testing::StartsWith;

// ---- limits --------------------------------------------------------------------------------------------------------

MachineCheck jitter_check() {
  return {.name = "jitter", .unit = "1", .meaning = "scatter", .care = 0.02, .bad = 0.1, .advice = "close what runs"};
}

TEST(JudgeCheck, AboveALimitNotAtIt) {
  const auto trust = [](double value) { return judge_check(jitter_check(), {value, "detail"}).trust; };
  EXPECT_EQ(trust(0), Trust::good);
  EXPECT_EQ(trust(0.02), Trust::good);
  EXPECT_EQ(trust(0.021), Trust::care);
  EXPECT_EQ(trust(0.1), Trust::care);
  EXPECT_EQ(trust(0.11), Trust::bad);
  EXPECT_EQ(trust(std::numeric_limits<double>::infinity()), Trust::bad);
  EXPECT_EQ(trust(unknown_number), Trust::unknown);
}

TEST(JudgeCheck, AdviceIsGivenOnlyWhereSomethingIsToBeDone) {
  const auto result = [](double value) { return judge_check(jitter_check(), {value, "detail"}); };
  EXPECT_EQ(result(0).advice, "");
  EXPECT_EQ(result(unknown_number).advice, "");
  EXPECT_EQ(result(0.05).advice, "close what runs");
  EXPECT_EQ(result(0.5).advice, "close what runs");
  EXPECT_EQ(result(0.5).name, "jitter");
  EXPECT_EQ(result(0.5).unit, "1");
  EXPECT_EQ(result(0.5).meaning, "scatter");
  EXPECT_EQ(result(0.5).value.detail, "detail");
}

TEST(JudgeCheck, WithoutLimitsEverythingKnownIsGood) {
  EXPECT_EQ(judge_check({.name = "rate"}, {1e300, ""}).trust, Trust::good);
}

// ---- the verdict ---------------------------------------------------------------------------------------------------

CheckResult result(const std::string& name, Trust trust) { return {name, "1", "", {}, trust, "mend " + name}; }

TEST(TrustVerdict, IsTheWorstOfAllWithWhatToChange) {
  const CheckResult good = result("clock", Trust::good);
  const CheckResult unknown = result("steal", Trust::unknown);
  const CheckResult care = result("jitter", Trust::care);
  const CheckResult skew = result("skew", Trust::care);
  const CheckResult bad = result("cores", Trust::bad);
  EXPECT_EQ(trust_verdict({good, unknown}), "trust: nothing that was checked stands in the way");
  EXPECT_EQ(trust_verdict({good, care, skew}), "trust with care. jitter: mend jitter; skew: mend skew");
  EXPECT_EQ(trust_verdict({bad, good}), "do not trust absolute numbers from this machine as it is. cores: mend cores");
  EXPECT_EQ(trust_verdict({care, bad}),
            "do not trust absolute numbers from this machine as it is. cores: mend cores; jitter: mend jitter");
}

TEST(TrustVerdict, OfNothingKnownIsNoPraise) {
  EXPECT_EQ(trust_verdict({}), "unknown: nothing could be checked");
  EXPECT_EQ(trust_verdict({result("steal", Trust::unknown)}), "unknown: nothing could be checked");
}

// ---- the checks of a backend ---------------------------------------------------------------------------------------

// A clock that moves by itself, as a real one does.
class TickingClock final : public Clock {
 public:
  [[nodiscard]] Seconds now() override { return now_ += nanoseconds(30), now_; }

 private:
  Seconds now_{0};
};

// Every operation takes 50 ns, and one replay in ten takes twice as long.
Script costs() {
  Script script;
  script.duration = [](Arm, const Operation& op, int replay) {
    const double slow = replay % 10 == 0 ? 2 : 1;
    if (const auto* gemm = std::get_if<Gemm>(&op.work))
      return microseconds(10) * slow * static_cast<double>(gemm->repeat);
    return nanoseconds(50) * slow;
  };
  return script;
}

struct Checked {
  Script script = costs();
  Seconds watch = Seconds(2);

  [[nodiscard]] CheckResult operator()(const std::string& name) const {
    ScriptedClock clock;
    TickingClock ticking;
    Script timed = script;
    timed.conditions = [&clock, inner = script.conditions](int call) {
      clock.advance(milliseconds(10));  // what a reading takes
      return inner(call);
    };
    ScriptedBackend backend(timed, clock);
    Clock& budget = name == "clock_resolution" ? static_cast<Clock&>(ticking) : clock;
    for (const MachineCheck& check : backend_checks(backend, budget, watch)) {
      if (check.name == name) return judge_check(check, check.measure());
    }
    ADD_FAILURE() << "no check " << name;
    return {};
  }
};

// A few slow readings are other load; most of them, a core that is not one.
TEST(BackendChecks, ACoreIsCalledHalfAOneOnlyWhereItMostlyIs) {
  Checked checked;
  const auto slow_every = [&](int nth) {
    checked.script.conditions = [nth](int call) {
      return Conditions{{{.name = "busy_core_slowdown", .unit = "1", .value = call % nth == 0 ? 2.0 : 1.0}}};
    };
    return checked("shared_core_share");
  };
  EXPECT_EQ(slow_every(30).trust, Trust::care);
  EXPECT_THAT(slow_every(30).advice, HasSubstr("something else used a core"));
  EXPECT_EQ(slow_every(2).trust, Trust::bad);
  EXPECT_THAT(slow_every(2).advice, HasSubstr("one physical core"));
}

TEST(BackendChecks, EachHasANameAMeaningLimitsAndAdvice) {
  ScriptedClock clock;
  ScriptedBackend backend(costs(), clock);
  std::set<std::string> names;
  for (const MachineCheck& check : backend_checks(backend, clock, Seconds(1))) {
    EXPECT_TRUE(names.insert(check.name).second) << check.name;
    EXPECT_FALSE(check.meaning.empty()) << check.name;
    EXPECT_FALSE(check.advice.empty()) << check.name;
    EXPECT_THAT((std::set<std::string>{"s", "1", "1/s"}), testing::Contains(check.unit)) << check.name;
    EXPECT_LT(check.care, check.bad) << check.name;
  }
  EXPECT_EQ(names.size(), 11U);
}

TEST(BackendChecks, TheClocksResolutionIsItsSmallestStep) {
  const CheckResult r = Checked()("clock_resolution");
  EXPECT_NEAR(r.value.value, 30e-9, 1e-12);
  EXPECT_EQ(r.trust, Trust::good);
}

TEST(BackendChecks, AnEmptyReplayCostsItsLongestLane) {
  const CheckResult r = Checked()("empty_replay");
  EXPECT_NEAR(r.value.value, 50e-9, 1e-15);
  EXPECT_EQ(r.value.detail, "median of 200, 5 % to 95 %: 50 ns to 100 ns");
}

// A thousand operations more take a thousand times 50 ns longer: what a replay costs as such cancels.
TEST(BackendChecks, AnOperationCostsWhatItAddsToAReplay) {
  const CheckResult r = Checked()("replay_per_operation");
  EXPECT_NEAR(r.value.value, 50e-9, 1e-15);
  EXPECT_EQ(r.trust, Trust::good);
  EXPECT_THAT(r.value.detail, StartsWith("1000 operations, "));
}

// Each hop of the chain waits for the one before it.
TEST(BackendChecks, AnEventHopIsAHopOfTheChain) { EXPECT_NEAR(Checked()("event_hop").value.value, 50e-9, 1e-15); }

TEST(BackendChecks, RanksThatStartTogetherHaveNoSkew) { EXPECT_EQ(Checked()("align_skew").value.value, 0); }

TEST(BackendChecks, JitterIsTheScatterOfAFixedPieceOfWork) {
  EXPECT_EQ(Checked()("jitter").value.value, 0) << "most replays take equally long";
  // 0.9, 1.0 and 1.1 in turn: the median is 1.0, the median distance from it 0.1.
  Checked scattered;
  scattered.script.duration = [](Arm, const Operation&, int replay) { return Seconds(0.9 + 0.1 * (replay % 3)); };
  const CheckResult r = scattered("jitter");
  EXPECT_NEAR(r.value.value, 1.4826 * 0.1, 1e-12);
  EXPECT_EQ(r.trust, Trust::bad);
}

Conditions conditions_of(double ns) { return {{{.name = "core_distance", .unit = "s", .value = ns * 1e-9}}}; }

// Two seconds of readings every 10 ms: near for 50 of them, far for 50, and so on: three changes in two seconds.
TEST(BackendChecks, FlipsAreCountedExactly) {
  Checked flipping;
  flipping.script.conditions = [](int call) { return conditions_of(call / 50 % 2 == 0 ? 40 : 175); };
  const CheckResult flips = flipping("core_distance_flips");
  EXPECT_DOUBLE_EQ(flips.value.value, 1.5);
  EXPECT_EQ(flips.value.detail, "200 readings in 2 s");
  EXPECT_EQ(flips.trust, Trust::care);
  EXPECT_THAT(flips.advice, HasSubstr("pin them"));
  EXPECT_NEAR(flipping("core_distance").value.value, 0.5 * (40e-9 + 175e-9), 1e-15);
}

TEST(BackendChecks, AChangeOfLessThanTheFactorIsNoFlip) {
  Checked wavering;
  wavering.script.conditions = [](int call) { return conditions_of(call % 2 == 0 ? 40 : 60); };
  EXPECT_EQ(wavering("core_distance_flips").value.value, 0);
  EXPECT_EQ(wavering("core_distance_flips").trust, Trust::good);
}

TEST(BackendChecks, TheShareOfReadingsWithTwoCoresThatRunLikeOne) {
  Checked shared;
  shared.script.conditions = [](int call) {
    return Conditions{{{.name = "busy_core_slowdown", .unit = "1", .value = call % 4 == 0 ? 2.0 : 1.0}}};
  };
  EXPECT_DOUBLE_EQ(shared("shared_core_share").value.value, 0.25);
  EXPECT_EQ(shared("shared_core_share").trust, Trust::care);
}

TEST(BackendChecks, OfShareOfTheCpuTheWorstReadingCounts) {
  Checked stolen;
  stolen.script.conditions = [](int call) {
    return Conditions{
        {{.name = "steal_share", .unit = "1", .value = call == 7 ? 0.2 : (call % 2 == 0 ? unknown_number : 0.0)},
         {.name = "foreign_cpu_share", .unit = "1", .value = call == 9 ? 0.03 : 0.01}}};
  };
  EXPECT_EQ(stolen("steal_share").value.value, 0.2);
  EXPECT_EQ(stolen("steal_share").trust, Trust::bad);
  EXPECT_EQ(stolen("foreign_cpu_share").value.value, 0.03);
  EXPECT_EQ(stolen("foreign_cpu_share").trust, Trust::care);
}

TEST(BackendChecks, WhatABackendDoesNotReadIsUnknown) {
  for (const char* name :
       {"core_distance", "core_distance_flips", "shared_core_share", "steal_share", "foreign_cpu_share"}) {
    EXPECT_EQ(Checked()(name).trust, Trust::unknown) << name;
  }
}

// The machine is watched once for all checks that look at it, whether it had anything to say or not.
TEST(BackendChecks, WatchOnceForAll) {
  ScriptedClock clock;
  Script script = costs();
  int calls = 0;
  script.conditions = [&](int) {
    ++calls;
    clock.advance(milliseconds(10));
    return Conditions{};
  };
  ScriptedBackend backend(script, clock);
  for (const MachineCheck& check : backend_checks(backend, clock, Seconds(1))) {
    if (check.name.starts_with("core_distance") || check.name.ends_with("_share")) (void)check.measure();
  }
  EXPECT_EQ(calls, 100);
}

// Four GEMMs of 2 · 100³ FLOP take 40 us.
TEST(GemmRate, IsFlopsOverTheMedianTime) {
  ScriptedClock clock;
  ScriptedBackend backend(costs(), clock);
  EXPECT_NEAR(gemm_rate(backend, 100), 4 * 2e6 / 40e-6, 1);
}

}  // namespace
}  // namespace ovl
