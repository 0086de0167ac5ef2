// SPDX-License-Identifier: Apache-2.0
#include "program/projection.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "program/order.hpp"

namespace ovl {
namespace {

int first_free_id(const RankClass& c) {
  int next = 0;
  for (const auto* part : {&c.prologue, &c.body, &c.epilogue}) {
    for (const Operation& op : *part) next = std::max(next, op.id.value + 1);
  }
  return next;
}

// The body's operations of one role, with the order that the whole body guarantees among them and no more edges than
// that takes: for every kept operation b and other lane, the last kept a before b, unless b already follows it.
std::vector<Operation> contract(Program& out, const RankClass& source, Role role) {
  const std::vector<Operation>& body = source.body;
  const HappensBefore order(body, out.lanes.size());

  std::vector<std::size_t> kept;
  std::map<std::size_t, std::vector<std::size_t>> followers;  // a -> all b that wait for it
  std::map<std::size_t, std::vector<std::size_t>> leaders;    // b -> the a it waits for
  for (std::size_t b = 0; b < body.size(); ++b) {
    if (is_ordering(body[b].work) || body[b].role != role) continue;
    std::map<LaneId, std::size_t> candidates;  // the last one before b on each other lane
    std::optional<std::size_t> own;            // b's predecessor on its own lane
    for (const std::size_t a : kept) {
      if (body[a].lane == body[b].lane) {
        own = a;
      } else if (order.before(a, b)) {
        candidates[body[a].lane] = a;
      }
    }
    const auto implied = [&](std::size_t a) {
      if (own && order.before(a, *own)) return true;
      return std::any_of(candidates.begin(), candidates.end(),
                         [&](const auto& other) { return order.before(a, other.second); });
    };
    for (const auto& [lane, a] : candidates) {
      if (implied(a)) continue;
      followers[a].push_back(b);
      leaders[b].push_back(a);
    }
    kept.push_back(b);
  }

  std::vector<Operation> result;
  std::map<std::size_t, EventId> event_of;
  int id = first_free_id(source);
  for (const std::size_t i : kept) {
    for (const std::size_t a : leaders[i]) {
      result.push_back({OpId(id++), body[i].lane, body[i].role, Wait{event_of.at(a)}, {}, {}});
    }
    result.push_back(body[i]);
    if (!followers[i].empty()) {
      out.events.push_back({"after %" + std::to_string(body[i].id.value)});
      event_of[i] = EventId(out.events.size() - 1);
      result.push_back({OpId(id++), body[i].lane, body[i].role, Record{event_of[i], Moment::completion}, {}, {}});
    }
  }
  return result;
}

std::vector<Operation> serialise(const std::vector<Operation>& body) {
  std::vector<Operation> result;
  for (const Operation& op : body) {
    if (is_ordering(op.work)) continue;
    result.push_back(op);
    result.back().lane = result.front().lane;
  }
  return result;
}

std::vector<Operation> hollow(std::vector<Operation> body) {
  for (Operation& op : body) {
    if (!is_ordering(op.work)) op.work = Busy{Seconds(0)};
    op.reads.clear();
    op.writes.clear();
  }
  return body;
}

}  // namespace

Program project(const Program& program, Arm arm) {
  Program out = program;
  if (arm == Arm::overlapped) return out;
  out.name += std::string(":") + std::string(name(arm));
  if (arm != Arm::empty) out.events.clear();
  for (std::size_t c = 0; c < program.classes.size(); ++c) {
    const RankClass& source = program.classes[c];
    std::vector<Operation>& body = out.classes[c].body;
    switch (arm) {
      case Arm::empty: body = hollow(source.body); break;
      case Arm::compute: body = contract(out, source, Role::compute); break;
      case Arm::comm: body = contract(out, source, Role::communication); break;
      case Arm::serial: body = serialise(source.body); break;
      case Arm::overlapped: break;
    }
  }
  return out;
}

}  // namespace ovl
