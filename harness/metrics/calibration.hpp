// SPDX-License-Identifier: Apache-2.0
//
// What a machine costs, learnt from pairs of a GEMM and a collective that were measured alone and together: what the
// benches do not give directly. Three fits, each of its own times:
//   a GEMM         t = kernel + 2mnk / rate          relative least squares over all shapes of a dtype; where the
//                                                    overhead is known, the median rate of what it leaves
//   a collective   t = alpha + beta · bytes          as many segments as pay (stats/fit.hpp); of one size beta alone
//   both together  fluid_step(compute, comm, s)      the two slowdowns with the least mean relative error of t_step
// The first two are the model's terms for a device of which no units are known, the third is what it plays where a
// machine has measured slowdowns, so a calibrated machine predicts with the model backend what predicted() says here.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "base/units.hpp"
#include "metrics/fluid_interference.hpp"
#include "program/program.hpp"
#include "stats/fit.hpp"

namespace ovl {

// One case of one GEMM shape beside one collective. Times are those of `repeat` GEMMs and one collective.
struct PairObservation {
  std::string gemm;  // the shape, "256x256x256": shapes of one name are one
  DType dtype = DType::f32;
  Flops flops{0};  // of one GEMM, 2mnk
  double repeat = 1;
  CollectiveKind collective = CollectiveKind::all_reduce;
  int ranks = 2;
  double bytes = 0;
  Seconds compute = unknown_time;
  Seconds comm = unknown_time;
  Seconds step = unknown_time;
  bool together = true;  // false: one after the other, on one lane
};

struct GemmRate {
  DType dtype = DType::f32;
  Seconds kernel{0};  // that each GEMM takes beside its work
  FlopsPerSecond rate{0};
};
// One shape's own: its median time.
struct ShapeRate {
  std::string gemm;
  DType dtype = DType::f32;
  FlopsPerSecond rate{0};
};
struct CommCost {
  CollectiveKind collective = CollectiveKind::all_reduce;
  DType dtype = DType::f32;
  int ranks = 2;
  std::vector<SizeTime> points;
  CostFit fit;
};

struct Calibration {
  std::vector<GemmRate> gemms;    // by dtype; all have the same `kernel`, the one of the dtype with most shapes
  std::vector<ShapeRate> shapes;  // by name and dtype
  std::vector<CommCost> comms;    // by collective, dtype and ranks
  Slowdowns slowdown;             // 1 where nothing ran together
};

// Observations without times are not looked at. `kernel`: what each kernel takes beside its work, where that was
// measured by itself; unknown_time: the line through the GEMMs tells. Without it a curve in their rates, not an
// overhead, may be what is told, and every copy would have to pay it.
Calibration calibrated(std::span<const PairObservation> observations, Seconds kernel = unknown_time);

// A shape that was seen takes what it took, another what the line of its dtype says. Unknown where the calibration has
// no such dtype or collective.
struct PairPrediction {
  Seconds compute = unknown_time;
  Seconds comm = unknown_time;
  Seconds step = unknown_time;
};
PairPrediction predicted(const Calibration& calibration, const PairObservation& asked);

// Relative errors, (predicted - observed) / observed, of times predicted by calibrations that have not seen them.
struct HeldOutErrors {
  std::vector<double> compute, comm, step;
};
enum class HeldOut { one_case, shape, size };
// Each case, or all cases of a shape, or all of a size, are left out once. What the rest cannot predict is left out.
HeldOutErrors held_out_errors(std::span<const PairObservation> observations, HeldOut what,
                              Seconds kernel = unknown_time);

}  // namespace ovl
