// SPDX-License-Identifier: Apache-2.0
#include "measure/rows.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "measure/exposed_causes.hpp"
#include "program/consumers.hpp"
#include "results/schema.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

std::string text(std::string_view view) { return std::string(view); }

void set_estimate(Row& row, const std::string& column, const Estimate& estimate) {
  row.set(column, estimate.value);
  row.set(column + "_low", estimate.interval.low);
  row.set(column + "_high", estimate.interval.high);
}

// A time that lies beyond what was seen is infinite in an order of times, and no number in a table.
Estimate where_finite(const Estimate& estimate) {
  const auto finite = [](double v) { return std::isfinite(v) ? v : std::numeric_limits<double>::quiet_NaN(); };
  return {finite(estimate.value), {finite(estimate.interval.low), finite(estimate.interval.high)}};
}

const std::string* observed(const CaseResult& result, std::string_view fact) {
  const auto found =
      std::find_if(result.observed.begin(), result.observed.end(), [&](const Fact& f) { return f.name == fact; });
  return found == result.observed.end() ? nullptr : &found->value;
}

void set_observed(Row& row, const CaseResult& result, const std::string& column, const std::string& fact) {
  const std::string* value = observed(result, fact);
  if (value == nullptr) return;
  // What differs between processes, or one of them did not see, is no number: the column stays empty.
  std::int64_t number = 0;
  const char* end = value->data() + value->size();
  if (const auto read = std::from_chars(value->data(), end, number); read.ec == std::errc() && read.ptr == end) {
    row.set(column, number);
  }
}

// Whether anything was launched: what a row tells of that is empty otherwise.
bool ran(const CaseResult& result) { return result.status != Status::unsupported && result.status != Status::skipped; }

void set_asked(Row& row, const CaseSpec& spec, const CaseResult& result) {
  const Program& program = result.program;
  row.set("placement", spec.placement_name);
  row.set("program_hash", result.program_hash);
  row.set("verify", result.verified);
  if (program.lanes.empty()) return;  // could not even be built
  row.set("ranks", static_cast<std::int64_t>(program.ranks));
  row.set("waiting", text(name(program.lanes.front().waiting)));
  if (!program.communicators.empty()) {
    row.set("transport", program.communicators.front().transport);
    row.set("progress", progress_name(program.communicators.front().progress));
    row.set("channels_asked", static_cast<std::int64_t>(program.communicators.front().channels));
  }
  if (!program.buffers.empty()) {
    row.set("buffers", text(name(program.buffers.front().memory)));
    if (ran(result)) row.set("buffer_copies", static_cast<std::int64_t>(program.buffers.front().copies));
  }
}

void set_conditions(Row& row, const CaseResult& result) {
  const auto middle = [&](const char* reading) { return median(readings(result.used_blocks, reading)); };
  const auto extreme = [&](const char* reading, double p) {
    return quantile(readings(result.used_blocks, reading), p);
  };
  row.set("core_distance", middle("core_distance"));
  row.set("core_distance_low", extreme("core_distance", 0));
  row.set("core_distance_high", extreme("core_distance", 1));
  row.set("busy_core_slowdown", middle("busy_core_slowdown"));
  row.set("steal_share", extreme("steal_share", 1));
  row.set("foreign_cpu_share", extreme("foreign_cpu_share", 1));
}

void set_numbers(Row& row, const CaseResult& result) {
  const Summary& s = result.summary;
  set_estimate(row, "t_empty", s.t_empty);
  set_estimate(row, "t_compute", s.t_compute);
  set_estimate(row, "t_comm", s.t_comm);
  set_estimate(row, "t_serial", s.t_serial);
  set_estimate(row, "t_step", s.t_step);
  set_estimate(row, "t_exposed", s.t_exposed);
  set_estimate(row, "hidden_share", s.hidden_share);
  set_estimate(row, "speedup", s.speedup);
  row.set("t_ideal", s.overlap.t_ideal.value());
  row.set("speedup_bound", s.overlap.speedup_bound);
  row.set("t_overlap", s.overlap.t_overlap.value());
  row.set("hidden_fraction", s.overlap.hidden_fraction);
  row.set("speedup_measured", s.overlap.speedup_measured);
  row.set("serial_gap", s.overlap.serial_gap.value());
  row.set("t_path", s.t_path.value());
  row.set("compute_stretch", s.compute_stretch);
  row.set("comm_stretch", s.comm_stretch);
  row.set("compute_slowdown", s.slowdowns.compute);
  row.set("comm_slowdown", s.slowdowns.comm);
  if (!s.slowdown_source.empty()) row.set("slowdown_source", s.slowdown_source);
  row.set("verdict", s.verdict);
  row.set("align_skew", s.align_skew.value());
  row.set("observer_ratio", s.observer_ratio);
  if (s.exposed) {
    for (const auto& [column, value] : exposed_cause_values(*s.exposed)) row.set(column, value);
  }
  row.set("launch_order", s.launch_order);
  set_conditions(row, result);
}

}  // namespace

std::vector<Row> sample_rows(const CaseSpec& spec, const CaseResult& result, const RowContext& context) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < result.samples.size(); ++i) {
    const Sample& s = result.samples[i];
    for (const RankSample& rank : s.ranks) {
      Row& row = rows.emplace_back(samples_schema());
      row.set("key", spec.key).set("launch", context.launch);
      row.set("block", static_cast<std::int64_t>(s.block)).set("round", static_cast<std::int64_t>(s.round));
      row.set("position", static_cast<std::int64_t>(s.position)).set("arm", s.arm);
      row.set("rank", static_cast<std::int64_t>(rank.rank.value)).set("slot", s.slot);
      row.set("repeats", result.summary.tuning.repeats);
      row.set("step", s.step.value()).set("own", rank.own.value());
      row.set("compute_span", rank.compute_span.value()).set("comm_span", rank.comm_span.value());
      row.set("align_skew", s.align_skew.value()).set("launch_order", s.launch_order);
      row.set("pace", rank.pace.value());
      row.set("compute_start", rank.compute_start.value()).set("comm_start", rank.comm_start.value());
      row.set("used", static_cast<std::int64_t>(result.used[i] ? 1 : 0));
      if (!result.noise[i].empty()) row.set("noise", result.noise[i]);
    }
  }
  return rows;
}

std::vector<Row> operation_rows(const CaseSpec& spec, const CaseResult& result, const RowContext& context) {
  std::vector<Row> rows;
  const Program& program = result.program;
  struct Known {
    const Operation* op;
    std::int64_t nth;
  };
  std::map<std::pair<const RankClass*, OpId>, Known> operations;
  std::map<const RankClass*, std::map<OpId, OpId>> consumers;
  std::map<const RankClass*, std::map<OpId, std::vector<OpId>>> inputs;
  for (const RankClass& c : program.classes) {
    std::map<std::pair<LaneId, std::string_view>, std::int64_t> seen;
    for (const Operation& op : c.body) operations[{&c, op.id}] = {&op, seen[{op.lane, kind_name(op.work)}]++};
    consumers[&c] = first_consumers(c);
    inputs[&c] = producers(c);
  }
  std::vector<std::map<OpId, std::string>> steps(program.classes.size());
  if (spec.step_names) steps = spec.step_names(program);
  std::map<std::string, std::int64_t> replays;
  for (const auto& [arm, timings] : result.instrumented) {
    const std::int64_t replay = replays[arm]++;
    std::map<std::pair<Rank, OpId>, const ExposedPart*> exposed_most;
    std::map<std::pair<Rank, OpId>, double> exposed;
    if (timings.exposed && arm == spec.arms.back().name) {
      for (const ExposedPart& part : timings.exposed->parts) {
        const std::pair of(part.rank, part.op);
        exposed[of] += part.time.value();
        const ExposedPart*& most = exposed_most[of];
        if (most == nullptr || part.time > most->time) most = &part;
      }
    }
    std::map<std::pair<Rank, OpId>, const OperationTiming*> recorded;
    for (const OperationTiming& t : timings.operations) recorded[{t.rank, t.op}] = &t;
    const auto began = [](const OperationTiming& t) { return std::isnan(t.start.value()) ? t.ready : t.start; };
    for (const OperationTiming& t : timings.operations) {
      const RankClass* const c = &program.class_of(t.rank);
      const auto op = operations.find({c, t.op});
      if (op == operations.end()) continue;  // an edge that only the projection has
      Row& row = rows.emplace_back(operations_schema());
      row.set("key", spec.key).set("launch", context.launch).set("arm", arm).set("replay", replay);
      row.set("rank", static_cast<std::int64_t>(t.rank.value));
      row.set("lane", program.lanes.at(t.lane.index()).name);
      const Operation& of = *op->second.op;
      row.set("op", static_cast<std::int64_t>(t.op.value)).set("kind", text(kind_name(of.work)));
      row.set("nth", op->second.nth).set("role", text(name(of.role)));
      if (const auto* collective = std::get_if<Collective>(&of.work)) {
        row.set("bytes", (size_of(collective->dtype) * collective->count).value());
      }
      if (const auto consumer = consumers[c].find(t.op); consumer != consumers[c].end()) {
        const auto at = recorded.find({t.rank, consumer->second});
        if (at != recorded.end()) row.set("proceeded", began(*at->second).value());
      }
      if (const auto wrote = inputs[c].find(t.op); wrote != inputs[c].end()) {
        double eligible = -std::numeric_limits<double>::infinity();
        for (const OpId op_id : wrote->second) {
          const auto at = recorded.find({t.rank, op_id});
          const double end = at == recorded.end() ? unknown_time.value() : at->second->end.value();
          eligible = std::isnan(end) || end > eligible ? end : eligible;
          if (std::isnan(end)) break;
        }
        row.set("eligible", eligible);
      }
      row.set("enqueued", t.enqueued.value()).set("ready", t.ready.value()).set("start", t.start.value());
      row.set("end", t.end.value()).set("host_return", t.host_return.value());
      if (const auto part = exposed_most.find({t.rank, t.op}); part != exposed_most.end()) {
        row.set("exposed", exposed.at(part->first)).set("cause", text(name(part->second->cause)));
      }
      row.set("start_source", timings.start_source).set("kept_until", timings.kept_until.value());
      const auto& names = steps.at(static_cast<std::size_t>(op->first.first - program.classes.data()));
      if (const auto step = names.find(t.op); step != names.end()) row.set("step", step->second);
    }
  }
  return rows;
}

std::vector<Row> series_rows(const CaseSpec& spec, const CaseResult& result, const RowContext& context) {
  if (!spec.over_time || !result.has_numbers()) return {};
  std::vector<Sample> used;
  for (std::size_t i = 0; i < result.samples.size(); ++i) {
    if (result.used[i]) used.push_back(result.samples[i]);
  }
  std::vector<Row> rows = spec.over_time(result.summary, used);
  for (Row& row : rows) row.set("key", spec.key).set("launch", context.launch).set("source", context.source);
  return rows;
}

Row summary_row(const Schema& schema, const CaseSpec& spec, const CaseResult& result, const RowContext& context) {
  Row row(schema);
  row.set("key", spec.key).set("bench", context.bench).set("launch", context.launch);
  row.set("status", text(name(result.status))).set("reason", result.reason);
  row.set("source", context.source).set("backend", context.backend);
  set_asked(row, spec, result);
  for (const auto& [column, value] : spec.asked) row.set(column, value);
  if (ran(result)) row.set("launch_mode", text(name(context.options.launch)));
  row.set("interleave", text(name(context.options.interleave)));
  row.set("precision", context.options.stop.precision);
  row.set("t_measure", result.elapsed.value());
  if (!result.has_numbers()) return row;
  const std::string* layout = observed(result, "layout");
  if (layout != nullptr) row.set("layout", *layout);
  set_observed(row, result, "oversubscribed", "oversubscribed");
  set_observed(row, result, "channels_observed", "channels");
  set_observed(row, result, "partial", "partial");
  if (const std::string* waiting = observed(result, "waiting")) row.set("waiting", *waiting);
  if (const std::string* progress = observed(result, "progress")) row.set("progress", *progress);
  if (const std::string* path = observed(result, "path")) row.set("comm_path", *path);
  if (const std::string* algorithm = observed(result, "algorithm")) row.set("gemm_algorithm", *algorithm);
  // A program that syncs with the host runs live whatever was asked.
  if (const std::string* mode = observed(result, "launch_mode"); mode != nullptr && !mode->empty()) {
    row.set("launch_mode", *mode);
  }
  row.set("repeats", result.summary.tuning.repeats);
  row.set("rounds", static_cast<std::int64_t>(result.summary.rounds));
  row.set("rounds_spoilt", static_cast<std::int64_t>(result.rounds_spoilt));
  row.set("blocks", static_cast<std::int64_t>(result.blocks.size()));
  row.set("stop_rule", text(name(result.stop)));
  set_numbers(row, result);
  for (const auto& [column, value] : result.summary.own) set_estimate(row, column, where_finite(value));
  for (const auto& [column, value] : spec.derive(result.summary)) row.set(column, value);
  return row;
}

}  // namespace ovl
