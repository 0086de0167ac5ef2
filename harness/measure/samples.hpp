// SPDX-License-Identifier: Apache-2.0
//
// What was observed, before anything is concluded from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "program/projection.hpp"

namespace ovl {

struct RankSample {
  Rank rank;
  Seconds own;           // end - origin of this rank
  Seconds compute_span;  // first start to last end on the lanes that do compute and nothing else; NaN without any
  Seconds comm_span;     // likewise
};

// One replay of one arm. Times are of the whole window.
struct Sample {
  int block = 0;
  int round = 0;
  int position = 0;  // of the arm within its round
  Arm arm = Arm::empty;
  std::int64_t slot = 0;
  Seconds step;
  Seconds align_skew;
  std::string launch_order;
  std::vector<RankSample> ranks;
};

Sample observe(const Program& program, const Timings& timings);

// The largest span of a role over the ranks; NaN when no rank has one.
Seconds widest_span(const Sample& sample, Role role);

// A few rounds between two readings of the conditions.
struct Block {
  Conditions before;
  Conditions after;
  int rounds = 0;
  std::vector<std::string> noise;  // why it is spoilt; empty: it is not
};

// What one block alone says: a reading above its limit, or one that changed by more than its factor in between.
std::vector<std::string> judge(const Conditions& before, const Conditions& after);

// Compares like with like: for every reading with a change factor, the blocks outside the band [x, x·factor] that
// holds the most rounds (the earliest of equals) were measured on another machine, so to speak. Returns all reasons for
// each block, its own (judge) included.
std::vector<std::vector<std::string>> judge_all(const std::vector<Block>& blocks);

// A reading's value over both ends of the given blocks, unknown ones left out.
std::vector<double> readings(const std::vector<Block>& blocks, const std::string& name);

}  // namespace ovl
