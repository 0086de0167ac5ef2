// SPDX-License-Identifier: Apache-2.0
//
// An arm made ready to enqueue: for every local rank a flat list of steps, one for each operation of its body, with all
// names resolved to indices. A pure function of the program: streams, events and plans of libraries come later.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "backend/cuda/communicator.hpp"
#include "backend/cuda/gemm.hpp"
#include "kernels/cuda/device_kernels.hpp"
#include "program/program.hpp"

namespace ovl::cuda {

// One communicator of NCCL: who and how.
struct GroupKey {
  std::vector<Rank> members;
  CommConfig config;
  friend auto operator<=>(const GroupKey&, const GroupKey&) = default;
};

struct GemmStep {
  std::size_t shape = 0;  // of Plan::shapes
  std::int64_t repeat = 1;
  Slice a, b, c;
};
struct CollectiveStep {
  std::size_t group = 0;  // of Plan::groups
  Collective collective;
  Slice in, out;
};
// The copy engines' collective of one rank: to the host and back.
struct StagedStep {
  Slice from, to;
};
struct ExchangeStep {
  std::size_t group = 0;
  Exchange exchange;
  std::vector<Slice> slices;  // of the transfers
};
// A kernel of ours that stays on its SMs: which report its blocks fill, and the word that ends it. Without a word it
// ends by itself.
struct Stay {
  int blocks = 1;
  std::size_t report = 0;  // of RankPlan::report_blocks
  std::optional<std::size_t> word;
};
// A collective of one rank by the kernel that does what a ring does within a GPU.
struct ProxyStep {
  Slice in, out;
  DType dtype = DType::f32;
  kernels::RingSteps steps = kernels::RingSteps::both;
  double ns_per_byte = 0;  // of the link
  Stay stay;
};
struct OccupyStep {
  std::uint64_t nanoseconds = 0;  // where there is no word
  Stay stay;
};
struct StreamStep {
  Slice from, to;
  std::int64_t bytes = 0;  // to copy where there is no word
  double ns_per_byte = 0;  // copied
  Stay stay;
};
struct CopyStep {
  Slice from, to;
};
struct BusyStep {
  std::uint64_t nanoseconds = 0;
};
struct AddStep {
  Slice to;
  std::vector<Slice> from;
};
// Events are numbered anew: every record has its own, which a wait finds by what was issued before it.
struct RecordStep {
  std::size_t event = 0;
  Moment moment = Moment::completion;  // start: the work that follows fires it
  std::optional<std::size_t> word;     // which it also writes: it ends what lasts until then
};
struct WaitStep {
  std::size_t event = 0;
};
// The host waits for all lanes.
struct SyncStep {};

struct Step {
  OpId op;
  LaneId lane;
  std::variant<GemmStep, CollectiveStep, StagedStep, ProxyStep, ExchangeStep, CopyStep, BusyStep, OccupyStep,
               StreamStep, AddStep, RecordStep, WaitStep, SyncStep>
      action;
  std::optional<Seconds> not_before = std::nullopt;  // the host hands it over so long after the origin
  std::optional<std::size_t> began;                  // the event that fires when this work starts
  // Wait: the step whose completion (or start) its event tells.
  std::optional<std::size_t> source;
  Moment source_moment = Moment::completion;

  [[nodiscard]] bool works() const {
    return !std::holds_alternative<RecordStep>(action) && !std::holds_alternative<WaitStep>(action) &&
           !std::holds_alternative<SyncStep>(action);
  }
  // nullptr: it does not stay.
  [[nodiscard]] const Stay* stay() const;
};

// The lanes that a rank uses, and between which steps each works.
struct LaneSpan {
  LaneId lane;
  std::optional<std::size_t> first_work;
  std::optional<std::size_t> last_work;
};

struct RankPlan {
  Rank rank;
  std::vector<Step> steps;      // in issue order
  std::vector<LaneSpan> lanes;  // by id
  std::size_t events = 0;
  std::size_t words = 0;           // that end what stays
  std::vector<int> report_blocks;  // of each report
  bool timed = false;              // some step has a time
};

struct Plan {
  std::vector<RankPlan> ranks;  // local ones
  std::vector<GemmShape> shapes;
  std::vector<GroupKey> groups;  // the same on every process, in the order in which they are made
  std::vector<Role> lane_roles;
  bool live = false;  // only so: the host waits within it, for lanes (host_sync) or for the clock
  bool starts_agree = false;
  bool graph = false;
};

// What the plan of a rank needs of each lane, over all arms.
struct LaneNeeds {
  bool used = false;
  bool gemm = false;
  Bytes staging;  // pinned host memory for staged collectives
  Bytes fifo;     // of the proxy's blocks
};

std::vector<LaneNeeds> lane_needs(const std::vector<Program>& arms);

// How each communicator of a case is made, by CommId: by what all arms together do with it. Nothing: no arm uses it, or
// it needs none of NCCL's.
std::vector<std::optional<CommConfig>> comm_configs(const std::vector<Program>& arms);

// `partition_sms`: what GEMMs on compute lanes of a partition may count on; 0: there is none. Throws Error(failure) for
// what supports() refuses.
Plan make_plan(const Program& program, const std::vector<std::optional<CommConfig>>& comms, Rank first, int local_ranks,
               int partition_sms);

// The group that all ranks align on: the first communicator of NCCL's kernels that spans all of them and is not used in
// captures; else one of their own. Nothing for one rank.
std::optional<GroupKey> align_group(const Program& program, const std::vector<std::optional<CommConfig>>& comms);

// What NCCL must know of buffers: (index of the group, buffer), by group and then by buffer.
std::set<std::pair<std::size_t, BufferId>> registrations(const std::vector<Program>& arms,
                                                         const std::vector<std::optional<CommConfig>>& comms,
                                                         const std::vector<GroupKey>& groups);

// Whether all ranks mark the starts of the same collectives: NCCL tells a start on every rank or on none.
bool starts_agree(const Program& program);

// Why the order of waits and records cannot be kept by streams; empty: it can. A wait on an event that was not recorded
// yet would be no wait at all.
std::string order_reason(const Program& program);

// What a step adds to its stream's queue; a GEMM by repeat. Generous: NCCL joins streams by events of its own.
std::int64_t queued_by(const Step& step);

// Whether the copy engines do this group's work through the host, without NCCL.
bool staged(const Communicator& comm, std::size_t group_size);
// Whether NCCL has nothing to do with this group's work.
bool without_nccl(const Communicator& comm, std::size_t group_size);

}  // namespace ovl::cuda
