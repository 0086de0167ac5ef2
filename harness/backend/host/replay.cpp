// SPDX-License-Identifier: Apache-2.0
#include "backend/host/replay.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "backend/host/blas.hpp"
#include "kernels/host/reduce.hpp"
#include "kernels/host/stream.hpp"

namespace ovl::host {
namespace {

// Does the work of one step.
struct Player {
  Replay& replay;
  Track& track;
  Waiter waiter;
  ProgressEngine* progress = nullptr;  // where the rank passes messages, with this lane's party
  ProgressEngine::Party* party = nullptr;

  [[nodiscard]] std::int64_t slot() const { return replay.options.slot; }

  void operator()(const GemmStep& s) const {
    const Working working(*this);
    const std::byte* const a = s.a.at(slot());
    const std::byte* const b = s.b.at(slot());
    std::byte* const c = s.c.at(slot());
    for (std::int64_t repeat = 0; repeat < s.gemm.repeat; ++repeat) {
      for (std::int64_t i = 0; i < s.gemm.m; i += s.tile_rows) {
        for (std::int64_t j = 0; j < s.gemm.n; j += s.tile_columns) {
          const std::int64_t rows = std::min(s.tile_rows, s.gemm.m - i);
          run_gemm(s.gemm, {i, rows, j, std::min(s.tile_columns, s.gemm.n - j)}, a, b, c);
          if (progress != nullptr) progress->look(*party, waiter);
        }
      }
    }
  }
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
  void operator()(const PostStep& s) const {
    std::vector<std::byte*> memory;
    for (const Region& region : s.memory) memory.push_back(region.at(slot()));
    progress->post(*party, *s.operation, memory);
  }
  void operator()(const CompleteStep& /*s*/) const { progress->complete(*party, waiter); }
  void operator()(const CopyStep& s) const {
    const Working working(*this);
    std::memcpy(s.to.at(slot()), s.from.at(slot()), static_cast<std::size_t>(s.bytes));
  }
  void operator()(const BusyStep& s) const {
    const Working working(*this);
    for (const Stamp until = now() + s.duration; now() < until;) {
      if (replay.stop.raised()) throw Stopped{};
      if (progress != nullptr) progress->look(*party, waiter);
    }
  }
  void operator()(const OccupyStep& s) const {
    const Working working(*this);
    const Stamp end = now() + s.duration;
    while (!over(s.until, s.position) && (s.until != nullptr || now() < end)) {
      if (replay.stop.raised()) throw Stopped{};
      if (progress != nullptr) progress->look(*party, waiter);
    }
  }
  void operator()(const StreamStep& s) const {
    const Working working(*this);
    std::byte* const to = s.to.at(slot());
    const std::byte* const from = s.from.at(slot());
    kernels::PaceClock clock(s.pace, static_cast<double>(now()));
    std::int64_t at = 0;
    std::int64_t moved = 0;
    while (!over(s.until, s.position) && (s.until != nullptr || moved < s.bytes)) {
      if (replay.stop.raised()) throw Stopped{};
      std::int64_t part = std::min(kernels::stream_chunk, s.size - at);
      if (s.until == nullptr) part = std::min(part, (s.bytes - moved + 1) / 2);
      std::memcpy(to + at, from + at, static_cast<std::size_t>(part));
      at = at + part == s.size ? 0 : at + part;
      moved += 2 * part;
      if (progress != nullptr) progress->look(*party, waiter);
      const double due = clock.after(static_cast<double>(2 * part), static_cast<double>(now()));
      for (int look = 0; static_cast<double>(now()) < due && !over(s.until, s.position); ++look) {
        if (replay.stop.raised()) throw Stopped{};
        look_again(waiter.waiting, look);
      }
    }
    track.moved = track.moved.value_or(Bytes(0)) + Bytes(moved);
  }
  void operator()(const AddStep& s) const {
    const Working working(*this);
    for (const Region& from : s.from) {
      if (s.dtype == DType::f64) {
        add<double>(s.to, from);
      } else {
        add<float>(s.to, from);
      }
    }
  }
  void operator()(const RecordStep& s) const { set(*s.signal, s.position); }
  void operator()(const UntilStep& s) const {
    for (int look = 0; now() < replay.opened + s.due; ++look) {
      if (replay.stop.raised()) throw Stopped{};
      look_again(waiter.waiting, look);
    }
  }
  void operator()(const WaitStep& s) const { wait(*s.signal, s.position); }
  void operator()(const JoinStep& s) const {
    set(*s.own, s.position);
    for (Signal* other : s.others) wait(*other, s.position);
  }

 private:
  // Work of the lane itself, for its lifetime.
  class Working {
   public:
    explicit Working(const Player& player) : player_(player) {
      if (player.progress != nullptr) player.progress->begin_work(*player.party, player.waiter);
    }
    Working(const Working&) = delete;
    Working& operator=(const Working&) = delete;
    ~Working() {
      if (player_.progress != nullptr) player_.progress->end_work(*player_.party);
    }

   private:
    const Player& player_;
  };

  // Whether the event has fired; false without one.
  [[nodiscard]] bool over(const Signal* until, std::uint32_t position) const {
    return until != nullptr && until->load() >= tick(replay.number, position);
  }
  void set(Signal& signal, std::uint32_t position) const {
    const std::uint64_t value = tick(replay.number, position);
    progress == nullptr ? signal.set(value) : progress->set(*party, signal, value, waiter);
  }
  void wait(Signal& signal, std::uint32_t position) const {
    const std::uint64_t value = tick(replay.number, position);
    progress == nullptr ? signal.wait(value, waiter) : progress->wait(*party, signal, value, waiter);
  }

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
  Player player{replay, track, {track.waiting, &replay.stop}, replay.progress, track.party};
  const bool each = replay.options.recording == Recording::operations;
  if (each) track.step_times.resize(track.steps.size());
  track.moved.reset();
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
  if (replay.progress != nullptr) replay.progress->leave(*track.party);
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
  // A lane that was busy at the time did not look: then the operation was in its queue from that time on.
  const auto enqueued = [&](const PlacedOp& p) {
    if (!p.until_step) return opened;
    const auto& [looked, left] = p.track->step_times[*p.until_step];
    return looked < opened + p.due ? left : opened + p.due;
  };
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
    const Seconds returned = p.post_step ? at(zero, p.track->step_times[*p.post_step].second) : unknown_time;
    out.push_back({.rank = Rank(rank),
                   .op = p.op,
                   .lane = p.lane,
                   .enqueued = at(zero, enqueued(p)),
                   .ready = at(zero, ready),
                   .start = at(zero, start_of(p)),
                   .end = at(zero, end_of(p)),
                   .host_return = returned});
  }
}

// By the streams of a lane, its helpers' among them.
std::optional<Bytes> moved_by(const Plan& plan, const WorkerId& lane) {
  std::optional<Bytes> moved;
  for (const Track& t : plan.tracks) {
    if (t.worker.rank == lane.rank && t.worker.lane == lane.lane && t.moved) {
      moved = moved.value_or(Bytes(0)) + *t.moved;
    }
  }
  return moved;
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
  for (int r = 0; r < plan.ranks; ++r) origins.push_back(origin_of(plan, replay, plan.first_rank + r));
  const Stamp zero = *std::max_element(origins.begin(), origins.end());

  Timings timings;
  for (int own = 0; own < plan.ranks; ++own) {
    const int r = plan.first_rank + own;
    const Stamp origin = origins[static_cast<std::size_t>(own)];
    RankTiming rank{Rank(r), at(zero, origin), at(zero, origin), {}};
    for (const Track& t : plan.tracks) {
      if (t.worker.rank != r || t.worker.helper != 0) continue;
      rank.end = std::max(rank.end, at(zero, t.end));
      rank.lanes.push_back({LaneId(t.worker.lane), at(zero, t.start), at(zero, t.end), moved_by(plan, t.worker)});
    }
    timings.ranks.push_back(std::move(rank));
    if (replay.options.recording == Recording::operations) {
      append_operations(plan.operations[static_cast<std::size_t>(own)], r, zero, replay.opened, origin,
                        timings.operations);
    }
  }
  if (replay.clock_offset) timings.epoch = nanoseconds(static_cast<double>(zero + *replay.clock_offset));
  timings.start_source = "worker";
  timings.launch_order = order_of(plan);
  return timings;
}

}  // namespace ovl::host
