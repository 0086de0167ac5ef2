// SPDX-License-Identifier: Apache-2.0
//
// Virtual time: discrete events with fluid sharing. The engine knows durations, shares, starts and ends, and nothing of
// what they stand for; costs.hpp decides what an operation takes, plan.hpp which ones there are.
//
// An *operation* is ready when its predecessors have finished. It then queues for units (SMs) where it wants some, and
// has begun once it has them. What takes time is its *flows*: a flow starts when all operations that it belongs to have
// begun (the last rank of a collective arrives), needs `duration` seconds at rate 1, and an operation has finished when
// its flows have. What passes between an operation's beginning and its flow's start is waiting, not transfer.
//
// Rates are max-min fair. Of a resource, a flow takes `share · rate`. All flows are raised together, each in proportion
// to its weight, until a resource is full; those that use it keep that rate, the others are raised further; nobody
// exceeds its cap, which is 1 or what its units allow (Bertsekas and Gallager, "Data Networks", section 6.5.2). So
// everybody at a full resource is slowed by the same factor, but for who is slower already for another reason. Rates
// change only where something starts, ends or gets units, and only in the component of full resources around it.
//
// Units are held, not shared. Whoever *holds* (a persistent kernel, a collective) has all that it wants before it
// begins and gives none back before it ends. Whoever *yields* (a kernel of many blocks) begins with what is free, runs
// in waves on what it has, grows into what becomes free, and gives units up at a boundary: of a block, to a higher
// priority; of a kernel, to an equal one. What is freed goes to the highest priority, then to who was ready first.
//
// Deterministic: equal times are settled in the order in which operations were added. Nothing is allocated while it
// plays but for the queues at units, which keep their capacity.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace ovl::model {

using Index = std::int32_t;

// The part of a resource that a flow takes at rate 1 (above 1 it never has that rate); or, of a signal, 1 to give it
// and 0 to hear it.
struct Share {
  Index resource = 0;
  double amount = 0;
  double slowdown = 1;  // of a signal: by how much at least the flow is slowed while somebody gives it
};

struct Units {
  Index pool = -1;  // none: begins as soon as it is ready
  Index wanted = 0;
  bool holds = true;
  int priority = 0;        // the higher goes first
  double block = 0;        // s at rate 1 between two boundaries at which it yields to a higher priority; 0: at once
  double kernel = 0;       // s at rate 1 between two boundaries at which it yields to an equal one; 0: never
  std::int64_t tiles = 0;  // work in equal pieces, one unit each at a time; 0: divided as finely as wanted
  double unit_work = 0;    // s: what one wave of tiles takes; without tiles, what one unit would take for all of it
};

// What is to be played. Indices are handed out from 0.
class Graph {
 public:
  Index resource();  // of capacity 1
  // Interference that is no sharing: two that run together may lose more than they take from each other.
  Index signal();
  Index pool(Index units);  // SMs of one device, or copy engines
  Index operation(const Units& units = {});
  // `duration` in seconds, not negative. The operations, at least one, are in the order of their ranks.
  Index flow(double duration, std::span<const Index> operations, std::span<const Share> shares = {}, double weight = 1);
  // A flow without an end of its own, at rate 1 as long as nothing slows it: it ends when `last` has finished.
  Index endless(std::span<const Index> operations, std::span<const Share> shares = {});
  void ends(Index last, Index endless) { ends_.push_back({last, endless}); }
  // `then` is not ready before `first` has finished.
  void after(Index first, Index then) { edges_.push_back({first, then}); }
  // `then` is not ready before `first` has begun.
  void after_begin(Index first, Index then) { begin_edges_.push_back({first, then}); }

  [[nodiscard]] Index operations() const { return static_cast<Index>(units_.size()); }

 private:
  friend class Engine;
  struct Edge {
    Index first;
    Index then;
  };
  std::vector<std::uint8_t> signals_;  // of each resource: whether it is one
  std::vector<Index> pools_;
  std::vector<Units> units_;
  std::vector<double> durations_;
  std::vector<double> weights_;
  std::vector<Index> members_begin_{0};  // of each flow in members_
  std::vector<Index> members_;
  std::vector<Index> shares_begin_{0};
  std::vector<Share> shares_;
  std::vector<Edge> edges_;
  std::vector<Edge> begin_edges_;
  std::vector<Edge> ends_;
};

// What keeps a flow from rate 1.
enum class Limit : std::uint8_t { none, resource, signal, units };

// From `at` on a flow has this rate; `by` is the flow (of units, the operation) that has most of what limits it; -1:
// nobody else.
struct RateChange {
  Index flow = 0;
  double at = 0;
  double rate = 0;
  Limit limit = Limit::none;
  Index by = -1;
};

class Engine {
 public:
  explicit Engine(const Graph& graph);

  // Plays everything from time 0 and returns the time of the last event. What could never go on has no end (NaN).
  double play();

  static constexpr double never = std::numeric_limits<double>::quiet_NaN();
  // Of operations, in seconds, after play(); NaN where it did not come to that.
  [[nodiscard]] double ready(Index operation) const { return times_[at(operation)].ready; }
  [[nodiscard]] double begun(Index operation) const { return times_[at(operation)].begun; }
  [[nodiscard]] double ended(Index operation) const { return times_[at(operation)].ended; }
  // When the last of its flows started; its beginning where it has none.
  [[nodiscard]] double started(Index operation) const { return times_[at(operation)].started; }

  // Who let an operation become ready, the last of its predecessors, at its end or when it began; who last gave units
  // back before it began. -1: nobody.
  struct Release {
    Index by = -1;
    bool begun = false;
    Index units_by = -1;
  };
  [[nodiscard]] Release released(Index operation) const { return released_[at(operation)]; }
  // An operation's flows, a flow's operations and what it takes at rate 1.
  [[nodiscard]] std::span<const Index> flows_of(Index operation) const {
    return range(flows_begin_, flow_of_, operation);
  }
  [[nodiscard]] std::span<const Index> members_of(Index flow) const { return range(members_begin_, members_, flow); }
  [[nodiscard]] double duration(Index flow) const { return duration_[at(flow)]; }
  // Plays with every change of a rate noted, in the order of time, until told otherwise (nullptr); the last one of a
  // flow is its end.
  void note(std::vector<RateChange>* changes) { changes_ = changes; }

  // What an endless flow has done, in seconds at rate 1.
  [[nodiscard]] double done(Index flow) const { return done_[at(flow)]; }

  // Starts and ends of operations and flows so far, over all plays.
  [[nodiscard]] std::int64_t events() const { return events_; }

  // Told, whenever something has happened, the time and what of each resource is taken: for tests of the invariants.
  using Watch = void (*)(void* context, double now, std::span<const double> taken, std::span<const double> rates);
  void watch(Watch told, void* context) {
    watch_ = told;
    watch_context_ = context;
  }

 private:
  struct Times {
    double ready = never;
    double begun = never;
    double started = never;
    double ended = never;
  };
  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] std::span<const Index> range(const std::vector<Index>& begin, const std::vector<Index>& all,
                                             Index i) const {
    return {all.data() + begin[at(i)], all.data() + begin[at(i) + 1]};
  }

  void reset();
  void settle();
  void fire(Index by, bool begun, std::span<const Index> successors);
  void make_ready(Index operation);
  void begin(Index operation);
  void finish(Index operation);
  void start_flow(Index flow);
  void end_flow(Index flow);
  void leave_flow(Index flow);

  void touch_pool(Index pool);
  void queue_at_pool(Index operation);
  void serve(Index pool);
  void yield_units(Index pool);
  void plan_yield(Index pool);
  void give(Index operation, Index units);
  [[nodiscard]] double cap_of(Index flow) const;
  [[nodiscard]] double until_boundary(Index victim, bool equal) const;

  void touch_flow(Index flow);
  void touch_resource(Index resource);
  void share_out();
  void fill(std::span<Index> raised, std::span<const Index> resources);
  void set_rate(Index flow, double rate, Index full_resource = -1);
  [[nodiscard]] RateChange change_of(Index flow, double rate, Index full_resource) const;
  void tell();

  void heap_set(Index id, double key);
  void heap_remove(Index id);
  void sift_up(std::size_t slot);
  void sift_down(std::size_t slot);
  [[nodiscard]] bool earlier(Index a, Index b) const {
    const double x = key_[at(a)];
    const double y = key_[at(b)];
    return x < y || (x == y && a < b);
  }

  // The graph, in flat arrays: what belongs to i is in [begin[i], begin[i + 1]).
  Index operations_;
  Index flows_;
  std::vector<std::uint8_t> signal_;  // of a resource: whether it is a signal
  std::vector<Units> units_;
  std::vector<Index> pool_;  // of an operation, beside its units: most have none, and then nothing else matters
  std::vector<double> duration_, weight_;
  std::vector<std::uint8_t> limited_;                 // of a flow: whether anything but its resources can slow it
  std::vector<Index> members_begin_, members_;        // operations of a flow
  std::vector<Index> flows_begin_, flow_of_;          // flows of an operation
  std::vector<Index> successors_begin_, successors_;  // of an operation's end
  std::vector<Index> begin_successors_begin_, begin_successors_;
  std::vector<Index> ends_begin_, ends_;  // endless flows, of an operation's end
  std::vector<Index> shares_begin_;
  std::vector<Share> shares_;
  std::vector<Index> share_flow_;  // the flow that each share belongs to
  std::vector<Index> predecessors_, pool_units_, sources_;

  // What changes while it plays.
  double now_ = 0;
  std::int64_t events_ = 0;
  std::vector<Times> times_;  // of operations
  std::vector<Release> released_;
  std::vector<Index> pending_;                    // predecessors that have not fired yet
  std::vector<Index> open_flows_;                 // flows that have not ended, of an operation
  std::vector<Index> held_;                       // units
  std::vector<Index> missing_;                    // operations that have not begun, of a flow
  std::vector<double> remaining_, since_, rate_;  // of a flow: s of work left at `since`, rate from then on
  std::vector<std::uint8_t> active_;
  std::vector<std::uint8_t> over_;             // of an endless flow: it ends, or has, whether it started or not
  std::vector<double> done_;                   // of a flow: s of work up to `since`
  std::vector<double> demand_;                 // of a resource: shares of its active flows
  std::vector<Index> head_, next_, previous_;  // active shares of each resource, a linked list
  std::vector<Index> free_;                    // units of a pool
  std::vector<Index> freed_by_;                // of a pool: who gave units back last
  std::vector<std::vector<Index>> present_;    // at a pool, by priority, then as they came
  std::vector<Index> work_;                    // operations that have become ready
  std::size_t work_done_ = 0;
  std::vector<Index> dirty_pools_;
  std::vector<std::uint8_t> pool_dirty_;

  // The component whose rates are to be found anew.
  std::vector<Index> touched_, full_;  // flows, full resources
  std::vector<std::uint8_t> flow_touched_, resource_touched_;
  std::vector<double> left_, sum_, level_;  // of a resource
  std::vector<std::uint8_t> blocked_;
  std::vector<double> limit_;  // of a flow: the level at which something stops it

  // Ends of flows, then boundaries of pools: an indexed binary heap.
  std::vector<double> key_;
  std::vector<Index> heap_, slot_;

  std::vector<RateChange>* changes_ = nullptr;
  Watch watch_ = nullptr;
  void* watch_context_ = nullptr;
};

}  // namespace ovl::model
