// SPDX-License-Identifier: Apache-2.0
#include "program/alike.hpp"

#include <algorithm>

namespace ovl {
namespace {

bool exchanges_on(const RankClass& c, CommId comm) {
  return std::any_of(c.body.begin(), c.body.end(), [&](const Operation& op) {
    const auto* e = std::get_if<Exchange>(&op.work);
    return e != nullptr && e->comm == comm;
  });
}

bool alike_on(const Program& program, const RankTable& table, std::size_t c, std::size_t comm) {
  const RankClass& rank_class = program.classes[c];
  const auto& groups = program.communicators[comm].groups;
  const std::size_t first = table.group_of(comm, rank_class.members.front());
  std::vector<std::size_t> classes;
  if (first != RankTable::nowhere) {
    for (const Rank rank : groups[first]) classes.push_back(table.class_of(rank));
    if (std::count(classes.begin(), classes.end(), c) > 1 && exchanges_on(rank_class, CommId(comm))) return false;
  }
  std::vector<bool> seen(groups.size());
  for (const Rank rank : rank_class.members) {
    const std::size_t g = table.group_of(comm, rank);
    if ((g == RankTable::nowhere) != (first == RankTable::nowhere)) return false;
    if (g == RankTable::nowhere || g == first || seen[g]) continue;
    seen[g] = true;
    const auto same = [&](Rank other, std::size_t of) { return table.class_of(other) == of; };
    if (!std::equal(groups[g].begin(), groups[g].end(), classes.begin(), classes.end(), same)) return false;
  }
  return true;
}

}  // namespace

RankTable::RankTable(const Program& program) : class_of_(static_cast<std::size_t>(program.ranks)) {
  for (std::size_t c = 0; c < program.classes.size(); ++c) {
    for (const Rank rank : program.classes[c].members) class_of_[rank.index()] = c;
  }
  for (const Communicator& comm : program.communicators) {
    auto& group = group_of_.emplace_back(static_cast<std::size_t>(program.ranks), nowhere);
    for (std::size_t g = 0; g < comm.groups.size(); ++g) {
      for (const Rank rank : comm.groups[g]) group[rank.index()] = g;
    }
  }
}

bool members_are_alike(const Program& program, const RankTable& table) {
  for (std::size_t c = 0; c < program.classes.size(); ++c) {
    if (program.classes[c].members.empty()) continue;
    for (std::size_t comm = 0; comm < program.communicators.size(); ++comm) {
      if (!alike_on(program, table, c, comm)) return false;
    }
  }
  return true;
}

}  // namespace ovl
