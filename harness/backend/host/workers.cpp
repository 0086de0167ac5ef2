// SPDX-License-Identifier: Apache-2.0
#include "backend/host/workers.hpp"

#include <system_error>

#include "base/error.hpp"

namespace ovl::host {
namespace {

constexpr Waiter idle{Waiting::block, nullptr};

}  // namespace

Workers::~Workers() {
  for (auto& [id, worker] : workers_) {
    worker->work = nullptr;
    worker->inbox.set(++worker->handed);
    worker->thread.join();
  }
}

void Workers::place(const std::vector<Job>& jobs) {
  for (const Job& job : jobs) {
    auto found = workers_.find(job.worker);
    if (found == workers_.end()) {
      found = workers_.emplace(job.worker, std::make_unique<Worker>()).first;
      try {
        found->second->thread = std::thread([this, worker = found->second.get()] { serve(*worker); });
      } catch (const std::system_error& e) {
        workers_.erase(found);
        throw failure("cannot start another thread", e.what(), "use fewer ranks or channels");
      }
    }
    Worker* worker = found->second.get();
    if (worker->core != job.core) {
      topology_.pin(worker->thread.native_handle(), job.core);
      worker->core = job.core;
    }
  }
}

void Workers::run(const std::vector<Job>& jobs) {
  if (jobs.empty()) return;
  remaining_.store(jobs.size(), std::memory_order_relaxed);
  ++runs_;
  for (const Job& job : jobs) {
    Worker& worker = *workers_.at(job.worker);
    worker.work = &job.work;
    worker.inbox.set(++worker.handed);
  }
  all_done_.wait(runs_, idle);
}

void Workers::serve(Worker& worker) {
  for (std::uint64_t next = 1;; ++next) {
    worker.inbox.wait(next, idle);
    if (worker.work == nullptr) return;
    (*worker.work)();
    if (remaining_.fetch_sub(1, std::memory_order_acq_rel) == 1) all_done_.set(all_done_.load() + 1);
  }
}

}  // namespace ovl::host
