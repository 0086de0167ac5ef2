// SPDX-License-Identifier: Apache-2.0
#include "backend/model/engine.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace ovl::model {
namespace {

// Above this a resource is full: shares that add up to exactly 1 must not be slowed by their rounding.
constexpr double full = 1 + 1e-12;
constexpr double infinite = std::numeric_limits<double>::infinity();

// Counts become offsets; returns the total.
Index accumulate(std::vector<Index>& begin) {
  Index total = 0;
  for (Index& b : begin) {
    const Index count = b;
    b = total;
    total += count;
  }
  return total;
}

}  // namespace

// ---- the graph -----------------------------------------------------------------------------------------------------

Index Graph::resource() {
  signals_.push_back(0);
  return static_cast<Index>(signals_.size()) - 1;
}

Index Graph::signal() {
  signals_.push_back(1);
  return static_cast<Index>(signals_.size()) - 1;
}

Index Graph::pool(Index units) {
  require(units > 0, "a pool has units");
  pools_.push_back(units);
  return static_cast<Index>(pools_.size()) - 1;
}

Index Graph::operation(const Units& units) {
  require(units.pool < static_cast<Index>(pools_.size()), "an operation's units come from a pool");
  require(units.pool < 0 || (units.wanted > 0 && units.wanted <= pools_[static_cast<std::size_t>(units.pool)]),
          "an operation wants no more units than its pool has");
  units_.push_back(units);
  return operations() - 1;
}

Index Graph::flow(double duration, std::span<const Index> operations, std::span<const Share> shares, double weight) {
  require(duration >= 0 && std::isfinite(duration), "a flow has a duration");
  require(!operations.empty() && weight > 0, "a flow belongs to an operation and has a weight");
  durations_.push_back(duration);
  weights_.push_back(weight);
  members_.insert(members_.end(), operations.begin(), operations.end());
  members_begin_.push_back(static_cast<Index>(members_.size()));
  for (const Share& share : shares) {
    require(share.amount >= 0 && std::isfinite(share.amount), "a flow takes a part of a resource");
    require(share.slowdown >= 1, "a signal slows");
    if (share.amount > 0 || share.slowdown > 1) shares_.push_back(share);
  }
  shares_begin_.push_back(static_cast<Index>(shares_.size()));
  return static_cast<Index>(durations_.size()) - 1;
}

Index Graph::endless(std::span<const Index> operations, std::span<const Share> shares) {
  const Index added = flow(1, operations, shares);
  durations_.back() = infinite;
  return added;
}

Engine::Engine(const Graph& graph)
    : operations_(graph.operations()),
      flows_(static_cast<Index>(graph.durations_.size())),
      signal_(graph.signals_),
      units_(graph.units_),
      duration_(graph.durations_),
      weight_(graph.weights_),
      members_begin_(graph.members_begin_),
      members_(graph.members_),
      shares_begin_(graph.shares_begin_),
      shares_(graph.shares_),
      pool_units_(graph.pools_) {
  const std::size_t n = units_.size();
  for (const Units& u : units_) pool_.push_back(u.pool);
  const std::size_t f = duration_.size();
  const std::size_t r = signal_.size();
  const std::size_t p = pool_units_.size();

  flows_begin_.assign(n + 1, 0);
  for (const Index op : members_) ++flows_begin_[at(op)];
  flow_of_.resize(at(accumulate(flows_begin_)));
  std::vector<Index> filled(flows_begin_);
  for (Index flow = 0; flow < flows_; ++flow) {
    for (const Index op : range(members_begin_, members_, flow)) flow_of_[at(filled[at(op)]++)] = flow;
  }
  share_flow_.resize(shares_.size());
  limited_.resize(f);
  for (Index flow = 0; flow < flows_; ++flow) {
    for (Index s = shares_begin_[at(flow)]; s < shares_begin_[at(flow) + 1]; ++s) {
      share_flow_[at(s)] = flow;
      if (shares_[at(s)].slowdown > 1) limited_[at(flow)] = 1;
      // One who gives a signal makes it "full" by himself.
      if (signal_[at(shares_[at(s)].resource)]) shares_[at(s)].amount *= 2;
    }
    for (const Index op : range(members_begin_, members_, flow)) {
      if (pool_[at(op)] >= 0 && !units_[at(op)].holds) limited_[at(flow)] = 1;
    }
  }

  predecessors_.assign(n, 0);
  const auto compile = [&](const std::vector<Graph::Edge>& edges, std::vector<Index>& begin, std::vector<Index>& all) {
    begin.assign(n + 1, 0);
    for (const auto& edge : edges) ++begin[at(edge.first)];
    all.resize(at(accumulate(begin)));
    filled = begin;
    for (const auto& edge : edges) all[at(filled[at(edge.first)]++)] = edge.then;
  };
  compile(graph.edges_, successors_begin_, successors_);
  compile(graph.begin_edges_, begin_successors_begin_, begin_successors_);
  compile(graph.ends_, ends_begin_, ends_);
  for (const auto* edges : {&graph.edges_, &graph.begin_edges_}) {
    for (const auto& edge : *edges) ++predecessors_[at(edge.then)];
  }
  for (Index op = 0; op < operations_; ++op) {
    if (predecessors_[at(op)] == 0) sources_.push_back(op);
  }

  times_.resize(n);
  released_.resize(n);
  for (auto* counts : {&pending_, &open_flows_, &held_}) counts->resize(n);
  for (auto* values : {&remaining_, &since_, &rate_, &limit_, &done_}) values->resize(f);
  missing_.resize(f);
  active_.resize(f);
  over_.resize(f);
  flow_touched_.resize(f);
  for (auto* values : {&demand_, &left_, &sum_, &level_}) values->resize(r);
  for (auto* flags : {&resource_touched_, &blocked_}) flags->resize(r);
  head_.resize(r);
  next_.resize(shares_.size());
  previous_.resize(shares_.size());
  free_.resize(p);
  freed_by_.resize(p);
  present_.resize(p);
  pool_dirty_.resize(p);
  key_.resize(f + p);
  slot_.resize(f + p);
  work_.reserve(n);
  touched_.reserve(f);
  full_.reserve(r);
  heap_.reserve(f + p);
}

// ---- time ----------------------------------------------------------------------------------------------------------

double Engine::play() {
  reset();
  work_.insert(work_.end(), sources_.begin(), sources_.end());
  for (const Index op : sources_) times_[at(op)].ready = now_;
  settle();
  while (!heap_.empty()) {
    now_ = key_[at(heap_.front())];
    while (!heap_.empty() && key_[at(heap_.front())] <= now_) {
      const Index id = heap_.front();
      heap_remove(id);
      if (id < flows_) {
        end_flow(id);
      } else {
        yield_units(id - flows_);
      }
    }
    settle();
  }
  return now_;
}

void Engine::reset() {
  now_ = 0;
  std::fill(times_.begin(), times_.end(), Times{});
  std::fill(released_.begin(), released_.end(), Release{});
  pending_ = predecessors_;
  for (std::size_t op = 0; op < units_.size(); ++op) open_flows_[op] = flows_begin_[op + 1] - flows_begin_[op];
  std::fill(held_.begin(), held_.end(), 0);
  for (std::size_t f = 0; f < duration_.size(); ++f) missing_[f] = members_begin_[f + 1] - members_begin_[f];
  for (auto* flags : {&active_, &over_}) std::fill(flags->begin(), flags->end(), std::uint8_t{0});
  std::fill(done_.begin(), done_.end(), 0.0);
  std::fill(rate_.begin(), rate_.end(), 0.0);
  std::fill(demand_.begin(), demand_.end(), 0.0);
  std::fill(head_.begin(), head_.end(), -1);
  free_ = pool_units_;
  std::fill(freed_by_.begin(), freed_by_.end(), -1);
  for (auto& present : present_) present.clear();
  std::fill(slot_.begin(), slot_.end(), -1);
  heap_.clear();
  work_.clear();
  work_done_ = 0;
}

// Everything that happens at this moment, then the rates from here on.
void Engine::settle() {
  while (work_done_ < work_.size() || !dirty_pools_.empty()) {
    while (work_done_ < work_.size()) make_ready(work_[work_done_++]);
    work_.clear();
    work_done_ = 0;
    // All that became ready at this moment queues before anybody is served.
    for (std::size_t i = 0; i < dirty_pools_.size(); ++i) serve(dirty_pools_[i]);
    dirty_pools_.clear();
  }
  if (!touched_.empty()) share_out();
  if (watch_ != nullptr) tell();
}

// ---- operations and flows ------------------------------------------------------------------------------------------

void Engine::fire(Index by, bool begun, std::span<const Index> successors) {
  for (const Index op : successors) {
    if (--pending_[at(op)] > 0) continue;
    times_[at(op)].ready = now_;
    released_[at(op)].by = by;
    released_[at(op)].begun = begun;
    work_.push_back(op);
  }
}

void Engine::make_ready(Index op) {
  if (pool_[at(op)] < 0) {
    begin(op);
  } else {
    queue_at_pool(op);
  }
}

void Engine::begin(Index op) {
  ++events_;
  times_[at(op)].begun = now_;
  times_[at(op)].started = now_;
  if (pool_[at(op)] >= 0) released_[at(op)].units_by = freed_by_[at(pool_[at(op)])];
  fire(op, true, range(begin_successors_begin_, begin_successors_, op));
  if (open_flows_[at(op)] == 0) return finish(op);
  for (const Index flow : range(flows_begin_, flow_of_, op)) {
    if (--missing_[at(flow)] == 0) start_flow(flow);
  }
}

void Engine::finish(Index op) {
  ++events_;
  times_[at(op)].ended = now_;
  const Index pool = pool_[at(op)];
  if (pool >= 0) {
    free_[at(pool)] += held_[at(op)];
    freed_by_[at(pool)] = op;
    held_[at(op)] = 0;
    auto& present = present_[at(pool)];
    present.erase(std::find(present.begin(), present.end(), op));
    touch_pool(pool);
  }
  fire(op, false, range(successors_begin_, successors_, op));
  for (const Index flow : range(ends_begin_, ends_, op)) {
    over_[at(flow)] = 1;
    if (active_[at(flow)]) end_flow(flow);
  }
}

void Engine::start_flow(Index flow) {
  for (const Index op : range(members_begin_, members_, flow)) times_[at(op)].started = now_;
  remaining_[at(flow)] = duration_[at(flow)];
  since_[at(flow)] = now_;
  active_[at(flow)] = 1;
  if (duration_[at(flow)] == 0 || over_[at(flow)] != 0) {
    active_[at(flow)] = 0;
    return leave_flow(flow);
  }
  for (Index s = shares_begin_[at(flow)]; s < shares_begin_[at(flow) + 1]; ++s) {
    const Index r = shares_[at(s)].resource;
    demand_[at(r)] += shares_[at(s)].amount;
    previous_[at(s)] = -1;
    next_[at(s)] = head_[at(r)];
    if (head_[at(r)] >= 0) previous_[at(head_[at(r)])] = s;
    head_[at(r)] = s;
    touch_resource(r);
  }
  touch_flow(flow);
}

void Engine::end_flow(Index flow) {
  active_[at(flow)] = 0;
  done_[at(flow)] += (now_ - since_[at(flow)]) * rate_[at(flow)];
  rate_[at(flow)] = 0;
  if (changes_ != nullptr) changes_->push_back({.flow = flow, .at = now_});
  for (Index s = shares_begin_[at(flow)]; s < shares_begin_[at(flow) + 1]; ++s) {
    const Index r = shares_[at(s)].resource;
    touch_resource(r);
    demand_[at(r)] -= shares_[at(s)].amount;
    if (previous_[at(s)] >= 0) {
      next_[at(previous_[at(s)])] = next_[at(s)];
    } else {
      head_[at(r)] = next_[at(s)];
    }
    if (next_[at(s)] >= 0) previous_[at(next_[at(s)])] = previous_[at(s)];
    if (head_[at(r)] < 0) demand_[at(r)] = 0;  // what rounding left
  }
  leave_flow(flow);
}

void Engine::leave_flow(Index flow) {
  for (const Index op : range(members_begin_, members_, flow)) {
    if (--open_flows_[at(op)] == 0) finish(op);
  }
}

// ---- units ---------------------------------------------------------------------------------------------------------

void Engine::touch_pool(Index pool) {
  if (pool_dirty_[at(pool)] != 0) return;
  pool_dirty_[at(pool)] = 1;
  dirty_pools_.push_back(pool);
}

void Engine::queue_at_pool(Index op) {
  const Index pool = pool_[at(op)];
  auto& present = present_[at(pool)];
  const auto place = std::find_if(present.begin(), present.end(),
                                  [&](Index other) { return units_[at(other)].priority < units_[at(op)].priority; });
  present.insert(place, op);
  touch_pool(pool);
}

// Hands out what is free, and lets begin whoever has enough.
void Engine::serve(Index pool) {
  pool_dirty_[at(pool)] = 0;
  auto& present = present_[at(pool)];
  for (std::size_t i = 0; i < present.size() && free_[at(pool)] > 0; ++i) {
    const Index op = present[i];
    const Index units = std::min(units_[at(op)].wanted - held_[at(op)], free_[at(pool)]);
    if (units > 0) give(op, units);
  }
  // Beginning may finish an operation at once, which changes who is present: one after the other, from the front.
  for (bool began = true; began;) {
    began = false;
    for (const Index op : present) {
      const bool enough = units_[at(op)].holds ? held_[at(op)] == units_[at(op)].wanted : held_[at(op)] > 0;
      if (!std::isnan(times_[at(op)].begun) || !enough) continue;
      begin(op);
      began = true;
      break;
    }
  }
  plan_yield(pool);
}

// Units change hands; a flow under way runs at another cap from here on.
void Engine::give(Index op, Index units) {
  held_[at(op)] += units;
  free_[at(pool_[at(op)])] -= units;
  if (units < 0) freed_by_[at(pool_[at(op)])] = op;
  if (std::isnan(times_[at(op)].begun) || units_[at(op)].holds) return;
  for (const Index flow : range(flows_begin_, flow_of_, op)) {
    if (active_[at(flow)]) touch_flow(flow);
  }
}

double Engine::cap_of(Index flow) const {
  if (!limited_[at(flow)]) return 1;
  double cap = 1;
  for (Index s = shares_begin_[at(flow)]; s < shares_begin_[at(flow) + 1]; ++s) {
    const Share& share = shares_[at(s)];
    if (share.slowdown > 1 && demand_[at(share.resource)] > full) cap = std::min(cap, 1 / share.slowdown);
  }
  for (const Index op : range(members_begin_, members_, flow)) {
    const Units& u = units_[at(op)];
    if (u.pool < 0 || u.holds) continue;
    const Index held = held_[at(op)];
    if (held == 0) return 0;
    if (held == u.wanted) continue;
    const double waves = u.tiles > 0 ? static_cast<double>((u.tiles + held - 1) / held) : 1.0 / held;
    if (u.unit_work > 0) cap = std::min(cap, duration_[at(flow)] / (waves * u.unit_work));
  }
  return cap;
}

// From now to the next boundary of what a flow's units work on, at its present rate.
double Engine::until_boundary(Index victim, bool equal) const {
  const double step = equal ? units_[at(victim)].kernel : units_[at(victim)].block;
  if (step <= 0) return 0;
  const Index flow = flow_of_[at(flows_begin_[at(victim)])];
  const double rate = rate_[at(flow)] > 0 ? rate_[at(flow)] : cap_of(flow);  // it may just have begun
  if (rate <= 0) return infinite;
  const double left = remaining_[at(flow)] - (now_ - since_[at(flow)]) * rate_[at(flow)];
  const double step_left = step - std::fmod(duration_[at(flow)] - left, step);
  // The last boundary is its end, which frees its units anyway.
  return step_left < left * (1 - 1e-9) ? step_left / rate : infinite;
}

// Whoever lacks units that somebody of lower or equal rank must yield gets them at that one's next boundary.
void Engine::plan_yield(Index pool) {
  const Index id = flows_ + pool;
  const auto& present = present_[at(pool)];
  double soonest = infinite;
  for (std::size_t i = 0; i < present.size(); ++i) {
    const Units& hungry = units_[at(present[i])];
    if (held_[at(present[i])] == hungry.wanted) continue;
    for (const Index victim : present) {
      const Units& v = units_[at(victim)];
      if (v.holds || held_[at(victim)] == 0 || victim == present[i]) continue;
      // An equal one yields to a holder only: two kernels of many blocks run one after the other.
      const bool higher = hungry.priority > v.priority;
      const bool equal = hungry.priority == v.priority && hungry.holds && v.kernel > 0;
      if (higher || equal) soonest = std::min(soonest, until_boundary(victim, !higher));
    }
    break;  // the first in line
  }
  if (soonest < infinite) {
    heap_set(id, now_ + soonest);
  } else if (slot_[at(id)] >= 0) {
    heap_remove(id);
  }
}

void Engine::yield_units(Index pool) {
  auto& present = present_[at(pool)];
  for (const Index hungry : present) {
    const Units& h = units_[at(hungry)];
    Index lacks = h.wanted - held_[at(hungry)];
    if (lacks == 0) continue;
    for (auto victim = present.rbegin(); victim != present.rend() && lacks > 0; ++victim) {
      const Units& v = units_[at(*victim)];
      if (v.holds || *victim == hungry) continue;
      const bool equal = h.priority == v.priority && h.holds && v.kernel > 0;
      if (h.priority <= v.priority && !equal) continue;
      const Index units = std::min(lacks, held_[at(*victim)]);
      if (units == 0) continue;
      give(*victim, -units);
      give(hungry, units);
      lacks -= units;
    }
    break;
  }
  touch_pool(pool);
}

// ---- rates ---------------------------------------------------------------------------------------------------------

void Engine::touch_flow(Index flow) {
  if (flow_touched_[at(flow)]) return;
  flow_touched_[at(flow)] = 1;
  touched_.push_back(flow);
}

// A resource that is not full slows nobody, so nobody there notices who comes or goes.
void Engine::touch_resource(Index r) {
  if (demand_[at(r)] <= full) return;
  for (Index s = head_[at(r)]; s >= 0; s = next_[at(s)]) touch_flow(share_flow_[at(s)]);
}

void Engine::share_out() {
  // The component: whoever shares a full resource with somebody touched.
  full_.clear();
  for (std::size_t i = 0; i < touched_.size(); ++i) {
    const Index flow = touched_[i];
    if (!active_[at(flow)]) continue;
    for (Index s = shares_begin_[at(flow)]; s < shares_begin_[at(flow) + 1]; ++s) {
      const Index r = shares_[at(s)].resource;
      if (resource_touched_[at(r)] || signal_[at(r)] || demand_[at(r)] <= full) continue;
      resource_touched_[at(r)] = 1;
      full_.push_back(r);
      touch_resource(r);
    }
  }
  for (const Index flow : touched_) flow_touched_[at(flow)] = 0;
  std::erase_if(touched_, [&](Index flow) { return !active_[at(flow)]; });
  if (full_.empty()) {
    for (const Index flow : touched_) set_rate(flow, cap_of(flow));
  } else {
    fill(touched_, full_);
    for (const Index r : full_) resource_touched_[at(r)] = 0;
  }
  touched_.clear();
}

// Each pass settles every flow that is stopped at its own cap, or at a full resource that stops all flows there first.
void Engine::fill(std::span<Index> raised, std::span<const Index> resources) {
  std::size_t count = raised.size();  // those still to be settled are in front
  for (const Index r : resources) left_[at(r)] = 1;
  const auto of_component = [&](Index flow, auto&& visit) {
    for (Index s = shares_begin_[at(flow)]; s < shares_begin_[at(flow) + 1]; ++s) {
      if (resource_touched_[at(shares_[at(s)].resource)]) visit(shares_[at(s)]);
    }
  };
  while (count > 0) {
    for (const Index r : resources) sum_[at(r)] = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const Index flow = raised[i];
      of_component(flow, [&](const Share& s) { sum_[at(s.resource)] += s.amount * weight_[at(flow)]; });
    }
    for (const Index r : resources) {
      level_[at(r)] = sum_[at(r)] > 0 ? std::max(0.0, left_[at(r)]) / sum_[at(r)] : infinite;
      blocked_[at(r)] = 0;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const Index flow = raised[i];
      double limit = cap_of(flow) / weight_[at(flow)];
      of_component(flow, [&](const Share& s) { limit = std::min(limit, level_[at(s.resource)]); });
      limit_[at(flow)] = limit;
      of_component(flow, [&](const Share& s) {
        if (limit < level_[at(s.resource)]) blocked_[at(s.resource)] = 1;
      });
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const Index flow = raised[i];
      const double limit = limit_[at(flow)];
      bool settled = cap_of(flow) / weight_[at(flow)] <= limit;
      Index stopped_by = -1;
      of_component(flow, [&](const Share& s) {
        if (blocked_[at(s.resource)] || level_[at(s.resource)] > limit) return;
        if (!settled) stopped_by = s.resource;
        settled = true;
      });
      if (!settled) {
        raised[kept++] = flow;
        continue;
      }
      const double rate = limit * weight_[at(flow)];
      of_component(flow, [&](const Share& s) { left_[at(s.resource)] -= s.amount * rate; });
      set_rate(flow, rate, stopped_by);
    }
    require(kept < count, "each pass settles a flow");
    count = kept;
  }
}

// Who has most of what keeps a flow at this rate: a full resource, else its units or what it hears.
RateChange Engine::change_of(Index flow, double rate, Index full_resource) const {
  RateChange change{.flow = flow, .at = now_, .rate = rate};
  if (rate >= 1) return change;
  const auto user_of = [&](Index r) {
    Index most = -1;
    double amount = 0;
    for (Index s = head_[at(r)]; s >= 0; s = next_[at(s)]) {
      const Index other = share_flow_[at(s)];
      if (other == flow || shares_[at(s)].amount <= amount) continue;
      most = other;
      amount = shares_[at(s)].amount;
    }
    return most;
  };
  if (full_resource >= 0) {
    change.limit = Limit::resource;
    change.by = user_of(full_resource);
    return change;
  }
  for (const Share& share : std::span(shares_).subspan(at(shares_begin_[at(flow)]),
                                                       at(shares_begin_[at(flow) + 1] - shares_begin_[at(flow)]))) {
    if (share.slowdown <= 1 || demand_[at(share.resource)] <= full || 1 / share.slowdown > rate) continue;
    change.limit = Limit::signal;
    change.by = user_of(share.resource);
    return change;
  }
  change.limit = Limit::units;
  Index most = 0;
  for (const Index op : range(members_begin_, members_, flow)) {
    if (pool_[at(op)] < 0 || units_[at(op)].holds) continue;
    for (const Index other : present_[at(pool_[at(op)])]) {
      if (other == op || held_[at(other)] <= most) continue;
      change.by = other;
      most = held_[at(other)];
    }
  }
  return change;
}

void Engine::set_rate(Index flow, double rate, Index full_resource) {
  if (changes_ != nullptr) changes_->push_back(change_of(flow, rate, full_resource));
  if (rate == rate_[at(flow)]) return;
  remaining_[at(flow)] = std::max(0.0, remaining_[at(flow)] - (now_ - since_[at(flow)]) * rate_[at(flow)]);
  done_[at(flow)] += (now_ - since_[at(flow)]) * rate_[at(flow)];
  since_[at(flow)] = now_;
  rate_[at(flow)] = rate;
  if (rate > 0 && remaining_[at(flow)] < infinite) {
    heap_set(flow, now_ + remaining_[at(flow)] / rate);
  } else if (slot_[at(flow)] >= 0) {
    heap_remove(flow);
  }
  // Somebody waits for a boundary of this one: it now comes at another time.
  const Index pool = pool_[at(members_[at(members_begin_[at(flow)])])];
  if (pool >= 0 && slot_[at(flows_ + pool)] >= 0) plan_yield(pool);
}

void Engine::tell() {
  std::fill(left_.begin(), left_.end(), 0.0);
  for (Index flow = 0; flow < flows_; ++flow) {
    if (!active_[at(flow)]) continue;
    for (Index s = shares_begin_[at(flow)]; s < shares_begin_[at(flow) + 1]; ++s) {
      left_[at(shares_[at(s)].resource)] += shares_[at(s)].amount * rate_[at(flow)];
    }
  }
  watch_(watch_context_, now_, left_, rate_);
}

// ---- the heap ------------------------------------------------------------------------------------------------------

void Engine::heap_set(Index id, double key) {
  key_[at(id)] = key;
  if (slot_[at(id)] < 0) {
    slot_[at(id)] = static_cast<Index>(heap_.size());
    heap_.push_back(id);
  }
  sift_up(at(slot_[at(id)]));
  sift_down(at(slot_[at(id)]));
}

void Engine::heap_remove(Index id) {
  const std::size_t hole = at(slot_[at(id)]);
  slot_[at(id)] = -1;
  const Index last = heap_.back();
  heap_.pop_back();
  if (last == id) return;
  heap_[hole] = last;
  slot_[at(last)] = static_cast<Index>(hole);
  sift_up(hole);
  sift_down(at(slot_[at(last)]));
}

void Engine::sift_up(std::size_t slot) {
  const Index id = heap_[slot];
  for (; slot > 0; slot = (slot - 1) / 2) {
    const Index above = heap_[(slot - 1) / 2];
    if (!earlier(id, above)) break;
    heap_[slot] = above;
    slot_[at(above)] = static_cast<Index>(slot);
  }
  heap_[slot] = id;
  slot_[at(id)] = static_cast<Index>(slot);
}

void Engine::sift_down(std::size_t slot) {
  const Index id = heap_[slot];
  for (std::size_t below = 2 * slot + 1; below < heap_.size(); below = 2 * slot + 1) {
    if (below + 1 < heap_.size() && earlier(heap_[below + 1], heap_[below])) ++below;
    if (!earlier(heap_[below], id)) break;
    heap_[slot] = heap_[below];
    slot_[at(heap_[slot])] = static_cast<Index>(slot);
    slot = below;
  }
  heap_[slot] = id;
  slot_[at(id)] = static_cast<Index>(slot);
}

}  // namespace ovl::model
