// SPDX-License-Identifier: Apache-2.0
#include "schedule/data.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace ovl {
namespace {

struct Write {
  std::int64_t begin;
  std::int64_t end;
  std::size_t position;
  bool gathers;  // moves what was filled
};
using Writes = std::map<BufferId, std::vector<Write>>;

Writes writes_of(const RankClass& c) {
  Writes writes;
  for (std::size_t i = 0; i < c.body.size(); ++i) {
    const auto* collective = std::get_if<Collective>(&c.body[i].work);
    const bool gathers = collective != nullptr && collective->kind == CollectiveKind::all_gather;
    for (const Slice& s : c.body[i].writes) {
      writes[s.buffer].push_back({s.offset, s.offset + s.count, i, gathers});
    }
  }
  return writes;
}

template <class Predicate>
bool any_write(const Writes& writes, const Slice& slice, Predicate predicate) {
  const auto found = writes.find(slice.buffer);
  if (found == writes.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(), [&](const Write& w) {
    return w.begin < slice.offset + slice.count && slice.offset < w.end && predicate(w);
  });
}

}  // namespace

void fill_what_is_read(Program& program) {
  for (RankClass& c : program.classes) {
    if (c.body.empty()) continue;
    std::set<BufferId> filled;
    for (const Operation& op : c.prologue) {
      for (const Slice& s : op.writes) filled.insert(s.buffer);
    }
    std::vector<Slice> fresh;
    const auto read = [&](const std::vector<Slice>& slices) {
      for (const Slice& s : slices) {
        if (filled.insert(s.buffer).second) fresh.push_back({s.buffer, 0, program.buffers[s.buffer.index()].count});
      }
    };
    for (const Operation& op : c.body) {
      read(op.reads);
      if (std::holds_alternative<Elementwise>(op.work)) read(op.writes);  // it adds to them
    }
    if (fresh.empty()) continue;
    c.prologue.push_back({free_id(c), c.body.front().lane, Role::compute, Fill{}, {}, std::move(fresh)});
  }
}

void verify_what_lasts(Program& program) {
  for (RankClass& c : program.classes) {
    const Writes writes = writes_of(c);
    int id = free_id(c).value;
    for (std::size_t i = 0; i < c.body.size(); ++i) {
      const Operation& op = c.body[i];
      const bool gemm = std::holds_alternative<Gemm>(op.work);
      if (!gemm && !std::holds_alternative<Collective>(op.work)) continue;
      const auto lasts = [&](const Slice& s) {
        return !any_write(writes, s, [&](const Write& w) { return w.position > i; });
      };
      const auto filled = [&](const Slice& s) {
        return !any_write(writes, s, [](const Write& w) { return !w.gathers; });
      };
      if (!std::all_of(op.reads.begin(), op.reads.end(), lasts) ||
          !std::all_of(op.writes.begin(), op.writes.end(), lasts) ||
          (gemm && !std::all_of(op.reads.begin(), op.reads.end(), filled))) {
        continue;
      }
      c.epilogue.push_back({OpId(id++), c.body.front().lane, Role::compute, Verify{op.id}, {}, {}});
    }
  }
}

}  // namespace ovl
