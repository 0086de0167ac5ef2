// SPDX-License-Identifier: Apache-2.0
//
// The emulated device, as the shims of cuBLASLt, NCCL, NVML and CUPTI see it. The cudart shim (libcudart.so) implements
// and exports this; the others link it. A test double: it keeps CUDA's semantics where users would be fooled otherwise
// and is strict where a GPU is silent. Device memory lies where the host cannot touch it; inside a task it is reached
// through address().
//
// Settings, from the environment:
//   OVL_EMULATED_GPUS=n            devices (default 1)
//   OVL_EMULATED_CAPABILITY=90     compute capability
//   OVL_EMULATED_SMS=132
//   OVL_EMULATED_NCCL=22809        the version that NCCL pretends to be
//   OVL_EMULATED_DRIVER=13000      0: no driver (cudaErrorInsufficientDriver)
//   OVL_EMULATED_MEMORY=2147483648   bytes of a device
//   OVL_EMULATED_FAIL=call:k[:code][:once]  the k-th call (from 1) of that entry point fails; "*:k": the k-th call of
//                                  any. A code of 700 and more of cuda* and cu* stays for all later calls but for
//                                  "once"
//                                  For k also a site, "<file>+0x<offset>": the first call from there
//   OVL_EMULATED_SITES=FILE        appends every distinct call site when it is first seen, a line each:
//                                  "<entry point> <which call of it, from 1> <file>+0x<offset>"
//   OVL_EMULATED_COUNTS=FILE       what was called how often, when the process ends: "<entry point> <calls>" a line
//   CUDA_VISIBLE_DEVICES           as CUDA reads it, numbers only
//   OVL_EMULATED_WITHOUT=a,b       what this driver lacks: wait_value, green_contexts, launch_completion, cupti, nvml
// What NVML tells is at the top of nvml.cpp.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ovl::emulation {

enum class Access { read, write };
struct Range {
  const void* device = nullptr;
  std::size_t bytes = 0;
  Access access = Access::read;
};

// What a stream runs in order. Ranges are checked when it is enqueued (live allocation, right device; a copy may touch
// any device) and for order against what other streams do to the same memory (a race is a violation). The first kernel
// of a name on a device is a module load, which waits for the device to be idle; names that begin with "nccl" were
// loaded with their communicator.
struct Task {
  std::string name;  // kernel name, "memcpy", "ncclDevKernel_AllReduce", ...
  std::vector<Range> ranges;
  std::function<void()> run;
  int blocks = 1;  // what CUPTI tells
  int threads = 1;
  int registers = 32;
  int shared_bytes = 0;
  bool copy = false;  // a copy engine's work: no SMs
  cudaEvent_t all_blocks_began = nullptr;
  std::uint64_t bytes = 0;  // what CUPTI tells of a copy
};

// Enqueues, or adds to the graph that the stream captures into. Takes the calling thread's CUPTI tag along.
cudaError_t enqueue(cudaStream_t stream, Task task);
bool is_capturing(cudaStream_t stream);
int device_of(cudaStream_t stream);
int current_device();

// The address where [device, device + bytes) can be touched by a task; nullptr where it is not inside one live
// allocation (mapped host memory: itself).
std::byte* address(const void* device, std::size_t bytes);
// Device memory on the current device, for ncclMemAlloc.
cudaError_t allocate(void** device, std::size_t bytes);
cudaError_t deallocate(void* device);

// True when this call shall fail (OVL_EMULATED_FAIL); every entry point of every shim asks first, with
// __builtin_return_address(0) as the site. `code` is what to return then: the given one, or the entry point's usual
// one. An entry point that releases something releases it all the same.
bool fails(const char* call, void* site, int usual, int* code);

// An error that the program never reads is ignored, and enqueueing more work after it is a violation. Every entry point
// of every shim tells what it returned where that is an error; those that put an error into words or hand out the last
// one (cudaGetErrorName, cudaGetLastError, ncclGetErrorString, cublasLtGetStatusString ...) tell that it was read.
// enqueue() asks itself. All of the calling thread.
void failed(const char* call, int code);
void read_error();
void must_have_read_error(const char* call);

// The error that stays once the context is broken, e.g. cudaErrorIllegalAddress; cudaSuccess: none. What tasks do is
// skipped from then on.
cudaError_t sticky_error();
void break_context(cudaError_t error);

// A mistake of the program that a GPU would not tell: printed to stderr as "cuda_emulation: <what>", and the process
// ends with status 86 (at once; leaks when the process ends).
[[noreturn]] void violation(const std::string& what);

// A task that waits (for a peer, for the host) polls this: the process is being torn down, or its context is broken.
bool stopping();

// Checked when the process ends: "n live <what>" is a leak.
void count_live(const char* what, int change);

// Event times are the steady clock plus this; by default each device's is another 1000 s off.
void set_clock_offset(int device, std::int64_t nanoseconds);

// What OVL_EMULATED_* says, for the other shims.
int devices();
int capability();  // 90
int sms();
int driver_version();
bool without(const char* what);

struct KernelSpan {
  std::uint64_t tag;
  std::string name;
  std::uint64_t start_ns;
  std::uint64_t end_ns;
  int device;
  int blocks;
  int threads;
  int registers;
  int shared_bytes;
  bool copy;
  std::uint32_t correlation;
  std::uint32_t stream;
  std::uint64_t bytes;  // copies
};
// CUPTI: while on, what tasks did is kept; taking it empties the list.
void record_spans(bool on);
std::vector<KernelSpan> take_spans();
void push_tag(std::uint64_t tag);
std::uint64_t pop_tag();

}  // namespace ovl::emulation
