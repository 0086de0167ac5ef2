// SPDX-License-Identifier: Apache-2.0
//
// What was observed, before anything is concluded from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.hpp"
#include "program/program.hpp"

namespace ovl {

inline constexpr BytesPerSecond unknown_pace{std::numeric_limits<double>::quiet_NaN()};

struct RankSample {
  Rank rank;
  Seconds own;           // end - origin of this rank
  Seconds compute_span;  // first start to last end on the lanes that do compute and nothing else; NaN without any
  Seconds comm_span;     // likewise
  // When those began, from the latest origin.
  Seconds compute_start = unknown_time;
  Seconds comm_start = unknown_time;
  BytesPerSecond pace = unknown_pace;  // of its streams, read and written, while they ran; NaN without any
};

// How far a queue is at a moment: its backlog is what was submitted and has not completed.
struct QueuePoint {
  Seconds time;  // after the origin
  std::int64_t submitted = 0;
  std::int64_t completed = 0;
};

// One replay of one arm. Times are of the whole window.
struct Sample {
  int block = 0;
  int round = 0;
  int position = 0;  // of the arm within its round
  std::string arm;   // its name, see measure/case.hpp
  std::int64_t slot = 0;
  Seconds step;
  Seconds align_skew;
  std::string launch_order;
  std::vector<RankSample> ranks;
  // Of an arm in which one role is to cover the other: which, and whether it did; unknown where a start or end was not
  // seen.
  std::optional<Role> covering;
  std::optional<bool> covered;
  // Of an arm that is read operation by operation (CaseArm::read).
  std::vector<std::pair<std::string, double>> values;  // by name
  std::vector<QueuePoint> queue;
};

Sample observe(const Program& program, const Timings& timings);

// What the reader of its arm noted under the name; NaN: nothing.
double noted(const Sample& sample, std::string_view name);

// The largest span of a role over the ranks; NaN when no rank has one.
Seconds widest_span(const Sample& sample, Role role);

// From the latest start of a role on any rank to its latest end; NaN unless all ranks tell.
Seconds role_time(const Sample& sample, Role role);

// When a role began on the middle one of the ranks, from the latest origin, and how much later it did on the last one;
// unknown where it is for any rank.
struct RoleStart {
  Seconds middle;
  Seconds spread;
};
RoleStart role_start(const Sample& sample, Role role);

// Whether on every rank this role began no later than the other and ended no earlier; unknown unless all ranks tell.
std::optional<bool> covers(const Sample& sample, Role covering);

// Of all ranks' streams together; NaN unless all ranks tell.
BytesPerSecond pace(const Sample& sample);

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
