// SPDX-License-Identifier: Apache-2.0
//
// What does a missing or a needless edge between compute and communication cost: time, or right results?
//
// Varies: the mistake. Held: the step (gradients one after another, each reduced, then added to the weights), its
// stalls, which make a missing edge show every time. What would prove the harness wrong: a wrong element in `correct`
// or `global_sync`, or a mistake of which the static check says nothing.
#include <fmt/format.h>

#include <algorithm>

#include "app/bench.hpp"
#include "app/command_line.hpp"
#include "app/ordering_report.hpp"
#include "app/schedule_axes.hpp"
#include "base/error.hpp"
#include "measure/summary.hpp"
#include "program/check.hpp"
#include "schedule/models.hpp"
#include "schedule/ordering.hpp"

namespace {

using namespace ovl;

// What a user typed for one case, as typed: names and key are made of it.
struct Asked {
  std::string gemm, gradients, stall, dtype, waiting, channels, buffers, variant;
};

std::vector<Asked> product(const AxisValues& axes) {
  std::vector<Asked> all{{}};
  const auto multiply = [&](const char* axis, std::string Asked::*member) {
    all = multiplied(all, axes[axis], member);
  };
  multiply("gemm", &Asked::gemm);
  multiply("gradients", &Asked::gradients);
  multiply("stall", &Asked::stall);
  multiply("dtype", &Asked::dtype);
  multiply("waiting", &Asked::waiting);
  multiply("channels", &Asked::channels);
  multiply("buffers", &Asked::buffers);
  multiply("variant", &Asked::variant);
  return all;
}

OrderingSpec parse_ordering(const Asked& asked, const CaseContext& context) {
  OrderingSpec ordering;
  ordering.variant = parse_enum<OrderingVariant>(asked.variant);
  ordering.ranks = context.ranks;
  ordering.gradients = static_cast<int>(parse_count("gradients", asked.gradients, 64));
  const GemmShape gemm = named_gemm(asked.gemm);
  ordering.m = gemm.m;
  ordering.n = gemm.n;
  ordering.k = gemm.k;
  ordering.dtype = parse_product_dtype(asked.dtype, "gradients");
  ordering.stall = parse_duration("--stall", asked.stall);
  ordering.transport = context.transport;
  ordering.channels = parse_channels(asked.channels);
  ordering.waiting = parse_enum<Waiting>(asked.waiting);
  ordering.memory = parse_enum<Memory>(asked.buffers);
  if (ordering.gradients < 2) {
    throw usage_error("gradients \"1\" leave no order to get wrong", "two reductions can come in two orders",
                      "type for example --gradients 3");
  }
  if (ordering.ranks < 2 && ordering.variant == OrderingVariant::rank_misorder) {
    throw usage_error("rank_misorder on one rank is not possible", "it has nobody to disagree with",
                      "type --ranks 2, or leave the variant out");
  }
  return ordering;
}

// "none", or what the static check finds and how often: "race x 6".
std::string counted(const std::vector<Finding>& findings) {
  std::string text;
  for (const auto& [kind, name] : EnumNames<FindingKind>::table) {
    const auto found =
        std::count_if(findings.begin(), findings.end(), [k = kind](const Finding& f) { return f.kind == k; });
    if (found > 0) text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", name, found);
  }
  return text.empty() ? "none" : text;
}

std::string words(const Summary& s, std::int64_t elements) {
  if (!s.difference) return "results not looked at";
  if (s.difference->elements > 0) {
    return fmt::format("{} of {} weights wrong: {}", s.difference->elements, elements, s.difference->first);
  }
  return s.program.expected_findings.empty() ? "right"
                                             : "the mistake did not show this time: the static check is the judge";
}

CaseSpec make_case(const Asked& asked, bool run_anyway, const CaseContext& context) {
  OrderingSpec ordering = parse_ordering(asked, context);
  const bool misordered = ordering.variant == OrderingVariant::rank_misorder;
  ordering.run_anyway = run_anyway && misordered;

  CaseSpec spec;
  spec.name = fmt::format("ordering/{}/{}/g{}/{}/{}/{}/c{}/{}", asked.variant, asked.gemm, asked.gradients, asked.stall,
                          asked.dtype, asked.waiting, asked.channels, asked.buffers);
  spec.key = fmt::format(
      "ordering variant={} gemm={} gradients={} stall={} dtype={} waiting={} channels={} buffers={} ranks={} "
      "transport={}{}",
      asked.variant, asked.gemm, asked.gradients, asked.stall, asked.dtype, asked.waiting, asked.channels,
      asked.buffers, context.ranks, context.transport, ordering.run_anyway ? " run_anyway=on" : "");
  spec.placement_name = "concurrent";  // but for global_sync, which is a variant here
  spec.placement = parse_placement(spec.placement_name);
  spec.tuned = false;
  spec.build = [ordering](const Tuning& /*tuning*/) { return ordering_program(ordering); };
  spec.arms = {case_arm(Arm::overlapped)};
  spec.serial_check = [ordering](const Program& placed) {
    OrderingSpec correct = ordering;
    correct.variant = OrderingVariant::correct;
    return SerialCheck{.program = placed, .meant = ordering_program(correct), .buffers = {"weights"}, .note = "serial"};
  };
  if (misordered) spec.refused_unless = "--run-anyway runs it under the deadline, in a fresh process";
  spec.watched = [](std::span<const Sample> used, std::int64_t /*repeats*/, std::uint64_t seed) {
    return relative_step_interval(used, name(Arm::overlapped), seed);
  };
  const Program program = ordering_program(ordering);
  const auto weights =
      std::find_if(program.buffers.begin(), program.buffers.end(), [](const Buffer& b) { return b.name == "weights"; });
  const std::int64_t elements = weights->count * program.ranks;
  const std::vector<Finding> findings = check(program);
  spec.asked = {{"variant", asked.variant},
                {"gemm", asked.gemm},
                {"gradients", std::int64_t{ordering.gradients}},
                {"stall", ordering.stall.value()},
                {"dtype", asked.dtype},
                {"elements", elements},
                {"static_check", counted(findings)},
                {"first_finding", findings.empty() ? std::string() : findings.front().message}};
  spec.derive = [](const Summary& s) -> std::vector<std::pair<std::string, Value>> {
    if (!s.difference) return {};
    return {{"correct", std::int64_t{s.difference->elements == 0}},
            {"elements_wrong", s.difference->elements},
            {"first_wrong", s.difference->first}};
  };
  spec.words = [elements](const Summary& s) { return words(s, elements); };
  return spec;
}

const Bench bench{
    .name = "ordering",
    .question =
        "What does a missing or a needless edge between compute and communication cost: time, or right results?",
    .axes = {{"variant", "correct, missing_producer_event, missing_consumer_wait, global_sync, rank_misorder",
              "correct,missing_producer_event,missing_consumer_wait,global_sync,rank_misorder"},
             {"gemm", "shape MxNxK of the first gradient; the i-th is i times as high", "64x64x64"},
             {"gradients", "in a step, two or more", "3"},
             {"stall",
              "what each gradient is late by, so that a missing edge shows; a quarter of it before each "
              "reduction. Longer than a reduction and a GEMM take",
              "4ms"},
             dtype_axis("f32"),
             waiting_axis(),
             channels_axis(),
             buffers_axis(),
             {"run-anyway",
              "launch rank_misorder although it is refused: it hangs or fails, under --deadline, in a "
              "process of its own",
              "off", true}},
    .columns = {{"variant", ColumnType::text, "", "correct, or the mistake"},
                {"gemm", ColumnType::text, "", "shape of the first gradient"},
                {"gradients", ColumnType::integer, "1", "in a step"},
                {"stall", ColumnType::real, "s", "what each gradient is late by"},
                {"dtype", ColumnType::text, "", "of everything"},
                {"elements", ColumnType::integer, "1", "weights of all ranks"},
                {"static_check", ColumnType::text, "", "what the static check had found before launch, and how often"},
                {"first_finding", ColumnType::text, "", "the first of them"},
                {"correct", ColumnType::integer, "1", "1 where a replay left the weights of a serial one, else 0"},
                {"elements_wrong", ColumnType::integer, "1",
                 "weights that one replay on exact data left otherwise than a serial one"},
                {"first_wrong", ColumnType::text, "", "the first of them"}},
    .cases =
        [](const AxisValues& axes, const CaseContext& context) {
          std::vector<CaseSpec> cases;
          for (const Asked& asked : product(axes)) cases.push_back(make_case(asked, axes.on("run-anyway"), context));
          return cases;
        },
    .table = ordering_table_text,
    .fresh_processes = [](const AxisValues& axes) { return axes.on("run-anyway"); }};

}  // namespace

int main(int argc, char** argv) { return ovl::run_bench(bench, argc, argv); }
