// SPDX-License-Identifier: Apache-2.0
#include "measure/cost.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "measure/rows.hpp"
#include "measure/runner.hpp"
#include "results/fits.hpp"
#include "results/schema.hpp"
#include "schedule/collective.hpp"
#include "support/cost_schema.hpp"
#include "support/rows.hpp"
#include "support/scripted.hpp"

namespace ovl {
namespace {

using test::constant;
using test::cost_schema;
using test::real;
using test::Script;

// An all_reduce, if loaded beside GEMMs that are small enough to verify.
CaseSpec all_reduce(Bytes bytes, bool loaded, int ranks = 4, bool in_place = false) {
  CollectiveSpec collective{.ranks = ranks, .bytes = bytes, .in_place = in_place};
  if (loaded) collective.load = GemmLoad{{2, 2, 2}, 1};
  CaseSpec spec;
  spec.name = "collective/small";
  spec.key = "collective collective=all_reduce bytes=" + std::to_string(bytes.value()) + " place=out";
  spec.placement_name = "concurrent";
  spec.build = [collective](const Tuning& tuning) {
    CollectiveSpec tuned = collective;
    tuned.repeats = tuning.repeats;
    if (tuned.load) tuned.load->count = tuning.gemm_repeat;
    return collective_program(tuned);
  };
  spec.restores_data = consumes_its_input(collective);
  ask_for_cost(spec, {.bytes = bytes, .bus_factor = bus_factor(collective.form, ranks), .loaded = loaded});
  spec.asked = {{"collective", std::string("all_reduce")},
                {"bytes", bytes.value()},
                {"dtype", std::string("f32")},
                {"in_place", std::int64_t{in_place}}};
  return spec;
}

MeasureOptions few() {
  MeasureOptions options;
  options.stop = {.precision = 0.05, .min_rounds = 4, .max_rounds = 8, .max_time = Seconds(1000)};
  options.block = milliseconds(1);
  options.instrumented = 1;
  return options;
}

CaseResult measure(const Script& script, const CaseSpec& spec, const MeasureOptions& options = few()) {
  test::ScriptedClock clock;
  test::ScriptedBackend backend(script, clock);
  const std::atomic<bool> interrupted{false};
  return Runner(backend, clock, options, interrupted).run(spec);
}

Row row_of(const CaseResult& result, const CaseSpec& spec) {
  return summary_row(cost_schema(), spec, result, {.bench = "collective", .backend = "scripted", .options = few()});
}

std::int64_t integer(const Row& row, std::string_view column) { return std::get<std::int64_t>(row.at(column)); }

// 64 bytes on 4 ranks in 2 ms: 32000 B/s, of which each link carries 2 (4 - 1) / 4. Beside GEMMs it takes 5 ms.
TEST(Cost, WorkedExample) {
  const Script script = constant(milliseconds(1), milliseconds(2), milliseconds(1), milliseconds(5));
  const CaseSpec spec = all_reduce(Bytes(64), true);
  const CaseResult result = measure(script, spec);
  ASSERT_EQ(result.status, Status::ok) << result.reason;
  const Row row = row_of(result, spec);
  EXPECT_DOUBLE_EQ(real(row, "t_comm"), 2e-3);
  EXPECT_DOUBLE_EQ(real(row, "algorithm_bandwidth"), 32000);
  EXPECT_DOUBLE_EQ(real(row, "bus_bandwidth"), 48000);
  for (const char* rank : {"t_rank_min", "t_rank_median", "t_rank_max"}) EXPECT_DOUBLE_EQ(real(row, rank), 2e-3);
  EXPECT_DOUBLE_EQ(real(row, "t_loaded"), 5e-3);
  EXPECT_DOUBLE_EQ(real(row, "t_loaded_low"), 5e-3);
  EXPECT_DOUBLE_EQ(real(row, "bus_bandwidth_loaded"), 19200);
  EXPECT_DOUBLE_EQ(real(row, "comm_slowdown"), 2.5);
  EXPECT_EQ(row.at("slowdown_source"), Value(std::string("covered")));
  EXPECT_EQ(real(row, "coverage"), 1);
  EXPECT_EQ(integer(row, "gemm_repeat"), 6) << "three times as long as the collective alone";
  EXPECT_EQ(integer(row, "rounds_uncovered"), 0);
  EXPECT_EQ(row.at("verdict"), Value(std::string("beside GEMMs 2.50x as long as alone")));
  EXPECT_EQ(row.at("verify"), Value(std::string("exact+random")));
  for (const char* overlap : {"t_compute", "t_serial", "t_step", "hidden_share", "t_path"}) {
    EXPECT_EQ(row.at(overlap), Value()) << overlap;
  }
}

TEST(Cost, AloneHasTwoArmsAndNothingOfALoad) {
  const Script script = constant(milliseconds(1), milliseconds(2), milliseconds(1), milliseconds(5));
  const CaseSpec spec = all_reduce(Bytes(64), false);
  const CaseResult result = measure(script, spec);
  std::set<std::string> arms;
  for (const Sample& s : result.samples) arms.insert(s.arm);
  EXPECT_EQ(arms, (std::set<std::string>{"empty", "comm"}));
  const Row row = row_of(result, spec);
  EXPECT_DOUBLE_EQ(real(row, "t_comm"), 2e-3);
  for (const char* load : {"t_loaded", "coverage", "comm_slowdown", "slowdown_source", "gemm_repeat"}) {
    EXPECT_EQ(row.at(load), Value()) << load;
  }
}

// Of 4 ranks one takes 1 ms, two take 2 ms, one takes 3 ms. What all wait for is the slowest.
TEST(Cost, RanksOwnTimesAreTold) {
  std::vector<Sample> samples;
  for (int round = 0; round < 3; ++round) {
    Sample& s = samples.emplace_back();
    s.round = round;
    s.arm = "comm";
    s.step = milliseconds(3);
    for (const double ms : {1.0, 2.0, 2.0, 3.0}) {
      s.ranks.push_back({Rank(static_cast<int>(s.ranks.size())), milliseconds(ms), unknown_time, milliseconds(ms),
                         unknown_time, milliseconds(3 - ms)});
    }
  }
  const Summary summary = summarise(collective_program({.ranks = 4, .bytes = Bytes(64)}), {}, samples, 1);
  const ArmSummary& comm = *summary.arm("comm");
  EXPECT_DOUBLE_EQ(comm.rank_least.value(), 1e-3);
  EXPECT_DOUBLE_EQ(comm.rank_middle.value(), 2e-3);
  EXPECT_DOUBLE_EQ(comm.rank_most.value(), 3e-3);
  EXPECT_DOUBLE_EQ(comm.communication.value, 1e-3) << "from the last start, 2 ms, to the last end, 3 ms";
  EXPECT_EQ(summary.arm("loaded"), nullptr);
}

// ---- coverage ------------------------------------------------------------------------------------------------------

// Six GEMMs of 1 ms do not outlast 13 ms, nor do twelve: two rounds are measured again, with twice as many GEMMs each.
TEST(Cost, ARoundThatIsNotCoveredIsMeasuredAgainWithMoreGemms) {
  const Script script = constant(milliseconds(1), milliseconds(2), milliseconds(1), milliseconds(13));
  const CaseSpec spec = all_reduce(Bytes(64), true);
  const CaseResult result = measure(script, spec);
  ASSERT_EQ(result.status, Status::ok) << result.reason;
  const Row row = row_of(result, spec);
  EXPECT_EQ(integer(row, "gemm_repeat"), 24);
  EXPECT_EQ(integer(row, "rounds_uncovered"), 2);
  EXPECT_EQ(real(row, "coverage"), 1);
  EXPECT_DOUBLE_EQ(real(row, "t_loaded"), 13e-3);
  for (std::size_t i = 0; i < result.samples.size(); ++i) {
    const bool uncovered = result.samples[i].round < 2;
    EXPECT_EQ(result.used[i], !uncovered);
    EXPECT_EQ(result.noise[i], uncovered ? "compute did not cover communication" : "");
  }
  EXPECT_EQ(integer(row, "rounds"), result.summary.rounds);
  EXPECT_GE(result.summary.rounds, 4);
}

// A single sample that is longer: its round alone is measured again.
TEST(Cost, CoverageIsCheckedInEverySample) {
  Script script = constant(milliseconds(1), milliseconds(2), milliseconds(1), milliseconds(2));
  script.duration = [inner = script.duration, calls = 0](Arm arm, const Operation& op, int replay) mutable {
    const bool comm = arm == Arm::overlapped && std::get_if<Gemm>(&op.work) == nullptr;
    if (comm) ++calls;
    return inner(arm, op, replay) * (calls > 100 && calls <= 104 && comm ? 10.0 : 1.0);  // of all 4 ranks, once
  };
  MeasureOptions options = few();
  options.stop.min_rounds = 60;
  options.stop.max_rounds = 60;
  const CaseSpec spec = all_reduce(Bytes(64), true);
  const CaseResult result = measure(script, spec, options);
  const Row row = row_of(result, spec);
  EXPECT_EQ(integer(row, "rounds_uncovered"), 1);
  EXPECT_EQ(integer(row, "rounds"), 60);
  EXPECT_EQ(integer(row, "gemm_repeat"), 12);
}

TEST(Cost, WhatNothingCoversIsNoisyAndSaysSo) {
  const Script script = constant(milliseconds(1), milliseconds(2), Seconds(0), milliseconds(5));
  const CaseSpec spec = all_reduce(Bytes(64), true);
  const CaseResult result = measure(script, spec);
  EXPECT_EQ(result.status, Status::noisy);
  EXPECT_THAT(result.reason, testing::MatchesRegex("compute did not cover communication in [0-9]+ of [0-9]+ rounds"));
  const Row row = row_of(result, spec);
  EXPECT_EQ(real(row, "coverage"), 0);
  EXPECT_EQ(row.at("comm_slowdown"), Value()) << "what was not covered tells no slowdown";
  EXPECT_THAT(std::get<std::string>(row.at("verdict")),
              testing::HasSubstr("GEMMs covered it in only 0 % of the rounds"));
}

Sample spans(double compute_start, double compute_span, double comm_start, double comm_span) {
  Sample s;
  s.ranks = {
      {Rank(0), Seconds(9), Seconds(9), Seconds(1), Seconds(0), Seconds(3)},
      {Rank(1), Seconds(9), Seconds(compute_span), Seconds(comm_span), Seconds(compute_start), Seconds(comm_start)}};
  return s;
}

TEST(Covers, MeansStartBeforeAndEndAfterOnEveryRank) {
  EXPECT_EQ(covers(spans(0, 5, 1, 3), Role::compute), true);
  EXPECT_EQ(covers(spans(1, 3, 1, 3), Role::compute), true) << "at once is not later";
  EXPECT_EQ(covers(spans(2, 5, 1, 3), Role::compute), false) << "it began later";
  EXPECT_EQ(covers(spans(0, 3, 1, 3), Role::compute), false) << "it ended earlier";
  EXPECT_EQ(covers(spans(std::nan(""), 5, 1, 3), Role::compute), std::nullopt);
  EXPECT_EQ(covers(Sample(), Role::compute), false);
}

// ---- in place ------------------------------------------------------------------------------------------------------

// Every replay begins with what the prologue gives, or a second one would sum sums.
TEST(Cost, ASumInPlaceBeginsEveryReplayAnew) {
  const Script script = constant(milliseconds(1), milliseconds(2), milliseconds(1), milliseconds(5));
  test::ScriptedClock clock;
  test::ScriptedBackend backend(script, clock);
  const std::atomic<bool> interrupted{false};
  const CaseResult in = Runner(backend, clock, few(), interrupted).run(all_reduce(Bytes(64), false, 4, true));
  EXPECT_EQ(in.status, Status::ok) << in.reason;
  EXPECT_EQ(in.verified, "exact+random");
  EXPECT_GE(backend.resets(), backend.replayed().size());
  test::ScriptedBackend other(script, clock);
  (void)Runner(other, clock, few(), interrupted).run(all_reduce(Bytes(64), false));
  EXPECT_EQ(other.resets(), 1U) << "only between the GEMMs alone and the whole program";
}

// ---- fits ----------------------------------------------------------------------------------------------------------

// A collective of alpha + beta · bytes, alone 20 us + 1 ns/B and beside GEMMs 50 us + 3 ns/B: both lines come back.
TEST(Cost, TheFitsFindTheLinesOfAScript) {
  std::vector<Row> rows;
  for (const std::int64_t bytes : {64, 256, 1024, 4096, 16384}) {
    const auto size = static_cast<double>(bytes);
    const Script script =
        constant(microseconds(50), Seconds(20e-6 + size * 1e-9), microseconds(50), Seconds(50e-6 + size * 3e-9));
    const CaseSpec spec = all_reduce(Bytes(bytes), true);
    const CaseResult result = measure(script, spec);
    ASSERT_EQ(result.status, Status::ok) << result.reason;
    rows.push_back(row_of(result, spec));
  }
  const std::vector<CostSeries> series = measured_series(rows);
  ASSERT_EQ(series.size(), 2U);
  EXPECT_EQ(series[0].key, "collective collective=all_reduce place=out");
  EXPECT_EQ(series[1].key, series[0].key);
  std::map<std::string, std::pair<double, double>> lines{{"idle", {20e-6, 1e-9}}, {"loaded", {50e-6, 3e-9}}};
  for (const CostSeries& one : series) {
    const auto [alpha, beta] = lines.at(one.load);
    const std::vector<Row> fits = fit_rows(one, fits_of(one));
    ASSERT_EQ(fits.size(), 3U);
    for (const Row& fit : fits) {
      EXPECT_NEAR(real(fit, "alpha_s"), alpha, 1e-12);
      EXPECT_NEAR(real(fit, "beta_s_per_byte"), beta, 1e-15);
      EXPECT_NEAR(real(fit, "bus_bandwidth"), 1.5 / beta, 1e3);
      EXPECT_EQ(fit.at("verdict"), Value(std::string("good")));
      EXPECT_EQ(integer(fit, "launches"), 1);
    }
    EXPECT_NEAR(real(fits[0], "half_performance_bytes"), alpha / beta, 1e-3);
    EXPECT_NEAR(real(fits[0], "held_out_max_relative_error"), 0, 1e-9);
    lines.erase(one.load);
  }
  EXPECT_TRUE(lines.empty());
}

}  // namespace
}  // namespace ovl
