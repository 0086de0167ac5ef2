// SPDX-License-Identifier: Apache-2.0
//
// How a case asks who slows whom: its arms, how much of each side fills a window, when it stops, its columns and words.
#pragma once

#include <string_view>
#include <vector>

#include "measure/case.hpp"
#include "schedule/contention.hpp"

namespace ovl {

// Arms in which the other side covers this one.
inline constexpr std::string_view compute_loaded_arm = "compute_loaded";
inline constexpr std::string_view comm_loaded_arm = "comm_loaded";
// And one in which both sides' lanes do nothing but move their arrays as fast as they go: what their memory gives.
inline constexpr std::string_view memory_arm = "memory";
// The arm empty with so many operations more on one lane: what each costs beyond its work.
inline constexpr std::string_view launches_arm = "launches";
inline constexpr int launches_more = 500;

struct ContentionQuestion {
  ContentionSpec contention;
  Role victim = Role::compute;  // the side that is the question; the other is the aggressor
  int units = 0;                // SMs that the work of a side divides over; 0: not known, or it does not
};

// Sets arms (empty, that with many operations more, each side alone, each covered by the other but one that only holds,
// where both move arrays through memory what it gives both, both at once), what fills a window, what stops the case
// (the widest relative interval of a slowdown), derived columns and words. `build` takes Tuning::gemm_repeat as
// compute's repeat and comm_repeat as communication's.
void ask_who_slows_whom(CaseSpec& spec, const ContentionQuestion& question);

// The columns that it derives, for a bench to declare.
std::vector<Column> contention_columns();

}  // namespace ovl
