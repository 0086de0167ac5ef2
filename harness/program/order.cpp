// SPDX-License-Identifier: Apache-2.0
#include "program/order.hpp"

#include <algorithm>
#include <map>
#include <optional>

namespace ovl {

HappensBefore::HappensBefore(std::span<const Operation> operations, std::size_t lanes)
    : lane_(operations.size()),
      ordinal_(operations.size()),
      clocks_(operations.size() * lanes),
      predecessors_(operations.size()),
      lanes_(lanes) {
  std::vector<std::optional<std::size_t>> last(lanes);  // on each lane, so far
  std::vector<std::int32_t> count(lanes);
  std::map<EventId, std::size_t> recorded;
  std::optional<std::size_t> sync;

  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& op = operations[i];
    const std::size_t lane = op.lane.index();
    std::vector<std::size_t>& preds = predecessors_[i];
    if (std::holds_alternative<HostSync>(op.work)) {
      for (const auto& tail : last) {
        if (tail) preds.push_back(*tail);
      }
      sync = i;
    } else {
      if (last[lane]) preds.push_back(*last[lane]);
      // The lane's own predecessor already follows the sync unless it was issued before it.
      if (sync && (!last[lane] || *last[lane] < *sync)) preds.push_back(*sync);
      if (const auto* wait = std::get_if<Wait>(&op.work)) {
        if (const auto found = recorded.find(wait->event); found != recorded.end()) preds.push_back(found->second);
      }
      if (const auto* record = std::get_if<Record>(&op.work)) recorded[record->event] = i;
    }
    std::int32_t* clock = &clocks_[i * lanes_];
    for (const std::size_t p : preds) {
      const std::int32_t* other = &clocks_[p * lanes_];
      std::transform(clock, clock + lanes_, other, clock,
                     [](std::int32_t a, std::int32_t b) { return std::max(a, b); });
    }
    lane_[i] = lane;
    ordinal_[i] = ++count[lane];
    clock[lane] = ordinal_[i];
    last[lane] = i;
  }
}

bool HappensBefore::before(std::size_t a, std::size_t b) const {
  return a != b && clocks_[b * lanes_ + lane_[a]] >= ordinal_[a];
}

}  // namespace ovl
