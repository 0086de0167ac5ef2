// SPDX-License-Identifier: Apache-2.0
#include "backend/host/signal.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace ovl::host {
namespace {

// A blocked waiter looks at the stop flag this often.
constexpr timespec look_up{.tv_sec = 0, .tv_nsec = 20'000'000};
// Before it gives the core away, a yielding waiter looks this often: a peer on another core answers within a
// microsecond.
constexpr int looks_before_yield = 16;

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) {
  static_assert(sizeof(word) == sizeof(std::uint32_t));
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

void check(const StopFlag* stop) {
  if (stop != nullptr && stop->raised()) throw Stopped{};
}

}  // namespace

void look_again(Waiting waiting, int look) {
  if (waiting == Waiting::spin || look < looks_before_yield) {
    pause_core();
  } else {
    sched_yield();
  }
}

void Signal::wait_slowly(std::uint64_t target, Waiter waiter) {
  for (int look = 0; load() < target; ++look) {
    check(waiter.stop);
    if (waiter.waiting == Waiting::block) {
      sleep(target, waiter.stop != nullptr);
    } else {
      look_again(waiter.waiting, look);
    }
  }
}

// The order matters: a setter stores the value, then looks for sleepers; a sleeper announces itself, then looks at the
// value. One of the two sees the other.
void Signal::sleep(std::uint64_t target, bool bounded) {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t ticket = bell_.load(std::memory_order_seq_cst);
  if (value_.load(std::memory_order_seq_cst) < target) {
    futex(bell_, FUTEX_WAIT_PRIVATE, ticket, bounded ? &look_up : nullptr);
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

void Signal::wake() {
  bell_.fetch_add(1, std::memory_order_seq_cst);
  futex(bell_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr);
}

}  // namespace ovl::host
