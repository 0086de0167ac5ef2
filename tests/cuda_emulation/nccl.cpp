// SPDX-License-Identifier: Apache-2.0
//
// libnccl.so.2, emulated: NCCL's C interface as far as the cuda backend calls it, at the version that OVL_EMULATED_NCCL
// says. Blocking communicators only. A release that is made to fail (OVL_EMULATED_FAIL) still releases.
// One setting more:
//   OVL_EMULATED_NCCL_ASYNC=rank:k:code  the k-th task (from 1) of that rank in this process never completes, and its
//                                        communicator has the asynchronous error `code` from then on
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cuda_emulation/emulator.hpp"
#include "cuda_emulation/nccl_communicator.hpp"

namespace ovl::emulation::nccl {
namespace {

// ---- groups and errors of a thread ---------------------------------------------------------------------------------

// A call that needs every rank of the communicator: in a group all arrive before any waits.
struct Meeting {
  std::function<ncclResult_t()> arrive;
  std::function<ncclResult_t()> complete;
  bool releases = false;  // happens also where the rest of the group does not
};

struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Meeting> meetings;
  std::vector<Operation> operations;
};
thread_local Group group;
thread_local const char* current_call = "";
thread_local std::string last_error;

ncclResult_t tell(ncclResult_t result, std::string why) {
  last_error = std::move(why);
  failed(current_call, result);
  return result;
}

// The group that this happens in will fail as a whole.
ncclResult_t refuse(ncclResult_t result, std::string why) {
  if (group.depth > 0 && group.error == ncclSuccess) {
    group.error = result;
  }
  return tell(result, std::move(why));
}

// What to return where this call was made to fail.
enum class Fails { itself, its_group };
std::optional<ncclResult_t> made_to_fail(const char* call, void* site, ncclResult_t usual = ncclUnhandledCudaError,
                                         Fails what = Fails::its_group) {
  current_call = call;
  int code = usual;
  if (!fails(call, site, usual, &code)) {
    return std::nullopt;
  }
  const auto result = static_cast<ncclResult_t>(code);
  const std::string why = std::string(call) + " was made to fail";
  return what == Fails::itself ? tell(result, why) : refuse(result, why);
}
std::optional<ncclResult_t> release_made_to_fail(const char* call, void* site) {
  return made_to_fail(call, site, ncclUnhandledCudaError, Fails::itself);
}

// One thread at a time is within a communicator's calls.
class Inside {
 public:
  Inside(Comm comm, const char* call) : comm_(std::move(comm)) {
    if (comm_->entered.exchange(true)) {
      violation(std::string(call) + " while another thread is in a call with the same communicator");
    }
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { comm_->entered = false; }

 private:
  Comm comm_;
};

ncclResult_t meet(std::vector<Meeting> meetings) {
  std::vector<ncclResult_t> results;
  for (const Meeting& meeting : meetings) {
    results.push_back(meeting.arrive());
  }
  ncclResult_t first = ncclSuccess;
  for (std::size_t i = 0; i < meetings.size(); ++i) {
    const ncclResult_t result = results[i] == ncclSuccess ? meetings[i].complete() : results[i];
    first = first == ncclSuccess ? result : first;
  }
  return first;
}

ncclResult_t meet_now_or_in_group(Meeting meeting) {
  if (group.depth > 0) {
    group.meetings.push_back(std::move(meeting));
    return ncclSuccess;
  }
  return meet({std::move(meeting)});
}

// A send to oneself needs its receive in the same group.
bool are_own_messages_met(const std::vector<Operation>& operations) {
  const auto count = [&](Call call) {
    return std::count_if(operations.begin(), operations.end(),
                         [&](const Operation& o) { return o.call == call && o.peer == o.comm->rank; });
  };
  return count(Call::send) == count(Call::receive);
}

ncclResult_t launch_all(const std::vector<Operation>& operations) {
  std::vector<std::vector<Operation>> by_communicator;
  for (const Operation& operation : operations) {
    auto mine = std::find_if(by_communicator.begin(), by_communicator.end(),
                             [&](const auto& list) { return list.front().comm == operation.comm; });
    if (mine == by_communicator.end()) {
      mine = by_communicator.emplace(by_communicator.end());
    }
    mine->push_back(operation);
  }
  for (const auto& mine : by_communicator) {
    if (!are_own_messages_met(mine)) {
      return refuse(ncclInvalidUsage, "a rank sends to itself or receives from itself, and not both in one group");
    }
  }
  for (const auto& mine : by_communicator) {
    if (const ncclResult_t result = launch(mine); result != ncclSuccess) {
      return refuse(result, "the device refused the launch");
    }
  }
  return ncclSuccess;
}

// ---- collectives ---------------------------------------------------------------------------------------------------

std::optional<Element> element_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8: return Element::i8;
    case ncclUint8: return Element::u8;
    case ncclInt32: return Element::i32;
    case ncclUint32: return Element::u32;
    case ncclInt64: return Element::i64;
    case ncclUint64: return Element::u64;
    case ncclFloat16: return Element::f16;
    case ncclFloat32: return Element::f32;
    case ncclFloat64: return Element::f64;
    case ncclBfloat16: return Element::bf16;
    case ncclFloat8e4m3: return Element::f8e4m3;
    case ncclFloat8e5m2: return Element::f8e5m2;
    default: return std::nullopt;
  }
}

struct Arguments {
  Call call;
  const void* in;
  void* out;
  std::size_t count;
  ncclDataType_t type;
  int peer = 0;
  ncclRedOp_t sum = ncclSum;
  ncclComm_t comm;
  cudaStream_t stream;
};

bool reads(const Arguments& a, int rank) {
  return a.call != Call::receive && (a.call != Call::broadcast || a.peer == rank);
}

// What is wrong with a call; nothing: empty.
std::string mistake(const Arguments& a, const ncclComm& comm) {
  const bool reduces = a.call == Call::all_reduce || a.call == Call::reduce_scatter;
  const std::optional<Element> element = element_of(a.type);
  if (!element) {
    return "invalid type " + std::to_string(a.type);
  }
  if (a.sum != ncclSum) {
    return "invalid reduction operation " + std::to_string(a.sum) + " (ncclSum alone is emulated)";
  }
  if (reduces && !is_summed(*element)) {
    return "sums of type " + std::to_string(a.type) + " are not emulated";
  }
  if (reduces && *element == Element::f8e4m3 && capability() < 90) {
    return "FP8 reduction support begins with sm90 capable devices.";
  }
  if (a.peer < 0 || a.peer >= comm.ranks) {
    return "invalid root or peer " + std::to_string(a.peer) + " (not in the range 0.." +
           std::to_string(comm.ranks - 1) + ")";
  }
  if (device_of(a.stream) != comm.device) {
    return "the stream is of device " + std::to_string(device_of(a.stream)) + ", the communicator of device " +
           std::to_string(comm.device);
  }
  if ((reads(a, comm.rank) && a.in == nullptr) || (a.call != Call::send && a.out == nullptr)) {
    return "a buffer is NULL";
  }
  return "";
}

ncclResult_t submit(const char* call, const Arguments& arguments, const Comm& comm, const Settings& settings,
                    cudaEvent_t all_began) {
  if (comm->finalized) {
    return refuse(ncclInvalidUsage, std::string(call) + ": the communicator was finalized");
  }
  if (const std::string why = mistake(arguments, *comm); !why.empty()) {
    return refuse(ncclInvalidArgument, std::string(call) + ": " + why);
  }
  must_have_read_error(call);
  if (arguments.count == 0) {
    return ncclSuccess;
  }
  const Operation operation{.call = arguments.call,
                            .comm = comm,
                            .stream = arguments.stream,
                            .element = *element_of(arguments.type),
                            .in = arguments.in,
                            .out = arguments.out,
                            .count = arguments.count,
                            .peer = arguments.peer,
                            .settings = settings,
                            .all_began = all_began};
  if (group.depth > 0) {
    group.operations.push_back(operation);
    return ncclSuccess;
  }
  return launch_all({operation});
}

ncclResult_t perform(const char* call, void* site, const Arguments& arguments) {
  if (const auto failure = made_to_fail(call, site)) {
    return *failure;
  }
  const Comm comm = find(arguments.comm, call);
  if (comm == nullptr) {
    return refuse(ncclInvalidArgument, std::string(call) + ": comm is NULL");
  }
  const Inside inside(comm, call);
  return submit(call, arguments, comm, comm->settings, nullptr);
}

#if NCCL_VERSION_CODE >= 23100
ncclResult_t perform(const char* call, void* site, const Arguments& arguments, const ncclCollConfig_t* config) {
  if (const auto failure = made_to_fail(call, site)) {
    return *failure;
  }
  if (pretended_version() < version_code(2, 31, 0)) {
    return refuse(ncclInvalidUsage, std::string(call) + " is not part of this version");
  }
  const Comm comm = find(arguments.comm, call);
  if (comm == nullptr) {
    return refuse(ncclInvalidArgument, std::string(call) + ": comm is NULL");
  }
  const Inside inside(comm, call);
  const CallSettings settings = resolve(config, pretended_version(), comm->settings);
  if (settings.result != ncclSuccess) {
    return refuse(settings.result, std::string(call) + ": " + settings.why);
  }
  return submit(call, arguments, comm, settings.settings, settings.all_began);
}
#endif

// ---- making and ending communicators -------------------------------------------------------------------------------

constexpr std::string_view id_prefix = "/ovl-emulated-nccl-";

// Why these ranks cannot be one communicator; they can: empty. The same on every rank.
std::string conflict(const Segment& segment) {
  const char* several = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  const bool may_share = pretended_version() >= version_code(2, 30, 3) && several != nullptr && std::atoi(several) == 1;
  for (int a = 0; a < segment.ranks(); ++a) {
    const Identity first = segment.identity(a);
    for (int b = a + 1; b < segment.ranks(); ++b) {
      const Identity second = segment.identity(b);
      if (first.version != second.version) {
        return "Mismatched NCCL version detected : rank " + std::to_string(a) + " version " +
               std::to_string(first.version) + " rank " + std::to_string(b) + " version " +
               std::to_string(second.version);
      }
      if (first.device == second.device && !may_share) {
        return "Duplicate GPU detected : rank " + std::to_string(a) + " and rank " + std::to_string(b) +
               " both on CUDA device " + first.device;
      }
    }
  }
  return "";
}

// A unique id makes one communicator; each rank joins once.
void require_fresh(const std::string& name, int rank) {
  static std::mutex mutex;
  static std::set<std::pair<std::string, int>> used;
  const std::lock_guard lock(mutex);
  if (!used.emplace(name, rank).second) {
    violation("rank " + std::to_string(rank) + " uses a unique id a second time");
  }
}

ncclResult_t join_ranks(const Comm& comm, const std::string& name, std::uint64_t* all) {
  std::array<char, 32> device{};
  if (cudaDeviceGetPCIBusId(device.data(), static_cast<int>(device.size()), comm->device) != cudaSuccess) {
    return refuse(ncclUnhandledCudaError, "the device has no PCI bus id");
  }
  require_fresh(name, comm->rank);
  try {
    comm->segment = std::make_shared<Segment>(name, comm->ranks);
  } catch (const std::system_error& error) {
    return refuse(ncclSystemError, error.what());
  }
  if (!comm->segment->join(comm->rank, {.device = device.data(), .version = pretended_version()})) {
    return refuse(ncclInternalError, "rank " + std::to_string(comm->rank) + " of " + std::to_string(comm->ranks) +
                                         " ranks: it has already checked in, or others count other ranks");
  }
  *all = comm->segment->arrive();
  return ncclSuccess;
}

ncclResult_t complete_join(const Comm& comm, std::uint64_t all, ncclComm_t* out) {
  if (!wait_until([&] { return comm->segment->all_arrived(all); }, [] { return stopping(); })) {
    return refuse(ncclInternalError, "stopped while waiting for the other ranks");
  }
  comm->segment->unlink();
  if (const std::string why = conflict(*comm->segment); !why.empty()) {
    return refuse(ncclInvalidUsage, why);
  }
  add(comm);
  *out = comm.get();
  return ncclSuccess;
}

// Finishes its work, then waits for the other ranks to do so.
Meeting farewell(const Comm& comm, std::function<void()> then) {
  const auto all = std::make_shared<std::uint64_t>(0);
  const Stop stop = [comm] { return comm->stopped(); };
  return {.arrive =
              [=] {
                if (comm->finalized.exchange(true)) {
                  return ncclSuccess;
                }
                const bool idle = wait_until([&] { return comm->queue.idle(); }, stop);
                *all = comm->segment->arrive();
                return idle ? ncclSuccess : refuse(ncclInternalError, "aborted while finishing");
              },
          .complete =
              [=] {
                const bool gone = wait_until([&] { return comm->segment->all_arrived(*all); }, stop);
                then();
                return gone ? ncclSuccess : refuse(ncclInternalError, "aborted while waiting for the other ranks");
              },
          .releases = true};
}

void require_unregistered(const Comm& comm, const char* call) {
  const std::lock_guard lock(comm->mutex);
  if (!comm->registered.empty()) {
    violation(std::string(call) + " while " + std::to_string(comm->registered.size()) +
              " buffers are registered with the communicator");
  }
}

// ---- registrations -------------------------------------------------------------------------------------------------

void* remember(const Comm& comm, const Registered& registered) {
  static std::atomic<std::uintptr_t> next{0x1000};
  void* handle = reinterpret_cast<void*>(next.fetch_add(0x10));
  const std::lock_guard lock(comm->mutex);
  comm->registered.emplace(handle, registered);
  count_live("NCCL registrations", 1);
  return handle;
}

ncclResult_t forget(const char* call, void* site, ncclComm_t handle, void* registration, bool window) {
  const auto failure = release_made_to_fail(call, site);
  const Comm comm = find(handle, call);
  if (comm == nullptr) {
    return refuse(ncclInvalidArgument, std::string(call) + ": comm is NULL");
  }
  if (registration != nullptr) {
    const std::lock_guard lock(comm->mutex);
    const auto found = comm->registered.find(registration);
    if (found == comm->registered.end() || found->second.window != window) {
      return refuse(ncclInvalidArgument, std::string(call) + ": no such registration with this communicator");
    }
    comm->registered.erase(found);
    count_live("NCCL registrations", -1);
  }
  return failure.value_or(ncclSuccess);
}

}  // namespace
}  // namespace ovl::emulation::nccl

using namespace ovl::emulation::nccl;
namespace emulation = ovl::emulation;

ncclResult_t ncclGetVersion(int* version) {
  if (const auto failure = made_to_fail("ncclGetVersion", __builtin_return_address(0))) {
    return *failure;
  }
  if (version == nullptr) {
    return refuse(ncclInvalidArgument, "ncclGetVersion: version is NULL");
  }
  *version = pretended_version();
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  emulation::read_error();
  switch (static_cast<int>(result)) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError: return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) {
  emulation::read_error();
  return last_error.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (const auto failure = made_to_fail("ncclGetUniqueId", __builtin_return_address(0), ncclSystemError)) {
    return *failure;
  }
  if (id == nullptr) {
    return refuse(ncclInvalidArgument, "ncclGetUniqueId: uniqueId is NULL");
  }
  std::random_device random;
  std::string name(id_prefix);
  for (int i = 0; i < 4; ++i) {
    name += std::to_string(random());
    name += i < 3 ? "-" : "";
  }
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (out != nullptr) {
    *out = nullptr;
  }
  if (const auto failure = made_to_fail("ncclCommInitRankConfig", __builtin_return_address(0), ncclSystemError)) {
    return *failure;
  }
  if (out == nullptr || ranks < 1 || rank < 0 || rank >= ranks) {
    return refuse(ncclInvalidArgument,
                  "Invalid rank requested : " + std::to_string(rank) + "/" + std::to_string(ranks));
  }
  const std::string name(id.internal, strnlen(id.internal, sizeof id.internal));
  if (name.rfind(id_prefix, 0) != 0) {
    return refuse(ncclInvalidArgument, "the unique id is not from ncclGetUniqueId");
  }
  Resolved resolved = resolve(config, pretended_version(), [](const char* variable) { return std::getenv(variable); });
  if (resolved.result != ncclSuccess) {
    return refuse(resolved.result, resolved.why);
  }
  // It takes device memory, and so waits for the device to be idle: behind a closed gate it hangs.
  void* memory = nullptr;
  if (emulation::allocate(&memory, 4096) != cudaSuccess || emulation::deallocate(memory) != cudaSuccess) {
    return refuse(ncclUnhandledCudaError, "ncclCommInitRankConfig: no device memory, or a stream is being captured");
  }
  const auto comm = std::make_shared<ncclComm>();
  comm->rank = rank;
  comm->ranks = ranks;
  comm->device = emulation::current_device();
  comm->settings = resolved.settings;
  const auto all = std::make_shared<std::uint64_t>(0);
  return meet_now_or_in_group({.arrive = [=] { return join_ranks(comm, name, all.get()); },
                               .complete = [=] { return complete_join(comm, *all, out); }});
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  const auto failure = release_made_to_fail("ncclCommFinalize", __builtin_return_address(0));
  const Comm comm = find(handle, "ncclCommFinalize");
  if (comm == nullptr) {
    return failure.value_or(ncclSuccess);
  }
  if (comm->finalized) {
    return refuse(ncclInvalidArgument, "ncclCommFinalize: the communicator was finalized before");
  }
  const ncclResult_t result = meet_now_or_in_group(farewell(comm, [] {}));
  return failure.value_or(result);
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  const auto failure = release_made_to_fail("ncclCommDestroy", __builtin_return_address(0));
  const Comm comm = find(handle, "ncclCommDestroy");
  if (comm == nullptr) {
    return failure.value_or(ncclSuccess);
  }
  require_unregistered(comm, "ncclCommDestroy");
  const ncclResult_t result = meet_now_or_in_group(farewell(comm, [comm] {
    comm->destroyed = !comm->aborted;
    remove(comm);
  }));
  return failure.value_or(result);
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  const auto failure = release_made_to_fail("ncclCommAbort", __builtin_return_address(0));
  const Comm comm = find(handle, "ncclCommAbort");
  if (comm == nullptr) {
    return failure.value_or(ncclSuccess);
  }
  comm->aborted = true;
  wait_until([&] { return comm->running == 0; }, [] { return emulation::stopping(); });
  remove(comm);
  return failure.value_or(ncclSuccess);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  if (const auto failure = made_to_fail("ncclCommGetAsyncError", __builtin_return_address(0))) {
    return *failure;
  }
  const Comm comm = find(handle, "ncclCommGetAsyncError");
  if (comm == nullptr || error == nullptr) {
    return refuse(ncclInvalidArgument, "ncclCommGetAsyncError: an argument is NULL");
  }
  *error = static_cast<ncclResult_t>(comm->async_error.load());
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t handle, int* count) {
  if (const auto failure = made_to_fail("ncclCommCount", __builtin_return_address(0))) {
    return *failure;
  }
  const Comm comm = find(handle, "ncclCommCount");
  if (comm == nullptr || count == nullptr) {
    return refuse(ncclInvalidArgument, "ncclCommCount: an argument is NULL");
  }
  *count = comm->ranks;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t handle, int* rank) {
  if (const auto failure = made_to_fail("ncclCommUserRank", __builtin_return_address(0))) {
    return *failure;
  }
  const Comm comm = find(handle, "ncclCommUserRank");
  if (comm == nullptr || rank == nullptr) {
    return refuse(ncclInvalidArgument, "ncclCommUserRank: an argument is NULL");
  }
  *rank = comm->rank;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  if (const auto failure = made_to_fail("ncclGroupStart", __builtin_return_address(0))) {
    return *failure;
  }
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) {
    current_call = "ncclGroupEnd";
    return tell(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  }
  const auto failure = release_made_to_fail("ncclGroupEnd", __builtin_return_address(0));
  if (--group.depth > 0) {
    return failure.value_or(ncclSuccess);
  }
  Group ended = std::exchange(group, {});
  if (failure) {
    ended.error = *failure;
  }
  if (ended.error != ncclSuccess) {  // nothing of the group is done but for what releases
    std::erase_if(ended.meetings, [](const Meeting& meeting) { return !meeting.releases; });
  }
  const ncclResult_t met = meet(ended.meetings);
  if (ended.error != ncclSuccess) {
    return tell(ended.error, last_error);
  }
  return met == ncclSuccess ? launch_all(ended.operations) : met;
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t sum,
                           ncclComm_t comm, cudaStream_t stream) {
  return perform("ncclAllReduce", __builtin_return_address(0),
                 {.call = Call::all_reduce,
                  .in = in,
                  .out = out,
                  .count = count,
                  .type = type,
                  .sum = sum,
                  .comm = comm,
                  .stream = stream});
}

ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t sum,
                               ncclComm_t comm, cudaStream_t stream) {
  return perform("ncclReduceScatter", __builtin_return_address(0),
                 {.call = Call::reduce_scatter,
                  .in = in,
                  .out = out,
                  .count = count,
                  .type = type,
                  .sum = sum,
                  .comm = comm,
                  .stream = stream});
}

ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return perform(
      "ncclAllGather", __builtin_return_address(0),
      {.call = Call::all_gather, .in = in, .out = out, .count = count, .type = type, .comm = comm, .stream = stream});
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return perform("ncclBroadcast", __builtin_return_address(0),
                 {.call = Call::broadcast,
                  .in = in,
                  .out = out,
                  .count = count,
                  .type = type,
                  .peer = root,
                  .comm = comm,
                  .stream = stream});
}

ncclResult_t ncclAlltoAll(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  if (pretended_version() < version_code(2, 28, 0)) {
    current_call = "ncclAlltoAll";
    return refuse(ncclInvalidUsage, "ncclAlltoAll is not part of this version");
  }
  return perform(
      "ncclAlltoAll", __builtin_return_address(0),
      {.call = Call::all_to_all, .in = in, .out = out, .count = count, .type = type, .comm = comm, .stream = stream});
}

ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return perform("ncclSend", __builtin_return_address(0),
                 {.call = Call::send,
                  .in = in,
                  .out = nullptr,
                  .count = count,
                  .type = type,
                  .peer = peer,
                  .comm = comm,
                  .stream = stream});
}

ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return perform("ncclRecv", __builtin_return_address(0),
                 {.call = Call::receive,
                  .in = nullptr,
                  .out = out,
                  .count = count,
                  .type = type,
                  .peer = peer,
                  .comm = comm,
                  .stream = stream});
}

#if NCCL_VERSION_CODE >= 23100
ncclResult_t ncclAllReduceConfig(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t sum,
                                 ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return perform("ncclAllReduceConfig", __builtin_return_address(0),
                 {.call = Call::all_reduce,
                  .in = in,
                  .out = out,
                  .count = count,
                  .type = type,
                  .sum = sum,
                  .comm = comm,
                  .stream = stream},
                 config);
}

ncclResult_t ncclReduceScatterConfig(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t sum,
                                     ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return perform("ncclReduceScatterConfig", __builtin_return_address(0),
                 {.call = Call::reduce_scatter,
                  .in = in,
                  .out = out,
                  .count = count,
                  .type = type,
                  .sum = sum,
                  .comm = comm,
                  .stream = stream},
                 config);
}

ncclResult_t ncclAllGatherConfig(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                                 cudaStream_t stream, const ncclCollConfig_t* config) {
  return perform(
      "ncclAllGatherConfig", __builtin_return_address(0),
      {.call = Call::all_gather, .in = in, .out = out, .count = count, .type = type, .comm = comm, .stream = stream},
      config);
}

ncclResult_t ncclBroadcastConfig(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                                 ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return perform("ncclBroadcastConfig", __builtin_return_address(0),
                 {.call = Call::broadcast,
                  .in = in,
                  .out = out,
                  .count = count,
                  .type = type,
                  .peer = root,
                  .comm = comm,
                  .stream = stream},
                 config);
}

ncclResult_t ncclAlltoAllConfig(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                                cudaStream_t stream, const ncclCollConfig_t* config) {
  return perform(
      "ncclAlltoAllConfig", __builtin_return_address(0),
      {.call = Call::all_to_all, .in = in, .out = out, .count = count, .type = type, .comm = comm, .stream = stream},
      config);
}
#endif

ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  if (const auto failure = made_to_fail("ncclMemAlloc", __builtin_return_address(0))) {
    return *failure;
  }
  if (memory == nullptr || bytes == 0) {
    return refuse(ncclInvalidArgument, "ncclMemAlloc: no pointer, or no size");
  }
  const ncclResult_t result = allocate(memory, bytes);
  return result == ncclSuccess ? result : refuse(result, "ncclMemAlloc: the device has no memory left");
}

ncclResult_t ncclMemFree(void* memory) {
  const auto failure = release_made_to_fail("ncclMemFree", __builtin_return_address(0));
  const ncclResult_t result = memory == nullptr ? ncclSuccess : deallocate(memory);
  if (failure || result == ncclSuccess) {
    return failure.value_or(ncclSuccess);
  }
  return tell(result, "ncclMemFree: the device refused");
}

ncclResult_t ncclCommRegister(ncclComm_t handle, void* buffer, size_t bytes, void** registration) {
  if (const auto failure = made_to_fail("ncclCommRegister", __builtin_return_address(0))) {
    return *failure;
  }
  const Comm comm = find(handle, "ncclCommRegister");
  if (comm == nullptr || registration == nullptr || emulation::address(buffer, bytes) == nullptr) {
    return refuse(ncclInvalidArgument, "ncclCommRegister: an argument is NULL, or the buffer is not device memory");
  }
  const Inside inside(comm, "ncclCommRegister");
  *registration = remember(
      comm, {.begin = static_cast<const std::byte*>(buffer), .bytes = bytes, .window = false, .symmetric = false});
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* registration) {
  return forget("ncclCommDeregister", __builtin_return_address(0), comm, registration, false);
}

// Collective: every rank waits for the others. Memory that is not from ncclMemAlloc has no window: an error
// before 2.29, none (NULL) from then on.
ncclResult_t ncclCommWindowRegister(ncclComm_t handle, void* buffer, size_t bytes, ncclWindow_t* window, int flags) {
  if (const auto failure = made_to_fail("ncclCommWindowRegister", __builtin_return_address(0))) {
    return *failure;
  }
  const int version = pretended_version();
  const Comm comm = find(handle, "ncclCommWindowRegister");
  if (comm == nullptr || window == nullptr) {
    return refuse(ncclInvalidArgument, "ncclCommWindowRegister: an argument is NULL");
  }
  *window = nullptr;
  if (version < version_code(2, 27, 0)) {
    return refuse(ncclInvalidUsage, "ncclCommWindowRegister is not part of this version");
  }
  const Inside inside(comm, "ncclCommWindowRegister");
  if (!is_allocated(buffer, bytes)) {
    return version >= version_code(2, 29, 0)
               ? ncclSuccess
               : refuse(ncclInvalidArgument, "ncclCommWindowRegister: the buffer is not from ncclMemAlloc");
  }
  if (reinterpret_cast<std::uintptr_t>(buffer) % NCCL_WIN_REQUIRED_ALIGNMENT != 0) {
    return refuse(ncclInvalidArgument, "ncclCommWindowRegister: the buffer is not aligned to 4096 bytes");
  }
  const Registered registered{.begin = static_cast<const std::byte*>(buffer),
                              .bytes = bytes,
                              .window = true,
                              .symmetric = (flags & NCCL_WIN_COLL_SYMMETRIC) != 0};
  const auto all = std::make_shared<std::uint64_t>(0);
  return meet_now_or_in_group(
      {.arrive =
           [=] {
             *all = comm->segment->arrive();
             return ncclSuccess;
           },
       .complete =
           [=] {
             if (!wait_until([&] { return comm->segment->all_arrived(*all); }, [&] { return comm->stopped(); })) {
               return refuse(ncclInternalError, "aborted while waiting for the other ranks' window");
             }
             *window = static_cast<ncclWindow_t>(remember(comm, registered));
             return ncclSuccess;
           }});
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  return forget("ncclCommWindowDeregister", __builtin_return_address(0), comm, window, true);
}
