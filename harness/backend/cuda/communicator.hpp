// SPDX-License-Identifier: Apache-2.0
//
// NCCL communicators of this process's ranks, made by unique id through World and kept for the session by group and
// configuration. Making one is collective over all its ranks, so every process asks in the same order.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cuda/device.hpp"
#include "backend/cuda/memory.hpp"
#include "backend/world.hpp"

namespace ovl::cuda {

// The version of the NCCL that was loaded, e.g. 23203, and of the header that this was compiled against.
int nccl_version();
constexpr int nccl_header_version() { return NCCL_VERSION_CODE; }
// "2.32.3".
std::string nccl_version_text(int version);
// One communicator serves all CTA settings: NCCL 2.31, loaded and compiled against.
bool has_call_config();
// A collective can record an event when its blocks have started: NCCL 2.32, loaded and compiled against.
bool has_launch_completion();

// ---- what the environment overrides ---------------------------------------------------------------------------------

struct ConfigFile {
  std::string name;  // "/etc/nccl.conf"
  std::string contents;
};
// NCCL_* settings that would silently override what a case asks for: "NCCL_MAX_CTAS=8 (environment)",
// "... (/etc/nccl.conf)". Names only those that matter to `channels` (0: none asked).
std::vector<std::string> overrides_of(int channels);
// The same, of a given environment (nullptr: not set) and files, the first of which wins.
using Environment = std::function<const char*(const char* name)>;
std::vector<std::string> overrides_in(const Environment& environment, const std::vector<ConfigFile>& files,
                                      int channels);
// What NCCL reads: NCCL_CONF_FILE or ~/.nccl.conf, then /etc/nccl.conf. Those that are there.
std::vector<ConfigFile> config_files();

// ---- what NCCL can do -----------------------------------------------------------------------------------------------

// Why NCCL as loaded cannot do this on such devices; empty: it can. The transport "copy" (zero-CTA policy) takes no
// reductions and needs symmetric buffers.
std::string cannot_communicate(const Program& program, CommId comm, const Device& device);
// The same, of a given NCCL.
struct NcclTraits {
  int version = 0;         // loaded
  int header_version = 0;  // compiled against
  int driver_version = 0;  // 12040: CUDA 12.4
  int capability = 0;
  std::string cta_policy;  // of the environment: "NCCL_CTA_POLICY=0 (environment)"; empty: not set
};
std::string cannot_communicate(const Program& program, CommId comm, const NcclTraits& traits);

// What distinguishes communicators of the same group.
struct CommConfig {
  int channels = 0;             // CTAs, minimum and maximum together; 0: NCCL's choice
  bool copy_engine = false;     // CTA policy ZERO
  bool graph = false;           // used in captures only
  bool point_to_point = false;  // also sends and receives, all_to_all: they take no configuration per call
  // How many of the program's communicators before it have the same groups and are else the same. NCCL runs what is
  // enqueued on one communicator in that order: two that a program keeps apart stay so.
  int twin = 0;
  friend auto operator<=>(const CommConfig&, const CommConfig&) = default;
};
// What the communicator itself is made with: where a call can be configured, one serves all CTA settings up to its own.
CommConfig communicator_config(const CommConfig& asked, bool call_config);
ncclConfig_t nccl_config(const CommConfig& made);

// ---- communicators --------------------------------------------------------------------------------------------------

// Shared by all that must not touch a communicator once it was aborted, nor while.
struct AbortState {
  std::mutex mutex;
  std::atomic<bool> aborted{false};
};

// One group's communicator as the local ranks hold it.
class Group {
 public:
  // nullptr for a rank that is not local or not a member.
  [[nodiscard]] ncclComm_t of(Rank rank) const;
  [[nodiscard]] int index_of(Rank rank) const;  // within the group
  [[nodiscard]] const std::vector<Rank>& members() const { return members_; }
  [[nodiscard]] const CommConfig& config() const { return config_; }
  // CTAs that each call asks for; 0: the communicator says it.
  [[nodiscard]] int channels_by_call() const { return channels_by_call_; }
  // Communicators::abort() has freed what of() would give.
  [[nodiscard]] bool aborted() const { return abort_->aborted; }

 private:
  friend class Communicators;
  friend class Registration;
  std::vector<Rank> members_;
  CommConfig config_;
  int channels_by_call_ = 0;
  std::map<Rank, ncclComm_t> local_;
  std::shared_ptr<AbortState> abort_;
};

// A window or handle of a buffer with a communicator; deregistered in the destructor, before the memory goes.
class Registration {
 public:
  // Memory::registered or symmetric, of a local member. Symmetric is collective over the group: where one thread holds
  // several ranks use register_all. Throws Error(impossible) where NCCL makes no window of it.
  Registration(const Group& group, Rank rank, const DeviceMemory& memory, Memory kind);
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&&) = delete;
  Registration(const Registration&) = delete;
  ~Registration();

 private:
  friend std::vector<Registration> register_all(const Group&, const std::vector<std::pair<Rank, const DeviceMemory*>>&,
                                                Memory);
  struct Slot;  // NCCL writes it when a group call ends: it stays where it is
  Registration();
  void enter(const Group& group, Rank rank, const DeviceMemory& memory, Memory kind);
  void require_handle() const;

  std::unique_ptr<Slot> slot_;
};
// One buffer of all local members in one group call.
std::vector<Registration> register_all(const Group& group,
                                       const std::vector<std::pair<Rank, const DeviceMemory*>>& memory, Memory kind);

class Communicators {
 public:
  // `devices` by local rank; rank r is local where first <= r < first + devices.size().
  Communicators(World& world, Rank first, std::vector<Device> devices);
  ~Communicators();  // finalised and destroyed in the order in which they were made
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  // Collective over all processes, also those without a member; two World operations where it is new. The group lives
  // as long as this. The calling thread's device is what it was.
  const Group& get(const std::vector<Rank>& members, const CommConfig& config);
  // The first asynchronous error of any communicator, with its rank; empty: none. May be called while a replay runs.
  [[nodiscard]] std::string asynchronous_error() const noexcept;
  // Ends all work of all communicators. From any thread; they are unusable afterwards.
  void abort() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One collective of one rank on its stream. `send` and `receive` are where the slices begin. all_to_all is ncclAlltoAll
// where NCCL has it, else grouped sends and receives. `all_blocks_began` (has_launch_completion(), made with
// Timing::off, every rank or none) is recorded when the collective's kernel has started.
void enqueue_collective(const Group& group, Rank rank, const Collective& collective, const void* send, void* receive,
                        cudaStream_t stream, cudaEvent_t all_blocks_began = nullptr);
// A group call: the i-th transfer's memory is memory[i], its elements counts[i].
void enqueue_exchange(const Group& group, Rank rank, const Exchange& exchange, const std::vector<void*>& memory,
                      const std::vector<std::int64_t>& counts, cudaStream_t stream);

}  // namespace ovl::cuda
