// SPDX-License-Identifier: Apache-2.0
#include "backend/registry.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace ovl {

void BackendRegistry::add(BackendEntry entry) { entries_.push_back(std::move(entry)); }

std::vector<std::string> BackendRegistry::names() const {
  std::vector<std::string> all;
  for (const BackendEntry& e : entries_) all.push_back(e.name);
  return all;
}

const BackendEntry* BackendRegistry::find(const std::string& name) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) { return entry.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

const BackendEntry& BackendRegistry::choose(const std::string& wanted) const {
  std::vector<std::string> known = names();
  known.emplace_back("auto");
  if (std::find(known.begin(), known.end(), wanted) == known.end()) throw unknown_value("backend", wanted, known);

  std::string reasons;
  const BackendEntry* best = nullptr;
  for (const BackendEntry& e : entries_) {
    if (wanted != "auto" && e.name != wanted) continue;
    const std::string reason = e.unusable();
    if (reason.empty()) {
      if (best == nullptr || e.preference > best->preference) best = &e;
    } else {
      reasons += (reasons.empty() ? "" : "; ") + e.name + ": " + reason;
    }
  }
  if (best != nullptr) return *best;
  throw impossible_error("backend \"" + wanted + "\" cannot run here", reasons,
                         wanted == "auto" ? "" : "--backend auto takes one that can");
}

}  // namespace ovl
