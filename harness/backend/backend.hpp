// SPDX-License-Identifier: Apache-2.0
//
// All that measure knows of a backend. A backend replays programs and returns timings; it owns gate, clock and replay.
// Measure owns which arm, how often and when to stop.
//
// Lifetimes nest: process ⊃ Backend (session: device, cores, communicators) ⊃ Prepared (case: buffers, plans) ⊃ replay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/enum_names.hpp"
#include "base/ids.hpp"
#include "base/units.hpp"
#include "program/program.hpp"

namespace ovl {

// A named value for run.json and the tables.
struct Fact {
  std::string name;
  std::string value;
};

struct Description {
  std::string backend;                  // "host", "cuda", "model"
  std::string device;                   // one line for people
  bool device_shared = false;           // the processes of a machine have it together, not one each
  std::string source = "measured";      // or "emulated", "model": what kind of number every row of it holds
  std::vector<std::string> transports;  // first is the default
  std::vector<DType> dtypes;
  int default_ranks = 1;
  int most_ranks = 1;         // more than this cannot be placed
  int units = 0;              // SMs of a device, or cores of the process; 0: not known
  Bytes last_level_cache;     // buffers rotate over at least twice this
  Bytes memory;               // what all ranks of this process may allocate together
  int queue_depth = 0;        // operations that a lane takes before handing it one more waits; 0: no limit is known
  Seconds window;             // shorter operations repeat within one timed window
  std::vector<Fact> facts;    // as loaded: library versions, kernels chosen, cores, topology
  std::vector<Fact> at_open;  // measured when the session opened, so different every time: how well clocks are known
};

// A reading taken around every block. `limit`: above it the block is noisy. `change`: the block is noisy when the
// readings before and after differ by more than this factor. NaN: no such limit; a NaN value is unknown, never zero.
struct Reading {
  std::string name;
  std::string unit;
  double value = std::numeric_limits<double>::quiet_NaN();
  double limit = std::numeric_limits<double>::quiet_NaN();
  double change = std::numeric_limits<double>::quiet_NaN();
};
struct Conditions {
  std::vector<Reading> readings;
};

// Whether a program can run here: empty reason means yes.
struct Support {
  std::string reason;
  [[nodiscard]] bool ok() const { return reason.empty(); }
};

enum class Data { exact, random };

// gated: every lane has all of its work before the clock starts. live: the clock starts when the first is handed over.
enum class Launch { gated, live };
template <>
struct EnumNames<Launch> {
  static constexpr std::string_view axis = "launch";
  static constexpr std::pair<Launch, std::string_view> table[] = {{Launch::gated, "gated"}, {Launch::live, "live"}};
};

// spans: two stamps a lane and no more. operations: stamps around every operation, in a pass of its own.
enum class Recording { spans, operations };

struct ReplayOptions {
  Launch launch = Launch::gated;
  Recording recording = Recording::spans;
  std::int64_t slot = 0;  // which copy of the rotating buffers: the same slots in every arm
  bool evict = false;     // before the clock starts, empty the caches of what earlier replays left in them
};

// All times are seconds on one clock whose zero is the latest origin over the ranks. What was not seen is NaN.
struct LaneTiming {
  LaneId lane;
  Seconds start = unknown_time;  // first operation of the lane began
  Seconds end = unknown_time;    // last one finished
  std::optional<Bytes> moved;    // by its streams, read and written; empty: it has none, or they were not counted
};
struct RankTiming {
  Rank rank;
  Seconds origin;  // <= 0: how much earlier than the last rank this one was released
  Seconds end;
  std::vector<LaneTiming> lanes;
};
struct OperationTiming {
  Rank rank;
  OpId op;
  LaneId lane;
  Seconds enqueued = unknown_time;
  Seconds ready = unknown_time;  // its predecessors had finished
  Seconds start = unknown_time;
  Seconds end = unknown_time;
  Seconds host_return = unknown_time;
};
// Why a rank does not compute, or computes more slowly than alone. transfer: it waits for communication that goes as
// fast as alone. peer: for one whose last rank has not come, or for what another rank computes. shared: memory or links
// are shared with something else, or what runs beside is known to slow it. units: those (SMs) that it needs are held.
// launch: the host has not handed over what comes next.
enum class ExposedCause { transfer, peer, shared, units, launch };
template <>
struct EnumNames<ExposedCause> {
  static constexpr std::string_view axis = "cause";
  static constexpr std::pair<ExposedCause, std::string_view> table[] = {{ExposedCause::transfer, "transfer"},
                                                                        {ExposedCause::peer, "peer"},
                                                                        {ExposedCause::shared, "shared"},
                                                                        {ExposedCause::units, "units"},
                                                                        {ExposedCause::launch, "launch"}};
};
struct ExposedPart {
  Rank rank;  // whose operation it is
  OpId op;    // the communication that is waited for, or the computation that is slowed or not handed over
  ExposedCause cause = ExposedCause::transfer;
  OpId beside;  // shared, units: with whom, or by whom, on the same rank; invalid: not known
  Seconds time;
};
// Of the rank that has most to compute: the step is what it computes, alone, and these parts, one an operation and
// cause.
struct ExposedTime {
  Rank rank;
  Seconds computed;
  std::vector<ExposedPart> parts;
};

struct Timings {
  std::vector<RankTiming> ranks;            // of this process
  std::vector<OperationTiming> operations;  // Recording::operations only
  std::string start_source;                 // where `start` comes from: "worker", "cupti", ...; empty: unknown
  std::string launch_order;                 // which role began first: "comm_first", "compute_first", "unverified"
  bool partial = false;                     // the gate opened before everything was enqueued
  // The zero of these times on a clock that all processes share (each process's steady clock plus its estimated offset
  // to process 0's); NaN where one process has all ranks.
  Seconds epoch = unknown_time;
  Seconds kept_until = unknown_time;   // measure left out operations that began at or after it; NaN: none
  std::optional<ExposedTime> exposed;  // Recording::operations of a backend that knows (the model)

  // Latest end minus latest origin.
  [[nodiscard]] Seconds step() const;
  // Spread of the origins.
  [[nodiscard]] Seconds align_skew() const;
};

struct LaneProgress {
  Rank rank;
  LaneId lane;
  OpId enqueued;   // last handed over; invalid: none
  OpId completed;  // last finished; invalid: none
};

// The programs of one case, made ready: they share lanes and buffers, which the prologue of the first fills.
class Prepared {
 public:
  Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  virtual ~Prepared() = default;

  // Runs the prologue again: every buffer copy holds the case's data, outputs hold a pattern no result can have (NaN).
  virtual void reset() = 0;
  // One replay of this process's ranks. Throws Error(failure) after abort() or when a lane failed.
  virtual Timings run(std::size_t arm, const ReplayOptions& options) = 0;
  // The elements of one copy of a buffer on one of this process's ranks, as doubles.
  [[nodiscard]] virtual std::vector<double> contents(BufferId buffer, Rank rank, int copy) const = 0;
  // The same copy's bytes hashed, to compare two runs for bit equality without moving them.
  [[nodiscard]] virtual std::uint64_t fingerprint(BufferId buffer, Rank rank, int copy) const = 0;
  // Observed columns: what was asked may fall back silently, so a backend says what it did (channels, layout, path).
  [[nodiscard]] virtual std::vector<Fact> observed() const = 0;
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual Description describe() const = 0;
  // Probes the machine, about 2 ms; never while a replay runs.
  [[nodiscard]] virtual Conditions conditions() = 0;
  [[nodiscard]] virtual Support supports(const Program& program) const = 0;
  // Ready to run: as after reset(). All programs declare the same lanes and buffers. Throws Error(impossible) when
  // memory runs out.
  [[nodiscard]] virtual std::unique_ptr<Prepared> prepare(std::vector<Program> arms, Data data, std::uint64_t seed) = 0;
  // Readable from another thread while run() hangs.
  [[nodiscard]] virtual std::vector<LaneProgress> progress() const = 0;
  // Makes a hanging run() throw. May be called from any thread; the backend is unusable afterwards.
  virtual void abort() noexcept = 0;
};

}  // namespace ovl
