// SPDX-License-Identifier: Apache-2.0
#include "program/consumers.hpp"

#include <algorithm>
#include <vector>

namespace ovl {
namespace {

struct Result {
  OpId op;
  LaneId lane;
  Slice slice;
};

bool overlap(const Slice& a, const Slice& b) {
  return a.buffer == b.buffer && a.offset < b.offset + b.count && b.offset < a.offset + a.count;
}

bool covers(const Slice& whole, const Slice& part) {
  return whole.offset <= part.offset && part.offset + part.count <= whole.offset + whole.count;
}

}  // namespace

std::map<OpId, OpId> first_consumers(const RankClass& rank_class) {
  std::map<OpId, OpId> consumers;
  std::map<BufferId, std::vector<Result>> waiting;  // results that nobody has read or overwritten yet
  for (const Operation& op : rank_class.body) {
    const auto read = [&](const Slice& slice) {
      std::erase_if(waiting[slice.buffer], [&](const Result& result) {
        if (result.lane == op.lane || !overlap(result.slice, slice)) return false;
        consumers.try_emplace(result.op, op.id);
        return true;
      });
    };
    for (const Slice& slice : op.reads) read(slice);
    for (const Slice& slice : op.writes) {
      std::erase_if(waiting[slice.buffer], [&](const Result& result) { return overlap(result.slice, slice); });
      if (op.role == Role::communication) waiting[slice.buffer].push_back({op.id, op.lane, slice});
    }
  }
  return consumers;
}

std::map<OpId, std::vector<OpId>> producers(const RankClass& rank_class) {
  std::map<OpId, std::vector<OpId>> producers;
  std::map<BufferId, std::vector<Result>> written;
  for (const Operation& op : rank_class.body) {
    for (const Slice& slice : op.reads) {
      if (op.role != Role::communication) break;
      for (const Result& result : written[slice.buffer]) {
        if (result.lane != op.lane && overlap(result.slice, slice)) producers[op.id].push_back(result.op);
      }
    }
    for (const Slice& slice : op.writes) {
      std::vector<Result>& results = written[slice.buffer];
      std::erase_if(results, [&](const Result& result) { return covers(slice, result.slice); });
      results.push_back({op.id, op.lane, slice});
    }
  }
  return producers;
}

}  // namespace ovl
