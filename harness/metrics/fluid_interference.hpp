// SPDX-License-Identifier: Apache-2.0
//
// Two operations that start together and share something: while both run, compute progresses at 1 / slowdown.compute
// and communication at 1 / slowdown.comm of its isolated rate; when one has finished, the survivor runs at full rate.
// Rates, not sizes, so it is a fluid. Exact within that model; a real GEMM under a real collective is not quite it.
#pragma once

#include "base/enum_names.hpp"
#include "base/units.hpp"

namespace ovl {

// How many times slower each runs *while both run*: 1 undisturbed, below 1 helped.
struct Slowdowns {
  double compute = 1;
  double comm = 1;
};

// From the common start to each one's end.
struct PairSpans {
  Seconds compute = unknown_time;
  Seconds comm = unknown_time;
};

// When each ends, given isolated times. With the compute the first to end:
//   compute: T_c s_c    comm: T_m + T_c s_c (1 - 1 / s_m)    and the other way round.
PairSpans fluid_spans(Seconds compute, Seconds comm, Slowdowns slowdown);

// The end of the later one: T_m + T_c s_c (1 - 1 / s_m) if T_c s_c <= T_m s_m, else T_c + T_m s_m (1 - 1 / s_c).
Seconds fluid_step(Seconds compute, Seconds comm, Slowdowns slowdown);

// Running together beats running in turn if and only if both rates add up to more than one: 1/s_c + 1/s_m > 1, whatever
// the lengths. A tie is equality to rounding; two measured slowdowns never tie.
enum class OverlapPays { no, tie, yes };
template <>
struct EnumNames<OverlapPays> {
  static constexpr std::string_view axis = "overlap pays";
  static constexpr std::pair<OverlapPays, std::string_view> table[] = {
      {OverlapPays::no, "no"}, {OverlapPays::tie, "tie"}, {OverlapPays::yes, "yes"}};
};
OverlapPays overlap_pays(Slowdowns slowdown);

// The inverse: slowdowns from isolated times and the spans observed when both started together. The first to end ran
// beside the other throughout, so its slowdown is span / isolated, always identifiable. The other did the rest of its
// work alone at full rate: T - (its span - the first's span) is what it did beside the first, in the first's span.
// Where that is not positive it did nothing at all while both ran (it queued): its slowdown has no value and is NaN.
// The shorter the first's span against the other's length, the more the noise of the other's isolated time dominates.
Slowdowns slowdowns_from_spans(Seconds compute, Seconds comm, PairSpans observed);

}  // namespace ovl
