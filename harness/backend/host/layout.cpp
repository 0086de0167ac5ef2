// SPDX-License-Identifier: Apache-2.0
#include "backend/host/layout.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

#include "base/error.hpp"

namespace ovl::host {
namespace {

bool has_role(const std::vector<LaneWish>& lanes, Role role) {
  return std::any_of(lanes.begin(), lanes.end(), [&](const LaneWish& l) { return l.role == role; });
}

std::size_t thread_count(std::size_t ranks, const std::vector<LaneWish>& lanes) {
  std::size_t threads = 0;
  for (const LaneWish& lane : lanes) threads += 1 + static_cast<std::size_t>(lane.helpers);
  return threads * ranks;
}

// The core of the i-th lane of its role over all ranks. The split does not depend on which lanes there are, so that a
// lane that runs alone in one arm runs where it does in the others.
int core_by_role(const std::vector<int>& cores, Role role, std::size_t i) {
  const std::size_t compute = (cores.size() + 1) / 2;
  const std::size_t rest = cores.size() - compute;
  if (role == Role::compute || rest == 0) return cores[i % compute];
  return cores[compute + i % rest];
}

// The cores but one, those without a thread first.
std::vector<int> others_than(int own, const std::vector<int>& cores, std::map<int, int>& load) {
  std::vector<int> others;
  std::copy_if(cores.begin(), cores.end(), std::back_inserter(others), [&](int core) { return core != own; });
  std::stable_partition(others.begin(), others.end(), [&](int core) { return load[core] == 0; });
  return others;
}

std::string describe(const std::vector<LaneWish>& lanes, const std::vector<std::vector<int>>& placed) {
  std::string text;
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    text += (text.empty() ? "" : " ") + lanes[l].name;
    for (std::size_t r = 0; r < placed.size(); ++r) text += (r == 0 ? "@" : ",") + std::to_string(placed[r][l]);
  }
  return text;
}

}  // namespace

Layout make_layout(const std::vector<int>& cores, int ranks, const std::vector<LaneWish>& lanes,
                   const std::vector<int>& siblings) {
  require(!cores.empty(), "a layout needs a core");
  const auto rank_count = static_cast<std::size_t>(ranks);
  const std::size_t threads = thread_count(rank_count, lanes);
  const bool core_each = rank_count * lanes.size() <= cores.size();
  const bool two_roles = has_role(lanes, Role::compute) && has_role(lanes, Role::communication);

  Layout layout;
  layout.oversubscribed = threads > cores.size();
  std::map<int, int> load;  // threads by core
  std::map<Role, std::size_t> seen;
  for (std::size_t r = 0; r < rank_count; ++r) {
    std::vector<int>& placed = layout.lanes.emplace_back();
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      const std::size_t nth_of_role = seen[lanes[l].role]++;
      const std::size_t nth = r * lanes.size() + l;
      switch (lanes[l].partition) {
        case Partition::by_rank: placed.push_back(cores[r % cores.size()]); break;
        case Partition::siblings: {
          const std::size_t core = r % cores.size();
          const int sibling = core < siblings.size() ? siblings[core] : -1;
          placed.push_back(lanes[l].role == Role::communication && sibling >= 0 ? sibling : cores[core]);
          break;
        }
        case Partition::by_role: placed.push_back(core_by_role(cores, lanes[l].role, nth_of_role)); break;
        case Partition::automatic:
          placed.push_back(!core_each && two_roles ? core_by_role(cores, lanes[l].role, nth_of_role)
                                                   : cores[nth % cores.size()]);
          break;
      }
      ++load[placed.back()];
    }
  }

  std::vector<int> spare;
  std::copy_if(cores.begin(), cores.end(), std::back_inserter(spare), [&](int core) { return load[core] == 0; });
  std::size_t taken = 0;
  for (std::size_t r = 0; r < rank_count; ++r) {
    auto& of_rank = layout.helpers.emplace_back(lanes.size());
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      const int own = layout.lanes[r][l];
      const std::vector<int> others = lanes[l].apart ? others_than(own, cores, load) : std::vector<int>();
      for (int h = 0; h < lanes[l].helpers; ++h) {
        if (!others.empty()) {
          of_rank[l].push_back(others[static_cast<std::size_t>(h) % others.size()]);
        } else {
          of_rank[l].push_back(spare.empty() ? own : spare[taken++ % spare.size()]);
        }
      }
      for (const int core : of_rank[l]) ++load[core];
    }
  }
  layout.shared = std::any_of(load.begin(), load.end(), [](const auto& entry) { return entry.second > 1; });
  layout.text = describe(lanes, layout.lanes);
  return layout;
}

}  // namespace ovl::host
