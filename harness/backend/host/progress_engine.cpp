// SPDX-License-Identifier: Apache-2.0
#include "backend/host/progress_engine.hpp"

#include <algorithm>

namespace ovl::host {
namespace {

void stop_if_told(Waiter waiter) {
  if (waiter.stop != nullptr && waiter.stop->raised()) throw Stopped{};
}

// Who has nothing to do sleeps, however the lane waits: the core is for those who have.
Waiter asleep(Waiter waiter) { return {Waiting::block, waiter.stop}; }

}  // namespace

ProgressEngine::Party& ProgressEngine::add(Role role) { return parties_.emplace_back(role); }

void ProgressEngine::restart() {
  const std::lock_guard lock(mutex_);
  for (Party& party : parties_) {
    party.state_ = State::going;
    party.ended_ = false;
    party.looked_ = now();
  }
}

bool ProgressEngine::somebody_computes() const {
  return std::any_of(parties_.begin(), parties_.end(), [](const Party& p) {
    if (p.role_ != Role::compute) return false;
    return p.state_ == State::going || (p.state_ == State::waiting && p.signal_->load() >= p.target_);
  });
}

bool ProgressEngine::all_posted() const {
  return std::all_of(parties_.begin(), parties_.end(), [](const Party& p) {
    if (p.role_ == Role::compute || p.state_ == State::away) return true;
    if (p.state_ == State::posted) return !p.ended_;
    return p.state_ == State::waiting && p.signal_->load() < p.target_;
  });
}

void ProgressEngine::enter(Party& party, State state) {
  {
    const std::lock_guard lock(mutex_);
    party.state_ = state;
    party.ended_ = false;
  }
  changed_.add(1);
}

void ProgressEngine::wait_until_all_posted(Waiter waiter) {
  for (;;) {
    const std::uint64_t seen = changed_.load();
    {
      const std::lock_guard lock(mutex_);
      if (all_posted()) return;
    }
    changed_.wait(seen + 1, asleep(waiter));
  }
}

void ProgressEngine::begin_work(Party& party, Waiter waiter) {
  if (!turns()) return;
  if (party.role_ == Role::compute) {
    wait_until_all_posted(waiter);
  } else {
    enter(party, State::away);
  }
}

void ProgressEngine::end_work(Party& party) {
  if (turns() && party.role_ != Role::compute) enter(party, State::going);
}

void ProgressEngine::look(Party& party, Waiter waiter) {
  if (progress_.mode != ProgressMode::poll || party.role_ != Role::compute) return;
  const Stamp at = now();
  if (between(party.looked_, at) < progress_.interval) return;
  party.looked_ = at;
  bool news = false;
  {
    const std::lock_guard lock(mutex_);
    for (Party& other : parties_) {
      if (other.state_ != State::posted || other.ended_) continue;
      other.ended_ = other.operation_->test();
      news = news || other.ended_;
    }
  }
  if (!news) return;
  changed_.add(1);
  wait_until_all_posted(waiter);
}

void ProgressEngine::post(Party& party, MessageOperation& operation, std::span<std::byte* const> memory) {
  if (!turns()) {
    operation.post(memory);
    party.operation_ = &operation;
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    operation.post(memory);
    party.operation_ = &operation;
    party.state_ = State::posted;
    party.ended_ = false;
  }
  changed_.add(1);
}

void ProgressEngine::complete(Party& party, Waiter waiter) {
  for (int look = 0; !turns(); ++look) {
    if (party.operation_->test()) return;
    stop_if_told(waiter);
    look_again(waiter.waiting, look);
  }
  for (int look = 0;; ++look) {
    const std::uint64_t seen = changed_.load();
    bool mine = false;  // to move on
    {
      const std::lock_guard lock(mutex_);
      mine = !party.ended_ && !somebody_computes();
      if (mine) party.ended_ = party.operation_->test();
      if (party.ended_) {
        party.state_ = State::going;
        party.ended_ = false;
        return;
      }
    }
    stop_if_told(waiter);
    if (mine) {
      look_again(waiter.waiting, look);
    } else {
      changed_.wait(seen + 1, asleep(waiter));
    }
  }
}

void ProgressEngine::wait(Party& party, Signal& signal, std::uint64_t target, Waiter waiter) {
  if (!turns()) return signal.wait(target, waiter);
  if (signal.load() >= target) return;
  {
    const std::lock_guard lock(mutex_);
    party.state_ = State::waiting;
    party.signal_ = &signal;
    party.target_ = target;
  }
  changed_.add(1);
  signal.wait(target, waiter);
  enter(party, State::going);
}

void ProgressEngine::set(Party& party, Signal& signal, std::uint64_t value, Waiter waiter) {
  signal.set(value);
  if (turns() && party.role_ == Role::compute) wait_until_all_posted(waiter);
}

void ProgressEngine::leave(Party& party) {
  if (turns()) enter(party, State::away);
}

}  // namespace ovl::host
