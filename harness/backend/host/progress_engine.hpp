// SPDX-License-Identifier: Apache-2.0
//
// Who calls the message-passing library, and when, in a rank that is a process. The library moves messages on only
// inside of its calls, so this is what decides how much of them can hide.
//
//   thread  the communication lane asks for news all the time: it wants a core of its own.
//   none    a process that has one thread of its own, as most programs are: what can be posted is posted before the
//           rank computes on, and nobody calls the library while it computes.
//   poll    the same, but the compute lanes ask for news between two pieces of work.
//
// In the last two the lanes take turns: a compute lane goes on when the communication lanes have posted what they can,
// and these move messages on themselves only while no compute lane has anything to do. So the cost of posting and of
// polling is on the compute lane, where a program with one thread has it.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <span>

#include "backend/host/clock.hpp"
#include "backend/host/signal.hpp"
#include "backend/message_passing.hpp"
#include "program/program.hpp"

namespace ovl::host {

class ProgressEngine {
 public:
  // A lane of the rank: what the others need to know of it.
  class Party;

  // `progress` is none, poll or thread.
  explicit ProgressEngine(MessageProgress progress) : progress_(progress) {}

  Party& add(Role role);
  // Before a replay: every lane has its work before it.
  void restart();

  // ---- by the lane's own thread; what waits throws Stopped ----

  // Work of the lane itself begins: compute waits until what can be posted is posted.
  void begin_work(Party& party, Waiter waiter);
  void end_work(Party& party);
  // Between two pieces of work.
  void look(Party& party, Waiter waiter);
  void post(Party& party, MessageOperation& operation, std::span<std::byte* const> memory);
  // Until what the lane has posted has ended.
  void complete(Party& party, Waiter waiter);
  // Waits as Signal::wait() does.
  void wait(Party& party, Signal& signal, std::uint64_t target, Waiter waiter);
  // Sets it, and lets those go on who waited for it.
  void set(Party& party, Signal& signal, std::uint64_t value, Waiter waiter);
  // The lane has finished.
  void leave(Party& party);

 private:
  enum class State { going, waiting, posted, away };

  [[nodiscard]] bool turns() const { return progress_.mode != ProgressMode::thread; }
  // These two are asked with the mutex held.
  [[nodiscard]] bool somebody_computes() const;
  [[nodiscard]] bool all_posted() const;
  void enter(Party& party, State state);
  void wait_until_all_posted(Waiter waiter);

  MessageProgress progress_;
  std::mutex mutex_;  // guards the parties, and lets one thread call the library at a time
  std::deque<Party> parties_;
  Signal changed_;  // counts changes that somebody who sleeps may wait for
};

class ProgressEngine::Party {
 public:
  explicit Party(Role role) : role_(role) {}

 private:
  friend class ProgressEngine;

  Role role_;
  State state_ = State::going;
  const Signal* signal_ = nullptr;  // waiting: for this to reach the target
  std::uint64_t target_ = 0;
  MessageOperation* operation_ = nullptr;  // posted
  bool ended_ = false;                     // posted, and somebody saw its end
  Stamp looked_ = 0;                       // compute: its last look
};

}  // namespace ovl::host
