// SPDX-License-Identifier: Apache-2.0
//
// The cuda backend's session: this process's devices, their workers, the communicators. See backend.hpp for what it
// owes.
//
// In a world of several, every process makes the same World operations: a replay makes one, and what is prepared ends
// on all processes alike, well or not, step by step (locally, collectively). Where others may wait for a process that
// failed on their devices or in NCCL, it aborts the world: they hear why at once.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cuda/communicator.hpp"
#include "backend/cuda/cuda.hpp"
#include "backend/cuda/gemm.hpp"
#include "backend/cuda/nvml.hpp"
#include "backend/cuda/rank.hpp"
#include "backend/cuda/replay.hpp"
#include "backend/cuda/support.hpp"
#include "backend/cuda/trace.hpp"
#include "backend/cuda/worker.hpp"
#include "backend/registry.hpp"
#include "backend/world.hpp"

namespace ovl::cuda {

class Session final : public Backend {
 public:
  // Opens the devices. `world` outlives it; `ranks` are of the whole world; `transport` as asked, or empty.
  Session(World& world, const Placing& placing, int ranks, const std::string& transport = {});
  ~Session() override;

  [[nodiscard]] Description describe() const override;
  [[nodiscard]] Conditions conditions() override;
  [[nodiscard]] Support supports(const Program& program) const override;
  [[nodiscard]] std::unique_ptr<Prepared> prepare(std::vector<Program> arms, Data data, std::uint64_t seed) override;
  [[nodiscard]] std::vector<LaneProgress> progress() const override;
  void abort() noexcept override;

  // ---- for its cases ----
  [[nodiscard]] Rank first() const { return first_; }
  // How many of this process's ranks a program of `ranks` has.
  [[nodiscard]] int local_ranks(int ranks) const;
  [[nodiscard]] RankDevice& rank(std::size_t local) { return *ranks_[local]; }
  Communicators& communicators() { return *communicators_; }
  // Runs work on the first `ranks` workers at once. Rethrows the first failure when all have ended.
  void on_workers(std::size_t ranks, const std::function<void(std::size_t local)>& work) const;
  void on_worker(std::size_t local, const std::function<void()>& work) const { workers_[local]->run(work); }
  // What each process does for itself: fails on all when it fails on one.
  void locally(const std::function<void()>& body);
  // The same for what they do with each other in NCCL, where one that failed would be waited for.
  void collectively(const std::function<void()>& body);
  // Chosen on rank 0, once a session, the same on all processes; what that throws, all throw.
  const Algorithm& algorithm(const GemmShape& shape);

  struct Recorded {
    Timings timings;
    Observed observed;  // operations: what CUPTI saw
  };
  Recorded replay(const Plan& plan, std::size_t arm, const std::vector<RankCase*>& on,
                  const std::vector<const Group*>& groups, const Group* align, const ReplayOptions& options,
                  bool warm_up);
  // The case is going: progress() looks at it no more.
  void forget();
  // Several ranks have one device (NCCL 2.30 and later, experimental).
  [[nodiscard]] bool shares_devices() const;
  [[nodiscard]] bool stopped() const { return stop_.raised(); }

 private:
  void open(const Placing& placing);
  void close() noexcept;
  void relate_processes();
  void gather_devices();
  // This process cannot go on: whoever waits for it, here or elsewhere, ends and is told why.
  void give_up(const std::exception_ptr& error) noexcept;

  World& world_;
  Rank first_;
  int all_ranks_;
  std::vector<Device> devices_;  // by local rank
  std::vector<DType> dtypes_;    // that all of them have
  StopFlag stop_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<RankDevice>> ranks_;
  std::unique_ptr<Communicators> communicators_;
  Nvml nvml_;
  Trace trace_;
  std::map<GemmShape, Algorithm> algorithms_;
  ClockRelation process_clock_;  // this process's steady clock to process 0's
  std::string device_list_;      // of all ranks
  int most_ranks_of_device_ = 1;
  std::vector<std::string> transports_;
  mutable std::mutex mutex_;  // guards current_
  std::vector<RankCase*> current_;
};

}  // namespace ovl::cuda
