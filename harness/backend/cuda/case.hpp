// SPDX-License-Identifier: Apache-2.0
//
// One case on the devices of this process: the buffers of its ranks, a plan for every arm, and what the libraries were
// told about them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/session.hpp"

namespace ovl::cuda {

class Case final : public Prepared {
 public:
  // Allocates, makes what is new of communicators and algorithms, runs every arm once, then fills the buffers. The same
  // World operations on every process. `session` outlives the case.
  Case(Session& session, std::vector<Program> arms, Data data, std::uint64_t seed);
  ~Case() override;

  void reset() override;
  Timings run(std::size_t arm, const ReplayOptions& options) override;
  [[nodiscard]] std::vector<double> contents(BufferId buffer, Rank rank, int copy) const override;
  [[nodiscard]] std::uint64_t fingerprint(BufferId buffer, Rank rank, int copy) const override;
  [[nodiscard]] std::vector<Fact> observed() const override;

 private:
  void allocate();
  void connect();
  void register_buffers(const std::vector<GroupKey>& keys);
  void warm_up();
  void fill(RankCase& on) const;
  void release() noexcept;
  [[nodiscard]] std::size_t local(Rank rank) const;
  Session::Recorded replayed(std::size_t arm, const ReplayOptions& options, bool warm_up);
  Timings replay(std::size_t arm, const ReplayOptions& options, bool warm_up);

  Session& session_;
  std::vector<Program> arms_;
  Data data_;
  std::uint64_t seed_;
  std::size_t local_ranks_ = 0;
  int comm_sms_ = 0;
  std::vector<std::optional<CommConfig>> comms_;
  std::vector<Plan> plans_;  // by arm
  std::vector<std::unique_ptr<RankCase>> ranks_;
  std::vector<const Group*> groups_;  // of plans_, which share them
  const Group* align_ = nullptr;
  std::vector<Registration> registrations_;
  Observed seen_;
  bool live_ = false;  // some arm can only be
  bool partial_ = false;
};

}  // namespace ovl::cuda
