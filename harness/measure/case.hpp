// SPDX-License-Identifier: Apache-2.0
//
// A case is one row of the summary: what was asked, as data, and how to build its program and its arms.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "measure/samples.hpp"
#include "program/placement.hpp"
#include "program/program.hpp"
#include "program/projection.hpp"
#include "results/table.hpp"
#include "stats/interval.hpp"

namespace ovl {

// What is measured first and then fixed for all arms. It is in the row, never in the key.
struct Tuning {
  std::int64_t gemm_repeat = 1;  // GEMMs, as the schedule counts them: --balance and a covering arm choose how many
  std::int64_t repeats = 1;      // operations of each kind in one timed window
  std::int64_t comm_repeat = 1;  // operations of communication, where a case counts both sides apart (CaseSpec::tune)
  std::int64_t cover = 1;        // and how many times more a covering side has to do than it was first given
  Seconds comm_time{0};          // of one operation of communication alone; 0: not measured yet

  friend bool operator==(const Tuning&, const Tuning&) = default;
};

// What every round replays once: a program made of the case's own, under the name that samples.csv has.
struct CaseArm {
  std::string name;
  std::function<Program(const Program& placed, const Tuning& tuning)> program;
  // The role that must begin before the other and outlast it, on every rank. A round in which it does not is measured
  // again with more of it.
  std::optional<Role> covering;
  // Replayed once more with stamps around every operation, for operations.csv.
  bool instrumented = false;
  // Every replay is recorded operation by operation, and this notes in its sample what they tell. null: spans tell all.
  std::function<void(const Program& arm, const Tuning& tuning, const Timings& timings, Sample& sample)> read = nullptr;
};

// Of each lane in an instrumented replay, at most as many operations go to operations.csv and the timeline, unless the
// case says otherwise; the others are cut at the same moment (Timings::kept_until).
inline constexpr int kept_operations = 64;

// A projection of the case's program; without a name of its own, under the projection's.
CaseArm case_arm(Arm projection, std::string name = {});
// empty, compute, comm, serial, overlapped.
std::vector<CaseArm> usual_arms();

struct Summary;

// What a bench's own estimate is made of: medians over rounds, whole windows, NaN where an arm was not run.
struct ArmMedians {
  std::function<Seconds(std::string_view arm)> step;
  // Of the largest of the ranks' spans of compute, first start to last end.
  std::function<Seconds(std::string_view arm)> compute_span;
  // Of role_time(): from the latest start of a role on any rank to its latest end.
  std::function<Seconds(std::string_view arm, Role role)> role_time;
  // When a role begins on the middle one of the ranks, from the latest origin; and how much later on the last one.
  std::function<Seconds(std::string_view arm, Role role)> start = nullptr;
  std::function<Seconds(std::string_view arm, Role role)> start_spread = nullptr;
  // Of what an arm's reader noted under this name.
  std::function<double(std::string_view arm, std::string_view name)> value = nullptr;
};

// A column of the bench's own with its interval, <column>_low and <column>_high, bootstrapped over rounds.
struct OwnEstimate {
  std::string column;
  std::function<double(const ArmMedians&)> statistic;
};

// Results held, on exact data, against a serial replay in double precision (program/reference.hpp).
struct SerialCheck {
  Program program;                   // replayed: the case's own, or a smaller one of the same schedule
  Program meant;                     // what is computed serially: the same, or what it ought to have been
  std::vector<std::string> buffers;  // that are compared, on every rank
  std::string note;                  // what the column `verify` says of it
};

struct CaseSpec {
  std::string name;  // what --benchmark_filter sees: axis:value joined by '/'
  std::string key;   // the requested options, canonical: the identity for resume, and with the seed of all randomness
  std::string placement_name;
  Placement placement;
  // NAME=VALUE that a library reads only once in a process: the case is measured in a fresh one that has it, which its
  // bench asks for (Bench::fresh_processes). Empty: as this process was started.
  std::string environment;
  bool balance = false;
  bool tuned = true;  // false: one window is one step, however short
  // The schedule's program, not yet placed.
  std::function<Program(const Tuning&)> build;
  // The next guess from windows that were measured with `last`: what compute and communication took, NaN without any.
  // Null: one pair of both fills the window, or with a covering arm, communication does.
  std::function<Tuning(const Tuning& last, Seconds compute, Seconds comm, Seconds window)> tune;
  // The last one runs everything that the case does: it is warmed up until it is steady.
  std::vector<CaseArm> arms = usual_arms();
  // Asks about single operations: there are enough recorded replays for an interval, operations.csv has the whole
  // first step of the window, and what they cost is added up (measure/step_costs.hpp).
  bool by_operation = false;
  // Buffers that one step must leave as a serial replay in double precision does (program/reference.hpp).
  std::vector<std::string> results;
  // What operations.csv says of an operation in its column step: by class. null: nothing.
  std::function<std::vector<std::map<OpId, std::string>>(const Program&)> step_names = nullptr;
  int kept = kept_operations;  // of each lane in an instrumented replay
  // Every replay begins with the prologue: what the last one left is not what it found.
  bool restores_data = false;
  // null: none. In place of the verification on random data; of a program that expects findings, which is wrong on
  // purpose, in place of all verification: then what differs is a result and no failure.
  std::function<SerialCheck(const Program& placed)> serial_check = nullptr;
  // What to type so that a program with a finding that it does not expect runs all the same: such a case is skipped,
  // since it shows what is refused. Empty: a finding is a defect of the schedule.
  std::string refused_unless;
  std::vector<OwnEstimate> estimates;
  // The interval that the stopping rule holds against its precision; null: that of the hidden share (summary.hpp).
  std::function<Interval(std::span<const Sample> used, std::int64_t repeats, std::uint64_t seed)> watched;
  // The bench's own columns: asked for, and derived from the result (only for rows with numbers).
  std::vector<std::pair<std::string, Value>> asked;
  std::function<std::vector<std::pair<std::string, Value>>(const Summary&)> derive;
  // Rows of series.csv but for their case: what was seen over time, in every used round. null: nothing.
  std::function<std::vector<Row>(const Summary&, std::span<const Sample> used)> over_time = nullptr;
  // The row in words; null: those of the overlap (metrics/verdict.hpp).
  std::function<std::string(const Summary&)> words;
};

enum class Interleave { sample, block };
template <>
struct EnumNames<Interleave> {
  static constexpr std::string_view axis = "interleave";
  static constexpr std::pair<Interleave, std::string_view> table[] = {{Interleave::sample, "sample"},
                                                                      {Interleave::block, "block"}};
};

}  // namespace ovl
