// SPDX-License-Identifier: Apache-2.0
//
// Owners for the emulator's own tests, which must leave nothing: a leak fails the whole test program at its end.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "emulator.hpp"

namespace ovl::emulation {

inline void ok(cudaError_t status) { ASSERT_EQ(cudaGetErrorName(status), std::string("cudaSuccess")); }

// A task that is no kernel, so that there is no module to load, which would wait for the device.
inline Task work(std::function<void()> run, std::vector<Range> ranges = {}, const char* name = "work") {
  Task task;
  task.name = name;
  task.ranges = std::move(ranges);
  task.run = std::move(run);
  task.copy = true;
  return task;
}

struct TestStream {
  explicit TestStream(int priority = 0) { ok(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority)); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  ~TestStream() { ok(cudaStreamDestroy(stream)); }
  cudaStream_t stream = nullptr;
};

struct TestEvent {
  explicit TestEvent(unsigned int flags = cudaEventDefault) { ok(cudaEventCreateWithFlags(&event, flags)); }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;
  ~TestEvent() { ok(cudaEventDestroy(event)); }
  cudaEvent_t event = nullptr;
};

struct TestMemory {
  explicit TestMemory(std::size_t bytes) { ok(cudaMalloc(&device, bytes)); }
  TestMemory(const TestMemory&) = delete;
  TestMemory& operator=(const TestMemory&) = delete;
  ~TestMemory() { ok(cudaFree(device)); }
  [[nodiscard]] std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(device) + offset; }
  void* device = nullptr;
};

template <class T>
struct TestPinned {
  explicit TestPinned(std::size_t count = 1) {
    void* memory = nullptr;
    ok(cudaHostAlloc(&memory, count * sizeof(T), cudaHostAllocMapped));
    host = static_cast<T*>(memory);
    for (std::size_t i = 0; i < count; ++i) host[i] = T{};
  }
  TestPinned(const TestPinned&) = delete;
  TestPinned& operator=(const TestPinned&) = delete;
  ~TestPinned() { ok(cudaFreeHost(host)); }
  T* host = nullptr;
};

// A driver's function by its name; nullptr where there is none.
template <class Function>
Function* driver_function(const char* name) {
  void* pointer = nullptr;
  cudaDriverEntryPointQueryResult result{};
  ok(cudaGetDriverEntryPointByVersion(name, &pointer, 12040, cudaEnableDefault, &result));
  EXPECT_EQ(result == cudaDriverEntryPointSuccess, pointer != nullptr);
  return reinterpret_cast<Function*>(pointer);
}

// Holds streams until it is opened.
class TestGate {
 public:
  void close(cudaStream_t stream) {
    auto* wait = driver_function<CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned int)>("cuStreamWaitValue32");
    ASSERT_NE(wait, nullptr);
    const auto address = reinterpret_cast<CUdeviceptr>(word_.host);
    ASSERT_EQ(wait(stream, address, 1, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
  }
  void open() { std::atomic_ref<std::uint32_t>(*word_.host).store(1, std::memory_order_release); }

 private:
  TestPinned<std::uint32_t> word_;
};

}  // namespace ovl::emulation
