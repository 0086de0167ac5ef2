// SPDX-License-Identifier: Apache-2.0
#include "measure/contention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "base/error.hpp"
#include "measure/summary.hpp"
#include "metrics/attribution.hpp"
#include "metrics/bus_bandwidth.hpp"
#include "metrics/gemm_waves.hpp"
#include "program/projection.hpp"

namespace ovl {
namespace {

using Columns = std::vector<std::pair<std::string, Value>>;

Role other(Role role) { return role == Role::compute ? Role::communication : Role::compute; }
const Load& load_of(const ContentionSpec& spec, Role role) { return role == Role::compute ? spec.compute : spec.comm; }
std::string_view loaded_arm_of(Role victim) { return victim == Role::compute ? compute_loaded_arm : comm_loaded_arm; }

// ---- how much of each side ------------------------------------------------------------------------------------------

// What a stream was asked for and cannot do is no intensity that could be measured. Told by a window that is long
// enough to know.
void require_pace(const Load& load, Seconds took, std::int64_t repeat, Seconds window) {
  constexpr double tolerance = 1.1;
  if (load.kind != LoadKind::stream || load.pace.value() == 0 || took < window * 0.5) return;
  const BytesPerSecond reached = (load.bytes * repeat) / took;
  if (load.pace.value() <= tolerance * reached.value()) return;
  throw impossible_error(fmt::format("a stream at {:.3g} GB/s", load.pace.value() * 1e-9),
                         fmt::format("here it reaches {:.3g} GB/s alone", reached.value() * 1e-9),
                         "ask for less, for stream:max, or for more --workers");
}

// Both sides take about one window, or as long as one operation of the longer.
Tuning tuned(const ContentionSpec& spec, const Tuning& last, Seconds compute, Seconds comm, Seconds window) {
  if (!(compute > Seconds(0) && comm > Seconds(0))) return last;
  require_pace(spec.compute, compute, last.gemm_repeat, window);
  require_pace(spec.comm, comm, last.comm_repeat, window);
  const Seconds one_compute = compute / static_cast<double>(last.gemm_repeat);
  const Seconds one_comm = comm / static_cast<double>(last.comm_repeat);
  const Seconds target = std::max({window, one_compute, one_comm});
  const auto repeats = [&](Seconds one, const Load& load) {
    return std::clamp(std::llround(target / one), 1LL, static_cast<long long>(most_repeats(load)));
  };
  Tuning next = last;
  next.gemm_repeat = repeats(one_compute, spec.compute);
  next.comm_repeat = repeats(one_comm, spec.comm);
  return next;
}

// ---- what it says ---------------------------------------------------------------------------------------------------

struct SideNumbers {
  Estimate alone;
  Estimate loaded;
  Estimate slowdown;
  double coverage = unknown_number;
};

SideNumbers side_of(const Summary& s, Role role) {
  SideNumbers side;
  const bool compute = role == Role::compute;
  const auto time = [&](const ArmSummary* arm) {
    if (arm == nullptr) return Estimate{};
    return compute ? arm->compute : arm->communication;
  };
  side.alone = time(s.arm(name(compute ? Arm::compute : Arm::comm)));
  const ArmSummary* loaded = s.arm(loaded_arm_of(role));
  if (loaded == nullptr) return side;
  side.loaded = time(loaded);
  side.coverage = loaded->coverage;
  // The fluid formula's value is for summaries: here only what a covered arm tells counts.
  if (loaded->coverage == 1) {
    side.slowdown = {compute ? s.slowdowns.compute : s.slowdowns.comm, compute ? s.compute_slowdown : s.comm_slowdown};
  }
  return side;
}

void set_estimate(Columns& columns, const std::string& column, const Estimate& estimate) {
  columns.insert(
      columns.end(),
      {{column, estimate.value}, {column + "_low", estimate.interval.low}, {column + "_high", estimate.interval.high}});
}

// What is known of the aggressor alone and of what it gets beside the victim.
void set_pace(Columns& columns, const Summary& s, const ContentionQuestion& q) {
  const Role role = other(q.victim);
  const Load& load = load_of(q.contention, role);
  if (load.kind != LoadKind::stream) return;
  if (load.pace.value() > 0) columns.emplace_back("pace_asked", load.pace.value());
  const ArmSummary* alone = s.arm(name(role == Role::compute ? Arm::compute : Arm::comm));
  const ArmSummary* beside = s.arm(loaded_arm_of(q.victim));
  if (alone != nullptr) columns.emplace_back("pace_alone", alone->pace.value());
  if (beside != nullptr) columns.emplace_back("pace_loaded", beside->pace.value());
}

void set_gemm(Columns& columns, const Summary& s, const ContentionQuestion& q) {
  const Load& load = q.contention.compute;
  if (load.kind != LoadKind::gemm) return;
  const SideNumbers side = side_of(s, Role::compute);
  const Gemm gemm{load.shape.m,       load.shape.n,         load.shape.k,
                  q.contention.dtype, s.tuning.gemm_repeat, q.contention.sm_target};
  const FlopsPerSecond rate = flops_of(gemm) / Seconds(side.alone.value);
  columns.emplace_back("gemm_rate", rate.value());
  columns.emplace_back("gemm_rate_loaded", (flops_of(gemm) / Seconds(side.loaded.value)).value());
  if (q.units < 2) return;
  const GemmWaves waves = fastest_gemm(gemm, {.units = q.units, .rate = rate});
  columns.insert(columns.end(), {{"gemm_tiles", waves.tiles}, {"gemm_waves", waves.waves}});
}

void set_bus(Columns& columns, const Summary& s, const ContentionQuestion& q) {
  const Load& load = q.contention.comm;
  if (load.kind != LoadKind::collective) return;
  const SideNumbers side = side_of(s, Role::communication);
  const auto bandwidth = [&](const Estimate& time) {
    return bus_bandwidth(load.collective, q.contention.ranks, load.bytes * s.tuning.comm_repeat, Seconds(time.value));
  };
  columns.emplace_back("bus_bandwidth", bandwidth(side.alone).value());
  columns.emplace_back("bus_bandwidth_loaded", bandwidth(side.loaded).value());
}

// How much later than alone the side that decides the step began: on the middle rank, and on the last one beyond that.
struct LateStart {
  Seconds delay = unknown_time;
  Seconds waiting = unknown_time;
};

// The step of both at once, term by term. Both begin together, so they ran together until the first was done.
Attribution attribution(const ArmTimes& times, Seconds path, const Slowdowns& slowdowns, const LateStart& late) {
  const PairSpans spans = fluid_spans(times.compute, times.comm, slowdowns);
  return attribute({.times = times,
                    .t_path = path,
                    .start_delay = late.delay,
                    .compute_slowdown = slowdowns.compute,
                    .comm_slowdown = slowdowns.comm,
                    .together = std::min(spans.compute, spans.comm),
                    .waiting = late.waiting});
}

double value_of(const std::optional<Seconds>& term) { return term ? term->value() : unknown_number; }

// Those terms that have an instrument here, by column.
struct LostTerm {
  const char* column;
  double (*value)(const Attribution&);
};
constexpr LostTerm lost_terms[] = {
    {"lost", [](const Attribution& a) { return a.total.value(); }},
    {"lost_dependencies", [](const Attribution& a) { return value_of(a.dependencies); }},
    {"lost_start_delay", [](const Attribution& a) { return value_of(a.start_delay); }},
    {"lost_compute_slowdown", [](const Attribution& a) { return value_of(a.compute_slowdown); }},
    {"lost_comm_slowdown", [](const Attribution& a) { return value_of(a.comm_slowdown); }},
    {"lost_waiting", [](const Attribution& a) { return value_of(a.waiting); }},
    {"lost_remainder", [](const Attribution& a) { return a.remainder.value(); }}};

// Of the medians of one resample of the rounds. Nothing orders the sides, so the longest path is the longer of them.
Attribution attribution_of(const ArmMedians& medians, const ContentionSpec& spec) {
  const auto slowdown = [&](Role role) {
    if (only_holds(role == Role::compute ? spec.compute : spec.comm)) return 1.0;
    const Arm alone = role == Role::compute ? Arm::compute : Arm::comm;
    return medians.role_time(loaded_arm_of(role), role) / medians.role_time(name(alone), role);
  };
  const ArmTimes times{medians.step(name(Arm::compute)), medians.step(name(Arm::comm)), unknown_time,
                       medians.step(name(Arm::overlapped))};
  const Role decides = critical_role(times);
  const std::string_view own = name(decides == Role::compute ? Arm::compute : Arm::comm);
  const std::string_view both = name(Arm::overlapped);
  const LateStart late{medians.start(both, decides) - medians.start(own, decides),
                       medians.start_spread(both, decides) - medians.start_spread(own, decides)};
  return attribution(times, longer_part(times), {slowdown(Role::compute), slowdown(Role::communication)}, late);
}

std::vector<OwnEstimate> lost_estimates(const ContentionSpec& spec) {
  std::vector<OwnEstimate> estimates;
  for (const LostTerm& term : lost_terms) {
    estimates.push_back(
        {term.column, [term, spec](const ArmMedians& medians) { return term.value(attribution_of(medians, spec)); }});
  }
  return estimates;
}

// The intervals are those of the estimates; a term that is not known has none.
void set_attribution(Columns& columns, const Summary& s, const ContentionQuestion& q) {
  const auto slowdown = [&](Role role) {
    return only_holds(load_of(q.contention, role)) ? 1 : side_of(s, role).slowdown.value;
  };
  const auto seen = [&](std::string_view column) {
    const auto found = std::find_if(s.own.begin(), s.own.end(), [&](const auto& own) { return own.first == column; });
    return Seconds(found == s.own.end() ? unknown_number : found->second.value);
  };
  const Attribution a = attribution(s.times, s.t_path, {slowdown(Role::compute), slowdown(Role::communication)},
                                    {seen("lost_start_delay"), seen("lost_waiting")});
  for (const LostTerm& term : lost_terms) {
    const double value = term.value(a);
    columns.emplace_back(term.column, value);
    if (!std::isnan(value)) continue;
    columns.emplace_back(std::string(term.column) + "_low", unknown_number);
    columns.emplace_back(std::string(term.column) + "_high", unknown_number);
  }
}

// ---- launch cost ----------------------------------------------------------------------------------------------------

// The lane that is the last to be done has all of them, so that the step grows by what they cost.
Program launches_program(const Program& placed) {
  Program out = project(placed, Arm::empty);
  out.name += fmt::format(" and {}", launches_more);
  for (RankClass& c : out.classes) {
    if (c.body.empty()) continue;
    std::map<LaneId, int> operations;
    for (const Operation& op : c.body) ++operations[op.lane];
    const LaneId longest = std::max_element(operations.begin(), operations.end(), [](const auto& a, const auto& b) {
                             return a.second < b.second;
                           })->first;
    const Role role = placed.lanes[longest.index()].role;
    int id = free_id(c).value;
    for (int i = 0; i < launches_more; ++i) c.body.push_back({OpId(id++), longest, role, Busy{Seconds(0)}, {}, {}});
  }
  return out;
}

OwnEstimate launch_estimate() {
  return {"launch_cost", [](const ArmMedians& medians) {
            return (medians.step(launches_arm) - medians.step(name(Arm::empty))).value() / launches_more;
          }};
}

// ---- the bandwidth model --------------------------------------------------------------------------------------------

// What a pass over a load's arrays moves, as its bytes count both arrays: an elementwise pass reads both and writes
// one. Nothing of what does not walk through arrays.
std::optional<Bytes> moved_by(const Load& load) {
  switch (load.kind) {
    case LoadKind::stream:
    case LoadKind::copy: return load.bytes;
    case LoadKind::elementwise: return load.bytes + load.bytes / 2;
    case LoadKind::gemm:
    case LoadKind::collective:
    case LoadKind::occupy: break;
  }
  return std::nullopt;
}

bool both_move_arrays(const ContentionSpec& spec) { return moved_by(spec.compute) && moved_by(spec.comm); }

// Both lanes stream their arrays instead, equally much so that neither has the memory for itself at the end; on the SMs
// (cores) that they have: all of a device's, of a host those of the lanes and their workers.
Program memory_program(const Program& placed, const ContentionQuestion& q, const Tuning& tuning) {
  const Bytes each =
      (q.contention.compute.bytes * tuning.gemm_repeat + q.contention.comm.bytes * tuning.comm_repeat) / 2;
  const int workers = q.units > 1 ? q.units / 2 : q.contention.workers;
  Program out = placed;
  out.name += ":memory";
  for (RankClass& c : out.classes) {
    std::vector<Operation> body;
    for (const Role role : {Role::compute, Role::communication}) {
      const auto first =
          std::find_if(c.body.begin(), c.body.end(), [&](const Operation& op) { return op.role == role; });
      if (first == c.body.end()) continue;
      Operation op = *first;
      op.work = Stream{BytesPerSecond(0), workers, each, {}};
      body.push_back(std::move(op));
    }
    c.body = std::move(body);
    c.epilogue.clear();
  }
  return out;
}

// Beside the measured slowdowns, what both would be if all that they moved came from one memory and nothing else held
// them up.
void set_bandwidth(Columns& columns, const Summary& s, const ContentionQuestion& q) {
  const ArmSummary* memory = s.arm(memory_arm);
  if (memory == nullptr) return;
  const auto rate = [&](Role role) {
    const std::int64_t passes = role == Role::compute ? s.tuning.gemm_repeat : s.tuning.comm_repeat;
    return (*moved_by(load_of(q.contention, role)) * passes) / Seconds(side_of(s, role).alone.value);
  };
  columns.emplace_back("memory_bandwidth", memory->pace.value());
  columns.emplace_back("bandwidth_model",
                       bandwidth_slowdown(rate(Role::compute), rate(Role::communication), memory->pace));
}

Columns derived(const Summary& s, const ContentionQuestion& q) {
  const SideNumbers victim = side_of(s, q.victim);
  const SideNumbers aggressor = side_of(s, other(q.victim));
  Columns columns;
  set_estimate(columns, "t_victim", victim.alone);
  set_estimate(columns, "t_victim_loaded", victim.loaded);
  set_estimate(columns, "victim_slowdown", victim.slowdown);
  columns.emplace_back("victim_coverage", victim.coverage);
  set_estimate(columns, "t_aggressor", aggressor.alone);
  set_estimate(columns, "t_aggressor_loaded", aggressor.loaded);
  set_estimate(columns, "aggressor_slowdown", aggressor.slowdown);
  columns.emplace_back("aggressor_coverage", aggressor.coverage);
  columns.emplace_back("overlap_gain", 1 / victim.slowdown.value + 1 / aggressor.slowdown.value - 1);
  const Load& load = load_of(q.contention, other(q.victim));
  if (only_holds(load) && q.units > 1) columns.emplace_back("share_model", share_slowdown(q.units, load.units));
  set_pace(columns, s, q);
  set_gemm(columns, s, q);
  set_bus(columns, s, q);
  set_bandwidth(columns, s, q);
  set_attribution(columns, s, q);
  columns.insert(columns.end(), {{"compute_repeat", s.tuning.gemm_repeat},
                                 {"comm_repeat", s.tuning.comm_repeat},
                                 {"cover", s.tuning.cover},
                                 {"rounds_uncovered", std::int64_t{s.rounds_uncovered}}});
  return columns;
}

std::string slowed(std::string_view who, const SideNumbers& side) {
  if (std::isnan(side.coverage)) return fmt::format("whether the {} was covered was not seen", who);
  if (side.coverage < 1)
    return fmt::format("the {} was covered in only {:.0f} % of the rounds", who, 100 * side.coverage);
  const std::string text = fmt::format("the {} takes {:.2f}x as long", who, side.slowdown.value);
  const Interval& interval = side.slowdown.interval;
  return std::isnan(interval.width()) ? text : fmt::format("{} [{:.2f}, {:.2f}]", text, interval.low, interval.high);
}

std::string words(const Summary& s, const ContentionQuestion& q) {
  const SideNumbers victim = side_of(s, q.victim);
  std::string text = slowed("victim", victim);
  if (only_holds(load_of(q.contention, other(q.victim)))) return text;
  const SideNumbers aggressor = side_of(s, other(q.victim));
  text += ", " + slowed("aggressor", aggressor);
  switch (overlap_pays({victim.slowdown.value, aggressor.slowdown.value})) {
    case OverlapPays::yes: return text + ": together they get more done than in turn";
    case OverlapPays::tie: return text + ": together is as good as in turn";
    case OverlapPays::no: break;
  }
  const bool known = !std::isnan(victim.slowdown.value + aggressor.slowdown.value);
  return known ? text + ": in turn would be better" : text;
}

}  // namespace

void ask_who_slows_whom(CaseSpec& spec, const ContentionQuestion& question) {
  const ContentionSpec contention = question.contention;
  spec.arms = {case_arm(Arm::empty), case_arm(Arm::compute), case_arm(Arm::comm)};
  spec.arms.push_back({.name = std::string(launches_arm),
                       .program = [](const Program& placed, const Tuning&) { return launches_program(placed); }});
  for (const Role victim : {Role::compute, Role::communication}) {
    if (only_holds(load_of(contention, victim))) continue;
    spec.arms.push_back({.name = std::string(loaded_arm_of(victim)),
                         .program = [covering = other(victim)](
                                        const Program& placed,
                                        const Tuning& tuning) { return covered_by(placed, covering, tuning.cover); },
                         .covering = other(victim)});
  }
  if (both_move_arrays(contention)) {
    spec.arms.push_back(
        {.name = std::string(memory_arm), .program = [question](const Program& placed, const Tuning& tuning) {
           return memory_program(placed, question, tuning);
         }});
  }
  spec.arms.push_back(case_arm(Arm::overlapped));
  spec.tune = [contention](const Tuning& last, Seconds compute, Seconds comm, Seconds window) {
    return tuned(contention, last, compute, comm, window);
  };
  spec.watched = [](std::span<const Sample> used, std::int64_t /*repeats*/, std::uint64_t seed) {
    return widest_slowdown_interval(used, seed);
  };
  spec.estimates = lost_estimates(contention);
  spec.estimates.push_back(launch_estimate());
  spec.derive = [question](const Summary& s) { return derived(s, question); };
  spec.words = [question](const Summary& s) { return words(s, question); };
}

std::vector<Column> contention_columns() {
  std::vector<Column> all;
  const auto real = [&](const std::string& name, const std::string& unit, const std::string& description) {
    all.push_back({name, ColumnType::real, unit, description});
  };
  const auto with_interval = [&](const std::string& name, const std::string& unit, const std::string& description) {
    real(name, unit, description);
    real(name + "_low", unit, "lower end of the 95 % interval of " + name);
    real(name + "_high", unit, "upper end of the 95 % interval of " + name);
  };
  const auto integer = [&](const std::string& name, const std::string& description) {
    all.push_back({name, ColumnType::integer, "1", description});
  };
  for (const std::string side : {"victim", "aggressor"}) {
    const std::string other_side = side == "victim" ? "aggressor" : "victim";
    with_interval("t_" + side, "s", "the " + side + "'s work alone, last rank's start to last rank's end");
    with_interval("t_" + side + "_loaded", "s", "the same work while the " + other_side + " covers it");
    with_interval(side + "_slowdown", "1",
                  "t_" + side + "_loaded / t_" + side + ", paired by round; empty unless all rounds used were covered");
    real(side + "_coverage", "1",
         "share of the rounds used in which the " + other_side + " began before the " + side +
             " and ended after it, on every rank");
  }
  real("overlap_gain", "1", "1 / victim_slowdown + 1 / aggressor_slowdown - 1: above 0 overlap pays");
  real("share_model", "1", "what the victim's slowdown would be if work for all SMs lost those held: n / (n - held)");
  real("bandwidth_model", "1",
       "what both slowdowns would be if all that both move came from one memory: (rate + rate) / memory_bandwidth, at "
       "least 1; where both walk through arrays");
  real("memory_bandwidth", "B/s", "observed while both sides' lanes did nothing but move their arrays");
  real("pace_asked", "B/s", "of the aggressor's stream, read and written; empty: as fast as it goes");
  real("pace_alone", "B/s", "observed while it ran alone");
  real("pace_loaded", "B/s", "observed while the victim ran beside it");
  real("gemm_rate", "FLOP/s", "of one rank's GEMM, alone");
  real("gemm_rate_loaded", "FLOP/s", "while it was covered");
  integer("gemm_tiles", "tiles of the GEMM's result, as metrics/gemm_waves.hpp guesses them; device only");
  integer("gemm_waves", "waves in which they run on the SMs that it may count on");
  real("bus_bandwidth", "B/s", "of the collective on the comm lane, alone");
  real("bus_bandwidth_loaded", "B/s", "while it was covered");
  with_interval("lost", "s", "t_step - t_ideal, of both sides begun together");
  with_interval("lost_dependencies", "s", "t_path - t_ideal");
  with_interval("lost_start_delay", "s",
                "how much later than alone the side that decides begins, on the middle rank; empty: starts not seen");
  with_interval("lost_compute_slowdown", "s", "what compute did not get done while both ran, where it decides; else 0");
  with_interval("lost_comm_slowdown", "s", "likewise communication");
  real("lost_clock_drop", "s", "lower clock than alone; empty: no instrument");
  with_interval("lost_waiting", "s", "likewise how much later the last rank's begins than the middle one's");
  with_interval("lost_remainder", "s", "what no term explains: lost - the terms that are there");
  with_interval(
      "launch_cost", "s",
      "of one operation more on a lane, beyond its work; with launch_mode live the host's, where that is longer");
  integer("compute_repeat", "operations of the compute side in one window");
  integer("comm_repeat", "operations of the communication side in one window");
  integer("cover", "a covering side that lasts until no event did 3 times this many more");
  integer("rounds_uncovered", "rounds measured again with more to cover, kept in samples.csv with used = 0");
  return all;
}

}  // namespace ovl
