// SPDX-License-Identifier: Apache-2.0
//
// Kernels that nvcc compiled: caught where they register themselves, run as the host twin of the same name.
#include "kernels.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "device.hpp"
#include "entry.hpp"
#include "events.hpp"
#include "kernels/cuda/device_kernels.hpp"
#include "kernels/cuda/twins.hpp"
#include "streams.hpp"
#include "table.hpp"

namespace ovl::emulation {
namespace {

constexpr int threads_at_most = 1024;
constexpr int shared_without_asking = 48 * 1024;

struct Function {
  std::string name;
  int shared_at_most = shared_without_asking;
};

// Guarded by its mutex; books() is never taken within.
struct Functions {
  std::mutex mutex;
  std::map<const void*, Function> by_pointer;
  std::set<std::pair<std::string, int>> loaded;
};
Functions& functions() {
  static Functions* const functions = new Functions;
  return *functions;
}

struct Configuration {
  dim3 grid, block;
  std::size_t shared = 0;
  void* stream = nullptr;
};
thread_local std::vector<Configuration> configurations;

cudaError_t find(const void* pointer, Function* function) {
  const std::lock_guard lock(functions().mutex);
  const auto found = functions().by_pointer.find(pointer);
  if (found == functions().by_pointer.end()) return cudaErrorInvalidDeviceFunction;
  *function = found->second;
  return cudaSuccess;
}

const kernels::Twin& twin_of(const std::string& name) {
  for (const kernels::Twin& twin : kernels::twins()) {
    if (twin.name == name) return twin;
  }
  violation("kernel " + name + " has no host twin (kernels/host/device_twins.cpp)");
}

struct Launch {
  dim3 grid, block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
  cudaEvent_t all_blocks_began = nullptr;
};

// Attributes that change nothing here are taken as they are.
cudaError_t read_attributes(const cudaLaunchConfig_t& config, Launch* launch) {
  for (unsigned int i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    switch (attribute.id) {
      case cudaLaunchAttributeIgnore:
      case cudaLaunchAttributePriority:
      case cudaLaunchAttributeClusterDimension: break;
      case cudaLaunchAttributeLaunchCompletionEvent:
        if (without("launch_completion")) return cudaErrorNotSupported;
        launch->all_blocks_began = attribute.val.launchCompletionEvent.event;
        break;
      default: violation("launch attribute " + std::to_string(static_cast<int>(attribute.id)) + " is not emulated");
    }
  }
  return cudaSuccess;
}

cudaError_t check_event(const Launch& launch, const Stream& stream) {
  if (launch.all_blocks_began == nullptr) return cudaSuccess;
  const std::shared_ptr<Event> event = find_event(launch.all_blocks_began, "cudaLaunchKernelExC");
  if (event == nullptr || event->device != stream.device()) return cudaErrorInvalidResourceHandle;
  return event->timing ? cudaErrorInvalidValue : cudaSuccess;
}

// The arguments with their pointers made into addresses that the host can touch.
std::shared_ptr<std::vector<std::uint64_t>> translate(const kernels::Twin& twin, const void* arguments, Task* task) {
  auto copy = std::make_shared<std::vector<std::uint64_t>>((twin.argument_bytes + 7) / 8);
  std::memcpy(copy->data(), arguments, twin.argument_bytes);
  for (const kernels::Touch& touch : twin.touches(copy->data())) {
    const auto bytes = static_cast<std::size_t>(touch.bytes);
    const Access access = touch.access == kernels::Access::read ? Access::read : Access::write;
    if (bytes == 0 || touch.access == kernels::Access::poll) continue;
    task->ranges.push_back({static_cast<const std::byte*>(*touch.field) + touch.offset, bytes, access});
  }
  return copy;
}

// False: the device is broken, nobody waits for its tasks, and what this one would touch was given back meanwhile.
bool make_host_pointers(const kernels::Twin& twin, void* arguments, const std::string& name) {
  // All places first: what is touched may be computed from the fields.
  for (const kernels::Touch& touch : twin.touches(arguments)) {
    if (touch.bytes == 0) continue;
    const std::byte* begin = static_cast<const std::byte*>(*touch.field) + touch.offset;
    std::byte* memory = address(begin, static_cast<std::size_t>(touch.bytes));
    if (memory == nullptr) {
      if (stopping()) return false;
      violation("use after free: " + name + " runs on memory that is gone");
    }
    *touch.field = memory - touch.offset;
  }
  return true;
}

// Twins read the host's clock; what they stamp is told on the device's. Written here and not by the twin, since the
// host may be looking: the time comes last, and at once.
class Stamps {
 public:
  // Puts the twin's stamps elsewhere for now. `arguments` have host pointers.
  Stamps(const kernels::Twin& twin, void* arguments) {
    for (const kernels::Touch& touch : twin.touches(arguments)) {
      if (!touch.stamps) continue;
      out_ = static_cast<kernels::Stamp*>(*touch.field);
      own_.resize(static_cast<std::size_t>(touch.bytes) / sizeof(kernels::Stamp));
      *touch.field = own_.data();
    }
  }

  void write(int device) const {
    for (std::size_t i = 0; i < own_.size(); ++i) {
      out_[i].sm = own_[i].sm;
      const std::uint64_t now = own_[i].nanoseconds + static_cast<std::uint64_t>(clock_offset(device));
      std::atomic_ref<std::uint64_t>(out_[i].nanoseconds).store(now, std::memory_order_release);
    }
  }

 private:
  kernels::Stamp* out_ = nullptr;
  std::vector<kernels::Stamp> own_;
};

// Threads, registers and shared memory of an SM, whichever runs out first.
int blocks_of_sm(int threads, int registers, std::size_t shared) {
  const int warps = (threads + 31) / 32;
  const int by_registers = 65536 / (warps * 32 * ((registers + 7) / 8 * 8));           // given out in eights
  const int by_shared = (shared_opt_in() + 1024) / (static_cast<int>(shared) + 1024);  // a block takes 1 KiB itself
  return std::min({32, 2048 / (warps * 32), by_registers, by_shared});
}

using Block = std::function<void(int)>;

// Blocks that hold shared memory may wait for each other: as many as the SMs hold run at once. The others need not.
void run_blocks(int blocks, std::size_t at_once, const Block& run) {
  if (at_once <= 1) {
    for (int block = 0; block < blocks; ++block) run(block);
    return;
  }
  std::atomic<int> next{0};
  const std::size_t resident = std::min(static_cast<std::size_t>(blocks), at_once);
  std::vector<std::thread> threads;
  threads.reserve(resident);
  for (std::size_t i = 0; i < resident; ++i) {
    threads.emplace_back([&] {
      for (int block = next++; block < blocks; block = next++) run(block);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

cudaError_t launch_kernel(const void* pointer, const Launch& launch, void** arguments) {
  Function function;
  if (const cudaError_t error = find(pointer, &function); error != cudaSuccess) return error;
  const std::shared_ptr<Stream> stream = find_stream(launch.stream, function.name.c_str());
  if (stream == nullptr || stream->device() != current_device()) return cudaErrorInvalidResourceHandle;
  const std::size_t blocks = std::size_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  const std::size_t threads = std::size_t{launch.block.x} * launch.block.y * launch.block.z;
  if (blocks == 0 || threads == 0 || threads > threads_at_most || blocks > 0x7fffffff) {
    return cudaErrorInvalidConfiguration;
  }
  if (launch.shared > static_cast<std::size_t>(function.shared_at_most)) return cudaErrorInvalidValue;
  if (const cudaError_t error = check_event(launch, *stream); error != cudaSuccess) return error;

  const kernels::Twin& twin = twin_of(function.name);
  Task task;
  task.name = function.name;
  task.blocks = static_cast<int>(blocks);
  task.threads = static_cast<int>(threads);
  task.registers = twin.registers;
  task.shared_bytes = static_cast<int>(launch.shared);
  task.all_blocks_began = launch.all_blocks_began;
  const auto copy = translate(twin, arguments[0], &task);
  const auto of_sm = static_cast<std::size_t>(blocks_of_sm(task.threads, twin.registers, launch.shared));
  const std::size_t at_once = launch.shared == 0 ? 1 : stream->sms().size() * of_sm;
  task.run = [&twin, copy, at_once, count = task.blocks, sms = stream->sms(), device = stream->device(),
              name = function.name] {
    std::vector<std::uint64_t> own = *copy;  // a graph runs it again
    if (!make_host_pointers(twin, own.data(), name)) return;
    const Stamps stamps(twin, own.data());
    const std::function<bool()> stop = stopping;
    run_blocks(count, at_once, [&](int block) {
      twin.run(own.data(), block, count, sms[static_cast<std::size_t>(block) % sms.size()], stop);
    });
    stamps.write(device);
  };
  return enqueue(launch.stream, std::move(task));
}

cudaError_t attributes_of(cudaFuncAttributes* attributes, const void* pointer) {
  Function function;
  if (const cudaError_t error = find(pointer, &function); error != cudaSuccess) return error;
  load_kernel(function.name, current_device());
  *attributes = {};
  attributes->numRegs = twin_of(function.name).registers;
  attributes->maxThreadsPerBlock = threads_at_most;
  attributes->maxDynamicSharedSizeBytes = function.shared_at_most;
  attributes->binaryVersion = capability();
  attributes->ptxVersion = capability();
  return cudaSuccess;
}

cudaError_t set_attribute(const void* pointer, cudaFuncAttribute attribute, int value) {
  const std::lock_guard lock(functions().mutex);
  const auto found = functions().by_pointer.find(pointer);
  if (found == functions().by_pointer.end()) return cudaErrorInvalidDeviceFunction;
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > shared_opt_in()) {
    return cudaErrorInvalidValue;
  }
  found->second.shared_at_most = value;
  return cudaSuccess;
}

cudaError_t occupancy(int* blocks, const void* pointer, int threads, std::size_t shared) {
  Function function;
  if (const cudaError_t error = find(pointer, &function); error != cudaSuccess) return error;
  if (threads < 1 || threads > threads_at_most) return cudaErrorInvalidValue;
  *blocks = shared > static_cast<std::size_t>(function.shared_at_most)
                ? 0
                : blocks_of_sm(threads, twin_of(function.name).registers, shared);
  return cudaSuccess;
}

}  // namespace

void load_kernel(const std::string& name, int device) {
  {
    const std::lock_guard lock(functions().mutex);
    if (!functions().loaded.emplace(name, device).second) return;
  }
  wait_idle(device);
}

}  // namespace ovl::emulation

using ovl::emulation::Does;
using ovl::emulation::entry;

extern "C" {

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  return entry<cudaError_t>(
      __func__, __builtin_return_address(0), Does::work,
      [&] {
        ovl::emulation::Launch launch{config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream,
                                      nullptr};
        const cudaError_t error = ovl::emulation::read_attributes(*config, &launch);
        return error != cudaSuccess ? error : ovl::emulation::launch_kernel(function, launch, arguments);
      },
      cudaErrorLaunchOutOfResources);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes* attributes, const void* function) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query,
                            [&] { return ovl::emulation::attributes_of(attributes, function); });
}

cudaError_t cudaFuncSetAttribute(const void* function, enum cudaFuncAttribute attribute, int value) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query,
                            [&] { return ovl::emulation::set_attribute(function, attribute, value); });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                          size_t shared) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query,
                            [&] { return ovl::emulation::occupancy(blocks, function, threads, shared); });
}

// What nvcc's stubs call. They have no headers that a host compiler may include.

void** __cudaRegisterFatBinary(void* /*binary*/) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}
void __cudaUnregisterFatBinary(void** /*handle*/) {}
char __cudaInitModule(void** /*handle*/) { return 1; }

void __cudaRegisterFunction(void** /*handle*/, const char* function, char* /*device_function*/, const char* name,
                            int /*thread_limit*/, uint3* /*thread*/, uint3* /*block*/, dim3* /*block_size*/,
                            dim3* /*grid_size*/, int* /*warp_size*/) {
  const std::lock_guard lock(ovl::emulation::functions().mutex);
  ovl::emulation::functions().by_pointer[function].name = name;
}

void __cudaRegisterVar(void** /*handle*/, char* /*variable*/, char* /*address*/, const char* /*name*/, int /*external*/,
                       size_t /*bytes*/, int /*constant*/, int /*global*/) {}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  ovl::emulation::configurations.push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (ovl::emulation::configurations.empty()) return cudaErrorMissingConfiguration;
  const ovl::emulation::Configuration last = ovl::emulation::configurations.back();
  ovl::emulation::configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared;
  *static_cast<void**>(stream) = last.stream;
  return cudaSuccess;
}

// A kernel's handle is its host function.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                               cudaStream_t stream) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::work, [&] {
    return ovl::emulation::launch_kernel(kernel, {grid, block, shared, stream, nullptr}, arguments);
  });
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                             cudaStream_t stream) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::work, [&] {
    return ovl::emulation::launch_kernel(function, {grid, block, shared, stream, nullptr}, arguments);
  });
}

}  // extern "C"
