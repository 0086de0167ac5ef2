// SPDX-License-Identifier: Apache-2.0
//
// Which core each lane of each rank runs on: a pure function of the cores and the lanes. Where lanes run decides what
// overlap can be had: with compute on one core and communication on another a two-core machine hides nearly everything,
// with a rank on each core nothing, and unplaced threads give neither.
#pragma once

#include <string>
#include <vector>

#include "program/program.hpp"

namespace ovl::host {

struct LaneWish {
  std::string name;
  Role role = Role::compute;
  Partition partition = Partition::automatic;
  int helpers = 0;     // threads beside the lane's own: its communicators' further channels, cores that it holds
  bool apart = false;  // each of them on a core of its own, whoever else is there
};

struct Layout {
  std::vector<std::vector<int>> lanes;                 // [rank][lane]: core
  std::vector<std::vector<std::vector<int>>> helpers;  // [rank][lane][helper]: core
  bool shared = false;                                 // some core holds more than one thread
  bool oversubscribed = false;                         // there are fewer cores than threads
  std::string text;                                    // "compute@0,0 comm@1,1": the lanes' cores by rank
};

// `cores` are the operating system's numbers, at least one. Lanes that ask for
//   by_rank    share core r mod C with all such lanes of their rank r;
//   siblings   likewise, but communication on that core's other hardware thread (where it has none: on the same one);
//   by_role    compute: spread over the first half of the cores (the larger one), communication: over the rest;
//   automatic  a core each while there are enough; otherwise as by_role where both roles exist, else in turn.
// Helpers take cores that no lane uses, or their lane's own when there are none; those of a lane that wants them apart
// take the other cores then.
// `siblings`: of each core the number of its second hardware thread, -1 where it has none; empty: none has.
Layout make_layout(const std::vector<int>& cores, int ranks, const std::vector<LaneWish>& lanes,
                   const std::vector<int>& siblings = {});

}  // namespace ovl::host
