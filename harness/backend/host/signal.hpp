// SPDX-License-Identifier: Apache-2.0
//
// How threads of this process tell each other how far they are: a counter that only grows. Nothing is ever reset, so a
// replay needs no preparation and a late reader cannot mistake an old value for a new one.
#pragma once

#include <atomic>
#include <cstdint>

#include "program/program.hpp"

namespace ovl::host {

// Raised once, for good: after abort() or the first failure of a lane. Whoever waits notices and unwinds.
class StopFlag {
 public:
  void raise() noexcept { raised_.store(true, std::memory_order_release); }
  [[nodiscard]] bool raised() const noexcept { return raised_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> raised_{false};
};

// Thrown by a wait that the flag ended. Not an Error: what went wrong is known elsewhere.
struct Stopped {};

// How one lane waits, and what ends its waiting early.
struct Waiter {
  Waiting waiting = Waiting::yield;
  const StopFlag* stop = nullptr;  // nullptr: nothing does
};

// What somebody who looks for news himself does after the `look`-th look at which there were none.
void look_again(Waiting waiting, int look);

// On two cache lines of its own: x86 prefetches lines in pairs.
class alignas(128) Signal {
 public:
  [[nodiscard]] std::uint64_t load() const { return value_.load(std::memory_order_acquire); }

  // Raises the value and wakes blocked waiters. One thread sets a signal, or many add to it, not both.
  void set(std::uint64_t value) {
    value_.store(value, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) wake();
  }
  void add(std::uint64_t amount) {
    value_.fetch_add(amount, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) wake();
  }

  // Returns when the value has reached `target`. Throws Stopped.
  void wait(std::uint64_t target, Waiter waiter) {
    if (load() < target) wait_slowly(target, waiter);
  }

 private:
  void wait_slowly(std::uint64_t target, Waiter waiter);
  void sleep(std::uint64_t target, bool bounded);
  void wake();

  std::atomic<std::uint64_t> value_{0};
  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<std::uint32_t> bell_{0};  // what sleepers sleep on: changes with every wake
};

// Where a replay is: the replay's number, and a position within it. Ticks of later replays are larger, so that events
// recorded in one replay never satisfy the waits of the next.
inline std::uint64_t tick(std::uint64_t replay, std::uint32_t position) { return (replay << 32U) | position; }

}  // namespace ovl::host
