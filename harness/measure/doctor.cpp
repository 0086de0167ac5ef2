// SPDX-License-Identifier: Apache-2.0
#include "measure/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string_view>

#include "measure/contention.hpp"
#include "measure/runner.hpp"
#include "program/builder.hpp"
#include "program/placement.hpp"
#include "program/projection.hpp"
#include "schedule/contention.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

// ---- the rules ------------------------------------------------------------------------------------------------------

struct Rule {
  std::string_view check;
  double limit;
  std::string_view given;  // the rule that must hold as well; empty: none
  std::string_view why;
  std::string_view setting;
};

// Slowdowns begin to count where they exceed what jitter alone makes of 1.
constexpr Rule rules[] = {
    {"lanes_serialised", 1.2, "", "operations on two streams of one device wait for each other (2: all of them)",
     "unset CUDA_DEVICE_MAX_CONNECTIONS or set it to 8 (32 for many streams)"},
    {"lanes_a_connection", 1, "",
     "streams share a hardware queue: what is issued later waits for what was issued before it",
     "unset CUDA_DEVICE_MAX_CONNECTIONS or set it to 8 (32 for many streams)"},
    {"lanes_a_core", 1, "", "there are fewer cores than lanes: those that share one run in turn",
     "fewer --ranks or more --cores: a rank wants one core for compute and one for communication"},
    {"gemm_beside_busy_core", 1.15, "",
     "a busy core slows a GEMM on another: they are one physical core, or something else uses them",
     "name --cores of different physical cores (lscpu -e), and close what else runs"},
    {"shared_core_share", 0.02, "", "two busy cores ran like one in some readings",
     "name --cores of different physical cores (lscpu -e), and close what else runs"},
    {"gemm_beside_busy_lane", 1.3, "lanes_a_core", "what is busy on the GEMM's own core takes its time",
     "--placement partitioned, so that communication has cores of its own"},
    {"spinning_costs", 1.2, "lanes_a_core",
     "a lane that spins while it waits takes the core from the work that it waits for", "--waiting yield or block"},
    {"gemm_beside_held_units", 1.25, "",
     "the SMs that communication holds leave the GEMM too few: one more wave, or less of everything",
     "fewer --channels, and --sm_target for the GEMM: overlap-contention --study sm_budget finds both"},
    {"memory_beside_memory", 1.3, "",
     "two that want memory share its bandwidth: what is memory-bound hides little communication",
     "overlap with compute-bound work (larger GEMMs, a larger batch); fewer --channels leave it more"},
    {"ctas_overridden", 0, "", "the environment sets the CTAs of collectives, whatever a case or a framework asks for",
     "unset the variables that the row names"},
    {"replay_per_operation", 2e-6, "", "launching costs operations of less than ten times this a tenth and more",
     "larger buckets, fewer tiles; on a GPU --placement graph"},
    {"event_hop", 10e-6, "", "a dependency between lanes costs steps of less than ten times this a tenth and more",
     "larger buckets, fewer tiles; --waiting spin where each lane has a core of its own"},
    {"blas_held_back", 1.1, "", "the GEMM is slower than this CPU: what it hides here it would not hide at full speed",
     "unset OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE"},
    {"core_distance", 1e-6, "", "communicating cores share no cache: collectives take longer than they need to",
     "name --cores that share a cache (lscpu -e)"},
    {"core_distance_flips", 0, "", "the distance between the cores changes: communication takes now this, now that",
     "pin the virtual cores; else expect repeated blocks and wide intervals"},
    {"align_skew", 20e-6, "", "ranks begin apart, and the first ones wait for the last", "a core of its own a rank"},
    {"steal_share", 0.01, "", "the hypervisor gave CPU time to others: a lane that lost its core lets all peers wait",
     "a machine of your own"},
    {"foreign_cpu_share", 0.02, "", "other processes took CPU time: a lane that lost its core lets all peers wait",
     "close what else runs"}};

const CheckResult* row_named(const std::vector<CheckResult>& rows, std::string_view name) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const CheckResult& r) { return r.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

// An unknown value is beyond nothing, and a slowdown that may as well be none is none.
bool beyond(const CheckResult* row, const Rule& rule) {
  return row != nullptr && row->value.value > rule.limit && !(row->value.interval.low <= 1);
}

bool holds(const std::vector<CheckResult>& rows, const Rule& rule) {
  if (!beyond(row_named(rows, rule.check), rule)) return false;
  return rule.given.empty() || std::any_of(std::begin(rules), std::end(rules), [&](const Rule& given) {
           return given.check == rule.given && holds(rows, given);
         });
}

// ---- the measurements -----------------------------------------------------------------------------------------------

// How many times as long compute takes while the other side covers it. A few rounds tell a blocker from none.
CheckValue slowdown(Backend& backend, Clock& clock, const ContentionSpec& contention, const std::string& placement) {
  const MeasureOptions quick{.stop = {.precision = 0.05, .min_rounds = 8, .max_rounds = 40, .max_time = Seconds(1.5)},
                             .verify = false,
                             .warm_up = milliseconds(200),
                             .instrumented = 0};
  CaseSpec spec;
  spec.name = spec.key = "selfcheck";
  spec.placement_name = placement;
  spec.placement = parse_placement(placement);
  spec.build = [contention](const Tuning& tuning) {
    ContentionSpec tuned = contention;
    tuned.compute_repeat = tuning.gemm_repeat;
    tuned.comm_repeat = tuning.comm_repeat;
    return contention_program(tuned);
  };
  ask_who_slows_whom(spec, {.contention = contention});
  const std::atomic<bool> interrupted{false};
  Runner runner(backend, clock, quick, interrupted);
  const CaseResult result = runner.run(spec);
  if (!result.has_numbers()) return {unknown_number, result.reason};
  const Summary& s = result.summary;
  const ArmSummary* loaded = s.arm(compute_loaded_arm);
  if (loaded == nullptr || loaded->coverage != 1) return {unknown_number, "was not covered in every round"};
  const Interval& interval = s.compute_slowdown;
  return {s.slowdowns.compute,
          std::isnan(interval.low)
              ? fmt::format("of {} rounds, too few for an interval", s.rounds)
              : fmt::format("95 % of {} rounds: {:.2f} to {:.2f}", s.rounds, interval.low, interval.high),
          interval};
}

// What a device does well takes more of it than what a core does; an emulated one has the semantics only.
struct Sizes {
  std::int64_t gemm;
  Bytes arrays;
};
Sizes sizes_of(const Description& d) {
  if (d.source == "emulated") return {64, mebibytes(1)};
  if (d.backend == "cuda") return {4096, std::max(mebibytes(1024), d.last_level_cache * 4)};
  return {512, std::clamp(d.last_level_cache * 2, mebibytes(64), mebibytes(256))};
}

std::string shape(std::int64_t size) { return fmt::format("gemm:{0}x{0}x{0}", size); }

ContentionSpec beside(const Description& d, std::string_view compute, std::string_view comm) {
  ContentionSpec contention;
  contention.compute = parse_load(compute);
  contention.comm = parse_load(comm);
  contention.transport = d.transports.empty() ? "" : d.transports.front();
  return contention;
}

ContentionSpec both_in_memory(const Description& d, int workers) {
  const std::string bytes = std::to_string(sizes_of(d).arrays.value());
  ContentionSpec contention = beside(d, "elementwise:" + bytes, "stream:max@" + bytes);
  contention.workers = workers;
  return contention;
}

MachineCheck memory_check(Backend& backend, Clock& clock, int workers, const std::string& placement) {
  return {.name = "memory_beside_memory",
          .unit = "1",
          .meaning = "time of a pass over memory beside another / alone",
          .measure = [&backend, &clock, workers, placement] {
            return slowdown(backend, clock, both_in_memory(backend.describe(), workers), placement);
          }};
}

std::vector<MachineCheck> checks_on_cores(Backend& backend, Clock& clock) {
  const Description d = backend.describe();
  const std::string gemm = shape(sizes_of(d).gemm);
  const auto check = [&](const std::string& name, const std::string& meaning, const std::string& aggressor,
                         const std::string& placement) {
    return MachineCheck{.name = name,
                        .unit = "1",
                        .meaning = meaning,
                        .measure = [&backend, &clock, contention = beside(d, gemm, aggressor), placement] {
                          return slowdown(backend, clock, contention, placement);
                        }};
  };
  std::vector<MachineCheck> checks;
  checks.push_back({.name = "lanes_a_core",
                    .unit = "1",
                    .meaning = "two lanes for each of the default ranks / cores",
                    .measure = [d] {
                      if (d.units < 1) return CheckValue{unknown_number, "the number of cores is not known"};
                      return CheckValue{2.0 * d.default_ranks / d.units,
                                        fmt::format("{} ranks on {} cores", d.default_ranks, d.units)};
                    }});
  if (d.units != 1) {
    checks.push_back(
        check("gemm_beside_busy_core", "time of a GEMM while another core is busy / alone", "occupy:1", "partitioned"));
    checks.push_back(memory_check(backend, clock, 1, "partitioned"));
  }
  checks.push_back(check("gemm_beside_busy_lane", "time of a GEMM while another lane is busy on its core / alone",
                         "occupy:1", "shared_core"));
  checks.push_back({.name = "spinning_costs",
                    .unit = "1",
                    .meaning = "time of a GEMM beside a lane on its core that waits by spin / by yield",
                    .measure = [&backend, &clock, d, gemm] {
                      ContentionSpec contention = beside(d, gemm, "stream:200MB/s@1MiB");
                      contention.waiting = Waiting::spin;
                      const CheckValue spin = slowdown(backend, clock, contention, "shared_core");
                      contention.waiting = Waiting::yield;
                      const CheckValue yield = slowdown(backend, clock, contention, "shared_core");
                      return CheckValue{spin.value / yield.value,
                                        std::isnan(spin.value + yield.value)
                                            ? spin.detail + "; " + yield.detail
                                            : fmt::format("{:.2f} and {:.2f} times as long", spin.value, yield.value)};
                    }});
  return checks;
}

// Both lanes busy, several operations each, one lane's issued before the other's.
Program busy_lanes(Seconds each) {
  constexpr int operations = 4;
  ProgramBuilder p("busy", 1);
  const LaneId compute = p.lane({.name = "compute", .role = Role::compute});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  ClassBuilder all = p.all_ranks();
  for (const LaneId lane : {compute, comm}) {
    for (int i = 0; i < operations; ++i) all.body(lane, Busy{each});
  }
  return std::move(p).finish();
}

// 1: side by side, 2: in turn.
CheckValue lanes_serialised(Backend& backend) {
  constexpr int replays = 20;
  const Program both = busy_lanes(backend.describe().source == "emulated" ? microseconds(10) : microseconds(200));
  const auto prepared = backend.prepare({both, project(both, Arm::compute)}, Data::random, 1);
  std::vector<double> together;
  std::vector<double> alone;
  for (int i = 0; i < replays; ++i) {
    together.push_back(prepared->run(0, {.slot = i}).step().value());
    alone.push_back(prepared->run(1, {.slot = i}).step().value());
  }
  return {median(together) / median(alone),
          fmt::format("{} and {}", format_seconds(Seconds(median(together))), format_seconds(Seconds(median(alone))))};
}

std::vector<MachineCheck> checks_on_a_device(Backend& backend, Clock& clock) {
  const Description d = backend.describe();
  const int held = std::max(1, d.units / 8);  // about what a collective takes on a device of 132
  std::vector<MachineCheck> checks;
  checks.push_back({.name = "lanes_serialised",
                    .unit = "1",
                    .meaning = "step of two streams that are equally busy / step of one",
                    .measure = [&backend] { return lanes_serialised(backend); }});
  checks.push_back({.name = "gemm_beside_held_units",
                    .unit = "1",
                    .meaning = fmt::format("time of a GEMM while {} of {} SMs are held / alone", held, d.units),
                    .measure = [&backend, &clock, d, held] {
                      ContentionSpec contention = beside(d, shape(sizes_of(d).gemm), fmt::format("occupy:{}", held));
                      if (std::find(d.dtypes.begin(), d.dtypes.end(), DType::bf16) != d.dtypes.end())
                        contention.dtype = DType::bf16;
                      return slowdown(backend, clock, contention, "concurrent");
                    }});
  checks.push_back(memory_check(backend, clock, held, "concurrent"));
  return checks;
}

}  // namespace

std::vector<MachineCheck> overlap_checks(Backend& backend, Clock& clock) {
  return backend.describe().backend == "cuda" ? checks_on_a_device(backend, clock) : checks_on_cores(backend, clock);
}

std::vector<Blocker> likely_blockers(const std::vector<CheckResult>& rows) {
  std::vector<Blocker> blockers;
  for (const Rule& rule : rules) {
    if (!holds(rows, rule)) continue;
    const CheckResult& row = *row_named(rows, rule.check);
    blockers.push_back(
        {row.name, row.value.value, rule.limit, row.unit, std::string(rule.why), std::string(rule.setting)});
  }
  return blockers;
}

std::vector<std::string> rows_of_the_rules() {
  std::vector<std::string> names;
  for (const Rule& rule : rules) names.emplace_back(rule.check);
  return names;
}

}  // namespace ovl
