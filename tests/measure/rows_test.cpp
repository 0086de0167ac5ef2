// SPDX-License-Identifier: Apache-2.0
#include "measure/rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "measure/exposed_causes.hpp"
#include "metrics/overlap.hpp"
#include "results/schema.hpp"
#include "schedule/pair.hpp"
#include "stats/summary.hpp"
#include "support/rows.hpp"
#include "support/scripted.hpp"

namespace ovl {
namespace {

using test::constant;
using test::real;
using test::Script;
using test::ScriptedBackend;
using test::ScriptedClock;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

const Schema& gemm_schema() {
  static const Schema s = summary_schema(
      {{"gemm", ColumnType::text, "", "shape as asked for"}, {"gemm_rate", ColumnType::real, "FLOP/s", "alone"}});
  return s;
}

CaseSpec quoted_pair(const std::string& placement = "concurrent") {
  CaseSpec spec;
  spec.name = "pair/small";
  spec.key = "pair gemm=2x2x2, \"small\"";  // what CSV must quote
  spec.placement_name = placement;
  spec.placement = parse_placement(placement);
  spec.build = [](const Tuning& t) {
    return pair_program({.ranks = 2,
                         .m = 2,
                         .n = 2,
                         .k = 2,
                         .gemm_repeat = t.gemm_repeat,
                         .bytes = Bytes(16),
                         .channels = 3,
                         .repeats = t.repeats,
                         .rotate_over = Bytes(1000)});
  };
  spec.asked = {{"gemm", std::string("2x2x2")}};
  spec.derive = [](const Summary& s) -> std::vector<std::pair<std::string, Value>> {
    return {{"gemm_rate", (Flops(16) / Seconds(s.t_compute.value)).value()}};
  };
  return spec;
}

CaseResult measure_rows(const Script& script, const MeasureOptions& options = {},
                        const CaseSpec& spec = quoted_pair()) {
  ScriptedClock clock;
  ScriptedBackend backend(script, clock);
  const std::atomic<bool> interrupted{false};
  return Runner(backend, clock, options, interrupted).run(spec);
}

RowContext context(const MeasureOptions& options = {}) {
  return {.bench = "pair", .launch = 3, .backend = "scripted", .options = options};
}

Row summary_of(const CaseResult& result, const CaseSpec& spec = quoted_pair()) {
  return summary_row(gemm_schema(), spec, result, context());
}

std::string row_text(const Row& row, const char* column) { return format_value(row.at(column)); }

// But for those that only the model knows.
std::vector<std::string> unknown_columns(const Row& row) {
  std::vector<std::string> names;
  for (const Column& c : row.schema().columns) {
    if (format_value(row.at(c.name)).empty() && !c.description.starts_with("model:")) names.push_back(c.name);
  }
  return names;
}

// 10 ms of GEMM and 10 ms of communication in 13 ms, with every condition that a row can hold.
Script good() {
  Script script = constant(milliseconds(10), milliseconds(10), milliseconds(13), milliseconds(12));
  script.conditions = [](int call) {
    return Conditions{{{.name = "core_distance", .unit = "s", .value = (40 + call % 3) * 1e-9, .change = 1.6},
                       {.name = "busy_core_slowdown", .unit = "1", .value = 1.02},
                       {.name = "steal_share", .unit = "1", .value = call == 1 ? 0.004 : 0.001, .limit = 0.01},
                       {.name = "foreign_cpu_share", .unit = "1", .value = 0.002, .limit = 0.02}}};
  };
  return script;
}

// ---- summary.csv ---------------------------------------------------------------------------------------------------

TEST(SummaryRow, OfAGoodCaseSaysEverything) {
  const CaseResult result = measure_rows(good());
  const Row row = summary_of(result);
  EXPECT_THAT(unknown_columns(row), ElementsAre("reason", "comm_path", "gemm_algorithm", "partial"))
      << "there is none when all is well";

  EXPECT_EQ(row_text(row, "key"), quoted_pair().key);
  EXPECT_EQ(row_text(row, "bench"), "pair");
  EXPECT_EQ(row_text(row, "launch"), "3");
  EXPECT_EQ(row_text(row, "status"), "ok");
  EXPECT_EQ(row_text(row, "source"), "measured");
  EXPECT_EQ(row_text(row, "backend"), "scripted");
  EXPECT_EQ(row_text(row, "transport"), "shm");
  EXPECT_EQ(row_text(row, "ranks"), "2");
  EXPECT_EQ(row_text(row, "placement"), "concurrent");
  EXPECT_EQ(row_text(row, "program_hash"), result.program_hash);
  EXPECT_EQ(row_text(row, "waiting"), "yield");
  EXPECT_EQ(row_text(row, "progress"), "auto");
  EXPECT_EQ(row_text(row, "channels_asked"), "3");
  EXPECT_EQ(row_text(row, "channels_observed"), "1");
  EXPECT_EQ(row_text(row, "layout"), "scripted");
  EXPECT_EQ(row_text(row, "oversubscribed"), "0");
  EXPECT_EQ(row_text(row, "launch_mode"), "gated");
  EXPECT_EQ(row_text(row, "launch_order"), "compute_first");
  EXPECT_EQ(row_text(row, "buffers"), "plain");
  EXPECT_EQ(row_text(row, "buffer_copies"), "11") << "96 bytes of operands over 1000";
  EXPECT_EQ(row_text(row, "verify"), "exact+random");
  EXPECT_EQ(row_text(row, "interleave"), "sample");
  EXPECT_EQ(row_text(row, "repeats"), "1");
  EXPECT_EQ(row_text(row, "rounds"), std::to_string(result.summary.rounds));
  EXPECT_EQ(row_text(row, "rounds_spoilt"), "0");
  EXPECT_EQ(row_text(row, "blocks"), std::to_string(result.blocks.size()));
  EXPECT_EQ(row_text(row, "stop_rule"), "precision");
  EXPECT_EQ(real(row, "precision"), MeasureOptions().stop.precision);
  EXPECT_EQ(real(row, "t_measure"), result.elapsed.value());
  EXPECT_EQ(row_text(row, "gemm"), "2x2x2");
  EXPECT_DOUBLE_EQ(real(row, "gemm_rate"), 1600);

  const std::pair<const char*, double> numbers[] = {{"t_empty", 0},
                                                    {"t_compute", 10e-3},
                                                    {"t_comm", 10e-3},
                                                    {"t_serial", 20e-3},
                                                    {"t_step", 13e-3},
                                                    {"t_exposed", 3e-3},
                                                    {"hidden_share", 0.7},
                                                    {"speedup", 20.0 / 13},
                                                    {"t_ideal", 10e-3},
                                                    {"speedup_bound", 2},
                                                    {"t_overlap", 7e-3},
                                                    {"hidden_fraction", 0.7},
                                                    {"serial_gap", 0},
                                                    {"t_path", 10e-3},
                                                    {"speedup_measured", 20.0 / 13},
                                                    {"compute_stretch", 1.3},
                                                    {"comm_stretch", 1.2},
                                                    {"align_skew", 0},
                                                    {"observer_ratio", 1},
                                                    {"core_distance", 41e-9},
                                                    {"core_distance_low", 40e-9},
                                                    {"core_distance_high", 42e-9},
                                                    {"busy_core_slowdown", 1.02},
                                                    {"steal_share", 0.004},
                                                    {"foreign_cpu_share", 0.002}};
  for (const auto& [column, value] : numbers) EXPECT_NEAR(real(row, column), value, 1e-12) << column;
  for (const char* column : {"t_empty", "t_compute", "t_comm", "t_serial", "t_step", "t_exposed", "hidden_share"}) {
    EXPECT_NEAR(real(row, (std::string(column) + "_low").c_str()), real(row, column), 1e-12) << "nothing scatters";
    EXPECT_NEAR(real(row, (std::string(column) + "_high").c_str()), real(row, column), 1e-12);
  }
  // The communication ends first, after 12 ms. The GEMM's last 1 ms runs alone: it did 9 ms of its work in 12.
  EXPECT_NEAR(real(row, "comm_slowdown"), 1.2, 1e-12);
  EXPECT_NEAR(real(row, "compute_slowdown"), 12.0 / 9, 1e-12);
  EXPECT_EQ(row_text(row, "slowdown_source"), "fluid");
  EXPECT_THAT(row_text(row, "verdict"), StartsWith("hides 70 % [70, 70] of the communication"));
}

TEST(SummaryRow, SlowdownsThatTheSpansDoNotTellHaveNoSource) {
  const CaseSpec serial = quoted_pair("serial");
  const Row row = summary_of(measure_rows(good(), {}, serial), serial);
  EXPECT_THAT(unknown_columns(row),
              ElementsAre("reason", "comm_path", "gemm_algorithm", "partial", "compute_stretch", "comm_stretch",
                          "compute_slowdown", "comm_slowdown", "slowdown_source"));
  EXPECT_NEAR(real(row, "t_step"), 25e-3, 1e-12);
  EXPECT_NEAR(real(row, "t_path"), 20e-3, 1e-12) << "one lane: one after the other";
}

TEST(SummaryRow, ConditionsThatABackendDoesNotReadAreUnknown) {
  Script script = good();
  script.conditions = [](int) { return Conditions{}; };
  EXPECT_THAT(unknown_columns(summary_of(measure_rows(script))),
              ElementsAre("reason", "comm_path", "gemm_algorithm", "partial", "core_distance", "core_distance_low",
                          "core_distance_high", "busy_core_slowdown", "steal_share", "foreign_cpu_share"));
}

TEST(SummaryRow, WhatDiffersBetweenProcessesIsNoNumber) {
  CaseResult result = measure_rows(good());
  std::erase_if(result.observed, [](const Fact& fact) { return fact.name == "channels"; });
  result.observed.push_back({"channels", "process 0: 4; process 1: not seen"});
  EXPECT_THAT(unknown_columns(summary_of(result)), testing::Contains("channels_observed"));
}

TEST(SummaryRow, OfANoisyCaseHasNumbersAndAReason) {
  Script script = good();
  script.conditions = [](int) {
    return Conditions{{{.name = "steal_share", .unit = "1", .value = 0.5, .limit = 0.01}}};
  };
  const Row row = summary_of(measure_rows(script));
  EXPECT_EQ(row_text(row, "status"), "noisy");
  EXPECT_EQ(row_text(row, "reason"), "steal_share 0.5 above 0.01");
  EXPECT_NEAR(real(row, "hidden_share"), 0.7, 1e-12);
  EXPECT_EQ(real(row, "steal_share"), 0.5);
}

// The columns of what was asked for; nothing of what would have been launched or measured.
const std::set<std::string> asked_columns{
    "key",       "bench",   "launch",   "status",         "reason",  "source",     "backend",   "transport", "ranks",
    "placement", "waiting", "progress", "channels_asked", "buffers", "interleave", "precision", "t_measure", "gemm"};

std::set<std::string> known_columns(const Row& row) {
  std::set<std::string> names;
  for (const Column& c : row.schema().columns) {
    if (!format_value(row.at(c.name)).empty()) names.insert(c.name);
  }
  return names;
}

// Of a case that was launched and has no numbers.
std::set<std::string> launched_columns() {
  std::set<std::string> names = asked_columns;
  for (const char* name : {"verify", "program_hash", "launch_mode", "buffer_copies"}) names.insert(name);
  return names;
}

TEST(SummaryRow, OfAnUnsupportedCaseHasWhatWasAskedAndNoNumbers) {
  Script script = good();
  script.unsupported = [](const Program&) { return "no such thing here"; };
  const CaseResult result = measure_rows(script);
  const Row row = summary_of(result);
  EXPECT_EQ(row_text(row, "status"), "unsupported");
  EXPECT_EQ(row_text(row, "reason"), "no such thing here");
  EXPECT_EQ(known_columns(row), asked_columns);
  EXPECT_THAT(sample_rows(quoted_pair(), result, context()), IsEmpty());
  EXPECT_THAT(operation_rows(quoted_pair(), result, context()), IsEmpty());
}

TEST(SummaryRow, OfAnImpossiblePlacementHasWhatWasAskedToo) {
  CaseSpec spec = quoted_pair("comm_first");
  spec.build = [build = spec.build](const Tuning& t) {
    Program p = build(t);
    p.events.push_back({"the communication waits for the GEMM"});
    RankClass& c = p.classes[0];
    const Operation gemm = c.body[0];
    c.body.insert(c.body.begin() + 1, {{OpId(90), LaneId(0), Role::compute, Record{EventId(0)}, {}, {}},
                                       {OpId(91), LaneId(1), Role::communication, Wait{EventId(0)}, {}, {}}});
    return p;
  };
  const Row row = summary_of(measure_rows(good(), {}, spec), spec);
  EXPECT_EQ(row_text(row, "status"), "unsupported");
  EXPECT_THAT(row_text(row, "reason"), StartsWith("placement comm_first is not possible"));
  EXPECT_EQ(known_columns(row), asked_columns);
}

TEST(SummaryRow, OfAFailedVerificationSaysWhichAndHasNoNumbers) {
  Script script = good();
  script.same_bits = false;
  const Row row = summary_of(measure_rows(script));
  EXPECT_EQ(row_text(row, "status"), "failed_verify");
  EXPECT_EQ(row_text(row, "verify"), "random failed");
  EXPECT_EQ(known_columns(row), launched_columns());
}

TEST(SummaryRow, OfATimeoutHasNoNumbersAndItsSamplesDoNotCount) {
  Script script = good();
  script.hanging_replay = 30;
  MeasureOptions options;
  options.deadline = milliseconds(500);
  const CaseResult result = measure_rows(script, options);
  const Row row = summary_of(result);
  EXPECT_EQ(row_text(row, "status"), "timeout");
  EXPECT_EQ(
      row_text(row, "reason"),
      "a replay did not finish within 500 ms: rank 0 comm: enqueued %3 all_reduce 16 f32 comm=0, completed nothing");
  EXPECT_EQ(known_columns(row), launched_columns());
  const std::vector<Row> samples = sample_rows(quoted_pair(), result, context());
  ASSERT_FALSE(samples.empty());
  for (const Row& sample : samples) {
    EXPECT_EQ(row_text(sample, "used"), "0");
    EXPECT_EQ(row_text(sample, "noise"), "the case ended in a timeout");
  }
}

// The last replay of all fails, which is of the pass operation by operation: the samples are there by then.
TEST(SummaryRow, OfWhatTurnedOutImpossibleInMidRunNoSampleCounts) {
  Script script = good();
  int replays = 0;
  script.on_replay = [&](Arm) { ++replays; };
  measure_rows(script);
  script.on_replay = [left = replays](Arm) mutable {
    if (--left == 0) throw impossible_error("no memory", "2 GiB are free", "use smaller sizes");
  };
  const CaseResult result = measure_rows(script);
  EXPECT_EQ(row_text(summary_of(result), "status"), "unsupported");
  const std::vector<Row> samples = sample_rows(quoted_pair(), result, context());
  ASSERT_FALSE(samples.empty());
  for (const Row& sample : samples) {
    EXPECT_EQ(row_text(sample, "used"), "0");
    EXPECT_EQ(row_text(sample, "noise"), "the case ended in an error");
  }
}

// What a backend says of its critical rank: of 13 ms, 10 computed and 3 in parts.
CaseResult explained() {
  CaseResult result = measure_rows(good());
  const Operation& gemm = result.program.classes[0].body.front();
  const Operation& reduced = result.program.classes[0].body.back();
  ExposedTime exposed{Rank(0), milliseconds(10), {}};
  exposed.parts = {{Rank(0), reduced.id, ExposedCause::transfer, OpId(), milliseconds(2)},
                   {Rank(0), reduced.id, ExposedCause::shared, gemm.id, milliseconds(0.25)},
                   {Rank(0), reduced.id, ExposedCause::peer, OpId(), milliseconds(0.75)}};
  result.instrumented.back().second.exposed = exposed;
  result.summary.exposed = exposed_lines(result.program, exposed, milliseconds(3), milliseconds(13), 1);
  return result;
}

TEST(SummaryRow, OfAModelTellsExposedTimeByCause) {
  const Row row = summary_of(explained());
  EXPECT_NEAR(real(row, "exposed_transfer"), 2e-3, 1e-15);
  EXPECT_NEAR(real(row, "exposed_peer"), 0.75e-3, 1e-15);
  EXPECT_NEAR(real(row, "exposed_shared"), 0.25e-3, 1e-15);
  EXPECT_EQ(real(row, "exposed_units"), 0);
  EXPECT_EQ(real(row, "exposed_launch"), 0);
  EXPECT_EQ(row_text(row, "exposed_by"),
            "all_reduce@comm:transfer=0.002;all_reduce@comm:peer=0.00075;all_reduce@comm:shared(gemm@compute)=0.00025");
  EXPECT_EQ(row_text(summary_of(measure_rows(good())), "exposed_by"), "") << "nobody else knows";
}

TEST(OperationRows, OfAModelTellWhatEachExposes) {
  int known = 0;
  for (const Row& row : operation_rows(quoted_pair(), explained(), context())) {
    if (row_text(row, "cause").empty()) continue;
    EXPECT_EQ(row_text(row, "arm") + row_text(row, "kind") + row_text(row, "rank"), "overlappedall_reduce0");
    EXPECT_NEAR(real(row, "exposed"), 3e-3, 1e-15);
    EXPECT_EQ(row_text(row, "cause"), "transfer");
    ++known;
  }
  EXPECT_EQ(known, 1);
}

// ---- samples.csv ---------------------------------------------------------------------------------------------------

TEST(SampleRows, AreOneForEveryReplayAndRank) {
  const CaseResult result = measure_rows(good());
  const std::vector<Row> rows = sample_rows(quoted_pair(), result, context());
  EXPECT_EQ(rows.size(), result.samples.size() * 2);
  const Row& row = rows.at(1);
  const Sample& sample = result.samples.at(0);
  EXPECT_EQ(row_text(row, "key"), quoted_pair().key);
  EXPECT_EQ(row_text(row, "launch"), "3");
  EXPECT_EQ(row_text(row, "block"), "0");
  EXPECT_EQ(row_text(row, "round"), "0");
  EXPECT_EQ(row_text(row, "position"), "0");
  EXPECT_EQ(row_text(row, "arm"), sample.arm);
  EXPECT_EQ(row_text(row, "rank"), "1");
  EXPECT_EQ(row_text(row, "repeats"), "1");
  EXPECT_EQ(real(row, "step"), sample.step.value());
  EXPECT_EQ(row_text(row, "used"), "1");

  std::map<std::string, std::vector<std::string>> unknown;
  for (const Row& r : rows) unknown[row_text(r, "arm")] = unknown_columns(r);
  EXPECT_THAT(unknown["overlapped"], ElementsAre("pace", "noise"));
  EXPECT_THAT(unknown["empty"], ElementsAre("pace", "noise"));
  EXPECT_THAT(unknown["compute"], ElementsAre("comm_span", "comm_start", "pace", "noise"));
  EXPECT_THAT(unknown["comm"], ElementsAre("compute_span", "compute_start", "pace", "noise"));
  EXPECT_THAT(unknown["serial"],
              ElementsAre("compute_span", "comm_span", "compute_start", "comm_start", "pace", "noise"));
}

TEST(SampleRows, OfASpoiltBlockSayWhatSpoiltIt) {
  Script script = good();
  script.conditions = [](int call) {
    return Conditions{{{.name = "steal_share", .unit = "1", .value = call == 1 ? 0.5 : 0, .limit = 0.01}}};
  };
  MeasureOptions options;
  options.block = milliseconds(1);  // one round each: the first two blocks hold the bad reading
  options.stop.min_rounds = 8;
  const CaseResult result = measure_rows(script, options);
  ASSERT_EQ(result.status, Status::ok);
  for (const Row& row : sample_rows(quoted_pair(), result, context())) {
    const bool spoilt = std::get<std::int64_t>(row.at("block")) < 2;
    EXPECT_EQ(row_text(row, "used"), spoilt ? "0" : "1");
    EXPECT_EQ(row_text(row, "noise"), spoilt ? "steal_share 0.5 above 0.01" : "");
  }
}

// Anyone can do it again: medians of the rows that are used, divided by what a window holds, and the definitions.
TEST(SampleRows, RecomputeTheSummaryToTheLastBit) {
  Script script = good();
  script.duration = [inner = script.duration](Arm arm, const Operation& op, int replay) {
    return inner(arm, op, replay) * (1 + 0.01 * ((replay * 7) % 5)) / 100.0;
  };
  MeasureOptions options;
  options.window = milliseconds(1);
  const CaseResult result = measure_rows(script, options);
  const Row summary = summary_of(result);

  std::string csv = csv_header(samples_schema());
  for (const Row& row : sample_rows(quoted_pair(), result, context())) csv += csv_line(row);
  std::map<std::string, std::vector<double>> steps;
  double repeats = 0;
  const auto records = parse_csv(csv);
  for (std::size_t i = 1; i < records.size(); ++i) {
    const Row row = parse_row(samples_schema(), records[i]);
    if (row_text(row, "used") == "1" && row_text(row, "rank") == "0")
      steps[row_text(row, "arm")].push_back(real(row, "step"));
    repeats = static_cast<double>(std::get<std::int64_t>(row.at("repeats")));
  }
  EXPECT_GT(repeats, 1);
  const auto time = [&](const char* arm) { return Seconds(median(steps[arm]) / repeats); };
  const Overlap o = overlap({time("compute"), time("comm"), time("serial"), time("overlapped")});
  EXPECT_EQ(real(summary, "t_compute"), time("compute").value());
  EXPECT_EQ(real(summary, "t_step"), time("overlapped").value());
  EXPECT_EQ(real(summary, "hidden_share"), o.hidden_share);
  EXPECT_EQ(real(summary, "speedup_measured"), o.speedup_measured);
}

// ---- operations.csv ------------------------------------------------------------------------------------------------

TEST(OperationRows, AreOneForEveryOperationReplayAndRank) {
  const CaseResult result = measure_rows(good());
  const std::vector<Row> rows = operation_rows(quoted_pair(), result, context());
  // Five replays of: compute (one operation), comm (one), overlapped (both), on two ranks.
  EXPECT_EQ(rows.size(), 5U * (1 + 1 + 2) * 2);
  std::set<std::string> seen;
  for (const Row& row : rows) {
    const bool gemm = row_text(row, "lane") == "compute";
    if (gemm) {
      EXPECT_THAT(unknown_columns(row),
                  ElementsAre("bytes", "eligible", "host_return", "proceeded", "kept_until", "step"));
    } else {
      EXPECT_THAT(unknown_columns(row), ElementsAre("eligible", "host_return", "proceeded", "kept_until", "step"));
      EXPECT_EQ(row_text(row, "bytes"), "16");
    }
    EXPECT_EQ(row_text(row, "kind"), gemm ? "gemm" : "all_reduce");
    EXPECT_EQ(row_text(row, "nth"), "0");
    EXPECT_EQ(row_text(row, "role"), row_text(row, "lane"));
    EXPECT_EQ(row_text(row, "start_source"), "script");
    seen.insert(row_text(row, "arm") + " " + row_text(row, "replay") + " " + row_text(row, "rank") + " " +
                row_text(row, "op"));
  }
  EXPECT_EQ(seen.size(), rows.size()) << "each once";
  EXPECT_TRUE(seen.contains("overlapped 4 1 3"));
}

// Two buckets of gradients that are there at 10 and 11, whose updates begin at 7.5 and 8 (or so this clock says): each
// reduction says when its own gradient was there and its own consumer went on.
TEST(OperationRows, AReductionSaysWhichItIsWhenItWasEligibleAndWhenItsConsumerProceeded) {
  CaseResult result;
  result.program.name = "buckets";
  result.program.lanes = {{.name = "compute"}, {.name = "comm", .role = Role::communication}};
  const BufferId reduced(0);
  const BufferId gradients(1);
  const auto reduce = [&](int id, std::int64_t at) {
    const Collective c{CollectiveKind::all_reduce, CommId(0), DType::f32, 4};
    return Operation{OpId(id), LaneId(1), Role::communication, c, {{gradients, at, 4}}, {{reduced, at, 4}}};
  };
  const auto compute = [&](int id, std::int64_t at) {
    return Operation{OpId(id), LaneId(0), Role::compute, Gemm{}, {}, {{gradients, at, 4}}};
  };
  const auto update = [&](int id, std::int64_t at) {
    return Operation{OpId(id), LaneId(0), Role::compute, Elementwise{}, {{reduced, at, 4}}, {}};
  };
  result.program.classes = {{"all",
                             {Rank(0)},
                             {},
                             {compute(4, 0), compute(5, 4), reduce(0, 0), reduce(1, 4), update(2, 0), update(3, 4)},
                             {}}};
  Timings timings;
  for (int op = 0; op < 6; ++op) {
    timings.operations.push_back({.rank = Rank(0),
                                  .op = OpId(op),
                                  .lane = LaneId(op < 2 ? 1 : 0),
                                  .ready = Seconds(5 + op),
                                  .end = Seconds(6 + op)});
  }
  timings.operations[2].start = Seconds(7.5);
  result.instrumented = {{"overlapped", timings}};
  const std::vector<Row> rows = operation_rows(quoted_pair(), result, context());
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(row_text(rows[0], "eligible"), "10");
  EXPECT_EQ(row_text(rows[1], "eligible"), "11");
  EXPECT_EQ(row_text(rows[2], "eligible"), "");
  EXPECT_EQ(row_text(rows[0], "nth"), "0");
  EXPECT_EQ(row_text(rows[1], "nth"), "1");
  EXPECT_EQ(row_text(rows[1], "bytes"), "16");
  EXPECT_EQ(row_text(rows[0], "proceeded"), "7.5") << "where it began";
  EXPECT_EQ(row_text(rows[1], "proceeded"), "8") << "where it was ready, since its start was not seen";
  EXPECT_EQ(row_text(rows[2], "proceeded"), "");
  EXPECT_EQ(row_text(rows[3], "nth"), "1");
}

// Both stages number their operations from 0.
TEST(OperationRows, AnOperationIsThatOfItsRanksClass) {
  CaseResult result;
  result.program.name = "stages";
  result.program.ranks = 2;
  result.program.lanes = {{.name = "work"}};
  result.program.classes = {{"first", {Rank(0)}, {}, {{OpId(0), LaneId(0), Role::compute, Gemm{}, {}, {}}}, {}},
                            {"second", {Rank(1)}, {}, {{OpId(0), LaneId(0), Role::communication, Copy{}, {}, {}}}, {}}};
  Timings timings;
  timings.operations = {{.rank = Rank(0), .op = OpId(0), .lane = LaneId(0)},
                        {.rank = Rank(1), .op = OpId(0), .lane = LaneId(0)},
                        {.rank = Rank(1), .op = OpId(7), .lane = LaneId(0)}};  // an edge of the projection
  result.instrumented = {{"overlapped", timings}};
  const std::vector<Row> rows = operation_rows(quoted_pair(), result, context());
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(row_text(rows[0], "kind"), "gemm");
  EXPECT_EQ(row_text(rows[1], "kind"), "copy");
  EXPECT_EQ(row_text(rows[1], "role"), "comm");
}

// ---- as text -------------------------------------------------------------------------------------------------------

TEST(Rows, ReadBackFromCsvAsTheyWere) {
  const CaseResult result = measure_rows(good());
  std::vector<Row> rows = sample_rows(quoted_pair(), result, context());
  for (const Row& row : operation_rows(quoted_pair(), result, context())) rows.push_back(row);
  rows.push_back(summary_of(result));
  for (const Row& row : rows) {
    const auto records = parse_csv(csv_line(row));
    ASSERT_EQ(records.size(), 1U);
    const Row back = parse_row(row.schema(), records[0]);
    for (const Column& c : row.schema().columns) {
      EXPECT_EQ(format_value(back.at(c.name)), format_value(row.at(c.name))) << c.name;
      if (c.type == ColumnType::real) {
        EXPECT_EQ(back.at(c.name), row.at(c.name)) << "to the last bit";
      }
    }
  }
}

}  // namespace
}  // namespace ovl
