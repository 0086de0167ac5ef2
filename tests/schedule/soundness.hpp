// SPDX-License-Identifier: Apache-2.0
//
// What every schedule must be: nothing that the static check finds, and no event that could be left out.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "program/check.hpp"
#include "program/projection.hpp"

namespace ovl {

inline void expect_sound(const Program& program, const std::string& what) {
  for (const Finding& finding : check(program)) {
    ADD_FAILURE() << what << ": " << name(finding.kind) << ": " << finding.message;
  }
}

inline bool finds(const Program& program, FindingKind kind) {
  const std::vector<Finding> findings = check(program);
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& f) { return f.kind == kind; });
}

// Leaves out each wait and each record in turn: a race, and a wait for nothing. Returns how many there were.
inline int expect_every_edge_needed(const Program& program, const std::string& what) {
  int tried = 0;
  for (std::size_t c = 0; c < program.classes.size(); ++c) {
    for (const Operation& op : program.classes[c].body) {
      if (!is_ordering(op.work)) continue;
      Program without = program;
      std::erase_if(without.classes[c].body, [&](const Operation& other) { return other.id == op.id; });
      const bool is_wait = std::holds_alternative<Wait>(op.work);
      EXPECT_TRUE(finds(without, is_wait ? FindingKind::race : FindingKind::event))
          << what << ": class " << program.classes[c].name << " without %" << op.id.value;
      ++tried;
    }
  }
  return tried;
}

}  // namespace ovl
