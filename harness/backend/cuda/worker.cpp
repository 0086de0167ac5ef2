// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/worker.hpp"

#include <utility>

#include "backend/cuda/api.hpp"
#include "base/error.hpp"

namespace ovl::cuda {

Worker::Worker(Rank rank, std::function<void()> prepare)
    : rank_(rank), thread_([this, prepare = std::move(prepare)] { work(prepare); }) {
  try {
    wait();
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      end_ = true;
    }
    changed_.notify_all();
    thread_.join();
    throw;
  }
}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Worker::start(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    require(!busy_, "a rank's thread does one job at a time");
    job_ = std::move(job);
    busy_ = true;
  }
  changed_.notify_all();
}

void Worker::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Worker::work(const std::function<void()>& prepare) {
  const RankScope scope(rank_);
  std::function<void()> job = prepare;
  std::unique_lock lock(mutex_, std::defer_lock);
  for (;;) {
    std::exception_ptr error;
    try {
      job();
    } catch (...) {
      error = std::current_exception();
    }
    job = nullptr;  // what it holds goes here, where the device is current
    lock.lock();
    error_ = error;
    busy_ = false;
    changed_.notify_all();
    changed_.wait(lock, [this] { return end_ || job_ != nullptr; });
    if (job_ == nullptr) return;
    job = std::exchange(job_, nullptr);
    lock.unlock();
  }
}

}  // namespace ovl::cuda
