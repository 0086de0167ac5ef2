// SPDX-License-Identifier: Apache-2.0
#include "app/ddp_given.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "app/command_line.hpp"
#include "base/error.hpp"
#include "measure/summary.hpp"
#include "metrics/bucket_curve.hpp"
#include "schedule/ddp.hpp"

namespace ovl {
namespace {

const std::string kernels = "kernel";  // nothing is given

// What a user typed for one case, as typed: names and key are made of it.
struct Asked {
  std::string backward, bytes, alpha, wire, buckets;
};

constexpr std::pair<const char*, std::string Asked::*> members[] = {{"backward", &Asked::backward},
                                                                    {"gradient-bytes", &Asked::bytes},
                                                                    {"alpha", &Asked::alpha},
                                                                    {"wire-time", &Asked::wire},
                                                                    {"equal-buckets", &Asked::buckets}};

CaseSpec make_case(const Asked& asked, const CaseContext& context) {
  for (const auto& [axis, member] : members) {
    if (asked.*member != kernels) continue;
    throw usage_error(fmt::format("--{} is not given", axis),
                      "durations take the place of layers, so all of them are needed",
                      "type for example --backward 100ms --gradient-bytes 14GB --equal-buckets 45 --alpha 50us "
                      "--wire-time 186.6667ms");
  }
  const DdpWhatIf what_if{.backward = parse_duration("--backward", asked.backward),
                          .wire = parse_duration("--wire-time", asked.wire, true),
                          .alpha = parse_duration("--alpha", asked.alpha, true),
                          .buckets = parse_count("equal-buckets", asked.buckets, 10'000)};
  const Bytes bytes = parse_bytes(asked.bytes);
  if (what_if.buckets > bytes.value()) {
    throw usage_error(fmt::format("equal-buckets {} of {} are less than a byte each", asked.buckets, asked.bytes),
                      "a bucket holds at least one", "take fewer --equal-buckets or more --gradient-bytes");
  }

  CaseSpec spec;
  spec.name =
      fmt::format("ddp/given/T{}/{}/n{}/a{}/W{}", asked.backward, asked.bytes, asked.buckets, asked.alpha, asked.wire);
  spec.key = fmt::format(
      "ddp backward={} gradient_bytes={} equal_buckets={} alpha={} wire_time={} ranks={} transport={}", asked.backward,
      asked.bytes, asked.buckets, asked.alpha, asked.wire, context.ranks, context.transport);
  spec.placement_name = "concurrent";
  spec.placement = parse_placement(spec.placement_name);
  spec.tuned = false;
  spec.build = [what_if, ranks = context.ranks](const Tuning& /*tuning*/) { return ddp_program(what_if, ranks); };
  const std::int64_t largest = (bytes.value() + what_if.buckets - 1) / what_if.buckets;
  spec.asked = {{"bucket", format_bytes(Bytes(largest))},
                {"buckets", what_if.buckets},
                {"gradient_bytes", bytes.value()},
                {"largest_bucket", largest}};
  // What of the step is left when the backward pass has ended.
  spec.estimates = {
      {"t_tail", [](const ArmMedians& medians) {
         return (medians.step(name(Arm::overlapped)) - medians.compute_span(name(Arm::overlapped))).value();
       }}};
  const BucketCurve curve{.backward = what_if.backward, .wire = what_if.wire, .latency = what_if.alpha};
  spec.derive = [curve, n = what_if.buckets](const Summary& /*summary*/) -> std::vector<std::pair<std::string, Value>> {
    return {{"t_exposed_formula", exposed_time(curve, n).value()}};
  };
  return spec;
}

std::vector<Axis> given_axes() {
  return {{"backward",
           "a duration instead of layers: the backward pass; with all given and --backend auto it is the model that "
           "plays them",
           kernels},
          {"gradient-bytes", "likewise: all gradients", kernels},
          {"equal-buckets", "likewise: into how many equal buckets they go", kernels},
          {"alpha", "likewise: what each bucket's all_reduce costs however small", kernels},
          {"wire-time", "likewise: all gradients at the bandwidth", kernels}};
}

bool any_given(const AxisValues& axes) {
  return std::any_of(std::begin(members), std::end(members),
                     [&](const auto& member) { return axes[member.first] != std::vector<std::string>{kernels}; });
}

std::vector<CaseSpec> given_cases(const AxisValues& axes, const CaseContext& context) {
  std::vector<std::string> used;
  for (const auto& [axis, member] : members) used.emplace_back(axis);
  require_used(axes, used);
  std::vector<Asked> all{{}};
  for (const auto& [axis, member] : members) all = multiplied(all, axes[axis], member);
  std::vector<CaseSpec> cases;
  for (const Asked& asked : all) cases.push_back(make_case(asked, context));
  return cases;
}

std::vector<Column> given_columns() {
  return {{"t_exposed_formula", ColumnType::real, "s",
           "of given durations: max(alpha + W / n, n alpha + W - T (1 - 1 / n))"}};
}

}  // namespace

Bench with_given_durations(Bench ddp) {
  for (Axis& axis : given_axes()) ddp.axes.push_back(std::move(axis));
  for (Column& column : given_columns()) ddp.columns.push_back(std::move(column));
  ddp.cases = [own = std::move(ddp.cases)](const AxisValues& axes, const CaseContext& context) {
    return any_given(axes) ? given_cases(axes, context) : own(axes, context);
  };
  ddp.all_given = any_given;
  return ddp;
}

}  // namespace ovl
