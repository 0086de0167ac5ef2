// SPDX-License-Identifier: Apache-2.0
//
// One replay of a plan: the gate, the walk over the steps, and what the stamps say.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>

#include "backend/backend.hpp"
#include "backend/host/plan.hpp"
#include "backend/host/signal.hpp"

namespace ovl::host {

// What all threads of one replay share.
struct Replay {
  Replay(const ReplayOptions& how, std::uint64_t replay_number, std::size_t threads, StopFlag& stop_flag)
      : options(how), number(replay_number), missing(threads), stop(stop_flag) {}

  const ReplayOptions options;
  const std::uint64_t number;          // of the session, from 1
  bool shared_cores = false;           // some core holds several threads: nobody spins at the gate
  ProgressEngine* progress = nullptr;  // where the rank passes messages
  std::optional<Stamp> clock_offset;   // to process 0's clock, where there are several
  std::atomic<std::size_t> missing;
  Signal gate;
  Stamp opened = 0;  // gated: when the last thread had arrived; live: when the first was about to be handed its work
  StopFlag& stop;
  std::mutex mutex;
  std::exception_ptr error;  // the first failure of a thread
};

// A thread's part, from gate to end. Never throws: a failure is kept in the replay and ends the waits of the others.
void play(Track& track, Replay& replay) noexcept;

// What the tracks saw. A rank's origin is when the first of its lanes passed the gate; where threads share cores it is
// when the gate opened, because a thread that does not get the core then is late by the work of another, which belongs
// to the step.
Timings timings_of(const Plan& plan, const Replay& replay);

}  // namespace ovl::host
