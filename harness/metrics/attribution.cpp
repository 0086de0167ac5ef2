// SPDX-License-Identifier: Apache-2.0
#include "metrics/attribution.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace ovl {
namespace {

// An instrument that saw nothing is none.
template <class T>
std::optional<T> known(const std::optional<T>& reading) {
  if (!reading) return std::nullopt;
  if constexpr (std::is_same_v<T, double>) {
    return std::isnan(*reading) ? std::nullopt : reading;
  } else {
    return std::isnan(reading->value()) ? std::nullopt : reading;
  }
}

// What the critical side did not get done while both ran; the other side's slowdown costs the step nothing.
std::optional<Seconds> slowed(std::optional<double> slowdown, std::optional<Seconds> together, bool critical) {
  slowdown = known(slowdown);
  together = known(together);
  if (!slowdown || !together) return std::nullopt;
  return critical ? *together * (1 - 1 / *slowdown) : Seconds(0);
}

}  // namespace

Role critical_role(const ArmTimes& times) { return times.comm > times.compute ? Role::communication : Role::compute; }

Attribution attribute(const AttributionInputs& inputs) {
  const Seconds ideal = longer_part(inputs.times);
  const bool compute = critical_role(inputs.times) == Role::compute;
  Attribution a;
  a.total = inputs.times.step - ideal;
  if (const auto path = known(inputs.t_path)) a.dependencies = *path - ideal;
  a.start_delay = known(inputs.start_delay);
  a.compute_slowdown = slowed(inputs.compute_slowdown, inputs.together, compute);
  a.comm_slowdown = slowed(inputs.comm_slowdown, inputs.together, !compute);
  if (const auto ratio = known(inputs.clock_ratio)) a.clock_drop = ideal * (1 / *ratio - 1);
  a.waiting = known(inputs.waiting);
  a.remainder = a.total;
  for (const auto* term :
       {&a.dependencies, &a.start_delay, &a.compute_slowdown, &a.comm_slowdown, &a.clock_drop, &a.waiting}) {
    if (*term) a.remainder -= **term;
  }
  return a;
}

std::vector<std::pair<std::string_view, Seconds>> named_terms(const Attribution& a) {
  std::vector<std::pair<std::string_view, Seconds>> terms;
  const std::pair<std::string_view, const std::optional<Seconds>*> all[] = {
      {"dependencies", &a.dependencies},   {"start_delay", &a.start_delay}, {"compute_slowdown", &a.compute_slowdown},
      {"comm_slowdown", &a.comm_slowdown}, {"clock_drop", &a.clock_drop},   {"waiting", &a.waiting}};
  for (const auto& [name, term] : all) {
    if (*term) terms.emplace_back(name, **term);
  }
  terms.emplace_back("remainder", a.remainder);
  return terms;
}

double share_slowdown(int units, int held) {
  if (held >= units) return std::numeric_limits<double>::infinity();
  return static_cast<double>(units) / static_cast<double>(units - held);
}

double bandwidth_slowdown(BytesPerSecond first, BytesPerSecond second, BytesPerSecond capacity) {
  return std::max(1.0, (first + second) / capacity);
}

}  // namespace ovl
