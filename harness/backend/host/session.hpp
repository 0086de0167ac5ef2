// SPDX-License-Identifier: Apache-2.0
//
// The host backend's session and cases. See host.hpp for what it is.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/host/evictor.hpp"
#include "backend/host/neighbours.hpp"
#include "backend/host/plan.hpp"
#include "backend/host/probes.hpp"
#include "backend/host/replay.hpp"
#include "backend/host/topology.hpp"
#include "backend/host/workers.hpp"
#include "backend/registry.hpp"

namespace ovl::host {

class Session final : public Backend {
 public:
  // `cores` are allowed and not empty. Where there are neighbours, this process is one rank of theirs; else it has all.
  Session(std::vector<int> cores, int default_ranks, std::unique_ptr<Neighbours> neighbours = nullptr);
  ~Session() override;

  [[nodiscard]] Description describe() const override;
  [[nodiscard]] Conditions conditions() override;
  [[nodiscard]] Support supports(const Program& program) const override;
  [[nodiscard]] std::unique_ptr<Prepared> prepare(std::vector<Program> arms, Data data, std::uint64_t seed) override;
  [[nodiscard]] std::vector<LaneProgress> progress() const override;
  void abort() noexcept override;

  // Replays a plan whose jobs were built for `replay`'s threads. Throws Error(failure).
  Timings replay(const std::shared_ptr<Plan>& plan, bool shared_cores, const ReplayOptions& options);
  // Runs work on workers, outside any replay. Rethrows its first failure.
  void run_on(const std::vector<Job>& jobs);

  [[nodiscard]] const std::vector<int>& cores() const { return cores_; }
  // Of each core, as make_layout() takes them.
  [[nodiscard]] std::vector<int> siblings() const;
  // nullptr: the ranks are threads of this process.
  [[nodiscard]] const Neighbours* neighbours() const { return neighbours_.get(); }
  // Ends with an error on all processes when it does on one.
  void together_with_neighbours(const std::function<void()>& body);
  Carriers carriers();

 private:
  [[nodiscard]] std::string transport() const;
  [[nodiscard]] std::string reason_for(const Program& program, const Communicator& comm) const;
  void probe_cores(Conditions& conditions);

  Topology topology_;
  std::vector<int> cores_;
  int default_ranks_;
  std::unique_ptr<Neighbours> neighbours_;
  std::optional<MessageGroups> message_groups_;
  Groups groups_{topology_.last_level_cache(cores_)};
  StopFlag stop_;
  Workers workers_{topology_};
  std::optional<Evictor> evictor_;  // made when first asked for
  CpuTimes cpu_times_;
  std::uint64_t replays_ = 0;
  mutable std::mutex mutex_;             // guards current_
  std::shared_ptr<const Plan> current_;  // what progress() looks at
};

}  // namespace ovl::host
