// SPDX-License-Identifier: Apache-2.0
//
// What stands in the way of overlap on this machine, and the setting to try: two sides beside each other for a moment,
// and rules over what was measured. What a blocker costs a workload is overlap-contention's question; this one names
// it.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "measure/clock.hpp"
#include "measure/selfcheck.hpp"

namespace ovl {

// Rows for the rules below, in the form of a self-check. They have no limit of trust: a machine whose memory two cores
// share is to be believed. On a device and on cores other things contend, so each has checks of its own. `Backend` and
// `Clock` outlive them.
std::vector<MachineCheck> overlap_checks(Backend& backend, Clock& clock);

// A measured row beyond the limit up to which it leaves overlap alone.
struct Blocker {
  std::string check;  // the row
  double value = 0;
  double limit = 0;
  std::string unit;
  std::string why;      // what it does to overlap
  std::string setting;  // what to try
};

// Pure: what usually takes most comes first, whatever the order of the rows. A row that is unknown or was not measured
// blocks nothing, nor does a slowdown whose interval holds 1; some block only beside another (a wait that spins, where
// lanes share cores).
std::vector<Blocker> likely_blockers(const std::vector<CheckResult>& rows);

// The names of all rows that a rule looks at.
std::vector<std::string> rows_of_the_rules();

}  // namespace ovl
