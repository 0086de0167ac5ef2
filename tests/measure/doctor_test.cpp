// SPDX-License-Identifier: Apache-2.0
#include "measure/doctor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "backend/model/model.hpp"
#include "backend/model/rates.hpp"
#include "base/units.hpp"
#include "support/scripted.hpp"

namespace ovl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

CheckResult row(const std::string& check, double value, Interval interval = {}) {
  return {check, "1", "what it is", {value, "", interval}, Trust::good, ""};
}

std::vector<std::string> names(const std::vector<Blocker>& blockers) {
  std::vector<std::string> all;
  for (const Blocker& b : blockers) all.push_back(b.check);
  return all;
}

// Two ranks on two cores, both want memory: four lanes on two cores are the first thing to change, and the stream that
// takes 1.9 times as long beside another is the second. A core that is busy costs another 3 %: nothing.
TEST(LikelyBlockers, NamesWhatIsBeyondItsLimitWithTheSettingToTry) {
  const std::vector<Blocker> blockers =
      likely_blockers({row("memory_beside_memory", 1.9), row("gemm_beside_busy_core", 1.03), row("lanes_a_core", 2)});
  ASSERT_THAT(names(blockers), ElementsAre("lanes_a_core", "memory_beside_memory"));
  EXPECT_EQ(blockers[0].value, 2);
  EXPECT_EQ(blockers[0].limit, 1);
  EXPECT_THAT(blockers[0].setting, HasSubstr("--cores"));
  EXPECT_EQ(blockers[1].value, 1.9);
  EXPECT_EQ(blockers[1].limit, 1.3);
  EXPECT_THAT(blockers[1].why, HasSubstr("share its bandwidth"));
  EXPECT_THAT(blockers[1].setting, HasSubstr("compute-bound"));
}

// What each one is called by, just at its limit and just above it, and a word of what to change.
TEST(LikelyBlockers, EachHasALimitAndASetting) {
  const struct {
    std::string check;
    double limit;
    std::string setting;
  } all[] = {{"lanes_serialised", 1.2, "CUDA_DEVICE_MAX_CONNECTIONS"},
             {"lanes_a_connection", 1, "CUDA_DEVICE_MAX_CONNECTIONS"},
             {"lanes_a_core", 1, "--ranks"},
             {"gemm_beside_busy_core", 1.15, "--cores"},
             {"shared_core_share", 0.02, "--cores"},
             {"gemm_beside_held_units", 1.25, "--channels"},
             {"memory_beside_memory", 1.3, "compute-bound"},
             {"ctas_overridden", 0, "unset"},
             {"replay_per_operation", 2e-6, "larger buckets"},
             {"event_hop", 10e-6, "larger buckets"},
             {"blas_held_back", 1.1, "OPENBLAS_CORETYPE"},
             {"core_distance", 1e-6, "share a cache"},
             {"core_distance_flips", 0, "pin"},
             {"align_skew", 20e-6, "core of its own"},
             {"steal_share", 0.01, "machine of your own"},
             {"foreign_cpu_share", 0.02, "close what else runs"}};
  for (const auto& [check, limit, setting] : all) {
    EXPECT_THAT(likely_blockers({row(check, limit)}), IsEmpty()) << check;
    const std::vector<Blocker> blockers = likely_blockers({row(check, limit == 0 ? 1 : 1.01 * limit)});
    ASSERT_THAT(names(blockers), ElementsAre(check));
    EXPECT_EQ(blockers[0].limit, limit);
    EXPECT_THAT(blockers[0].setting, HasSubstr(setting)) << check;
    EXPECT_FALSE(blockers[0].why.empty()) << check;
  }
  EXPECT_EQ(rows_of_the_rules().size(), std::size(all) + 2) << "the two below";
}

// Where every lane has a core of its own, nobody waits on the GEMM's.
TEST(LikelyBlockers, WhatSharingACoreCostsBlocksOnlyWhereCoresAreShared) {
  const std::vector<CheckResult> costs{row("gemm_beside_busy_lane", 2), row("spinning_costs", 1.9)};
  EXPECT_THAT(likely_blockers(costs), IsEmpty());
  const auto with = [&](double lanes_a_core) {
    std::vector<CheckResult> rows = costs;
    rows.push_back(row("lanes_a_core", lanes_a_core));
    return names(likely_blockers(rows));
  };
  EXPECT_THAT(with(0.5), IsEmpty());
  EXPECT_THAT(with(2), ElementsAre("lanes_a_core", "gemm_beside_busy_lane", "spinning_costs"));
}

TEST(LikelyBlockers, WhatIsNotKnownBlocksNothing) {
  EXPECT_THAT(likely_blockers({}), IsEmpty());
  EXPECT_THAT(likely_blockers({row("memory_beside_memory", unknown_number), row("lanes_a_core", unknown_number)}),
              IsEmpty());
  EXPECT_THAT(likely_blockers({row("clock_resolution", 1e9)}), IsEmpty()) << "no rule looks at it";
}

TEST(LikelyBlockers, ASlowdownThatMayAsWellBeNoneIsNone) {
  EXPECT_THAT(likely_blockers({row("memory_beside_memory", 1.5, {0.9, 2.1})}), IsEmpty());
  EXPECT_THAT(names(likely_blockers({row("memory_beside_memory", 1.5, {1.2, 1.8})})),
              ElementsAre("memory_beside_memory"));
}

// ---- what is measured for it ---------------------------------------------------------------------------------------

CheckResult measured(Backend& backend, const std::string& wanted) {
  test::ScriptedClock clock;
  for (const MachineCheck& check : overlap_checks(backend, clock)) {
    if (check.name == wanted) return judge_check(check, check.measure());
  }
  ADD_FAILURE() << "no check " << wanted;
  return {};
}

// In virtual time: a GEMM that needs one of 100 units, memory of 1 TB/s that a pass and a stream both want whole.
TEST(OverlapChecks, APassBesideAStreamTakesTwiceAsLong) {
  model::Rates rates;
  rates.name = "made-up";
  rates.units = 100;
  rates.gemm[DType::f32] = FlopsPerSecond(100e12);
  rates.memory = BytesPerSecond(1e12);
  const auto backend = open_model(std::move(rates), 1);
  const CheckResult r = measured(*backend, "memory_beside_memory");
  EXPECT_NEAR(r.value.value, 2, 1e-6) << r.value.detail;
  EXPECT_NEAR(r.value.interval.low, 2, 1e-6);
  EXPECT_EQ(r.trust, Trust::good) << "memory that is shared is no reason to doubt numbers";
  EXPECT_DOUBLE_EQ(measured(*backend, "lanes_a_core").value.value, 0.02);
}

TEST(OverlapChecks, WhatCannotBePlacedIsUnknownAndSaysWhy) {
  test::Script script = test::constant(milliseconds(1), milliseconds(1), milliseconds(1), milliseconds(1));
  script.unsupported = [](const Program&) { return std::string("no core for it"); };
  test::ScriptedClock clock;
  test::ScriptedBackend backend(script, clock);
  const CheckResult r = measured(backend, "gemm_beside_busy_lane");
  EXPECT_EQ(r.trust, Trust::unknown);
  EXPECT_EQ(r.value.detail, "no core for it");
}

// A rule that nobody measures for would never fire: these come from here, from the self-check and from its app.
TEST(OverlapChecks, EveryRuleHasAMeasuredRow) {
  test::ScriptedClock clock;
  test::ScriptedBackend backend({}, clock);
  std::set<std::string> measured{"blas_held_back", "lanes_a_connection",
                                 "ctas_overridden",                              // harness/app/selfcheck.cpp
                                 "lanes_serialised", "gemm_beside_held_units"};  // on a device
  for (const MachineCheck& check : overlap_checks(backend, clock)) measured.insert(check.name);
  for (const MachineCheck& check : backend_checks(backend, clock, Seconds(1))) measured.insert(check.name);
  for (const std::string& name : rows_of_the_rules()) EXPECT_TRUE(measured.contains(name)) << name;
}

}  // namespace
}  // namespace ovl
