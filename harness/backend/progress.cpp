// SPDX-License-Identifier: Apache-2.0
#include "backend/progress.hpp"

#include <fmt/format.h>

#include "program/print.hpp"

namespace ovl {
namespace {

std::string operation_text(const Program& program, Rank rank, OpId id) {
  if (!id.valid()) return "nothing";
  for (const Operation& op : program.class_of(rank).body) {
    if (op.id == id) return fmt::format("%{} {}", id.value, describe(op));
  }
  return fmt::format("%{}", id.value);
}

// A report of a hang is no place to fail in: what the program lacks is its number.
std::string lane_text(const Program& program, LaneId id) {
  const bool known = id.valid() && id.index() < program.lanes.size();
  return known ? program.lanes[id.index()].name : fmt::format("lane {}", id.value);
}

}  // namespace

std::string progress_text(const Program& program, const std::vector<LaneProgress>& progress) {
  std::string text;
  for (const LaneProgress& p : progress) {
    text += fmt::format("{}rank {} {}: enqueued {}, completed {}", text.empty() ? "" : "; ", p.rank.value,
                        lane_text(program, p.lane), operation_text(program, p.rank, p.enqueued),
                        operation_text(program, p.rank, p.completed));
  }
  return text;
}

}  // namespace ovl
