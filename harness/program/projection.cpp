// SPDX-License-Identifier: Apache-2.0
#include "program/projection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "program/order.hpp"

namespace ovl {
namespace {

// The body's operations of one role, with the order that the whole body guarantees among them and no more edges than
// that takes: for every kept operation b and other lane, the last kept a before b, unless b already follows it.
std::vector<Operation> contract(Program& out, const RankClass& source, Role role) {
  const std::vector<Operation>& body = source.body;
  const HappensBefore order(body, out.lanes.size());

  std::vector<std::size_t> kept;
  std::map<LaneId, std::vector<std::size_t>> kept_on;       // each lane
  std::map<std::size_t, std::vector<std::size_t>> leaders;  // b -> the a it waits for
  std::set<std::size_t> followed;                           // every a that some b waits for
  for (std::size_t b = 0; b < body.size(); ++b) {
    if (is_ordering(body[b].work) || body[b].role != role) continue;
    std::map<LaneId, std::size_t> candidates;  // the last one before b on each other lane
    std::optional<std::size_t> own;            // b's predecessor on its own lane
    for (const auto& [lane, earlier] : kept_on) {
      if (lane == body[b].lane) {
        own = earlier.back();
        continue;
      }
      // What comes before b is the beginning of what the lane does.
      const auto rest =
          std::partition_point(earlier.begin(), earlier.end(), [&](std::size_t a) { return order.before(a, b); });
      if (rest != earlier.begin()) candidates[lane] = *std::prev(rest);
    }
    const auto implied = [&](std::size_t a) {
      if (own && order.before(a, *own)) return true;
      return std::any_of(candidates.begin(), candidates.end(),
                         [&](const auto& other) { return order.before(a, other.second); });
    };
    for (const auto& [lane, a] : candidates) {
      if (implied(a)) continue;
      leaders[b].push_back(a);
      followed.insert(a);
    }
    kept.push_back(b);
    kept_on[body[b].lane].push_back(b);
  }

  std::vector<Operation> result;
  std::map<std::size_t, EventId> event_of;
  int id = free_id(source).value;
  for (const std::size_t i : kept) {
    for (const std::size_t a : leaders[i]) {
      result.push_back({OpId(id++), body[i].lane, role, Wait{event_of.at(a)}, {}, {}});
    }
    result.push_back(body[i]);
    if (followed.contains(i)) {
      out.events.push_back({"after %" + std::to_string(body[i].id.value)});
      const EventId event(out.events.size() - 1);
      event_of.emplace(i, event);
      result.push_back({OpId(id++), body[i].lane, role, Record{event, Moment::completion}, {}, {}});
    }
  }
  return result;
}

std::vector<Operation> serialise(std::vector<Operation> body) {
  std::erase_if(body, [](const Operation& op) { return is_ordering(op.work); });
  auto lead = std::find_if(body.begin(), body.end(), [](const Operation& op) { return op.role == Role::compute; });
  if (lead == body.end()) lead = body.begin();
  if (lead == body.end()) return body;
  const LaneId lane = lead->lane;
  for (Operation& op : body) op.lane = lane;
  return body;
}

std::vector<Operation> hollow(std::vector<Operation> body) {
  for (Operation& op : body) {
    if (!is_ordering(op.work)) op.work = Busy{Seconds(0)};
    op.reads.clear();
    op.writes.clear();
  }
  return body;
}

// What an arm does not run as it was, it cannot verify.
void drop_verifies(RankClass& c) {
  std::erase_if(c.epilogue, [&](const Operation& op) {
    const auto* verify = std::get_if<Verify>(&op.work);
    return verify != nullptr && std::none_of(c.body.begin(), c.body.end(), [&](const Operation& target) {
             return target.id == verify->target && !std::holds_alternative<Busy>(target.work);
           });
  });
}

// An arm has edges of its own, so what lasts until an event of the whole would not end there.
void require_ends(const Program& program, const RankClass& c, Arm arm) {
  for (const Operation& op : c.body) {
    if (!lasts_until(op.work).valid()) continue;
    throw failure(
        fmt::format("program {} has no arm {}", program.name, name(arm)),
        fmt::format("%{} {} lasts until an event that only the whole program has", op.id.value, kind_name(op.work)),
        "give the case arms of its own");
  }
}

}  // namespace

Program project(const Program& program, Arm arm) {
  if (arm == Arm::overlapped) return program;
  Program out = program;
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
    require_ends(program, out.classes[c], arm);
    drop_verifies(out.classes[c]);
  }
  return out;
}

Program without_collectives(const Program& program, const std::vector<std::string>& communicators) {
  Program out = program;
  out.name += fmt::format(":without_{}", fmt::join(communicators, "_"));
  const auto free = [&](const Operation& op) {
    const auto* collective = std::get_if<Collective>(&op.work);
    return collective != nullptr &&
           std::find(communicators.begin(), communicators.end(),
                     program.communicators[collective->comm.index()].name) != communicators.end();
  };
  for (RankClass& c : out.classes) {
    for (Operation& op : c.body) {
      if (!free(op)) continue;
      op.work = Busy{Seconds(0)};
      op.reads.clear();
      op.writes.clear();
    }
    drop_verifies(c);
  }
  return out;
}

}  // namespace ovl
