// SPDX-License-Identifier: Apache-2.0
//
// A rank's thread, kept for the session: its device is current there and nowhere else matters. It runs one job at a
// time, in the order in which they were handed over.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "base/ids.hpp"

namespace ovl::cuda {

// Raised once, for good: after abort() or the first failure of a replay. Whoever waits notices and unwinds.
class StopFlag {
 public:
  void raise() noexcept { raised_.store(true, std::memory_order_seq_cst); }
  [[nodiscard]] bool raised() const noexcept { return raised_.load(std::memory_order_seq_cst); }

 private:
  std::atomic<bool> raised_{false};
};

class Worker {
 public:
  // `prepare` runs first on the new thread: it makes the device current.
  Worker(Rank rank, std::function<void()> prepare);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  [[nodiscard]] Rank rank() const { return rank_; }
  // Hands a job over and returns; the one before must have been waited for.
  void start(std::function<void()> job);
  // Until the job has ended. Rethrows what it threw.
  void wait();
  void run(std::function<void()> job) {
    start(std::move(job));
    wait();
  }

 private:
  void work(const std::function<void()>& prepare);

  Rank rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;
  bool busy_ = true;  // with `prepare`
  bool end_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace ovl::cuda
