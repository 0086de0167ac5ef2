// SPDX-License-Identifier: Apache-2.0
//
// One case on the host: the buffers of all ranks and a plan for every arm.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/host/session.hpp"

namespace ovl::host {

class Case final : public Prepared {
 public:
  // Allocates, plans every arm and fills the buffers. `session` outlives the case.
  Case(Session& session, std::vector<Program> arms, Data data, std::uint64_t seed);

  void reset() override;
  Timings run(std::size_t arm, const ReplayOptions& options) override;
  [[nodiscard]] std::vector<double> contents(BufferId buffer, Rank rank, int copy) const override;
  [[nodiscard]] std::uint64_t fingerprint(BufferId buffer, Rank rank, int copy) const override;
  [[nodiscard]] std::vector<Fact> observed() const override { return observed_; }

 private:
  void fill(Rank rank);
  [[nodiscard]] const Arena& arena(Rank rank) const { return arenas_.at(rank.index() - first_.index()); }

  Session& session_;
  std::vector<Program> arms_;
  Data data_;
  std::uint64_t seed_;
  Rank first_;                 // of this process
  std::vector<Arena> arenas_;  // of its ranks
  std::vector<std::shared_ptr<Plan>> plans_;
  std::vector<Job> fill_jobs_;
  bool shared_cores_ = false;
  std::vector<Fact> observed_;
};

}  // namespace ovl::host
