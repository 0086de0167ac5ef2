// SPDX-License-Identifier: Apache-2.0
//
// An arm made ready to replay: for every thread a flat list of steps. All addresses, counters and positions are known
// beforehand; a replay walks the lists.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "backend/host/clock.hpp"
#include "backend/host/group.hpp"
#include "backend/host/layout.hpp"
#include "backend/host/memory.hpp"
#include "backend/host/progress_engine.hpp"
#include "backend/host/signal.hpp"
#include "backend/host/workers.hpp"
#include "backend/message_passing.hpp"
#include "program/program.hpp"

namespace ovl::host {

// A slice of a rotating buffer.
struct Region {
  std::byte* first = nullptr;  // in copy 0
  std::int64_t stride = 0;     // bytes to the next copy
  std::int64_t copies = 1;
  std::int64_t count = 0;  // elements

  [[nodiscard]] std::byte* at(std::int64_t slot) const { return first + stride * (slot % copies); }
};

struct GemmStep {
  Gemm gemm;
  Region a;
  Region b;
  Region c;
  std::int64_t tile_rows = 0;  // of c, m or less: where the lane polls it looks for news between tiles
  std::int64_t tile_columns = 0;
};
struct CollectiveStep {
  Group* group = nullptr;
  int member = 0;
  int channel = 0;
  CollectiveCall call;  // input and output are set by the slot
  Region input;
  Region output;
};
struct ExchangeStep {
  Group* group = nullptr;
  int member = 0;
  std::vector<Message> messages;  // memory is set by the slot
  std::vector<Region> regions;    // of the messages
};
// Of an operation over message passing: the library's call, and the wait for its end.
struct PostStep {
  MessageOperation* operation = nullptr;
  std::vector<Region> memory;
};
struct CompleteStep {};
struct CopyStep {
  Region to;
  Region from;
  std::int64_t bytes = 0;
};
struct BusyStep {
  Stamp duration = 0;
};
// Lasts its own amount, or until the signal where there is one.
struct OccupyStep {
  Stamp duration = 0;
  Signal* until = nullptr;
  std::uint32_t position = 0;
};
struct StreamStep {
  Region to;
  Region from;
  std::int64_t size = 0;   // bytes of the slice
  std::int64_t bytes = 0;  // to move, read and written
  double pace = 0;         // bytes a nanosecond; 0: as fast as it goes
  Signal* until = nullptr;
  std::uint32_t position = 0;
};
struct AddStep {
  DType dtype = DType::f32;
  Region to;
  std::vector<Region> from;
};
// Sets a signal to (this replay, position), waits for it, or does both: all lanes of a rank meet.
struct RecordStep {
  Signal* signal = nullptr;
  std::uint32_t position = 0;
};
// The lane looks at the clock until this long after the origin: submitted then.
struct UntilStep {
  Stamp due = 0;
};
struct WaitStep {
  Signal* signal = nullptr;
  std::uint32_t position = 0;
};
struct JoinStep {
  Signal* own = nullptr;
  std::vector<Signal*> others;
  std::uint32_t position = 0;
};

struct Step {
  OpId op;            // the operation that it is part of; invalid: bookkeeping of ours
  bool work = false;  // it does the operation's work, rather than order others
  std::variant<GemmStep, CollectiveStep, ExchangeStep, PostStep, CompleteStep, CopyStep, BusyStep, OccupyStep,
               StreamStep, AddStep, RecordStep, UntilStep, WaitStep, JoinStep>
      action;
};

// What one thread does in a replay, and what it saw of the last one.
struct Track {
  WorkerId worker;
  int core = 0;
  Waiting waiting = Waiting::yield;
  ProgressEngine::Party* party = nullptr;  // where the rank passes messages
  std::vector<Step> steps;
  std::size_t first_work = 0;  // between these two the lane has begun and not finished
  std::size_t last_work = 0;

  Stamp released = 0;
  Stamp start = 0;
  Stamp end = 0;
  std::optional<Bytes> moved;                       // by streams
  std::vector<std::pair<Stamp, Stamp>> step_times;  // Recording::operations only
  std::atomic<std::int32_t> begun{-1};              // operations, readable while the replay hangs
  std::atomic<std::int32_t> completed{-1};

  Track(WorkerId id, int on, Waiting how) : worker(id), core(on), waiting(how) {}
};

// Where an operation went, in issue order within a rank.
struct PlacedOp {
  enum class Order { work, record, wait, join };
  OpId op;
  LaneId lane;
  Order order = Order::work;
  const Track* track = nullptr;
  std::size_t first_step = 0;
  std::size_t last_step = 0;
  std::size_t source = 0;                                // wait: the index of its record; itself where there is none
  std::optional<std::size_t> post_step;                  // the library's call returned at the end of this step
  std::optional<std::size_t> until_step = std::nullopt;  // before it: where the lane waited for its time
  Stamp due = 0;                                         // which is so long after the origin
};

struct Plan {
  std::deque<Track> tracks;  // a deque: tracks hold atomics and do not move
  std::deque<Signal> signals;
  std::vector<std::unique_ptr<MessageOperation>> messages;
  std::optional<ProgressEngine> progress;         // where the rank passes messages
  std::vector<std::vector<PlacedOp>> operations;  // of this process's ranks
  std::vector<Role> lane_roles;
  int first_rank = 0;
  int ranks = 0;      // of this process
  bool live = false;  // some arm of the case is submitted over time
};

// The communicators' state, kept for the session: the same name, members and channels are the same communicator.
class Groups {
 public:
  explicit Groups(Bytes cache) : cache_(cache) {}
  Group& get(const Communicator& communicator, const std::vector<Rank>& members);

 private:
  using Key = std::tuple<std::string, std::vector<Rank>, int>;
  Bytes cache_;
  std::map<Key, std::unique_ptr<Group>> groups_;
};

// The same over message passing.
class MessageGroups {
 public:
  explicit MessageGroups(MessagePassing& library) : library_(library) {}
  // For every process alike and in the same order: those of a new communicator make it together. nullptr: this process
  // is not in it.
  MessageGroup* get(const Communicator& communicator);

 private:
  using Key = std::pair<std::string, std::vector<std::vector<Rank>>>;
  MessagePassing& library_;
  std::map<Key, std::unique_ptr<MessageGroup>> groups_;
};

// What moves the bytes: rings in the memory of this process, or messages.
struct Carriers {
  Groups& rings;
  MessageGroups* messages = nullptr;
};

// How messages get on in a program that is carried by them: what was asked for, or the library's way.
MessageProgress progress_of(const Program& program);

// Channels that run: 0 leaves the choice to us, and one is what fits beside compute.
int channels_of(const Communicator& communicator);

// Threads that each lane needs beside its own: one for every further channel of a communicator that it uses, and for
// every further core that it holds or streams on.
std::vector<int> helpers_by_lane(const Program& program);

// Cores that the work asks to have for itself, its lane's among them; 0: none.
int cores_held(const Work& work);

// Of each lane whether it holds cores or streams on them, so that its threads belong on different ones.
std::vector<bool> holds_cores(const Program& program);

// The body of `program` for this process's ranks, `first` and those after it, one an arena. `cores` and `helper_cores`
// are [rank][lane] and [rank][lane][helper], of these ranks.
std::shared_ptr<Plan> make_plan(const Program& program, Rank first, const std::vector<std::vector<int>>& cores,
                                const std::vector<std::vector<std::vector<int>>>& helper_cores,
                                const std::vector<Arena>& arenas, const Carriers& carriers);

}  // namespace ovl::host
