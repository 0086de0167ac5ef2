// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "metrics/overlap.hpp"
#include "stats/interval.hpp"

namespace ovl {

// A row in plain words, for a performance engineer: how much hides, how sure that is, and what stops the rest. It
// claims what the whole 95 % interval of the hidden share allows, not what its middle suggests. A stretch is the span
// of a lane in the overlapped run over its span alone; NaN where not seen, and then no cause is named. `one_lane`: each
// rank does both on one lane, so that a share which is not 0 tells of the measurement, not of overlap.
//
//   hides 98 % [97, 99] of the communication: near the bound
//   hides 62 % [58, 66] of the communication: each slows the other (compute 1.30x, communication 1.42x as long as
//   alone) no measurable overlap: hides 4 % [-10, 18] of the communication, the interval is too wide to tell no
//   overlap: one runs after the other, hides 1 % [-1, 2] of the compute worse than serial: 41 % longer than compute +
//   comm: each slows the other (compute 2.61x, ...)
std::string verdict(const ArmTimes& medians, Interval hidden_share, double compute_stretch, double comm_stretch,
                    bool one_lane = false);

// To be put behind the verdict, which compares with compute + comm: what the serial arm says where it took notably
// longer or less than that, beyond its own interval. Empty: it agrees.
std::string serial_remark(const ArmTimes& medians, Interval serial);

}  // namespace ovl
