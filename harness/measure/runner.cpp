// SPDX-License-Identifier: Apache-2.0
#include "measure/runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "backend/distributed.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "measure/exposed_causes.hpp"
#include "measure/step_costs.hpp"
#include "measure/verify.hpp"
#include "program/check.hpp"
#include "program/print.hpp"
#include "program/reference.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

std::vector<Program> arms_of(const CaseSpec& spec, const Program& placed, const Tuning& tuning) {
  std::vector<Program> arms;
  for (const CaseArm& arm : spec.arms) arms.push_back(arm.program(placed, tuning));
  return arms;
}

std::string hash_of(const std::vector<Program>& arms) {
  std::string text;
  for (const Program& arm : arms) text += print(arm);
  return fmt::format("{:016x}", hash64(text));
}

bool does_work(const Program& program) {
  return std::any_of(program.classes.begin(), program.classes.end(), [](const RankClass& c) {
    return std::any_of(c.body.begin(), c.body.end(), [](const Operation& op) { return !is_ordering(op.work); });
  });
}

// A pair of GEMM and collective, from the times of windows that had `last`: the shorter part should fill the window,
// but the longer must not fill more than two, or a case with little communication gets few rounds in its time.
Tuning tuned_pair(const Tuning& last, double compute, double comm, Seconds window, bool balance) {
  if (!(compute > 0 && comm > 0)) return last;
  const auto repeats = static_cast<double>(last.repeats);
  const double one_gemm = compute / repeats / static_cast<double>(last.gemm_repeat);
  const double one_comm = comm / repeats;
  Tuning next = last;
  if (balance) next.gemm_repeat = std::max<std::int64_t>(1, std::llround(one_comm / one_gemm));
  const double balanced = one_gemm * static_cast<double>(next.gemm_repeat);
  const double wanted = std::ceil(window.value() / std::min(balanced, one_comm));
  const double most = std::floor(2 * window.value() / std::max(balanced, one_comm));
  next.repeats = static_cast<std::int64_t>(std::clamp(std::min(wanted, most), 1.0, 10000.0));
  return next;
}

// Communication fills the window; compute, if there is any, lasts three times as long, because communication beside it
// is slower than alone. Where that is not enough, rounds that are not covered double it.
Tuning tuned_to_cover(const Tuning& last, double compute, double comm, Seconds window) {
  if (!(comm > 0)) return last;
  constexpr double longer = 3;
  const double one_comm = comm / static_cast<double>(last.repeats);
  Tuning next = last;
  next.repeats = static_cast<std::int64_t>(std::clamp(std::ceil(window.value() / one_comm), 1.0, 10000.0));
  if (compute > 0) {
    const double one_gemm = compute / static_cast<double>(last.gemm_repeat);
    const double wanted = std::ceil(longer * one_comm * static_cast<double>(next.repeats) / one_gemm);
    next.gemm_repeat = static_cast<std::int64_t>(std::clamp(wanted, 1.0, 1e9));
  }
  return next;
}

// A twentieth more or less changes neither the balance nor the window in a way that matters, and a pass is seconds.
bool close(std::int64_t a, std::int64_t b) { return 20 * std::abs(a - b) <= std::max(a, b); }

Seconds first_known(const OperationTiming& op) {
  if (!std::isnan(op.start.value())) return op.start;
  return std::isnan(op.ready.value()) ? op.end : op.ready;
}

// Tables and timelines keep the first operations of each lane: a window of short ones has tens of thousands. All lanes
// are cut at one moment, where the first record ends: what then seems to stand alone did.
void keep_beginning(Timings& timings, int most) {
  std::size_t lanes = 0;
  for (const OperationTiming& op : timings.operations) lanes = std::max(lanes, op.lane.index() + 1);
  std::vector<int> seen;  // by rank, then lane
  std::erase_if(timings.operations, [&](const OperationTiming& op) {
    const std::size_t lane = op.rank.index() * lanes + op.lane.index();
    if (lane >= seen.size()) seen.resize(lane + 1);
    if (++seen[lane] <= most) return false;
    timings.kept_until = Seconds(std::fmin(timings.kept_until.value(), first_known(op).value()));
    return true;
  });
  std::erase_if(timings.operations, [&](const OperationTiming& op) { return first_known(op) >= timings.kept_until; });
}

// Of a window of equal steps the first one, whole. The second begins when it has ended, and is cut where its work does.
void keep_first_step(Timings& timings, const Program& program, std::int64_t steps) {
  std::map<const RankClass*, std::set<OpId>> kept;
  std::map<const RankClass*, std::set<OpId>> ordering;
  for (const RankClass& c : program.classes) {
    std::int64_t left = 0;  // work of the first step
    for (const Operation& op : c.body) left += is_ordering(op.work) ? 0 : 1;
    left /= steps;
    for (const Operation& op : c.body) {
      if (left > 0) kept[&c].insert(op.id);
      if (is_ordering(op.work)) {
        ordering[&c].insert(op.id);
      } else {
        --left;
      }
    }
  }
  std::erase_if(timings.operations, [&](const OperationTiming& op) {
    const RankClass* const c = &program.class_of(op.rank);
    if (kept[c].contains(op.op)) return false;
    if (!ordering[c].contains(op.op)) {
      timings.kept_until = Seconds(std::fmin(timings.kept_until.value(), first_known(op).value()));
    }
    return true;
  });
}

// Whether a median that is known has no interval, because of too few rounds.
bool lacks_interval(const Summary& s) {
  const std::array estimates{&s.t_compute, &s.t_comm, &s.t_step};
  return s.rounds < fewest_rounds && std::any_of(estimates.begin(), estimates.end(), [](const Estimate* e) {
           return !std::isnan(e->value) && std::isnan(e->interval.width());
         });
}

// What takes the confidence out of a row's words is said before them.
std::string caution(const CaseResult& result, int asked) {
  const int rounds = result.summary.rounds;
  std::string few;
  if (rounds < asked) few = fmt::format("{} of the {} rounds asked for", rounds, asked);
  if (lacks_interval(result.summary)) {
    few = fmt::format("{}, too few for an interval", few.empty() ? fmt::format("{} rounds", rounds) : few);
  }
  if (result.status != Status::noisy) return few.empty() ? "" : "only " + few + ": ";
  return few.empty() ? "noisy: " : "noisy, " + few + ": ";
}

// Where --balance found nothing to repeat: one GEMM is too long already.
std::string balance_remark(const Summary& s) {
  constexpr double balanced = 1.5;
  const double ratio = s.times.compute / s.times.comm;
  if (s.tuning.gemm_repeat > 1 || !(ratio > balanced)) return {};
  return fmt::format("; not balanced: one GEMM alone takes {:.3g}x as long as the collective", ratio);
}

// A median of fewer has a wide interval, or none (stats/summary.hpp).
constexpr int enough_for_interval = 12;
// A serial replay of more takes longer than measuring does: about a second for each 10^9.
constexpr double most_serial_products = 2e9;

// Given durations only: nothing that any rank computes, moves or names could be wrong.
bool leaves_nothing(const Program& program) {
  return std::all_of(program.classes.begin(), program.classes.end(), [](const RankClass& c) {
    return c.epilogue.empty() && std::all_of(c.body.begin(), c.body.end(), [](const Operation& op) {
             return is_ordering(op.work) || std::holds_alternative<Busy>(op.work) ||
                    std::holds_alternative<Exchange>(op.work);
           });
  });
}

// Empty where nothing differs.
std::string text_of(const Difference& difference) {
  if (difference.elements == 0) return {};
  return fmt::format("{} elements differ from a serial replay: {}", difference.elements, difference.first);
}

std::string joined(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, "; ")); }

}  // namespace

std::string hang_reason(Seconds deadline, const std::string& report) {
  return fmt::format("a replay did not finish within {}: {}", format_seconds(deadline), report);
}

Runner::Runner(Backend& backend, Clock& clock, MeasureOptions options, const std::atomic<bool>& interrupted,
               Progress progress, Deadline::OnHang on_hang)
    : backend_(backend),
      clock_(clock),
      options_(options),
      interrupted_(interrupted),
      progress_(std::move(progress)),
      deadline_(backend, options.deadline, std::move(on_hang)),
      description_(backend.describe()) {
  if (options_.window.value() == 0) options_.window = description_.window;
  if (predicts()) {
    // The same every time: a second round gives intervals, of no width.
    options_.stop.min_rounds = options_.stop.max_rounds = 2;
    options_.warm_up = Seconds(0);
    options_.instrumented = 1;
    options_.interleave = Interleave::sample;  // nothing becomes steady that was not
  }
}

// A model moves no data that could be verified.
bool Runner::predicts() const { return description_.source == "model"; }

CaseResult Runner::run(const CaseSpec& spec) {
  began_ = clock_.now();
  case_seed_ = mix64(hash64(spec.key) ^ options_.seed);
  restores_data_ = spec.restores_data;
  CaseResult result;
  try {
    run_phases(spec, result);
  } catch (const Error& error) {
    // Of several processes, what all of them say.
    const bool of_all = dynamic_cast<const HangError*>(&error) != nullptr;
    const std::string report = of_all ? error.what() : deadline_.report();
    if (!report.empty()) {
      result.status = Status::timeout;
      result.reason = hang_reason(options_.deadline, report);
    } else if (error.kind() == ErrorKind::impossible) {
      result.status = Status::unsupported;
      result.reason = error.what();
    } else {
      throw;
    }
    // Samples of a case that did not come to its end are kept, and none counts.
    result.used.assign(result.samples.size(), false);
    result.noise.assign(
        result.samples.size(),
        fmt::format("the case ended in {}", result.status == Status::timeout ? "a timeout" : "an error"));
  }
  result.elapsed = clock_.now() - began_;
  return result;
}

void Runner::run_phases(const CaseSpec& spec, CaseResult& result) {
  const auto end_as = [&](Status status, std::string reason) {
    result.status = status;
    result.reason = std::move(reason);
  };
  if (!options_.verify) result.verified = "off";
  if (predicts()) result.verified = "not_applicable";

  // A program of the smallest window tells whether the case can run at all.
  result.program = spec.build({});
  result.program = place(result.program, spec.placement);
  std::vector<Program> smallest = arms_of(spec, result.program, {});
  for (const Program& arm : smallest) {
    stop_if_interrupted();
    if (const Support support = backend_.supports(arm); !support.ok()) {
      return end_as(Status::unsupported, support.reason);
    }
  }
  if (!spec.refused_unless.empty()) {
    const std::vector<Finding> findings = unexpected_findings(result.program);
    if (!findings.empty()) {
      return end_as(Status::skipped, fmt::format("refused before launch: {}: {}; {}", name(findings.front().kind),
                                                 findings.front().message, spec.refused_unless));
    }
  }
  require_sound(smallest);
  tell("tune");
  Ready ready;
  if (spec.tuned) {
    result.summary.tuning = tune(spec);
    ready.arms = build_arms(spec, result);
  } else {
    ready.arms = std::move(smallest);
    result.program_hash = hash_of(ready.arms);
  }

  if (options_.verify && !predicts() && spec.serial_check) {
    tell("verify");
    if (std::string wrong = check_against_serial(spec, result); !wrong.empty()) {
      return end_as(Status::failed_verify, std::move(wrong));
    }
  } else if (options_.verify && !predicts()) {
    tell("verify");
    for (const auto& [what, check] : {std::pair{"exact", &Runner::check_exact}, {"random", &Runner::check_random}}) {
      if (std::string wrong = (this->*check)(result.program); !wrong.empty()) {
        result.verified = fmt::format("{} failed", what);
        return end_as(Status::failed_verify, std::move(wrong));
      }
    }
    bool serially = false;
    if (std::string wrong = check_serially(spec, serially); !wrong.empty()) {
      result.verified = "serial failed";
      return end_as(Status::failed_verify, std::move(wrong));
    }
    const std::string untold = beyond_exact(result.program);
    result.verified = untold.empty() ? "exact+random" : "random; exact data cannot tell: " + untold;
    if (!serially && leaves_nothing(result.program)) result.verified = "not_applicable";
    if (serially) result.verified = "serial+" + result.verified;
  }
  ready.prepared = prepare(ready.arms, Data::random);
  warm_up(ready);
  measure(spec, ready, result);
  instrument(spec, ready, result);
  if (spec.words) result.summary.verdict = spec.words(result.summary);
  if (spec.balance) result.summary.verdict += balance_remark(result.summary);
  result.summary.verdict = caution(result, options_.stop.min_rounds) + result.summary.verdict;
  result.observed = ready.prepared->observed();
}

// A finding that the program does not announce is our own mistake: nothing is launched.
void Runner::require_sound(const std::vector<Program>& arms) const {
  for (const Program& arm : arms) {
    stop_if_interrupted();
    const std::vector<Finding> findings = unexpected_findings(arm);
    if (!findings.empty()) {
      throw failure(fmt::format("program {} is not sound: {}", arm.name, name(findings.front().kind)),
                    findings.front().message,
                    "this is a defect of overlapbench; please report it with --dry-run's output");
    }
  }
}

// A backend may run every arm once, so a case can hang here already.
std::unique_ptr<Prepared> Runner::prepare(const std::vector<Program>& arms, Data data) {
  stop_if_interrupted();
  std::unique_ptr<Prepared> prepared;
  {
    const Deadline::Watch watch(deadline_, arms.front());
    prepared = backend_.prepare(arms, data, case_seed_);
  }
  stop_if_late();
  return prepared;
}

Timings Runner::replay(Prepared& prepared, std::size_t arm, const Program& program, std::int64_t slot,
                       Recording recording) {
  stop_if_interrupted();
  Timings timings;
  {
    const Deadline::Watch watch(deadline_, program);
    if (restores_data_) prepared.reset();
    timings = prepared.run(arm, {.launch = options_.launch, .recording = recording, .slot = slot, .evict = true});
  }
  stop_if_late();
  return timings;
}

std::vector<Program> Runner::build_arms(const CaseSpec& spec, CaseResult& result) const {
  result.program = place(spec.build(result.summary.tuning), spec.placement);
  std::vector<Program> arms = arms_of(spec, result.program, result.summary.tuning);
  require_sound(arms);
  result.program_hash = hash_of(arms);
  return arms;
}

Tuning Runner::tune(const CaseSpec& spec) {
  constexpr int passes = 3;  // the first guess is from single cold operations, the last confirms
  constexpr int replays = 3;
  const bool covers =
      std::any_of(spec.arms.begin(), spec.arms.end(), [](const CaseArm& arm) { return arm.covering.has_value(); });
  Tuning tuning;
  Seconds comm_time(0);
  for (int pass = 0; pass < passes; ++pass) {
    const Program program = place(spec.build(tuning), spec.placement);
    const std::vector<Program> arms{project(program, Arm::compute), project(program, Arm::comm)};
    require_sound(arms);
    const auto prepared = prepare(arms, Data::random);
    std::array<double, 2> window{unknown_time.value(), unknown_time.value()};
    for (std::size_t a = 0; a < arms.size(); ++a) {
      if (!does_work(arms[a])) continue;
      std::vector<double> steps;
      for (int i = 0; i <= replays; ++i) {
        const double step = replay(*prepared, a, arms[a], i).step().value();
        if (i > 0) steps.push_back(step);  // the first one warms up
      }
      window[a] = median(steps);
    }
    if (window[1] > 0) comm_time = Seconds(window[1]) / static_cast<double>(tuning.repeats);
    const Tuning next = spec.tune ? spec.tune(tuning, Seconds(window[0]), Seconds(window[1]), options_.window)
                        : covers || !does_work(arms[0])
                            ? tuned_to_cover(tuning, window[0], window[1], options_.window)
                            : tuned_pair(tuning, window[0], window[1], options_.window, spec.balance);
    if (close(next.gemm_repeat, tuning.gemm_repeat) && close(next.repeats, tuning.repeats) &&
        close(next.comm_repeat, tuning.comm_repeat)) {
      break;
    }
    tuning = next;
  }
  // Not before: while tuning, no program depends on it.
  tuning.comm_time = comm_time;
  return tuning;
}

std::string Runner::check_exact(const Program& program) {
  const auto exact = prepare({program}, Data::exact);
  const Inputs before = inputs(program, *exact, 0);
  replay(*exact, 0, program, 0);
  return verify(program, *exact, Data::exact, 0, before);
}

std::string Runner::check_random(const Program& program) {
  const std::vector<Program> arms{project(program, Arm::compute), program};
  const auto random = prepare(arms, Data::random);
  // What the GEMMs wrote, alone and overlapped: equal to the bit, where no communication has a part in it.
  const auto products = [&] {
    std::map<std::pair<BufferId, Rank>, std::uint64_t> prints;
    for (const RankClass& c : program.classes) {
      const std::set<BufferId> independent = independent_of_communication(c);
      for (const Operation& op : c.body) {
        const BufferId buffer = op.writes.empty() ? BufferId() : op.writes.front().buffer;
        if (!std::holds_alternative<Gemm>(op.work) || !independent.contains(buffer)) continue;
        for (const Rank rank : c.members) {
          if (!prints.contains({buffer, rank})) prints[{buffer, rank}] = random->fingerprint(buffer, rank, 0);
        }
      }
    }
    return prints;
  };
  if (does_work(arms[0])) replay(*random, 0, arms[0], 0);
  const auto alone = products();
  random->reset();
  const Inputs before = inputs(program, *random, 0);
  replay(*random, 1, program, 0);
  const auto beside = products();
  const auto differ = std::mismatch(alone.begin(), alone.end(), beside.begin()).first;
  if (differ != alone.end()) {
    const auto& [buffer, rank] = differ->first;
    return fmt::format("buffer {} on rank {}: what a GEMM wrote differs between its solo run and the overlapped one",
                       program.buffers[buffer.index()].name, rank.value);
  }
  return verify(program, *random, Data::random, 0, before);
}

std::optional<Difference> Runner::differs_from_serial(const SerialCheck& check, std::string& untold) {
  const auto exact = prepare({check.program}, Data::exact);
  const Reference expected = run_serially(check.meant, contents(check.program, *exact));
  untold = expected.inexact;
  if (!untold.empty()) return std::nullopt;
  replay(*exact, 0, check.program, 0);
  return compare(check.program, contents(check.program, *exact), expected.contents, check.buffers);
}

std::string Runner::check_serially(const CaseSpec& spec, bool& checked) {
  const Program step = place(spec.build({}), spec.placement);
  checked = false;
  if (spec.results.empty() || products_of(step) > most_serial_products) return {};
  std::string untold;
  const std::optional<Difference> difference = differs_from_serial({step, step, spec.results, ""}, untold);
  checked = difference.has_value();
  return difference ? text_of(*difference) : "";
}

std::string Runner::check_against_serial(const CaseSpec& spec, CaseResult& result) {
  const SerialCheck check = spec.serial_check(result.program);
  const bool wrong_on_purpose = !check.program.expected_findings.empty();
  if (!wrong_on_purpose) {
    if (std::string wrong = check_exact(result.program); !wrong.empty()) {
      result.verified = "exact failed";
      return wrong;
    }
  }
  std::string untold;
  result.difference = differs_from_serial(check, untold);
  result.verified = result.difference ? check.note : "exact data cannot tell: " + untold;
  if (!result.difference || wrong_on_purpose) return {};
  std::string wrong = text_of(*result.difference);
  if (!wrong.empty()) result.verified += " failed";
  return wrong;
}

void Runner::warm_up(Ready& ready) {
  tell("warm up");
  const Seconds began = clock_.now();
  for (std::size_t a = 0; a < ready.arms.size(); ++a) {
    for (int i = 0; i < 2; ++i) replay(*ready.prepared, a, ready.arms[a], i);
  }
  constexpr std::size_t recent = 10;
  std::vector<double> steps;
  while (clock_.now() - began < options_.warm_up) {
    const auto slot = static_cast<std::int64_t>(steps.size());
    steps.push_back(replay(*ready.prepared, ready.arms.size() - 1, ready.arms.back(), slot).step().value());
    if (steps.size() >= recent && steady(std::span(steps).last(recent))) return;
  }
}

bool Runner::measure_round(const CaseSpec& spec, Ready& ready, int round, CaseResult& result) {
  Random random(mix64(case_seed_ + static_cast<std::uint64_t>(round)));
  int position = 0;
  bool covered = true;
  for (const std::size_t arm : random.permutation(ready.arms.size())) {
    const Seconds began = clock_.now();
    std::int64_t slot = round;
    do {
      const auto& read = spec.arms[arm].read;
      const Timings timings =
          replay(*ready.prepared, arm, ready.arms[arm], slot, read ? Recording::operations : Recording::spans);
      Sample sample = observe(ready.arms[arm], timings);
      if (read) read(ready.arms[arm], result.summary.tuning, timings, sample);
      sample.block = static_cast<int>(result.blocks.size());
      sample.round = round;
      sample.position = position;
      sample.arm = spec.arms[arm].name;
      sample.slot = slot++;
      sample.covering = spec.arms[arm].covering;
      if (sample.covering) sample.covered = covers(sample, *sample.covering);
      covered = covered && sample.covered.value_or(true);
      result.samples.push_back(std::move(sample));
    } while (options_.interleave == Interleave::block && clock_.now() - began < options_.block_arm);
    ++position;
  }
  return covered;
}

void Runner::measure(const CaseSpec& spec, Ready& ready, CaseResult& result) {
  // With --interleave block a round is already long: conditions are read around each.
  const Seconds block_length = options_.interleave == Interleave::block ? Seconds(0) : options_.block;
  const Seconds began = clock_.now();
  const StopRule& rule = options_.stop;
  constexpr int most_extensions = 6;  // of twice as much each: a replay must not become a hang
  int extensions = 0;
  std::vector<std::vector<std::string>> reasons;
  std::set<int> uncovered;  // rounds
  std::vector<Sample> used;
  int round = 0;
  const auto counts = [&](const Sample& s) {
    return reasons[static_cast<std::size_t>(s.block)].empty() && !uncovered.contains(s.round);
  };
  const auto select = [&] {
    reasons = judge_all(result.blocks);
    used.clear();
    std::copy_if(result.samples.begin(), result.samples.end(), std::back_inserter(used), counts);
  };
  const auto rounds_used = [&] {
    int rounds = 0;
    for (std::size_t b = 0; b < reasons.size(); ++b) rounds += reasons[b].empty() ? result.blocks[b].rounds : 0;
    return rounds;
  };
  const auto extend = [&] {
    tell("more to cover");
    (spec.tune ? result.summary.tuning.cover : result.summary.tuning.gemm_repeat) *= 2;
    ready.prepared.reset();  // memory for one is all that a machine may have
    ready.arms = build_arms(spec, result);
    ready.prepared = prepare(ready.arms, Data::random);
    for (std::size_t a = 0; a < ready.arms.size(); ++a) replay(*ready.prepared, a, ready.arms[a], 0);
  };

  Conditions before = backend_.conditions();
  for (;;) {
    Block block{before, {}, 0, {}};
    const int wanted = rule.max_rounds - rounds_used();
    const Seconds block_began = clock_.now();
    do {
      if (measure_round(spec, ready, round, result)) {
        ++block.rounds;
      } else {
        uncovered.insert(round);
        if (extensions++ < most_extensions) extend();
      }
      ++round;
    } while (block.rounds < wanted && clock_.now() - block_began < block_length);
    block.after = backend_.conditions();
    before = block.after;
    result.blocks.push_back(std::move(block));

    // Spoilt blocks are measured again as long as there is time, and stay in the samples.
    select();
    const Interval watched = spec.watched ? spec.watched(used, result.summary.tuning.repeats, case_seed_)
                                          : watched_interval(used, result.summary.tuning.repeats, case_seed_);
    tell("measure", rounds_used(), watched);
    result.stop = decide(rule, rounds_used(), clock_.now() - began, watched);
    if (result.stop == Stop::go_on && round / 4 >= rule.max_rounds) result.stop = Stop::max_samples;
    if (result.stop != Stop::go_on) break;
  }

  // Too little that is quiet: then everything counts, and the case says so.
  const int enough = std::min(options_.stop.min_rounds, round) / 2;
  const bool noisy = rounds_used() < std::max(1, enough);
  for (std::size_t b = 0; b < result.blocks.size(); ++b) {
    result.blocks[b].noise = reasons[b];
    if (noisy || reasons[b].empty()) {
      result.used_blocks.push_back(result.blocks[b]);
    } else {
      result.rounds_spoilt += result.blocks[b].rounds;
    }
  }
  // What was not covered only where there is nothing else.
  const std::string unlike = spec.tune ? "one side did not cover the other" : "compute did not cover communication";
  const bool covered = static_cast<int>(uncovered.size()) < round;
  if (noisy) {
    result.status = Status::noisy;
    if (!uncovered.empty()) result.reason = fmt::format("{} in {} of {} rounds", unlike, uncovered.size(), round);
    for (const auto& why : reasons) {
      if (!why.empty()) result.reason = joined(why);  // the last block's: the rest is in samples.csv
    }
  }
  used.clear();
  for (const Sample& s : result.samples) {
    std::vector<std::string> why = reasons[static_cast<std::size_t>(s.block)];
    const bool counted = noisy || why.empty();
    const bool alike = !uncovered.contains(s.round);
    if (!alike) why.push_back(unlike);
    result.used.push_back(counted && (alike || !covered));
    result.noise.push_back(joined(why));
    if (result.used.back()) used.push_back(s);
  }
  result.summary = summarise(result.program, result.summary.tuning, used, case_seed_);
  result.summary.rounds_uncovered = static_cast<int>(uncovered.size());
  for (const OwnEstimate& own : spec.estimates) {
    result.summary.own.emplace_back(own.column, estimate(used, own.statistic, case_seed_));
  }
  result.summary.difference = result.difference;
}

void Runner::instrument(const CaseSpec& spec, Ready& ready, CaseResult& result) {
  tell("instrument");
  std::vector<Timings> isolated;
  std::vector<double> with;
  std::vector<double> without;
  const std::size_t last = ready.arms.size() - 1;
  std::vector<std::string> orders;
  std::vector<StepCosts> costs;
  const int replays =
      spec.by_operation && !predicts() ? std::max(options_.instrumented, enough_for_interval) : options_.instrumented;
  for (int i = 0; i < replays; ++i) {
    for (std::size_t a = 0; a <= last; ++a) {
      const CaseArm& arm = spec.arms[a];
      if (!arm.instrumented) continue;
      Timings timings = replay(*ready.prepared, a, ready.arms[a], i, Recording::operations);
      if (a == last) {
        with.push_back(timings.step().value());
        if (spec.by_operation) costs.push_back(step_costs(result.program, timings, result.summary.tuning.repeats));
        orders.push_back(timings.launch_order);
        if (timings.exposed) {
          const Summary& s = result.summary;
          result.summary.exposed = exposed_lines(result.program, *timings.exposed, s.times.step - s.times.compute,
                                                 s.times.step, static_cast<double>(s.tuning.repeats));
        }
        without.push_back(replay(*ready.prepared, a, ready.arms[a], i).step().value());
      } else {
        isolated.push_back(timings);
      }
      if (i >= options_.instrumented) continue;  // more are for intervals, not for the tables
      if (spec.by_operation) {
        keep_first_step(timings, ready.arms[a], result.summary.tuning.repeats);
      } else {
        keep_beginning(timings, spec.kept);
      }
      result.instrumented.emplace_back(arm.name, std::move(timings));
    }
  }
  result.summary.step_costs = estimate(costs);
  result.summary.observer_ratio = median(with) / median(without);
  // Where spans alone do not tell who began, the pass that looks at every operation may.
  if (result.summary.launch_order == unverified_order) result.summary.launch_order = common_order(orders);
  const Seconds step = result.summary.times.step;
  if (!std::isnan(step.value())) {
    result.summary.t_path = isolated_path(result.program, result.summary.times, isolated);
  }
}

void Runner::tell(const std::string& phase, int rounds, Interval watched) {
  if (progress_) progress_(phase, rounds, clock_.now() - began_, watched);
}

void Runner::stop_if_interrupted() const {
  if (interrupted_.load(std::memory_order_relaxed)) {
    throw Error(ErrorKind::interrupted, "interrupted: the case under way is given up");
  }
}

// What came back after all was aborted meanwhile: it is no measurement, and the backend can go no further.
void Runner::stop_if_late() const {
  if (std::string report = deadline_.report(); !report.empty()) throw Error(ErrorKind::failure, std::move(report));
}

}  // namespace ovl
