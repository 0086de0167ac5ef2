// SPDX-License-Identifier: Apache-2.0
//
// From NCCL calls to tasks on streams: which path each takes, what it touches, when it has its turn.
#include <cstdlib>
#include <sstream>

#include "cuda_emulation/emulator.hpp"
#include "cuda_emulation/nccl_communicator.hpp"

namespace ovl::emulation::nccl {
namespace {

std::string_view name_of(Call call) {
  switch (call) {
    case Call::all_reduce: return "AllReduce";
    case Call::all_gather: return "AllGather";
    case Call::reduce_scatter: return "ReduceScatter";
    case Call::broadcast: return "Broadcast";
    case Call::all_to_all:  // grouped sends and receives underneath
    case Call::send:
    case Call::receive: return "SendRecv";
  }
  return "";
}

std::string_view name_of(Element element) {
  switch (element) {
    case Element::f64: return "f64";
    case Element::f32: return "f32";
    case Element::f16: return "f16";
    case Element::bf16: return "bf16";
    case Element::f8e4m3: return "f8e4m3";
    default: return "u8";
  }
}

bool is_point_to_point(Call call) { return call == Call::send || call == Call::receive; }

struct Footprint {
  std::size_t in_bytes;
  std::size_t out_bytes;
  bool reads = true;
  bool writes = true;
};

Footprint footprint_of(const Operation& operation) {
  const std::size_t part = operation.count * size_of(operation.element);
  const std::size_t whole = part * static_cast<std::size_t>(operation.comm->ranks);
  switch (operation.call) {
    case Call::all_gather: return {.in_bytes = part, .out_bytes = whole};
    case Call::reduce_scatter: return {.in_bytes = whole, .out_bytes = part};
    case Call::all_to_all: return {.in_bytes = whole, .out_bytes = whole};
    case Call::broadcast: {
      const bool root = operation.comm->rank == operation.peer;
      return {.in_bytes = part, .out_bytes = part, .reads = root, .writes = !root || operation.in != operation.out};
    }
    case Call::send: return {.in_bytes = part, .out_bytes = 0, .writes = false};
    case Call::receive: return {.in_bytes = 0, .out_bytes = part, .reads = false};
    case Call::all_reduce: break;
  }
  return {.in_bytes = part, .out_bytes = part};
}

// Where NCCL lets input and output share memory.
bool is_in_place(const Operation& operation) {
  const auto* in = static_cast<const std::byte*>(operation.in);
  const auto* out = static_cast<const std::byte*>(operation.out);
  const std::size_t part = operation.count * size_of(operation.element);
  const std::size_t mine = part * static_cast<std::size_t>(operation.comm->rank);
  switch (operation.call) {
    case Call::all_gather: return in == out + mine;
    case Call::reduce_scatter: return out == in + mine;
    case Call::all_to_all: return false;
    default: return in == out;
  }
}

void require_separate_or_in_place(const Operation& operation, const Footprint& footprint) {
  const auto* in = static_cast<const std::byte*>(operation.in);
  const auto* out = static_cast<const std::byte*>(operation.out);
  const bool overlap =
      footprint.reads && footprint.writes && in < out + footprint.out_bytes && out < in + footprint.in_bytes;
  if (overlap && !is_in_place(operation)) {
    violation("nccl" + std::string(operation.call == Call::all_to_all ? "AlltoAll" : name_of(operation.call)) +
              " whose input and output overlap without being in place");
  }
}

enum class Path { nothing, copy, kernel, symmetric_kernel };

// Copy engines serve all_gather and all_to_all where the policy is ZERO and the buffers are in symmetric windows (from
// 2.29 the output alone); whatever does not meet that falls back to kernels without a word.
Path path_of(const Operation& operation, const Footprint& footprint) {
  ncclComm& comm = *operation.comm;
  if (comm.ranks == 1) {
    return is_in_place(operation) ? Path::nothing : Path::copy;
  }
  const int version = pretended_version();
  const bool out = comm.is_symmetric(operation.out, footprint.out_bytes);
  const bool in = comm.is_symmetric(operation.in, footprint.in_bytes);
  const bool copies = operation.call == Call::all_gather || operation.call == Call::all_to_all;
  const bool zero = (operation.settings.policy & NCCL_CTA_POLICY_ZERO) != 0;
  if (zero && copies && out && version >= version_code(2, 28, 3) && (in || version >= version_code(2, 29, 0))) {
    return Path::copy;
  }
  const bool has_symmetric = operation.call == Call::all_reduce || operation.call == Call::all_gather ||
                             operation.call == Call::reduce_scatter;
  return in && out && has_symmetric ? Path::symmetric_kernel : Path::kernel;
}

// OVL_EMULATED_NCCL_ASYNC (nccl.cpp).
bool breaks(ncclComm& comm) {
  const char* text = std::getenv("OVL_EMULATED_NCCL_ASYNC");
  if (text == nullptr) {
    return false;
  }
  int rank = 0;
  int which = 0;
  int code = ncclRemoteError;
  char colon = 0;
  std::istringstream(text) >> rank >> colon >> which >> colon >> code;
  static std::atomic<int> calls{0};
  if (comm.rank != rank || ++calls != which) {
    return false;
  }
  comm.async_error = code;
  return true;
}

template <class T>
T* touch(T* device, std::size_t bytes, bool needed) {
  if (!needed || bytes == 0) {
    return nullptr;
  }
  auto* memory = address(device, bytes);
  if (memory == nullptr) {
    violation("a collective runs on memory that was freed");
  }
  return static_cast<T*>(static_cast<void*>(memory));
}

void run_collective(const Operation& operation, const Footprint& footprint) {
  const Comm& comm = operation.comm;
  const auto* in = touch(static_cast<const std::byte*>(operation.in), footprint.in_bytes, footprint.reads);
  auto* out = touch(static_cast<std::byte*>(operation.out), footprint.out_bytes, footprint.writes);
  const Stop stop = [comm] { return comm->stopped(); };
  const Party party{.segment = *comm->segment, .rank = comm->rank, .stop = stop};
  switch (operation.call) {
    case Call::all_reduce: all_reduce(party, operation.element, in, out, operation.count); break;
    case Call::all_gather: all_gather(party, operation.element, in, out, operation.count); break;
    case Call::reduce_scatter: reduce_scatter(party, operation.element, in, out, operation.count); break;
    case Call::broadcast: broadcast(party, operation.element, in, out, operation.count, operation.peer); break;
    case Call::all_to_all: all_to_all(party, operation.element, in, out, operation.count); break;
    case Call::send:
    case Call::receive: break;
  }
}

void run_exchange(const std::vector<Operation>& operations) {
  const Comm& comm = operations.front().comm;
  std::vector<Outgoing> sends;
  std::vector<Incoming> receives;
  for (const Operation& operation : operations) {
    const std::size_t bytes = operation.count * size_of(operation.element);
    if (operation.call == Call::send) {
      sends.push_back({operation.peer, touch(static_cast<const std::byte*>(operation.in), bytes, true), bytes});
    } else {
      receives.push_back({operation.peer, touch(static_cast<std::byte*>(operation.out), bytes, true), bytes});
    }
  }
  const Stop stop = [comm] { return comm->stopped(); };
  exchange({.segment = *comm->segment, .rank = comm->rank, .stop = stop}, sends, receives);
}

// A captured task has its turn when it is replayed: it cannot know beforehand how often that is. On parallel branches
// of one graph that is the order in which they come, where NCCL would have added an edge.
cudaError_t enqueue_in_turn(const Comm& comm, cudaStream_t stream, Task task, std::function<void()> work) {
  std::optional<std::uint64_t> ticket;
  if (!is_capturing(stream)) {
    ticket = comm->queue.enter();
  }
  const bool broken = breaks(*comm);
  task.run = [comm, ticket, broken, work = std::move(work)] {
    if (comm->destroyed) {
      violation("work of a communicator runs after it was destroyed");
    }
    ++comm->running;
    const std::uint64_t mine = ticket ? *ticket : comm->queue.enter();
    const Stop stop = [&] { return comm->stopped(); };
    const bool my_turn = wait_until([&] { return !broken && comm->queue.is_turn(mine); }, stop);
    if (my_turn && !comm->stopped()) {
      work();
    }
    comm->queue.leave(mine);
    --comm->running;
  };
  const cudaError_t status = enqueue(stream, std::move(task));
  if (status != cudaSuccess && ticket) {
    comm->queue.leave(*ticket);
  }
  return status;
}

cudaError_t enqueue_collective(const Operation& operation, cudaStream_t stream) {
  const Footprint footprint = footprint_of(operation);
  require_separate_or_in_place(operation, footprint);
  const Path path = path_of(operation, footprint);
  if (path == Path::nothing) {
    return cudaSuccess;
  }
  Task task;
  if (footprint.reads) {
    task.ranges.push_back({operation.in, footprint.in_bytes, Access::read});
  }
  if (footprint.writes) {
    task.ranges.push_back({operation.out, footprint.out_bytes, Access::write});
  }
  const std::size_t bytes = std::max(footprint.in_bytes, footprint.out_bytes);
  if (path == Path::copy) {
    task.name = "memcpy";
    task.copy = true;
    task.bytes = bytes;
  } else {
    const bool symmetric = path == Path::symmetric_kernel;
    task.name = kernel_name(name_of(operation.call), name_of(operation.element), symmetric);
    task.blocks = symmetric ? symmetric_ctas_of(operation.settings, bytes) : ctas_of(operation.settings, bytes);
    task.threads = operation.call == Call::all_to_all ? 640 : 544;
    task.registers = 96;
    task.shared_bytes = 82240;
    task.all_blocks_began = operation.all_began;
  }
  return enqueue_in_turn(operation.comm, stream, std::move(task),
                         [operation, footprint] { run_collective(operation, footprint); });
}

cudaError_t enqueue_exchange(const std::vector<Operation>& operations, cudaStream_t stream) {
  Task task;
  std::size_t most = 0;
  for (const Operation& operation : operations) {
    const Footprint footprint = footprint_of(operation);
    if (footprint.reads) {
      task.ranges.push_back({operation.in, footprint.in_bytes, Access::read});
    } else {
      task.ranges.push_back({operation.out, footprint.out_bytes, Access::write});
    }
    most = std::max({most, footprint.in_bytes, footprint.out_bytes});
  }
  const Operation& first = operations.front();
  task.name = kernel_name("SendRecv", "", false);
  task.blocks = ctas_of(first.settings, most);
  task.threads = 640;
  task.registers = 96;
  task.shared_bytes = 82240;
  return enqueue_in_turn(first.comm, stream, std::move(task), [operations] { run_exchange(operations); });
}

// `after` waits for what `before` has so far.
cudaError_t join(cudaStream_t before, cudaStream_t after) {
  cudaEvent_t event = nullptr;
  cudaError_t status = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  if (status != cudaSuccess) {
    return status;
  }
  status = cudaEventRecord(event, before);
  if (status == cudaSuccess) {
    status = cudaStreamWaitEvent(after, event, 0);
  }
  const cudaError_t destroyed = cudaEventDestroy(event);
  return status != cudaSuccess ? status : destroyed;
}

// NCCL makes its device current for a launch, whichever the caller's is.
class OnDevice {
 public:
  explicit OnDevice(int device) : before_(current_device()), changed_(before_ != device) {
    if (changed_) {
      status_ = cudaSetDevice(device);
    }
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() {
    if (changed_ && cudaSetDevice(before_) != cudaSuccess) {
      violation("the caller's device cannot be made current again");
    }
  }
  [[nodiscard]] cudaError_t status() const { return status_; }

 private:
  int before_;
  bool changed_;
  cudaError_t status_ = cudaSuccess;
};

cudaError_t enqueue_all(const std::vector<Operation>& operations) {
  const OnDevice device(operations.front().comm->device);
  cudaError_t status = device.status();
  const cudaStream_t first = operations.front().stream;
  std::set<cudaStream_t> others;
  std::vector<Operation> point_to_point;
  for (const Operation& operation : operations) {
    if (operation.stream != first) {
      others.insert(operation.stream);
    }
    if (is_point_to_point(operation.call)) {
      point_to_point.push_back(operation);
    }
  }
  for (const cudaStream_t other : others) {
    status = status == cudaSuccess ? join(other, first) : status;
  }
  for (const Operation& operation : operations) {
    if (status == cudaSuccess && !is_point_to_point(operation.call)) {
      status = enqueue_collective(operation, first);
    }
  }
  if (status == cudaSuccess && !point_to_point.empty()) {
    status = enqueue_exchange(point_to_point, first);
  }
  for (const cudaStream_t other : others) {
    status = status == cudaSuccess ? join(first, other) : status;
  }
  return status;
}

}  // namespace

ncclResult_t launch(const std::vector<Operation>& operations) {
  return enqueue_all(operations) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

}  // namespace ovl::emulation::nccl
