// SPDX-License-Identifier: Apache-2.0
#include "backend/model/exposure.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace ovl::model {
namespace {

class Explanation {
 public:
  Explanation(const Engine& engine, std::span<const RateChange> changes, const std::vector<ExplainedPlayer>& players)
      : engine_(engine), players_(players), changes_(changes.begin(), changes.end()) {
    std::stable_sort(changes_.begin(), changes_.end(),
                     [](const RateChange& a, const RateChange& b) { return a.flow < b.flow; });
    for (std::size_t i = 0; i <= changes_.size(); ++i) {
      const std::size_t flows = i < changes_.size() ? at(changes_[i].flow) + 1 : begin_.size() + 1;
      if (flows > begin_.size()) begin_.resize(flows, i);
    }
    for (std::size_t p = 0; p < players.size(); ++p) {
      for (std::size_t i = 0; i < players[p].operations.size(); ++i) {
        const std::size_t operation = at(players[p].operations[i].operation);
        if (operation >= owner_.size()) owner_.resize(operation + 1, nobody);
        owner_[operation] = {p, i};
      }
    }
  }

  std::optional<ExposedTime> of_longest() {
    double longest = 0;
    double ends = 0;
    for (std::size_t p = 0; p < players_.size(); ++p) {
      const double computes = computed(p);
      const double last = end_of(p);
      if (computes < longest || (computes == longest && last <= ends) || computes == 0) continue;
      who_ = p;
      longest = computes;
      ends = last;
    }
    if (!(longest > 0) || !std::isfinite(longest)) return std::nullopt;
    double now = 0;
    for (const ExplainedOperation* x : computing()) {
      const double start = engine_.started(x->operation);
      if (start < now) return std::nullopt;
      not_started(x->operation, now, start);
      for (const Index flow : engine_.flows_of(x->operation)) running(x->operation, flow, start, infinite);
      now = engine_.ended(x->operation);
    }
    if (const Index last = last_of_all(); last >= 0) not_ended(last, now, engine_.ended(last));

    ExposedTime exposed{players_[who_].rank, Seconds(longest), {}};
    for (const auto& [key, seconds] : parts_) {
      const auto& [owner, cause, beside] = key;
      exposed.parts.push_back({players_[owner.first].rank, id_of(owner), cause, beside, Seconds(seconds)});
    }
    return exposed;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();
  using Owner = std::pair<std::size_t, std::size_t>;  // player, position
  static constexpr Owner nobody{-1, -1};

  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] std::span<const RateChange> changes_of(Index flow) const {
    if (at(flow) + 1 >= begin_.size()) return {};
    return std::span(changes_).subspan(begin_[at(flow)], begin_[at(flow) + 1] - begin_[at(flow)]);
  }
  [[nodiscard]] Owner owner_of(Index operation) const {
    return operation < 0 || at(operation) >= owner_.size() ? nobody : owner_[at(operation)];
  }

  [[nodiscard]] double computed(std::size_t p) const {
    double sum = 0;
    for (const ExplainedOperation& o : players_[p].operations) {
      if (o.role != Role::compute) continue;
      for (const Index flow : engine_.flows_of(o.operation)) sum += engine_.duration(flow);
    }
    return sum;
  }
  [[nodiscard]] double end_of(std::size_t p) const {
    double end = 0;
    for (const ExplainedOperation& o : players_[p].operations) end = std::max(end, engine_.ended(o.operation));
    return end;
  }
  [[nodiscard]] std::vector<const ExplainedOperation*> computing() const {
    std::vector<const ExplainedOperation*> all;
    for (const ExplainedOperation& o : players_[who_].operations) {
      if (o.role == Role::compute) all.push_back(&o);
    }
    std::stable_sort(all.begin(), all.end(), [&](const auto* a, const auto* b) {
      return engine_.started(a->operation) < engine_.started(b->operation);
    });
    return all;
  }
  // The operation with which the step ends, of this player where it is the last too.
  [[nodiscard]] Index last_of_all() const {
    Index last = -1;
    const auto look = [&](std::size_t p) {
      for (const ExplainedOperation& o : players_[p].operations) {
        if (last < 0 || engine_.ended(o.operation) > engine_.ended(last)) last = o.operation;
      }
    };
    look(who_);
    for (std::size_t p = 0; p < players_.size(); ++p) look(p);
    return last;
  }

  [[nodiscard]] OpId id_of(const Owner& owner) const { return players_[owner.first].operations[owner.second].op; }
  [[nodiscard]] const ExplainedOperation* known(Index operation) const {
    const Owner owner = owner_of(operation);
    return owner == nobody ? nullptr : &players_[owner.first].operations[owner.second];
  }
  // The operation of a flow, on the same player as `beside` where it has one there.
  [[nodiscard]] Index operation_of(Index flow, Index beside) const {
    const std::span<const Index> members = engine_.members_of(flow);
    const auto same = std::find_if(members.begin(), members.end(),
                                   [&](Index m) { return owner_of(m).first == owner_of(beside).first; });
    return same == members.end() ? members.front() : *same;
  }

  void add(Index operation, ExposedCause cause, Index beside, double seconds) {
    if (!(seconds > 0)) return;
    const Owner owner = owner_of(operation);
    if (owner == nobody) return;
    const ExplainedOperation* other = known(beside);
    parts_[{owner, cause, other == nullptr ? OpId() : other->op}] += seconds;
  }
  // What computes is slowed or kept waiting by another, whose part it is; what communicates has it itself.
  void add_to_who_costs(Index operation, ExposedCause cause, Index by, double seconds) {
    const ExplainedOperation* who = known(operation);
    const bool slowed = who != nullptr && who->role == Role::compute && known(by) != nullptr;
    add(slowed ? by : operation, cause, slowed ? operation : by, seconds);
  }

  // Why an operation had not started, from one moment to another, before which it had not.
  void not_started(Index operation, double from, double to) {
    Index waiting = operation;  // for the host: the last that anybody knows
    while (to > from) {
      if (known(operation) != nullptr) waiting = operation;
      add(operation, ExposedCause::peer, -1,
          std::min(to, engine_.started(operation)) - std::max(from, engine_.begun(operation)));
      const Engine::Release release = engine_.released(operation);
      add_to_who_costs(operation, ExposedCause::units, release.units_by,
                       std::min(to, engine_.begun(operation)) - std::max(from, engine_.ready(operation)));
      to = std::min(to, engine_.ready(operation));
      if (to <= from || release.by < 0) return;
      operation = release.by;
      if (release.begun) continue;
      const std::span<const Index> flows = engine_.flows_of(operation);
      const Index flow = last_flow(operation);
      if (known(operation) == nullptr && !flows.empty()) {
        const double start = engine_.started(operation);
        add(waiting, ExposedCause::launch, -1, to - std::max(from, start));
        to = std::min(to, start);
      } else if (flow >= 0) {
        to = std::min(to, running(operation, flow, from, to));
      }
    }
  }
  void not_ended(Index operation, double from, double to) {
    const Index flow = last_flow(operation);
    if (flow >= 0) to = std::min(to, running(operation, flow, from, to));
    not_started(operation, from, to);
  }

  // The flow with which an operation ended; -1: none took time.
  [[nodiscard]] Index last_flow(Index operation) const {
    Index last = -1;
    double end = -infinite;
    for (const Index flow : engine_.flows_of(operation)) {
      const std::span<const RateChange> changes = changes_of(flow);
      if (changes.empty() || changes.back().at <= end) continue;
      last = flow;
      end = changes.back().at;
    }
    return last;
  }

  // What a flow did between two moments: alone it would have taken its rate's part of the time. Returns when it began.
  double running(Index operation, Index flow, double from, double to) {
    const std::span<const RateChange> changes = changes_of(flow);
    if (changes.empty()) return to;
    const ExplainedOperation* who = known(operation);
    const bool computes = who != nullptr && who->role == Role::compute;
    for (std::size_t i = 0; i + 1 < changes.size(); ++i) {
      const RateChange& c = changes[i];
      const double length = std::min(to, changes[i + 1].at) - std::max(from, c.at);
      if (!(length > 0)) continue;
      const bool own = computes && owner_of(operation).first == who_;
      if (computes && !own) {
        add(operation, ExposedCause::peer, -1, length);
        continue;
      }
      if (!computes) add(operation, ExposedCause::transfer, -1, length * c.rate);
      if (c.limit == Limit::none) continue;
      const bool units = c.limit == Limit::units;
      const Index by = c.by < 0 ? -1 : units ? c.by : operation_of(c.by, operation);
      add_to_who_costs(operation, units ? ExposedCause::units : ExposedCause::shared, by, length * (1 - c.rate));
    }
    return changes.front().at;
  }

  const Engine& engine_;
  const std::vector<ExplainedPlayer>& players_;
  std::vector<RateChange> changes_;  // by flow
  std::vector<std::size_t> begin_;   // of each flow in them
  std::vector<Owner> owner_;         // by operation of the engine
  std::size_t who_ = 0;
  std::map<std::tuple<Owner, ExposedCause, OpId>, double> parts_;
};

}  // namespace

std::optional<ExposedTime> exposed_time(const Engine& engine, std::span<const RateChange> changes,
                                        const std::vector<ExplainedPlayer>& players) {
  return Explanation(engine, changes, players).of_longest();
}

}  // namespace ovl::model
