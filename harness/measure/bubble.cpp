// SPDX-License-Identifier: Apache-2.0
#include "measure/bubble.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>

#include "measure/summary.hpp"
#include "metrics/path.hpp"
#include "program/placement.hpp"

namespace ovl {
namespace {

using Kind = PipelineStepKind;

// What the slowest stage takes where nobody waits.
Seconds busy_time(const BubbleQuestion& question, const ArmMedians& medians) {
  if (question.given) return question.given->microbatch() * question.shape.microbatches;
  return medians.compute_span(name(Arm::compute));
}

double rate(Seconds span, Seconds busy) { return (span - busy) / span; }

// Of a microbatch on a stage, from the arms that do only steps of a kind.
PipelineCosts costs_of(const BubbleQuestion& question, const ArmMedians& medians, double transfers) {
  if (question.given) return *question.given;
  const auto microbatches = static_cast<double>(question.shape.microbatches);
  const auto of = [&](Kind kind) { return medians.step(name(kind)) / microbatches; };
  return {of(Kind::forward), of(Kind::backward_input), of(Kind::backward_weight),
          transfers > 0 ? medians.step(name(Arm::comm)) / transfers : Seconds(0)};
}

double value_of(const Summary& s, const std::string& column) {
  for (const auto& [known, estimate] : s.own) {
    if (known == column) return estimate.value;
  }
  return unknown_number;
}

Interval interval_of(const Summary& s, const std::string& column) {
  for (const auto& [known, estimate] : s.own) {
    if (known == column) return estimate.interval;
  }
  return {unknown_number, unknown_number};
}

using Columns = std::vector<std::pair<std::string, Value>>;

Columns derived(const Summary& s, const BubbleQuestion& question) {
  const PipelineCosts costs{Seconds(value_of(s, "t_forward")), Seconds(value_of(s, "t_backward_input")),
                            Seconds(value_of(s, "t_backward_weight")), Seconds(value_of(s, "t_transfer"))};
  const Seconds busy(value_of(s, "t_busy"));
  // What the optimizer and everything else outside of the microbatches takes belongs to the step, not to the bubble.
  const auto share = [&](Seconds bubble) { return bubble / (busy + bubble); };
  Columns columns{{"bubble_rate_makespan", rate(s.times.step, busy)}, {"t_path", unknown_number}};
  if (std::isnan(costs.microbatch().value()) || std::isnan(costs.transfer.value())) return columns;
  const VirtualBubble scheduled = bubble_in_virtual_time(question, costs);
  // The whole step's path: one rank's, as other schedules have it, does not see whom a stage waits for.
  columns.back().second = (busy + scheduled.of_makespan).value();
  columns.insert(columns.end(), {{"bubble_rate_schedule", share(scheduled.of_span)},
                                 {"t_bubble_schedule", scheduled.of_span.value()}});
  if (const auto formula = bubble_in_closed_form(question, costs)) {
    columns.insert(columns.end(), {{"bubble_rate_formula", share(*formula)}, {"t_bubble_formula", formula->value()}});
  }
  return columns;
}

std::string words(const Summary& s, const BubbleQuestion& question) {
  const Interval interval = interval_of(s, "bubble_rate");
  std::string text = fmt::format("idle {:.2f} % ", 100 * value_of(s, "bubble_rate"));
  if (interval.width() > 0) text += fmt::format("[{:.2f}, {:.2f}] ", 100 * interval.low, 100 * interval.high);
  text += "of the longest stage span";
  for (const auto& [column, value] : derived(s, question)) {
    if (column == "bubble_rate_schedule")
      text += fmt::format("; its schedule alone leaves {:.2f} %", 100 * std::get<double>(value));
    if (column == "bubble_rate_formula")
      text += fmt::format(", the closed form {:.2f} %", 100 * std::get<double>(value));
  }
  return text;
}

}  // namespace

std::optional<Seconds> bubble_in_closed_form(const BubbleQuestion& question, const PipelineCosts& costs) {
  const auto [schedule, p, m, v] = question.shape;
  const bool transfers = p > 1 && costs.transfer != Seconds(0);
  if (transfers && (m % p != 0 || question.receive == ReceivePosting::late)) return std::nullopt;
  switch (schedule) {
    case PipelineSchedule::gpipe:
      if (transfers) return std::nullopt;
      return gpipe_bubble(p, costs);
    case PipelineSchedule::one_f_one_b: return one_f_one_b_bubble(p, m, costs);
    case PipelineSchedule::interleaved: return interleaved_bubble(p, v, costs);
    case PipelineSchedule::zb_h1:
      if (m < p) return std::nullopt;
      return zb_h1_bubble(p, costs);
    case PipelineSchedule::zb_h2:
      if (m < 2 * p - 1) return std::nullopt;
      return zb_h2_bubble(p, costs);
  }
  return std::nullopt;
}

VirtualBubble bubble_in_virtual_time(const BubbleQuestion& question, const PipelineCosts& costs) {
  const Program program = pipeline_program(PipelineWhatIf{.shape = question.shape,
                                                          .forward = costs.forward,
                                                          .backward_input = costs.backward_input,
                                                          .backward_weight = costs.backward_weight,
                                                          .transfer = costs.transfer,
                                                          .receive = question.receive});
  const Spans spans = earliest_spans(program, given_durations(program));
  const Seconds ideal = costs.microbatch() * question.shape.microbatches;
  return {longest_compute_span(program, spans) - ideal, makespan(spans) - ideal};
}

double transfers_in_a_row(const Program& transfers) {
  std::vector<Durations> durations;
  for (const RankClass& c : transfers.classes) {
    Durations& of_class = durations.emplace_back();
    for (const Operation& op : c.body) of_class[op.id] = Seconds(std::holds_alternative<Exchange>(op.work) ? 1 : 0);
  }
  return makespan(earliest_spans(transfers, durations)).value();
}

void ask_for_bubble(CaseSpec& spec, const BubbleQuestion& question,
                    const std::function<Program(PipelineStepKind)>& steps) {
  spec.tuned = false;
  spec.step_names = [shape = question.shape](const Program& program) { return pipeline_step_names(program, shape); };
  spec.kept = 4096;  // the picture of a pipeline is of the whole step
  spec.arms = {case_arm(Arm::empty), case_arm(Arm::compute)};
  double transfers = 0;
  if (!question.given) {
    for (const Kind kind : {Kind::forward, Kind::backward_input, Kind::backward_weight}) {
      spec.arms.push_back(
          {.name = std::string(name(kind)),
           .program = [steps, kind](const Program& /*placed*/, const Tuning& /*tuning*/) { return steps(kind); }});
    }
    if (question.shape.stages > 1) {
      spec.arms.push_back(case_arm(Arm::comm));
      transfers = transfers_in_a_row(project(spec.build({}), Arm::comm));
    }
  }
  spec.arms.push_back(case_arm(Arm::overlapped));

  const auto of_costs = [question, transfers](Seconds PipelineCosts::*which) {
    return [=](const ArmMedians& medians) { return (costs_of(question, medians, transfers).*which).value(); };
  };
  const auto bubble = [question](const ArmMedians& medians) {
    return rate(medians.compute_span(name(Arm::overlapped)), busy_time(question, medians));
  };
  spec.estimates = {{"bubble_rate", bubble},
                    {"t_bubble",
                     [question](const ArmMedians& medians) {
                       return (medians.compute_span(name(Arm::overlapped)) - busy_time(question, medians)).value();
                     }},
                    {"t_busy", [question](const ArmMedians& medians) { return busy_time(question, medians).value(); }},
                    {"t_forward", of_costs(&PipelineCosts::forward)},
                    {"t_backward_input", of_costs(&PipelineCosts::backward_input)},
                    {"t_backward_weight", of_costs(&PipelineCosts::backward_weight)},
                    {"t_transfer", of_costs(&PipelineCosts::transfer)}};
  spec.watched = [bubble](std::span<const Sample> used, std::int64_t /*repeats*/, std::uint64_t seed) {
    return estimate(used, bubble, seed, 200).interval;
  };
  spec.derive = [question](const Summary& s) { return derived(s, question); };
  spec.words = [question](const Summary& s) { return words(s, question); };
}

std::vector<Column> bubble_columns() {
  std::vector<Column> columns;
  const auto with_interval = [&](const std::string& column, const std::string& unit, const std::string& help) {
    columns.push_back({column, ColumnType::real, unit, help});
    columns.push_back({column + "_low", ColumnType::real, unit, "lower end of the 95 % interval of " + column});
    columns.push_back({column + "_high", ColumnType::real, unit, "upper end of the 95 % interval of " + column});
  };
  with_interval("bubble_rate", "1", "idle share of the longest stage span, from a stage's first start to its last end");
  with_interval("t_bubble", "s", "the longest stage span beyond t_busy");
  with_interval("t_busy", "s", "the slowest stage where nobody waits: t_compute's span, or m (F + B + W) as given");
  with_interval("t_forward", "s", "F: a microbatch's forward pass on a stage, alone or given");
  with_interval("t_backward_input", "s", "B: likewise, the gradients of its inputs");
  with_interval("t_backward_weight", "s", "W: likewise, the gradients of its weights");
  with_interval("t_transfer", "s", "c: from a stage to the next, where stages do nothing else, or given");
  for (const auto& [column, unit, help] :
       {std::tuple{"bubble_rate_makespan", "1", "idle share of t_step, the makespan"},
        {"bubble_rate_schedule", "1", "of the schedule replayed in virtual time with F, B, W and c"},
        {"t_bubble_schedule", "s", "likewise, the bubble"},
        {"bubble_rate_formula", "1", "of the closed form with F, B, W and c; empty where it does not hold"},
        {"t_bubble_formula", "s", "likewise, the bubble"}}) {
    columns.push_back({column, ColumnType::real, unit, help});
  }
  return columns;
}

}  // namespace ovl
