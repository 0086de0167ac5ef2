// SPDX-License-Identifier: Apache-2.0
#include "backend/host/replay.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "backend/host/blas.hpp"
#include "kernels/host/reduce.hpp"

namespace ovl::host {
namespace {

// Does the work of one step.
struct Player {
  Replay& replay;
  Waiter waiter;

  [[nodiscard]] std::int64_t slot() const { return replay.options.slot; }

  void operator()(const GemmStep& s) const { run_gemm(s.gemm, s.a.at(slot()), s.b.at(slot()), s.c.at(slot())); }
  void operator()(const CollectiveStep& s) const {
    CollectiveCall call = s.call;
    call.input = s.input.at(slot());
    call.output = s.output.at(slot());
    s.group->collective(s.member, s.channel, call, waiter);
  }
  void operator()(ExchangeStep& s) const {
    for (std::size_t i = 0; i < s.messages.size(); ++i) s.messages[i].memory = s.regions[i].at(slot());
    s.group->exchange(s.member, s.messages, waiter);
  }
  void operator()(const CopyStep& s) const {
    std::memcpy(s.to.at(slot()), s.from.at(slot()), static_cast<std::size_t>(s.bytes));
  }
  void operator()(const BusyStep& s) const {
    for (const Stamp until = now() + s.duration; now() < until;) {
      if (replay.stop.raised()) throw Stopped{};
    }
  }
  void operator()(const AddStep& s) const {
    for (const Region& from : s.from) {
      if (s.dtype == DType::f64) {
        add<double>(s.to, from);
      } else {
        add<float>(s.to, from);
      }
    }
  }
  void operator()(const RecordStep& s) const { s.signal->set(tick(replay.number, s.position)); }
  void operator()(const WaitStep& s) const { s.signal->wait(tick(replay.number, s.position), waiter); }
  void operator()(const JoinStep& s) const {
    s.own->set(tick(replay.number, s.position));
    for (Signal* other : s.others) other->wait(tick(replay.number, s.position), waiter);
  }

 private:
  template <class T>
  void add(const Region& to, const Region& from) const {
    T* out = reinterpret_cast<T*>(to.at(slot()));
    kernels::add(out, out, reinterpret_cast<const T*>(from.at(slot())), from.count, kernels::Stores::cached);
  }
};

void pass_gate(const Track& track, Replay& replay) {
  if (replay.missing.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    replay.opened = now();
    replay.gate.set(1);
    return;
  }
  const bool may_spin = !replay.shared_cores;
  replay.gate.wait(1, {track.waiting == Waiting::spin && !may_spin ? Waiting::yield : track.waiting, &replay.stop});
}

void walk(Track& track, Replay& replay) {
  Player player{replay, {track.waiting, &replay.stop}};
  const bool each = replay.options.recording == Recording::operations;
  if (each) track.step_times.resize(track.steps.size());
  track.begun.store(-1, std::memory_order_relaxed);
  track.completed.store(-1, std::memory_order_relaxed);

  if (replay.options.launch == Launch::gated) pass_gate(track, replay);
  track.released = track.start = track.end = now();
  for (std::size_t i = 0; i < track.steps.size(); ++i) {
    Step& step = track.steps[i];
    if (step.op.valid()) track.begun.store(step.op.value, std::memory_order_relaxed);
    if (i == track.first_work) track.start = now();
    if (each) track.step_times[i].first = now();
    std::visit(player, step.action);
    if (each) track.step_times[i].second = now();
    if (i == track.last_work) track.end = now();
    if (step.op.valid()) track.completed.store(step.op.value, std::memory_order_relaxed);
  }
}

void keep_error(Replay& replay) noexcept {
  const std::lock_guard lock(replay.mutex);
  if (replay.error == nullptr) replay.error = std::current_exception();
  replay.stop.raise();
}

Seconds at(Stamp zero, Stamp stamp) { return between(zero, stamp); }

Stamp origin_of(const Plan& plan, const Replay& replay, int rank) {
  if (replay.options.launch == Launch::live || replay.shared_cores) return replay.opened;
  Stamp first = std::numeric_limits<Stamp>::max();
  for (const Track& t : plan.tracks) {
    if (t.worker.rank == rank && t.worker.helper == 0) first = std::min(first, t.released);
  }
  return first;
}

// Operations in issue order, so that what an operation waits for has been seen before it.
void append_operations(const std::vector<PlacedOp>& placed, int rank, Stamp zero, Stamp opened, Stamp origin,
                       std::vector<OperationTiming>& out) {
  std::map<LaneId, Stamp> lane_ready;  // when everything so far on the lane had finished
  for (const PlacedOp& p : placed) lane_ready.emplace(p.lane, origin);
  const auto start_of = [](const PlacedOp& p) { return p.track->step_times[p.first_step].first; };
  const auto end_of = [](const PlacedOp& p) { return p.track->step_times[p.last_step].second; };
  for (const PlacedOp& p : placed) {
    Stamp ready = lane_ready[p.lane];
    // An event fires between the stamps around its record; a waiter may see it before the second one.
    if (p.order == PlacedOp::Order::wait) ready = std::max(ready, start_of(placed[p.source]));
    if (p.order == PlacedOp::Order::join) {
      for (const auto& [lane, stamp] : lane_ready) ready = std::max(ready, stamp);
      for (auto& [lane, stamp] : lane_ready) stamp = ready;
    }
    lane_ready[p.lane] = p.order == PlacedOp::Order::work ? end_of(p) : ready;
    out.push_back({.rank = Rank(rank),
                   .op = p.op,
                   .lane = p.lane,
                   .enqueued = at(zero, opened),
                   .ready = at(zero, ready),
                   .start = at(zero, start_of(p)),
                   .end = at(zero, end_of(p))});
  }
}

std::string order_of(const Plan& plan) {
  std::map<Role, Stamp> first;
  for (const Track& t : plan.tracks) {
    if (t.worker.helper != 0 || t.steps.empty()) continue;
    Stamp& stamp = first.try_emplace(plan.lane_roles[static_cast<std::size_t>(t.worker.lane)], t.start).first->second;
    stamp = std::min(stamp, t.start);
  }
  if (first.size() < 2) return "unverified";
  return first[Role::communication] < first[Role::compute] ? "comm_first" : "compute_first";
}

}  // namespace

void play(Track& track, Replay& replay) noexcept {
  try {
    walk(track, replay);
  } catch (const Stopped&) {
    return;  // whoever raised the flag knows why
  } catch (...) {
    keep_error(replay);
  }
}

Timings timings_of(const Plan& plan, const Replay& replay) {
  std::vector<Stamp> origins;
  for (int r = 0; r < plan.ranks; ++r) origins.push_back(origin_of(plan, replay, r));
  const Stamp zero = *std::max_element(origins.begin(), origins.end());

  Timings timings;
  for (int r = 0; r < plan.ranks; ++r) {
    const Stamp origin = origins[static_cast<std::size_t>(r)];
    RankTiming rank{Rank(r), at(zero, origin), at(zero, origin), {}};
    for (const Track& t : plan.tracks) {
      if (t.worker.rank != r || t.worker.helper != 0) continue;
      rank.end = std::max(rank.end, at(zero, t.end));
      rank.lanes.push_back({LaneId(t.worker.lane), at(zero, t.start), at(zero, t.end)});
    }
    timings.ranks.push_back(std::move(rank));
    if (replay.options.recording == Recording::operations) {
      append_operations(plan.operations[static_cast<std::size_t>(r)], r, zero, replay.opened, origin,
                        timings.operations);
    }
  }
  timings.start_source = "worker";
  timings.launch_order = order_of(plan);
  return timings;
}

}  // namespace ovl::host
