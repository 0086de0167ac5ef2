// SPDX-License-Identifier: Apache-2.0
#include "metrics/path.hpp"

#include <algorithm>
#include <cmath>

#include "program/order.hpp"

namespace ovl {

Seconds longest_path(const Program& program, const std::vector<Durations>& durations) {
  Seconds longest(0);
  for (std::size_t index = 0; index < program.classes.size(); ++index) {
    const RankClass& c = program.classes[index];
    const Durations& known = durations.at(index);
    const HappensBefore order(c.body, program.lanes.size());
    std::vector<Seconds> finish(c.body.size(), Seconds(0));
    for (std::size_t i = 0; i < c.body.size(); ++i) {
      for (const std::size_t p : order.predecessors(i)) finish[i] = std::max(finish[i], finish[p]);
      if (!is_ordering(c.body[i].work)) {
        const auto duration = known.find(c.body[i].id);
        if (duration == known.end() || std::isnan(duration->second.value())) return unknown_time;
        finish[i] += duration->second;
      }
      longest = std::max(longest, finish[i]);
    }
  }
  return longest;
}

}  // namespace ovl
