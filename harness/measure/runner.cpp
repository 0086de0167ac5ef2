// SPDX-License-Identifier: Apache-2.0
#include "measure/runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"
#include "measure/verify.hpp"
#include "program/check.hpp"
#include "program/print.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

constexpr std::size_t arm_index(Arm arm) { return static_cast<std::size_t>(arm); }

// In the order of the enum, so that an arm is an index.
std::vector<Program> arms_of(const Program& overlapped) {
  std::vector<Program> arms;
  for (const auto& [arm, text] : EnumNames<Arm>::table) arms.push_back(project(overlapped, arm));
  return arms;
}

std::string hash_of(const std::vector<Program>& arms) {
  std::string text;
  for (const Program& arm : arms) text += print(arm);
  return fmt::format("{:016x}", hash64(text));
}

// A finding is our own mistake: nothing is launched.
void require_sound(const std::vector<Program>& arms) {
  for (const Program& arm : arms) {
    const std::vector<Finding> findings = check(arm);
    if (!findings.empty()) {
      throw failure(fmt::format("program {} is not sound: {}", arm.name, name(findings.front().kind)),
                    findings.front().message,
                    "this is a defect of overlapbench; please report it with --dry-run's output");
    }
  }
}

// Tables and timelines keep the first operations of each lane: a window of short ones has tens of thousands.
void keep_first_of_each_lane(Timings& timings, int most) {
  std::map<std::pair<Rank, LaneId>, int> seen;
  std::erase_if(timings.operations, [&](const OperationTiming& op) { return ++seen[{op.rank, op.lane}] > most; });
}

std::string joined(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, "; ")); }

}  // namespace

Runner::Runner(Backend& backend, Clock& clock, MeasureOptions options, const std::atomic<bool>& interrupted,
               Progress progress)
    : backend_(backend),
      clock_(clock),
      options_(options),
      interrupted_(interrupted),
      progress_(std::move(progress)),
      deadline_(backend, options.deadline),
      description_(backend.describe()) {
  if (options_.window.value() == 0) options_.window = description_.window;
}

CaseResult Runner::run(const CaseSpec& spec) {
  began_ = clock_.now();
  case_seed_ = mix64(hash64(spec.key) ^ options_.seed);
  CaseResult result;
  try {
    run_phases(spec, result);
  } catch (const Error& error) {
    if (const std::string report = deadline_.report(); !report.empty()) {
      result.used.assign(result.samples.size(), false);
      result.noise.assign(result.samples.size(), "the case ended in a timeout");
      result.status = Status::timeout;
      result.reason = fmt::format("a replay did not finish within {}: {}", format_seconds(options_.deadline), report);
    } else if (error.kind() == ErrorKind::impossible) {
      result.status = Status::unsupported;
      result.reason = error.what();
    } else {
      throw;
    }
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

  // A program of the smallest window tells whether the case can run at all.
  result.program = spec.build({});
  result.program = place(result.program, spec.placement);
  const std::vector<Program> smallest = arms_of(result.program);
  for (const Program& arm : smallest) {
    if (const Support support = backend_.supports(arm); !support.ok()) {
      return end_as(Status::unsupported, support.reason);
    }
  }
  require_sound(smallest);
  tell("tune");
  result.summary.tuning = tune(spec);
  result.program = place(spec.build(result.summary.tuning), spec.placement);
  const std::vector<Program> arms = arms_of(result.program);
  require_sound(arms);
  result.program_hash = hash_of(arms);

  if (options_.verify) {
    tell("verify");
    for (const auto& [what, check] : {std::pair{"exact", &Runner::check_exact}, {"random", &Runner::check_random}}) {
      if (std::string wrong = (this->*check)(arms); !wrong.empty()) {
        result.verified = fmt::format("{} failed", what);
        return end_as(Status::failed_verify, std::move(wrong));
      }
    }
    result.verified = "exact+random";
  }
  const auto prepared = backend_.prepare(arms, Data::random, case_seed_);
  warm_up(*prepared, arms);
  measure(*prepared, arms, result);
  instrument(*prepared, arms, result);
  result.observed = prepared->observed();
}

Timings Runner::replay(Prepared& prepared, std::size_t arm, const Program& program, std::int64_t slot,
                       Recording recording) {
  stop_if_interrupted();
  const Deadline::Watch watch(deadline_, program);
  return prepared.run(arm, {.launch = options_.launch, .recording = recording, .slot = slot, .evict = true});
}

Tuning Runner::tune(const CaseSpec& spec) {
  constexpr int passes = 3;  // the first guess is from single cold operations, the last confirms
  constexpr int replays = 5;
  Tuning tuning;
  for (int pass = 0; pass < passes; ++pass) {
    const Program program = place(spec.build(tuning), spec.placement);
    const std::vector<Program> arms{project(program, Arm::compute), project(program, Arm::comm)};
    require_sound(arms);
    const auto prepared = backend_.prepare(arms, Data::random, case_seed_);
    std::array<double, 2> time{};
    for (std::size_t a = 0; a < arms.size(); ++a) {
      std::vector<double> steps;
      for (int i = 0; i <= replays; ++i) {
        const double step = replay(*prepared, a, arms[a], i).step().value();
        if (i > 0) steps.push_back(step / static_cast<double>(tuning.repeats));  // the first one warms up
      }
      time[a] = median(steps);
    }
    const auto [compute, comm] = std::pair{time[0], time[1]};
    if (!(compute > 0 && comm > 0)) return tuning;

    Tuning next = tuning;
    const double one_gemm = compute / static_cast<double>(tuning.gemm_repeat);
    if (spec.balance) next.gemm_repeat = std::max<std::int64_t>(1, std::llround(comm / one_gemm));
    // The shorter part should fill the window, but the longer must not fill more than ten.
    const double balanced = one_gemm * static_cast<double>(next.gemm_repeat);
    const double wanted = std::ceil(options_.window.value() / std::min(balanced, comm));
    const double most = std::floor(10 * options_.window.value() / std::max(balanced, comm));
    next.repeats = static_cast<std::int64_t>(std::clamp(std::min(wanted, most), 1.0, 10000.0));
    if (next == tuning) break;
    tuning = next;
  }
  return tuning;
}

std::string Runner::check_exact(const std::vector<Program>& arms) {
  const Program& overlapped = arms[arm_index(Arm::overlapped)];
  const auto exact = backend_.prepare(arms, Data::exact, case_seed_);
  replay(*exact, arm_index(Arm::overlapped), overlapped, 0);
  return verify(overlapped, *exact, Data::exact, 0);
}

std::string Runner::check_random(const std::vector<Program>& arms) {
  const Program& overlapped = arms[arm_index(Arm::overlapped)];
  const auto random = backend_.prepare(arms, Data::random, case_seed_);
  // What the GEMMs wrote, alone and overlapped: equal to the bit.
  const auto products = [&] {
    std::map<std::pair<BufferId, Rank>, std::uint64_t> prints;
    for (const RankClass& c : overlapped.classes) {
      for (const Operation& op : c.body) {
        if (!std::holds_alternative<Gemm>(op.work)) continue;
        for (const Rank rank : c.members) {
          const BufferId buffer = op.writes.front().buffer;
          if (!prints.contains({buffer, rank})) prints[{buffer, rank}] = random->fingerprint(buffer, rank, 0);
        }
      }
    }
    return prints;
  };
  replay(*random, arm_index(Arm::compute), arms[arm_index(Arm::compute)], 0);
  const auto alone = products();
  random->reset();
  replay(*random, arm_index(Arm::overlapped), overlapped, 0);
  const auto beside = products();
  const auto differ = std::mismatch(alone.begin(), alone.end(), beside.begin()).first;
  if (differ != alone.end()) {
    const auto& [buffer, rank] = differ->first;
    return fmt::format("buffer {} on rank {}: what a GEMM wrote differs between its solo run and the overlapped one",
                       overlapped.buffers[buffer.index()].name, rank.value);
  }
  return verify(overlapped, *random, Data::random, 0);
}

void Runner::warm_up(Prepared& prepared, const std::vector<Program>& arms) {
  tell("warm up");
  const Seconds began = clock_.now();
  for (std::size_t a = 0; a < arms.size(); ++a) {
    for (int i = 0; i < 2; ++i) replay(prepared, a, arms[a], i);
  }
  constexpr std::size_t recent = 10;
  std::vector<double> steps;
  while (clock_.now() - began < options_.warm_up) {
    const auto slot = static_cast<std::int64_t>(steps.size());
    steps.push_back(
        replay(prepared, arm_index(Arm::overlapped), arms[arm_index(Arm::overlapped)], slot).step().value());
    if (steps.size() >= recent && steady(std::span(steps).last(recent))) return;
  }
}

void Runner::measure_round(Prepared& prepared, const std::vector<Program>& arms, int round, CaseResult& result) {
  Random random(mix64(case_seed_ + static_cast<std::uint64_t>(round)));
  int position = 0;
  for (const std::size_t arm : random.permutation(arms.size())) {
    const Seconds began = clock_.now();
    std::int64_t slot = round;
    do {
      Sample sample = observe(arms[arm], replay(prepared, arm, arms[arm], slot));
      sample.block = static_cast<int>(result.blocks.size());
      sample.round = round;
      sample.position = position;
      sample.arm = static_cast<Arm>(arm);
      sample.slot = slot++;
      result.samples.push_back(std::move(sample));
    } while (options_.interleave == Interleave::block && clock_.now() - began < options_.block_arm);
    ++position;
  }
}

void Runner::measure(Prepared& prepared, const std::vector<Program>& arms, CaseResult& result) {
  // With --interleave block a round is already long: conditions are read around each.
  const Seconds block_length = options_.interleave == Interleave::block ? Seconds(0) : options_.block;
  const Seconds began = clock_.now();
  const StopRule& rule = options_.stop;
  std::vector<std::vector<std::string>> reasons;
  std::vector<Sample> used;
  int round = 0;
  const auto select = [&] {
    reasons = judge_all(result.blocks);
    used.clear();
    for (const Sample& s : result.samples) {
      if (reasons[static_cast<std::size_t>(s.block)].empty()) used.push_back(s);
    }
  };
  const auto rounds_used = [&] {
    int rounds = 0;
    for (std::size_t b = 0; b < reasons.size(); ++b) rounds += reasons[b].empty() ? result.blocks[b].rounds : 0;
    return rounds;
  };

  Conditions before = backend_.conditions();
  for (;;) {
    Block block{before, {}, 0, {}};
    const int wanted = rule.max_rounds - rounds_used();
    const Seconds block_began = clock_.now();
    do {
      measure_round(prepared, arms, round++, result);
      ++block.rounds;
    } while (block.rounds < wanted && clock_.now() - block_began < block_length);
    block.after = backend_.conditions();
    before = block.after;
    result.blocks.push_back(std::move(block));

    // Spoilt blocks are measured again as long as there is time, and stay in the samples.
    select();
    const Interval watched = watched_interval(used, result.summary.tuning.repeats, case_seed_);
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
  if (noisy) {
    used = result.samples;
    result.status = Status::noisy;
    for (const auto& why : reasons) {
      if (!why.empty()) result.reason = joined(why);  // the last block's: the rest is in samples.csv
    }
  }
  for (const Sample& s : result.samples) {
    const auto& why = reasons[static_cast<std::size_t>(s.block)];
    result.used.push_back(noisy || why.empty());
    result.noise.push_back(joined(why));
  }
  result.summary = summarise(result.program, result.summary.tuning, used, case_seed_);
}

void Runner::instrument(Prepared& prepared, const std::vector<Program>& arms, CaseResult& result) {
  tell("instrument");
  std::vector<Timings> isolated;
  std::vector<double> with;
  std::vector<double> without;
  for (int i = 0; i < options_.instrumented; ++i) {
    for (const Arm arm : {Arm::compute, Arm::comm, Arm::overlapped}) {
      const std::size_t a = arm_index(arm);
      Timings timings = replay(prepared, a, arms[a], i, Recording::operations);
      if (arm == Arm::overlapped) {
        with.push_back(timings.step().value());
        without.push_back(replay(prepared, a, arms[a], i).step().value());
      } else {
        isolated.push_back(timings);
      }
      keep_first_of_each_lane(timings, kept_operations);
      result.instrumented.emplace_back(arm, std::move(timings));
    }
  }
  result.summary.observer_ratio = median(with) / median(without);
  result.summary.t_path = isolated_path(result.program, result.summary.tuning, isolated);
}

void Runner::tell(const std::string& phase, int rounds, Interval watched) {
  if (progress_) progress_(phase, rounds, clock_.now() - began_, watched);
}

void Runner::stop_if_interrupted() const {
  if (interrupted_.load(std::memory_order_relaxed)) {
    throw Error(ErrorKind::interrupted, "interrupted: the case under way is given up, finished cases are kept");
  }
}

}  // namespace ovl
