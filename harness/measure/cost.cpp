// SPDX-License-Identifier: Apache-2.0
#include "measure/cost.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "measure/summary.hpp"
#include "metrics/bus_bandwidth.hpp"

namespace ovl {
namespace {

using Columns = std::vector<std::pair<std::string, Value>>;

Columns derived(const Summary& s, const CostQuestion& question) {
  const double algorithm = algorithm_bandwidth(question.bytes, s.times.comm).value();
  Columns columns{{"algorithm_bandwidth", algorithm}, {"bus_bandwidth", algorithm * question.bus_factor}};
  if (const ArmSummary* idle = s.arm(name(Arm::comm)); idle != nullptr) {
    columns.insert(columns.end(), {{"t_rank_min", idle->rank_least.value()},
                                   {"t_rank_median", idle->rank_middle.value()},
                                   {"t_rank_max", idle->rank_most.value()}});
  }
  const ArmSummary* loaded = s.arm(loaded_arm);
  if (loaded == nullptr) return columns;
  const Estimate& time = loaded->communication;
  columns.insert(
      columns.end(),
      {{"t_loaded", time.value},
       {"t_loaded_low", time.interval.low},
       {"t_loaded_high", time.interval.high},
       {"bus_bandwidth_loaded", algorithm_bandwidth(question.bytes, Seconds(time.value)).value() * question.bus_factor},
       {"coverage", loaded->coverage},
       {"gemm_repeat", s.tuning.gemm_repeat},
       {"rounds_uncovered", std::int64_t{s.rounds_uncovered}}});
  return columns;
}

std::string cost_words(const Summary& s) {
  if (s.times.comm == Seconds(0)) return "takes no time, so it has no bandwidth: one rank has nobody to send to";
  const ArmSummary* loaded = s.arm(loaded_arm);
  if (loaded == nullptr) return "alone";
  if (std::isnan(loaded->coverage)) return "starts and ends were not seen: whether GEMMs covered it is not known";
  if (loaded->coverage < 1)
    return fmt::format("GEMMs covered it in only {:.0f} % of the rounds", 100 * loaded->coverage);
  return fmt::format("beside GEMMs {:.2f}x as long as alone", s.slowdowns.comm);
}

}  // namespace

void ask_for_cost(CaseSpec& spec, const CostQuestion& question) {
  spec.arms = {case_arm(Arm::empty), case_arm(Arm::comm)};
  std::vector<std::string> watched{spec.arms.back().name};
  if (question.loaded) {
    spec.arms.push_back(case_arm(Arm::overlapped, std::string(loaded_arm)));
    spec.arms.back().covering = Role::compute;
    watched.push_back(spec.arms.back().name);
  }
  spec.watched = [watched](std::span<const Sample> used, std::int64_t /*repeats*/, std::uint64_t seed) {
    return widest_communication_interval(used, watched, seed);
  };
  spec.derive = [question](const Summary& s) { return derived(s, question); };
  spec.words = cost_words;
}

std::vector<Column> cost_columns() {
  return {{"algorithm_bandwidth", ColumnType::real, "B/s", "bytes / t_comm, idle"},
          {"bus_bandwidth", ColumnType::real, "B/s",
           "algorithm bandwidth times nccl-tests' factor, idle; empty for one rank"},
          {"t_rank_min", ColumnType::real, "s", "idle: median over rounds of the fastest rank's own time"},
          {"t_rank_median", ColumnType::real, "s", "idle: median over rounds of the middle rank's own time"},
          {"t_rank_max", ColumnType::real, "s", "idle: median over rounds of the slowest rank's own time"},
          {"t_loaded", ColumnType::real, "s", "beside GEMMs: median from the last rank's start to the last rank's end"},
          {"t_loaded_low", ColumnType::real, "s", "lower end of the 95 % interval of t_loaded"},
          {"t_loaded_high", ColumnType::real, "s", "upper end of the 95 % interval of t_loaded"},
          {"bus_bandwidth_loaded", ColumnType::real, "B/s", "bytes / t_loaded times nccl-tests' factor"},
          {"coverage", ColumnType::real, "1",
           "share of the rounds used in which the GEMMs began before the collective and ended after it, on every rank"},
          {"gemm_repeat", ColumnType::integer, "1", "GEMMs in one window"},
          {"rounds_uncovered", ColumnType::integer, "1",
           "rounds measured again with more GEMMs, kept in samples.csv with used = 0"}};
}

}  // namespace ovl
