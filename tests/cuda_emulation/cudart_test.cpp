// SPDX-License-Identifier: Apache-2.0
//
// The emulated runtime: devices, memory, streams and events.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "emulator.hpp"
#include "owners.hpp"

namespace ovl::emulation {
namespace {

// ------------------------------------------------------------------------------------------------------------- devices

TEST(EmulatedDevices, SayThatTheyAreEmulatedAndDiffer) {
  int count = 0;
  ok(cudaGetDeviceCount(&count));
  ASSERT_EQ(count, 2);
  cudaDeviceProp first{};
  cudaDeviceProp second{};
  ok(cudaGetDeviceProperties(&first, 0));
  ok(cudaGetDeviceProperties(&second, 1));
  EXPECT_EQ(std::string(first.name).rfind("Emulated ", 0), 0U);
  EXPECT_EQ(first.major, 9);
  EXPECT_EQ(first.minor, 0);
  EXPECT_EQ(first.multiProcessorCount, 132);
  EXPECT_NE(std::memcmp(&first.uuid, &second.uuid, sizeof(first.uuid)), 0);
  std::array<char, 16> bus{};
  ok(cudaDeviceGetPCIBusId(bus.data(), bus.size(), 0));
  EXPECT_STREQ(bus.data(), "0000:17:00.0");
  ok(cudaDeviceGetPCIBusId(bus.data(), bus.size(), 1));
  EXPECT_STREQ(bus.data(), "0000:18:00.0");
}

TEST(EmulatedDevices, AreCurrentByThread) {
  ok(cudaSetDevice(1));
  int other = -1;
  std::thread([&] { ok(cudaGetDevice(&other)); }).join();
  EXPECT_EQ(other, 0);
  int mine = -1;
  ok(cudaGetDevice(&mine));
  EXPECT_EQ(mine, 1);
  ok(cudaSetDevice(0));
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
}

TEST(EmulatedDevices, TellPrioritiesAndAttributes) {
  int least = 1;
  int greatest = 1;
  ok(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT_EQ(least, 0);
  EXPECT_EQ(greatest, -5);
  int value = 0;
  ok(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  EXPECT_EQ(value, 232448);  // 227 KiB on 9.0
}

// Each of these starts a process of its own: settings are read once.
TEST(EmulatedDevicesDeathTest, AreNotThereWithoutADriver) {
  EXPECT_EXIT(
      {
        setenv("OVL_EMULATED_DRIVER", "0", 1);
        int count = 7;
        int version = 7;
        const cudaError_t error = cudaGetDeviceCount(&count);
        cudaDriverGetVersion(&version);
        std::exit(error == cudaErrorInsufficientDriver && count == 7 && version == 0 ? 3 : 4);
      },
      testing::ExitedWithCode(3), "");
}

TEST(EmulatedDevicesDeathTest, AreThoseThatAreVisible) {
  const auto child = [] {
    setenv("OVL_EMULATED_GPUS", "4", 1);
    setenv("CUDA_VISIBLE_DEVICES", "3,1", 1);
    int count = 0;
    cudaGetDeviceCount(&count);
    std::array<char, 16> bus{};
    cudaDeviceGetPCIBusId(bus.data(), bus.size(), 0);
    std::exit(count == 2 && bus.data() == std::string("0000:1A:00.0") ? 3 : 4);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(3), "");
}

TEST(EmulatedDevicesDeathTest, RefuseASettingThatTheyDoNotUnderstand) {
  EXPECT_EXIT(
      {
        setenv("OVL_EMULATED_SMS", "many", 1);
        int count = 0;
        cudaGetDeviceCount(&count);
      },
      testing::ExitedWithCode(86), "OVL_EMULATED_SMS=many is not understood; type a whole number");
}

// -------------------------------------------------------------------------------------------------------------- memory

TEST(EmulatedMemory, IsCopiedThereAndBack) {
  const TestMemory memory(4);
  const std::array<char, 4> in{'a', 'b', 'c', 'd'};
  std::array<char, 4> out{};
  ok(cudaMemcpy(memory.device, in.data(), 4, cudaMemcpyHostToDevice));
  ok(cudaMemcpy(out.data(), memory.device, 4, cudaMemcpyDeviceToHost));
  EXPECT_EQ(out, in);
  ok(cudaMemcpy(out.data(), memory.at(2), 2, cudaMemcpyDefault));
  EXPECT_EQ(out, (std::array<char, 4>{'c', 'd', 'c', 'd'}));
}

TEST(EmulatedMemory, IsNotZeroWhenItIsNew) {
  const TestMemory memory(3);
  std::array<unsigned char, 3> out{};
  ok(cudaMemcpy(out.data(), memory.device, 3, cudaMemcpyDeviceToHost));
  EXPECT_EQ(out, (std::array<unsigned char, 3>{0xA5, 0xA5, 0xA5}));
}

TEST(EmulatedMemory, RefusesACopyInTheOtherDirection) {
  const TestMemory memory(4);
  std::array<char, 4> host{};
  EXPECT_EQ(cudaMemcpy(memory.device, host.data(), 4, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

// As on a GPU: memory that is not pinned is there when the call returns.
TEST(EmulatedMemory, IsWaitedForWhereTheHostsIsPageable) {
  const TestStream stream;
  const TestMemory memory(2);
  std::array<char, 2> out{};
  ok(cudaMemsetAsync(memory.device, 7, 2, stream.stream));
  ok(cudaMemcpyAsync(out.data(), memory.device, 2, cudaMemcpyDeviceToHost, stream.stream));
  EXPECT_EQ(out, (std::array<char, 2>{7, 7}));
}

TEST(EmulatedMemory, IsCountedAndEnds) {
  std::size_t before = 0;
  std::size_t total = 0;
  ok(cudaMemGetInfo(&before, &total));
  {
    const TestMemory memory(1000);
    std::size_t now = 0;
    ok(cudaMemGetInfo(&now, &total));
    EXPECT_EQ(before - now, 1000U);
  }
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, before + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
}

TEST(EmulatedMemory, IsReachedByTasksThroughAnAddress) {
  const TestMemory memory(16);
  EXPECT_NE(address(memory.device, 16), nullptr);
  EXPECT_NE(address(memory.device, 16), static_cast<std::byte*>(memory.device));
  EXPECT_EQ(address(memory.at(4), 12), address(memory.device, 16) + 4);
  EXPECT_EQ(address(memory.at(4), 13), nullptr);  // beyond its end
  const TestPinned<int> pinned;
  EXPECT_EQ(address(pinned.host, sizeof(int)), reinterpret_cast<std::byte*>(pinned.host));
  const int own = 0;
  EXPECT_EQ(address(&own, sizeof(own)), nullptr);
}

TEST(EmulatedMemoryDeathTest, IsNotTheHosts) {
  const TestMemory memory(16);
  EXPECT_DEATH(*static_cast<volatile char*>(memory.device) = 1, "");
}

TEST(EmulatedMemory, HasADevicePointerWhereItIsPinned) {
  const TestPinned<int> pinned(2);
  void* device = nullptr;
  ok(cudaHostGetDevicePointer(&device, pinned.host + 1, 0));
  EXPECT_EQ(device, pinned.host + 1);
  int own = 0;
  EXPECT_EQ(cudaHostGetDevicePointer(&device, &own, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

// On a GPU too: what is allocated behind a closed gate waits for it.
TEST(EmulatedMemory, WaitsForTheDevice) {
  TestGate gate;
  const TestStream stream;
  gate.close(stream.stream);
  std::atomic<bool> allocating{false};
  cudaError_t gated = cudaErrorUnknown;
  std::thread other([&] {
    void* memory = nullptr;
    allocating = true;
    ok(cudaMalloc(&memory, 16));
    gated = cudaStreamQuery(stream.stream);
    ok(cudaFree(memory));
  });
  while (!allocating) std::this_thread::yield();
  EXPECT_EQ(cudaStreamQuery(stream.stream), cudaErrorNotReady);
  gate.open();
  other.join();
  EXPECT_EQ(gated, cudaSuccess);
}

// ------------------------------------------------------------------------------------------------------------- streams

TEST(EmulatedStreams, RunInOrder) {
  const TestStream stream;
  std::string seen;
  for (const char letter : std::string("abc")) {
    ok(enqueue(stream.stream, work([&seen, letter] { seen += letter; })));
  }
  ok(cudaStreamSynchronize(stream.stream));
  EXPECT_EQ(seen, "abc");
}

// Neither ends before the other has begun: they can only end when both run at once.
TEST(EmulatedStreams, RunAtTheSameTimeAsOthers) {
  const TestStream one;
  const TestStream two;
  std::atomic<int> arrived{0};
  const auto meet = [&arrived] {
    ++arrived;
    while (arrived < 2 && !stopping()) std::this_thread::yield();
  };
  ok(enqueue(one.stream, work(meet)));
  ok(enqueue(two.stream, work(meet)));
  ok(cudaDeviceSynchronize());
  EXPECT_EQ(arrived, 2);
}

TEST(EmulatedStreams, AreNotReadyWhileTheyAreHeld) {
  TestGate gate;
  const TestStream stream;
  EXPECT_EQ(cudaStreamQuery(stream.stream), cudaSuccess);
  gate.close(stream.stream);
  EXPECT_EQ(cudaStreamQuery(stream.stream), cudaErrorNotReady);
  gate.open();
  ok(cudaStreamSynchronize(stream.stream));
  EXPECT_EQ(cudaStreamQuery(stream.stream), cudaSuccess);
}

// 1022 tasks, the gate among them, are pending; the next call does not return before the gate has opened.
TEST(EmulatedStreams, BlockTheCallerWhenTheyAreDeep) {
  TestGate gate;
  const TestStream stream;
  gate.close(stream.stream);
  std::atomic<int> pending{1};
  std::atomic<bool> opened{false};
  bool had_opened = false;
  std::thread other([&] {
    while (pending < 1022) {
      ok(enqueue(stream.stream, work({})));
      ++pending;
    }
    ok(enqueue(stream.stream, work({})));
    had_opened = opened;
  });
  while (pending < 1022) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // gives a call that does not block the time to return
  opened = true;
  gate.open();
  other.join();
  EXPECT_TRUE(had_opened);
  ok(cudaStreamSynchronize(stream.stream));
}

TEST(EmulatedStreams, AreOfTheDeviceThatIsCurrent) {
  const TestStream stream;
  EXPECT_EQ(device_of(stream.stream), 0);
  ok(cudaSetDevice(1));
  const TestStream second;
  EXPECT_EQ(device_of(second.stream), 1);
  ok(cudaSetDevice(0));
}

// -------------------------------------------------------------------------------------------------------------- events

TEST(EmulatedEvents, OrderStreams) {
  TestGate gate;
  const TestStream one;
  const TestStream two;
  const TestEvent event;
  std::string seen;
  gate.close(one.stream);
  ok(enqueue(one.stream, work([&seen] { seen += 'a'; })));
  ok(cudaEventRecord(event.event, one.stream));
  ok(cudaStreamWaitEvent(two.stream, event.event, 0));
  ok(enqueue(two.stream, work([&seen] { seen += 'b'; })));
  EXPECT_EQ(cudaStreamQuery(two.stream), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(event.event), cudaErrorNotReady);
  gate.open();
  ok(cudaStreamSynchronize(two.stream));
  EXPECT_EQ(seen, "ab");
}

// A mistake that CUDA does not tell: there is nothing to wait for.
TEST(EmulatedEvents, AreNotWaitedForBeforeTheyAreRecorded) {
  const TestStream stream;
  const TestEvent event;
  ok(cudaStreamWaitEvent(stream.stream, event.event, 0));
  ok(cudaStreamSynchronize(stream.stream));
  EXPECT_EQ(cudaEventQuery(event.event), cudaSuccess);
  ok(cudaEventSynchronize(event.event));
}

TEST(EmulatedEvents, AreWaitedForAsTheyWereAtTheCall) {
  TestGate gate;
  const TestStream one;
  const TestStream two;
  const TestEvent event;
  ok(cudaEventRecord(event.event, one.stream));
  ok(cudaStreamWaitEvent(two.stream, event.event, 0));
  gate.close(one.stream);
  ok(cudaEventRecord(event.event, one.stream));  // a later record, behind the gate
  ok(cudaStreamSynchronize(two.stream));         // was not waited for
  EXPECT_EQ(cudaEventQuery(event.event), cudaErrorNotReady);
  gate.open();
  ok(cudaEventSynchronize(event.event));
}

// The clock is put forward by an hour and a second between the two, beside which what passes is nothing.
TEST(EmulatedEvents, TellTheTimeBetweenThem) {
  const TestStream stream;
  const TestEvent start;
  const TestEvent end;
  set_clock_offset(0, 0);
  ok(cudaEventRecord(start.event, stream.stream));
  ok(cudaStreamSynchronize(stream.stream));
  set_clock_offset(0, 3'601'000'000'000);
  ok(cudaEventRecord(end.event, stream.stream));
  ok(cudaStreamSynchronize(stream.stream));
  float milliseconds = 0;
  ok(cudaEventElapsedTime(&milliseconds, start.event, end.event));
  EXPECT_NEAR(milliseconds, 3'601'000.0F, 60'000.0F);
  ok(cudaEventElapsedTime(&milliseconds, end.event, start.event));
  EXPECT_LT(milliseconds, 0.0F);  // signed
}

TEST(EmulatedEvents, HaveNoTimeBetweenThemWhereThereIsNone) {
  const TestStream stream;
  const TestEvent recorded;
  const TestEvent never;
  const TestEvent untimed(cudaEventDisableTiming);
  ok(cudaEventRecord(recorded.event, stream.stream));
  ok(cudaEventRecord(untimed.event, stream.stream));
  ok(cudaStreamSynchronize(stream.stream));
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, recorded.event, untimed.event), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, recorded.event, never.event), cudaErrorInvalidResourceHandle);
  TestGate gate;
  const TestEvent held;
  gate.close(stream.stream);
  ok(cudaEventRecord(held.event, stream.stream));
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, recorded.event, held.event), cudaErrorNotReady);
  cudaGetLastError();
  gate.open();
  ok(cudaStreamSynchronize(stream.stream));
}

TEST(EmulatedEvents, AreOfTheDeviceThatTheyWereMadeOn) {
  const TestEvent event;
  ok(cudaSetDevice(1));
  {
    const TestStream second;
    EXPECT_EQ(cudaEventRecord(event.event, second.stream), cudaErrorInvalidResourceHandle);
    cudaGetLastError();
    const TestEvent there;
    const TestEvent end;
    ok(cudaEventRecord(there.event, second.stream));
    ok(cudaStreamSynchronize(second.stream));
    ok(cudaSetDevice(0));
    const TestStream first;
    ok(cudaStreamWaitEvent(first.stream, there.event, 0));  // across devices: allowed
    ok(cudaEventRecord(event.event, first.stream));
    ok(cudaStreamSynchronize(first.stream));
    float milliseconds = 0;
    EXPECT_EQ(cudaEventElapsedTime(&milliseconds, there.event, event.event), cudaErrorInvalidResourceHandle);
    cudaGetLastError();
  }
}

TEST(EmulatedErrors, HaveWords) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidResourceHandle), "cudaErrorInvalidResourceHandle");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidResourceHandle), "invalid resource handle");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code");
}

}  // namespace
}  // namespace ovl::emulation

int main(int argc, char** argv) {
  setenv("OVL_EMULATED_GPUS", "2", 0);
  testing::InitGoogleTest(&argc, argv);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  return RUN_ALL_TESTS();
}
