// SPDX-License-Identifier: Apache-2.0
//
// A backend and a clock that do what a test says, so that "70 % hidden" is an equality and a hang needs no waiting.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "backend/backend.hpp"
#include "measure/clock.hpp"
#include "program/projection.hpp"

namespace ovl::test {

class StillClock final : public Clock {
 public:
  [[nodiscard]] Seconds now() override { return Seconds(0); }
};

// Advances only when told to; the scripted backend tells it for every replay.
class ScriptedClock final : public Clock {
 public:
  [[nodiscard]] Seconds now() override { return now_; }
  void advance(Seconds by) { now_ += by; }

 private:
  Seconds now_{0};
};

// What a replay takes. Operations start as soon as lanes, events and host_sync let them; an arm's step is the latest
// end.
struct Script {
  // What one operation takes in a replay of an arm; `replay` counts the replays of that arm since prepare(), from 0.
  std::function<Seconds(Arm arm, const Operation& operation, int replay)> duration;
  std::function<Conditions(int call)> conditions = [](int) { return Conditions{}; };
  std::function<std::string(const Program&)> unsupported = [](const Program&) { return std::string(); };
  // Called for every prepare(), before it; may throw.
  std::function<void()> on_prepare = [] {};
  // Called with every replayed arm; may throw.
  std::function<void(Arm arm)> on_replay = [](Arm) {};
  // Returned instead of the right contents of a buffer, when it returns true.
  std::function<bool(const Buffer& buffer, Rank rank, std::vector<double>& contents)> corrupt =
      [](const Buffer&, Rank, std::vector<double>&) { return false; };
  // Who began first, where only spans are recorded; the operations tell that compute did.
  std::string order_in_spans = "compute_first";
  // Bit equality of GEMM results between the solo and the overlapped run.
  bool same_bits = true;
  // This replay of the overlapped arm (counted from 0) blocks until abort(); -1: none does.
  int hanging_replay = -1;
  // ... and then comes back as if nothing had happened, as a replay does that was only late.
  bool comes_back = false;
};

// Constant durations of one GEMM (of each of its repeats) and one collective, alone and in the overlapped arm.
Script constant(Seconds compute, Seconds comm, Seconds overlapped_compute, Seconds overlapped_comm);

class ScriptedBackend final : public Backend {
 public:
  ScriptedBackend(Script script, ScriptedClock& clock) : script_(std::move(script)), clock_(clock) {}

  [[nodiscard]] Description describe() const override;
  [[nodiscard]] Conditions conditions() override { return script_.conditions(condition_calls_++); }
  [[nodiscard]] Support supports(const Program& program) const override { return {script_.unsupported(program)}; }
  [[nodiscard]] std::unique_ptr<Prepared> prepare(std::vector<Program> arms, Data data, std::uint64_t seed) override;
  [[nodiscard]] std::vector<LaneProgress> progress() const override;
  void abort() noexcept override;

  // The arms in the order of their replays, since construction.
  [[nodiscard]] const std::vector<Arm>& replayed() const { return replayed_; }
  [[nodiscard]] const std::vector<std::int64_t>& slots() const { return slots_; }
  // How many prepared cases existed at once, at most: memory for one is all that a machine may have.
  [[nodiscard]] int most_prepared() const { return most_prepared_; }
  // How often a case's data were restored.
  [[nodiscard]] std::size_t resets() const { return resets_; }

 private:
  friend class ScriptedPrepared;
  void hang();

  Script script_;
  ScriptedClock& clock_;
  int condition_calls_ = 0;
  std::vector<Arm> replayed_;
  std::vector<std::int64_t> slots_;
  int prepared_ = 0;
  int most_prepared_ = 0;
  int overlapped_replays_ = 0;
  std::size_t resets_ = 0;
  std::mutex mutex_;
  std::condition_variable aborted_;
  bool abort_ = false;
};

// What one process of several sees of such a backend: the times of its block of ranks, on a clock whose zero is `epoch`
// on the shared one; contents of its ranks only.
std::unique_ptr<Backend> part_of(std::unique_ptr<Backend> whole, int process, int size, Seconds epoch);

}  // namespace ovl::test
