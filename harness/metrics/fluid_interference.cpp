// SPDX-License-Identifier: Apache-2.0
#include "metrics/fluid_interference.hpp"

#include <cmath>
#include <limits>

namespace ovl {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

double ratio(Seconds a, Seconds b) { return a > Seconds(0) && b > Seconds(0) ? a / b : nan; }

// Where the survivor ends, given that the other ended at `first`.
Seconds survivor_span(Seconds isolated, double slowdown, Seconds first) {
  return isolated + first * (1 - 1 / slowdown);
}

double survivor_slowdown(Seconds isolated, Seconds span, Seconds first) {
  const Seconds alone = span - first;
  return ratio(first, isolated - alone);
}

}  // namespace

PairSpans fluid_spans(Seconds compute, Seconds comm, Slowdowns slowdown) {
  const Seconds compute_slowed = compute * slowdown.compute;
  const Seconds comm_slowed = comm * slowdown.comm;
  if (compute_slowed <= comm_slowed) return {compute_slowed, survivor_span(comm, slowdown.comm, compute_slowed)};
  return {survivor_span(compute, slowdown.compute, comm_slowed), comm_slowed};
}

Seconds fluid_step(Seconds compute, Seconds comm, Slowdowns slowdown) {
  const PairSpans spans = fluid_spans(compute, comm, slowdown);
  return compute * slowdown.compute <= comm * slowdown.comm ? spans.comm : spans.compute;
}

OverlapPays overlap_pays(Slowdowns slowdown) {
  const double rates = 1 / slowdown.compute + 1 / slowdown.comm;
  if (std::fabs(rates - 1) < 1e-12) return OverlapPays::tie;
  return rates > 1 ? OverlapPays::yes : OverlapPays::no;
}

Slowdowns slowdowns_from_spans(Seconds compute, Seconds comm, PairSpans observed) {
  if (std::isnan((compute + comm + observed.compute + observed.comm).value())) return {nan, nan};
  if (observed.compute <= observed.comm) {
    return {ratio(observed.compute, compute), survivor_slowdown(comm, observed.comm, observed.compute)};
  }
  return {survivor_slowdown(compute, observed.compute, observed.comm), ratio(observed.comm, comm)};
}

}  // namespace ovl
