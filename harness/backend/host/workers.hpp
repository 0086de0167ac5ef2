// SPDX-License-Identifier: Apache-2.0
//
// The session's threads. One serves a lane of a rank (or one of its helpers) in every case; it is pinned to a core
// while it has work and blocked while it has none, so that whoever runs sees a quiet machine.
#pragma once

#include <atomic>
#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "backend/host/signal.hpp"
#include "backend/host/topology.hpp"

namespace ovl::host {

struct WorkerId {
  int rank = 0;
  int lane = 0;
  int helper = 0;  // 0: the lane itself

  friend auto operator<=>(const WorkerId&, const WorkerId&) = default;
};

struct Job {
  WorkerId worker;
  int core = 0;
  std::function<void()> work;  // must not throw
};

class Workers {
 public:
  explicit Workers(const Topology& topology) : topology_(topology) {}
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();

  // Starts the threads that are missing and pins each to its job's core. Throws Error(failure).
  void place(const std::vector<Job>& jobs);
  // Hands out the jobs, all to different workers that were placed, and blocks until the last one is done.
  void run(const std::vector<Job>& jobs);

 private:
  struct Worker {
    Signal inbox;                                 // counts jobs handed over
    const std::function<void()>* work = nullptr;  // nullptr: leave
    std::uint64_t handed = 0;
    int core = -1;
    std::thread thread;
  };
  void serve(Worker& worker);

  const Topology& topology_;
  std::map<WorkerId, std::unique_ptr<Worker>> workers_;
  std::atomic<std::size_t> remaining_{0};
  Signal all_done_;  // counts runs
  std::uint64_t runs_ = 0;
};

}  // namespace ovl::host
