// SPDX-License-Identifier: Apache-2.0
#include "results/consistency.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "results/cost_series.hpp"
#include "results/import/imported.hpp"
#include "results/loaded_run.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

// One replay of an arm: the rows of its ranks, of which each has its step.
struct Replay {
  std::int64_t rows = 0;
  bool used = false;
  double step = 0;
  std::int64_t repeats = 1;
};
// By arm, then by round, position and slot.
using Replays = std::map<std::string, std::map<std::array<std::int64_t, 3>, Replay>>;

std::map<CaseId, Replays> replays_of(const std::vector<Row>& samples) {
  std::map<CaseId, Replays> cases;
  const auto number = [](const Row& row, const char* column) { return whole_in(row, column).value_or(0); };
  for (const Row& row : samples) {
    const std::array at{number(row, "round"), number(row, "position"), number(row, "slot")};
    Replay& replay = cases[case_of(row)][text_in(row, "arm")][at];
    ++replay.rows;
    replay.used = number(row, "used") == 1;
    replay.step = number_in(row, "step");
    replay.repeats = whole_in(row, "repeats").value_or(1);
  }
  return cases;
}

struct Told {
  const char* arm;
  const char* column;
  bool per_operation;  // else per window
};
constexpr Told told[] = {{"empty", "t_empty", false},
                         {"compute", "t_compute", true},
                         {"comm", "t_comm", true},
                         {"serial", "t_serial", true},
                         {"overlapped", "t_step", true}};

std::string wrong_rows(const Replays& replays) {
  std::map<std::string, std::set<std::int64_t>> rounds;  // by arm
  for (const auto& [arm, all] : replays) {
    const std::int64_t rows = all.begin()->second.rows;
    for (const auto& [at, replay] : all) {
      rounds[arm].insert(at[0]);
      if (replay.rows == rows) continue;
      return fmt::format("round {} of its arm {} has samples of {} ranks and others of {}", at[0], arm, replay.rows,
                         rows);
    }
  }
  for (const auto& [arm, has] : rounds) {
    if (has != rounds.begin()->second) {
      return fmt::format("its arms {} and {} have samples of different rounds", rounds.begin()->first, arm);
    }
  }
  return {};
}

std::string wrong_numbers(const Row& row, const Replays& replays) {
  std::set<std::int64_t> rounds;
  for (const auto& [arm, all] : replays) {
    for (const auto& [at, replay] : all) {
      if (replay.used) rounds.insert(at[0]);
    }
  }
  if (const auto said = whole_in(row, "rounds"); said && *said != std::ssize(rounds)) {
    return fmt::format("its row says {} rounds, its samples have {}", *said, rounds.size());
  }
  constexpr double rounding = 1e-12;
  for (const auto& [arm, column, per_operation] : told) {
    const double said = number_in(row, column);
    const auto of_arm = replays.find(arm);
    if (std::isnan(said) || of_arm == replays.end()) continue;
    std::vector<double> steps;
    for (const auto& [at, replay] : of_arm->second) {
      if (replay.used) steps.push_back(replay.step / (per_operation ? static_cast<double>(replay.repeats) : 1));
    }
    const double found = median(steps);
    if (std::fabs(said - found) <= rounding * std::fabs(found)) continue;
    return fmt::format("its row says {} {}, the median of its samples is {}", column, said, found);
  }
  return {};
}

}  // namespace

std::string inconsistency(const std::vector<Row>& summary, const std::vector<Row>& samples) {
  const std::map<CaseId, Replays> cases = replays_of(samples);
  std::set<CaseId> seen;
  for (const Row& row : summary) {
    const CaseId id = case_of(row);
    const std::string name = fmt::format("the case \"{}\" of launch {}: ", printable(id.first, 400), id.second);
    if (!seen.insert(id).second) return name + "it has two rows";
    if (!has_numbers(row)) continue;
    const auto found = cases.find(id);
    if (found == cases.end()) {
      if (whole_in(row, "rounds").value_or(0) > 0) return name + "it has no samples";
      continue;
    }
    if (const std::string wrong = wrong_rows(found->second); !wrong.empty()) return name + wrong;
    if (const std::string wrong = wrong_numbers(row, found->second); !wrong.empty()) return name + wrong;
  }
  return {};
}

}  // namespace ovl
