// SPDX-License-Identifier: Apache-2.0
//
// What the emulated device is strict about where a GPU is silent, and the faults that it can be told to have. Each
// mistake ends the process with status 86 and a sentence, so each is made in a process of its own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "emulator.hpp"
#include "owners.hpp"

namespace ovl::emulation {
namespace {

using testing::ExitedWithCode;

Task reads(const void* device, std::size_t bytes) { return work({}, {{device, bytes, Access::read}}, "reader"); }
Task writes(const void* device, std::size_t bytes) { return work({}, {{device, bytes, Access::write}}, "writer"); }

// -------------------------------------------------------------------------------------------------------------- memory

TEST(EmulatorIsStrictDeathTest, AboutUseAfterFree) {
  const TestStream stream;
  void* memory = nullptr;
  ok(cudaMalloc(&memory, 16));
  ok(cudaFree(memory));
  EXPECT_EXIT(cudaMemsetAsync(memory, 0, 16, stream.stream), ExitedWithCode(86),
              "cuda_emulation: use after free: cudaMemsetAsync touches 16 bytes at 0x");
}

TEST(EmulatorIsStrictDeathTest, AboutTheEndOfAnAllocation) {
  const TestStream stream;
  const TestMemory memory(16);
  EXPECT_EXIT(cudaMemsetAsync(memory.at(1), 0, 16, stream.stream), ExitedWithCode(86),
              "out of bounds: cudaMemsetAsync touches 16 bytes at 0x.*, the allocation is 16 bytes at 0x");
}

TEST(EmulatorIsStrictDeathTest, AboutTheHostsMemory) {
  const TestStream stream;
  int own = 0;
  EXPECT_EXIT(enqueue(stream.stream, writes(&own, sizeof(own))), ExitedWithCode(86),
              "not device memory: writer touches 4 bytes");
}

TEST(EmulatorIsStrictDeathTest, AboutDoubleFree) {
  void* memory = nullptr;
  ok(cudaMalloc(&memory, 16));
  ok(cudaFree(memory));
  EXPECT_EXIT(cudaFree(memory), ExitedWithCode(86), "double free of 16 bytes");
}

// cudaFree waits for the memory's own device only; another one still copies from it.
TEST(EmulatorIsStrictDeathTest, AboutFreeingWhatAnotherDeviceUses) {
  const auto child = [] {
    void* memory = nullptr;
    ok(cudaMalloc(&memory, 16));
    ok(cudaSetDevice(1));
    TestGate gate;
    const TestStream stream;
    gate.close(stream.stream);
    ok(enqueue(stream.stream, reads(memory, 16)));
    cudaFree(memory);
  };
  EXPECT_EXIT(child(), ExitedWithCode(86), "freed in use: reader on stream .* may still touch 16 bytes at 0x");
}

TEST(EmulatorIsStrictDeathTest, AboutDestroyedHandles) {
  cudaEvent_t event = nullptr;
  ok(cudaEventCreateWithFlags(&event, cudaEventDefault));
  ok(cudaEventDestroy(event));
  const TestStream stream;
  EXPECT_EXIT(cudaEventRecord(event, stream.stream), ExitedWithCode(86), "cudaEventRecord: the event was destroyed");
  EXPECT_EXIT(cudaEventDestroy(event), ExitedWithCode(86), "cudaEventDestroy: the event was destroyed");
}

TEST(EmulatorIsStrictDeathTest, AboutLeaks) {
  const auto leak = [] {
    void* memory = nullptr;
    cudaMalloc(&memory, 16);
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
    std::exit(0);
  };
  EXPECT_EXIT(leak(), ExitedWithCode(86), "leak: 1 live device allocations, 1 live streams");
}

// ------------------------------------------------------------------------------------------------------------- devices

TEST(EmulatorIsStrictDeathTest, AboutTheCurrentDevice) {
  const TestStream stream;
  const TestMemory memory(16);
  const TestEvent event;
  const auto elsewhere = [&](auto call) {
    cudaSetDevice(1);
    call();
  };
  EXPECT_EXIT(elsewhere([&] { cudaMemsetAsync(memory.device, 0, 16, stream.stream); }), ExitedWithCode(86),
              "cudaMemsetAsync on a stream of device 0 while device 1 is current");
  EXPECT_EXIT(elsewhere([&] { cudaEventRecord(event.event, stream.stream); }), ExitedWithCode(86),
              "cudaEventRecord on a stream of device 0 while device 1 is current");
}

TEST(EmulatorIsStrictDeathTest, AboutAnotherDevicesMemory) {
  const TestMemory memory(16);
  const auto kernel_elsewhere = [&] {
    cudaSetDevice(1);
    const TestStream stream;
    Task task = writes(memory.device, 16);
    task.copy = false;
    enqueue(stream.stream, std::move(task));
  };
  EXPECT_EXIT(kernel_elsewhere(), ExitedWithCode(86),
              "wrong device: writer runs on device 1 and touches 16 bytes at 0x.* of device 0");
}

TEST(EmulatorIsStrictDeathTest, AboutStreamsThatWaitForTheDefaultStream) {
  cudaStream_t stream = nullptr;
  EXPECT_EXIT(cudaStreamCreateWithPriority(&stream, cudaStreamDefault, 0), ExitedWithCode(86),
              "without cudaStreamNonBlocking");
}

// --------------------------------------------------------------------------------------------------------------- order

TEST(EmulatorIsStrictDeathTest, AboutUnorderedAccess) {
  const TestMemory memory(64);
  const TestStream one;
  const TestStream two;
  ok(enqueue(one.stream, writes(memory.device, 64)));
  EXPECT_EXIT(enqueue(two.stream, reads(memory.at(60), 4)), ExitedWithCode(86),
              "unordered access: reader on stream .* reads 4 bytes at 0x.* while writer on stream .* writes there");
  EXPECT_EXIT(enqueue(two.stream, writes(memory.at(0), 1)), ExitedWithCode(86), "unordered access: writer");
}

TEST(EmulatorIsStrict, ButAllowsWhatIsOrdered) {
  const TestMemory memory(64);
  const TestStream one;
  const TestStream two;
  const TestEvent event(cudaEventDisableTiming);
  ok(enqueue(one.stream, writes(memory.device, 32)));
  ok(enqueue(one.stream, reads(memory.device, 64)));  // its own stream
  ok(enqueue(two.stream, reads(memory.at(32), 32)));  // two readers
  ok(enqueue(two.stream, writes(memory.at(64), 0)));  // nothing
  ok(cudaEventRecord(event.event, one.stream));
  ok(cudaStreamWaitEvent(two.stream, event.event, 0));
  ok(enqueue(two.stream, writes(memory.device, 64)));  // behind the event
  ok(cudaStreamSynchronize(two.stream));
  ok(enqueue(one.stream, writes(memory.device, 64)));  // the host has waited
}

// The deliberate mistakes of an order that is nearly right.
TEST(EmulatorIsStrictDeathTest, AboutAnEventOnTheWrongStreamOrTooEarly) {
  const TestMemory memory(64);
  const TestStream one;
  const TestStream two;
  const TestStream three;
  const TestEvent event(cudaEventDisableTiming);
  const auto recorded_on = [&](cudaStream_t stream) {
    enqueue(one.stream, writes(memory.device, 64));
    cudaEventRecord(event.event, stream);
    cudaStreamWaitEvent(two.stream, event.event, 0);
    enqueue(two.stream, reads(memory.device, 64));
  };
  EXPECT_EXIT(recorded_on(three.stream), ExitedWithCode(86), "unordered access: reader");
  const auto recorded_early = [&] {
    cudaEventRecord(event.event, one.stream);
    enqueue(one.stream, writes(memory.device, 64));
    cudaStreamWaitEvent(two.stream, event.event, 0);
    enqueue(two.stream, reads(memory.device, 64));
  };
  EXPECT_EXIT(recorded_early(), ExitedWithCode(86), "unordered access: reader");
  const auto waited_early = [&] {
    cudaStreamWaitEvent(two.stream, event.event, 0);  // never recorded: nothing to wait for
    enqueue(one.stream, writes(memory.device, 64));
    cudaEventRecord(event.event, one.stream);
    enqueue(two.stream, reads(memory.device, 64));
  };
  EXPECT_EXIT(waited_early(), ExitedWithCode(86), "unordered access: reader");
  recorded_on(one.stream);  // right
}

// A reader that is ordered must not hide the writer from one that is not.
TEST(EmulatorIsStrictDeathTest, AboutAThirdThatIsNotOrdered) {
  const TestMemory memory(64);
  const TestStream one;
  const TestStream two;
  const TestStream three;
  const TestEvent event(cudaEventDisableTiming);
  ok(enqueue(one.stream, writes(memory.device, 64)));
  ok(cudaEventRecord(event.event, one.stream));
  ok(cudaStreamWaitEvent(two.stream, event.event, 0));
  ok(enqueue(two.stream, reads(memory.device, 64)));
  EXPECT_EXIT(enqueue(three.stream, reads(memory.device, 64)), ExitedWithCode(86), "while writer on stream");
}

// The same race within a graph is found when it is launched.
TEST(EmulatorIsStrictDeathTest, AboutUnorderedAccessInAGraph) {
  const TestMemory memory(64);
  const TestStream one;
  const TestStream two;
  const TestEvent fork(cudaEventDisableTiming);
  const TestEvent join(cudaEventDisableTiming);
  const auto race = [&] {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    ok(cudaStreamBeginCapture(one.stream, cudaStreamCaptureModeThreadLocal));
    ok(cudaEventRecord(fork.event, one.stream));
    ok(cudaStreamWaitEvent(two.stream, fork.event, 0));
    ok(enqueue(one.stream, writes(memory.device, 64)));
    ok(enqueue(two.stream, writes(memory.device, 64)));
    ok(cudaEventRecord(join.event, two.stream));
    ok(cudaStreamWaitEvent(one.stream, join.event, 0));
    ok(cudaStreamEndCapture(one.stream, &graph));
    ok(cudaGraphInstantiate(&executable, graph, 0));
    cudaGraphLaunch(executable, one.stream);
  };
  EXPECT_EXIT(race(), ExitedWithCode(86), "unordered access: writer");
}

TEST(EmulatorIsStrictDeathTest, AboutAGraphWhoseMemoryIsGone) {
  const TestStream stream;
  const auto child = [&] {
    void* memory = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    ok(cudaMalloc(&memory, 16));
    ok(cudaStreamBeginCapture(stream.stream, cudaStreamCaptureModeThreadLocal));
    ok(enqueue(stream.stream, writes(memory, 16)));
    ok(cudaStreamEndCapture(stream.stream, &graph));
    ok(cudaGraphInstantiate(&executable, graph, 0));
    ok(cudaGraphLaunch(executable, stream.stream));
    ok(cudaFree(memory));
    cudaGraphLaunch(executable, stream.stream);
  };
  EXPECT_EXIT(child(), ExitedWithCode(86), "use after free: writer touches 16 bytes");
}

// -------------------------------------------------------------------------------------------------------------- errors

TEST(EmulatorIsStrictDeathTest, AboutIgnoredErrors) {
  const TestStream stream;
  const TestMemory memory(16);
  const auto ignore = [&] {
    void* more = nullptr;
    cudaMalloc(&more, std::size_t{1} << 40);
    cudaStreamSynchronize(stream.stream);  // allowed
    cudaMemsetAsync(memory.device, 0, 16, stream.stream);
  };
  EXPECT_EXIT(ignore(), ExitedWithCode(86),
              "ignored error: cudaMalloc returned 2, nobody read it, and the thread went on to cudaMemsetAsync");
}

TEST(EmulatorIsStrict, ButAllowsErrorsThatWereRead) {
  const TestStream stream;
  const TestMemory memory(16);
  void* more = nullptr;
  EXPECT_STREQ(cudaGetErrorName(cudaMalloc(&more, std::size_t{1} << 40)), "cudaErrorMemoryAllocation");
  ok(cudaMemsetAsync(memory.device, 0, 16, stream.stream));
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
}

TEST(EmulatorIsStrictDeathTest, AboutTasksThatThrow) {
  const auto throws = [] {
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
    enqueue(stream, work([] { throw std::runtime_error("why"); }, {}, "kernel"));
    cudaStreamSynchronize(stream);
  };
  EXPECT_EXIT(throws(), ExitedWithCode(86), "kernel threw why");
}

// -------------------------------------------------------------------------------------------------------------- faults

// Makes calls, then ends with a status that says which failed: 1, 2, 4 for the first, second and third cudaMalloc.
[[noreturn]] void three_allocations(const char* fail) {
  setenv("OVL_EMULATED_FAIL", fail, 1);
  int failures = 0;
  for (int i = 0; i < 3; ++i) {
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, 16);
    if (error != cudaSuccess) failures |= 1 << i;
    cudaGetLastError();
    cudaFree(memory);
  }
  std::exit(failures);
}

TEST(EmulatedFaultsDeathTest, HitTheCallThatIsAskedFor) {
  EXPECT_EXIT(three_allocations("cudaMalloc:2"), ExitedWithCode(2), "");
  EXPECT_EXIT(three_allocations("*:3"), ExitedWithCode(2), "");  // malloc, free, malloc
  EXPECT_EXIT(three_allocations("cudaEventRecord:1"), ExitedWithCode(0), "");
  EXPECT_EXIT(three_allocations("cudaMalloc"), ExitedWithCode(86), "OVL_EMULATED_FAIL=cudaMalloc is not understood");
}

TEST(EmulatedFaultsDeathTest, StayWhereTheyBreakTheContext) {
  EXPECT_EXIT(three_allocations("cudaMalloc:2:700"), ExitedWithCode(2 + 4), "");
  EXPECT_EXIT(three_allocations("cudaMalloc:2:700:once"), ExitedWithCode(2), "");
  EXPECT_EXIT(three_allocations("cudaMalloc:2:701"), ExitedWithCode(2), "");  // too many resources: does not stay
}

// A broken context ends what waits, and what is released is released.
TEST(EmulatedFaultsDeathTest, EndWhatWaits) {
  const auto child = [] {
    setenv("OVL_EMULATED_FAIL", "cudaMemsetAsync:1:719", 1);
    cudaStream_t stream = nullptr;
    void* memory = nullptr;
    cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
    cudaMalloc(&memory, 16);
    int status = 0;
    {
      TestGate gate;
      gate.close(stream);
      const cudaError_t first = cudaMemsetAsync(memory, 0, 16, stream);
      const cudaError_t second = cudaStreamSynchronize(stream);
      status = first == cudaErrorLaunchFailure && second == cudaErrorLaunchFailure &&
                       cudaGetLastError() == cudaErrorLaunchFailure && cudaGetLastError() == cudaErrorLaunchFailure
                   ? 3
                   : 4;
      cudaFree(memory);
      cudaStreamDestroy(stream);
    }
    std::exit(status);
  };
  EXPECT_EXIT(child(), ExitedWithCode(3), "");
}

TEST(EmulatedFaultsDeathTest, ReleaseAllTheSame) {
  const auto child = [] {
    setenv("OVL_EMULATED_FAIL", "cudaFree:1", 1);
    void* memory = nullptr;
    cudaMalloc(&memory, 16);
    std::exit(cudaFree(memory) == cudaErrorUnknown ? 3 : 4);  // 86 where it leaked
  };
  EXPECT_EXIT(child(), ExitedWithCode(3), "");
}

// One site that calls three times, then another: the fourth call.
TEST(EmulatedFaultsDeathTest, HaveSites) {
  setenv("OVL_TEST_SITES", (testing::TempDir() + "emulated_sites." + std::to_string(getpid())).c_str(), 0);
  const std::string file = std::getenv("OVL_TEST_SITES");  // the child's name for it too
  const auto child = [&file] {
    setenv("OVL_EMULATED_SITES", file.c_str(), 1);
    int device = 0;
    volatile int rounds = 3;  // not unrolled into three sites
    for (int i = 0; i < rounds; ++i) cudaGetDevice(&device);
    cudaGetDevice(&device);
    std::exit(3);
  };
  EXPECT_EXIT(child(), ExitedWithCode(3), "");
  std::ifstream in(file);
  std::string call;
  std::string where;
  int which = 0;
  ASSERT_TRUE(in >> call >> which >> where);
  EXPECT_EQ(call + " " + std::to_string(which), "cudaGetDevice 1");
  EXPECT_EQ(where.rfind("test_cuda_emulation+0x", 0), 0U);
  ASSERT_TRUE(in >> call >> which >> where);
  EXPECT_EQ(call + " " + std::to_string(which), "cudaGetDevice 4");
  EXPECT_FALSE(in >> call);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace ovl::emulation
