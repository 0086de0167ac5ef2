// SPDX-License-Identifier: Apache-2.0
//
// Kernels: registered as nvcc's stubs do it, launched as the harness does it, run as their host twins.
#include "kernels/cuda/device_kernels.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "emulator.hpp"
#include "owners.hpp"

extern "C" {
void** __cudaRegisterFatBinary(void* binary);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaRegisterFunction(void** handle, const char* function, char* device_function, const char* name,
                            int thread_limit, uint3* thread, uint3* block, dim3* block_size, dim3* grid_size,
                            int* warp_size);
}

namespace ovl::emulation {
namespace {

// A kernel's stub is only an address here.
const void* registered(const char* name) {
  static std::map<std::string, char> stubs;
  const auto [stub, first] = stubs.emplace(name, '\0');
  if (first) {
    void** handle = __cudaRegisterFatBinary(nullptr);
    __cudaRegisterFunction(handle, &stub->second, nullptr, name, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
    __cudaRegisterFatBinaryEnd(handle);
  }
  return &stub->second;
}

struct TestLaunch {
  unsigned int blocks = 1;
  unsigned int threads = 1;
  std::size_t shared = 0;
  cudaEvent_t began = nullptr;
};

template <class Args>
cudaError_t launch(const char* kernel, Args args, cudaStream_t stream, const TestLaunch& shape = {}) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeLaunchCompletionEvent;
  attribute.val.launchCompletionEvent.event = shape.began;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(shape.blocks);
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = shape.began == nullptr ? 0 : 1;
  std::array<void*, 1> list{&args};
  return cudaLaunchKernelExC(&config, registered(kernel), list.data());
}

// 1 + 2 + 3 = 6 and 10 + 20 + 30 = 60, on memory that the host cannot touch.
TEST(EmulatedKernels, ComputeWhatTheirTwinsDo) {
  const TestStream stream;
  const TestMemory memory(6 * sizeof(float));
  const std::array<float, 6> in{1, 10, 2, 20, 3, 30};
  ok(cudaMemcpy(memory.device, in.data(), sizeof(in), cudaMemcpyHostToDevice));
  kernels::ElementwiseArgs args{};
  args.out = memory.device;
  args.in[0] = memory.at(2 * sizeof(float));
  args.in[1] = memory.at(4 * sizeof(float));
  args.inputs = 2;
  args.dtype = DType::f32;
  args.count = 2;
  ok(launch("ovl_elementwise", args, stream.stream, {.blocks = 2, .threads = 32}));
  ok(cudaStreamSynchronize(stream.stream));
  std::array<float, 6> out{};
  ok(cudaMemcpy(out.data(), memory.device, sizeof(out), cudaMemcpyDeviceToHost));
  EXPECT_EQ(out, (std::array<float, 6>{6, 60, 2, 20, 3, 30}));
}

// Only a slice is touched: the rest of the buffer stays, and its pointer is the buffer's, not the slice's.
TEST(EmulatedKernels, TouchTheSliceOnly) {
  const TestStream stream;
  const TestMemory memory(4 * sizeof(float));
  ok(cudaMemsetAsync(memory.device, 0, 4 * sizeof(float), stream.stream));
  kernels::FillArgs args{};
  args.out = memory.device;
  args.begin = 1;
  args.count = 2;
  args.dtype = DType::f32;
  args.pattern = kernels::Pattern::nothing;
  ok(launch("ovl_fill", args, stream.stream));
  ok(cudaStreamSynchronize(stream.stream));
  std::array<float, 4> out{};
  ok(cudaMemcpy(out.data(), memory.device, sizeof(out), cudaMemcpyDeviceToHost));
  EXPECT_EQ(out[0], 0.0F);
  EXPECT_NE(out[1], out[1]);  // not a number
  EXPECT_NE(out[2], out[2]);
  EXPECT_EQ(out[3], 0.0F);
}

TEST(EmulatedKernelsDeathTest, MustStayWithinTheirMemory) {
  const TestStream stream;
  const TestMemory memory(4 * sizeof(float));
  kernels::FillArgs args{};
  args.out = memory.device;
  args.begin = 3;
  args.count = 2;
  args.dtype = DType::f32;
  EXPECT_EXIT(launch("ovl_fill", args, stream.stream), testing::ExitedWithCode(86), "out of bounds: ovl_fill");
}

TEST(EmulatedKernelsDeathTest, MustHaveATwin) {
  const TestStream stream;
  EXPECT_EXIT(launch("ovl_unheard_of", kernels::BusyArgs{}, stream.stream), testing::ExitedWithCode(86),
              "kernel ovl_unheard_of has no host twin");
}

TEST(EmulatedKernels, RefuseAStreamOfAnotherDevice) {
  const TestStream stream;
  ok(cudaSetDevice(1));
  EXPECT_EQ(launch("ovl_busy", kernels::BusyArgs{0}, stream.stream), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
  ok(cudaSetDevice(0));
}

TEST(EmulatedKernels, RefuseShapesThatNoDeviceHas) {
  const TestStream stream;
  const kernels::BusyArgs args{0};
  EXPECT_EQ(launch("ovl_busy", args, stream.stream, {.threads = 1025}), cudaErrorInvalidConfiguration);
  cudaGetLastError();
  EXPECT_EQ(launch("ovl_busy", args, stream.stream, {.blocks = 0}), cudaErrorInvalidConfiguration);
  cudaGetLastError();
  EXPECT_EQ(launch("ovl_busy", args, stream.stream, {.shared = 48 * 1024 + 1}), cudaErrorInvalidValue);
  cudaGetLastError();
  const void* busy = registered("ovl_busy");
  ok(cudaFuncSetAttribute(busy, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024));
  ok(launch("ovl_busy", args, stream.stream, {.shared = 227 * 1024}));
  EXPECT_EQ(cudaFuncSetAttribute(busy, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024 + 1),
            cudaErrorInvalidValue);
  cudaGetLastError();
  ok(cudaStreamSynchronize(stream.stream));
  const int nothing = 0;
  cudaFuncAttributes attributes{};
  EXPECT_EQ(cudaFuncGetAttributes(&attributes, &nothing), cudaErrorInvalidDeviceFunction);
  cudaGetLastError();
}

// By threads 2048/256 = 8; by shared memory 228/(100 + 1) = 2; with all of it 1.
TEST(EmulatedKernels, TellTheirOccupancy) {
  const void* marker = registered("ovl_marker");
  int blocks = 0;
  ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, marker, 256, 0));
  EXPECT_EQ(blocks, 8);
  ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, marker, 256, 100 * 1024));
  EXPECT_EQ(blocks, 0);  // not asked for
  ok(cudaFuncSetAttribute(marker, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024));
  ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, marker, 256, 100 * 1024));
  EXPECT_EQ(blocks, 2);
  ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, marker, 256, 227 * 1024));
  EXPECT_EQ(blocks, 1);
  cudaFuncAttributes attributes{};
  ok(cudaFuncGetAttributes(&attributes, marker));
  EXPECT_EQ(attributes.maxDynamicSharedSizeBytes, 227 * 1024);
  EXPECT_EQ(attributes.numRegs, 32);
}

// 1024 threads of 64 registers are all 65536 of an SM; 640 of 96 leave none for a second block, as 100 KiB would not.
TEST(EmulatedKernels, OfOursThatStayHaveAnSmEach) {
  const void* occupy = registered("ovl_occupy");
  int blocks = 0;
  ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, occupy, 1024, 0));
  EXPECT_EQ(blocks, 1);
  const void* ring = registered("ovl_ring_proxy");
  ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, ring, 640, 0));
  EXPECT_EQ(blocks, 1);
  cudaFuncAttributes attributes{};
  ok(cudaFuncGetAttributes(&attributes, ring));
  EXPECT_EQ(attributes.numRegs, 96);
  EXPECT_EQ(attributes.localSizeBytes, 0U);
}

// Three SMs, held until another stream writes the word: which no order of streams is between, nor need be.
TEST(EmulatedKernels, LookAtAWordThatAnotherStreamWrites) {
  const TestStream holding;
  const TestStream other;
  const TestMemory word(4);
  const TestPinned<kernels::BlockReport> reports(3);
  const TestPinned<std::uint32_t> host(2);
  auto* write = driver_function<CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned int)>("cuStreamWriteValue32");
  ok(cudaMemsetAsync(word.device, 0, 4, holding.stream));
  ok(cudaFuncSetAttribute(registered("ovl_occupy"), cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024));
  const kernels::OccupyArgs args{
      .blocks = 3,
      .until = {static_cast<const std::uint32_t*>(word.device), 1, host.host, 60'000'000'000, host.host + 1},
      .reports = reports.host};
  ok(launch("ovl_occupy", args, holding.stream, {.blocks = 3, .threads = 1024, .shared = 227 * 1024}));
  ok(cudaStreamSynchronize(other.stream));
  EXPECT_EQ(cudaStreamQuery(holding.stream), cudaErrorNotReady);
  ASSERT_EQ(write(other.stream, reinterpret_cast<CUdeviceptr>(word.device), 1, 0), CUDA_SUCCESS);
  ok(cudaStreamSynchronize(holding.stream));
  std::set<std::uint64_t> sms;
  for (int i = 0; i < 3; ++i) {
    sms.insert(reports.host[i].began.sm);
    EXPECT_EQ(reports.host[i].began.sm, reports.host[i].ended.sm);
    EXPECT_LE(reports.host[i].began.nanoseconds, reports.host[i].ended.nanoseconds);
  }
  EXPECT_EQ(sms, (std::set<std::uint64_t>{0, 1, 2}));
  EXPECT_EQ(host.host[1], 0U);
}

// The kernel holds its stream; the event behind its start does not wait for its end.
TEST(EmulatedKernels, RecordTheirStart) {
  const TestStream one;
  const TestStream two;
  const TestEvent began(cudaEventDisableTiming);
  const TestEvent timed;
  const TestPinned<std::uint32_t> word(2);
  const kernels::SpinArgs spin{word.host, 1, word.host + 1, 60'000'000'000};
  ok(launch("ovl_busy", kernels::BusyArgs{0}, one.stream));
  ok(launch("ovl_spin", spin, one.stream, {.began = began.event}));
  ok(cudaStreamWaitEvent(two.stream, began.event, 0));
  ok(cudaStreamSynchronize(two.stream));
  EXPECT_EQ(cudaStreamQuery(one.stream), cudaErrorNotReady);
  std::atomic_ref<std::uint32_t>(word.host[0]) = 1;
  ok(cudaStreamSynchronize(one.stream));
  EXPECT_EQ(word.host[1], 0U);  // in time
  EXPECT_EQ(launch("ovl_busy", kernels::BusyArgs{0}, one.stream, {.began = timed.event}), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST(EmulatedKernelsDeathTest, RecordNoStartWhereTheDriverCannot) {
  const auto child = [] {
    setenv("OVL_EMULATED_WITHOUT", "launch_completion", 1);
    cudaError_t error = cudaSuccess;
    {
      const TestStream stream;
      const TestEvent began(cudaEventDisableTiming);
      error = launch("ovl_busy", kernels::BusyArgs{0}, stream.stream, {.began = began.event});
    }
    std::exit(error == cudaErrorNotSupported ? 3 : 4);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(3), "");
}

// The device's clock is put an hour and more ahead of the host's.
TEST(EmulatedKernels, StampOnTheClockOfTheirDevice) {
  const TestStream stream;
  const TestPinned<kernels::Stamp> stamp;
  set_clock_offset(0, 5'000'000'000'000);
  ok(launch("ovl_marker", kernels::MarkerArgs{stamp.host}, stream.stream));
  ok(cudaStreamSynchronize(stream.stream));
  const auto steady = std::chrono::steady_clock::now().time_since_epoch();
  const auto host = std::chrono::duration_cast<std::chrono::nanoseconds>(steady).count();
  const auto ahead = static_cast<std::int64_t>(stamp.host->nanoseconds) - host;
  EXPECT_LE(ahead, 5'000'000'000'000);
  EXPECT_GT(ahead, 4'900'000'000'000);
  EXPECT_EQ(stamp.host->sm, 0U);
}

// On a GPU too: a kernel that was never launched behind a closed gate may wait for it, since its module is loaded.
TEST(EmulatedKernels, AreLoadedWhenTheDeviceIsIdle) {
  TestGate gate;
  const TestStream held;
  const TestStream stream;
  const TestMemory memory(16);
  kernels::FingerprintArgs args{};
  args.data = memory.device;
  args.bytes = 8;
  args.hash = reinterpret_cast<std::uint64_t*>(memory.at(8));
  gate.close(held.stream);
  std::atomic<bool> launching{false};
  cudaError_t gated = cudaErrorUnknown;
  std::thread other([&] {
    launching = true;
    ok(launch("ovl_fingerprint", args, stream.stream));
    gated = cudaStreamQuery(held.stream);
  });
  while (!launching) std::this_thread::yield();
  EXPECT_EQ(cudaStreamQuery(held.stream), cudaErrorNotReady);
  gate.open();
  other.join();
  EXPECT_EQ(gated, cudaSuccess);
  gate.close(held.stream);  // is open: passes
  ok(launch("ovl_fingerprint", args, stream.stream));
  ok(cudaDeviceSynchronize());
}

// A census of the whole device: 132 blocks wait for each other, each on an SM of its own.
TEST(EmulatedKernels, RunOnAllSmsAtOnce) {
  const TestStream stream;
  const TestPinned<kernels::Stamp> stamps(132);
  const TestMemory arrived(sizeof(std::uint32_t));
  ok(cudaFuncSetAttribute(registered("ovl_census"), cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024));
  ok(cudaMemsetAsync(arrived.device, 0, sizeof(std::uint32_t), stream.stream));
  const kernels::CensusArgs args{stamps.host, static_cast<std::uint32_t*>(arrived.device), 132, 60'000'000'000};
  ok(launch("ovl_census", args, stream.stream, {.blocks = 132, .shared = 227 * 1024}));
  ok(cudaStreamSynchronize(stream.stream));
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 132; ++i) seen.insert(stamps.host[i].sm);
  EXPECT_EQ(seen.size(), 132U);
  EXPECT_EQ(*seen.begin(), 0U);
  EXPECT_EQ(*seen.rbegin(), 131U);
}

// The first 8 SMs and the other 124: a census of each sees its own, and only those.
TEST(EmulatedKernels, RunOnTheSmsOfTheirGreenContextOnly) {
  auto* resource_of = driver_function<CUresult(CUdevice, CUdevResource*, CUdevResourceType)>("cuDeviceGetDevResource");
  auto* split = driver_function<CUresult(CUdevResource*, unsigned int*, const CUdevResource*, CUdevResource*,
                                         unsigned int, unsigned int)>("cuDevSmResourceSplitByCount");
  auto* describe =
      driver_function<CUresult(CUdevResourceDesc*, CUdevResource*, unsigned int)>("cuDevResourceGenerateDesc");
  auto* create = driver_function<CUresult(CUgreenCtx*, CUdevResourceDesc, CUdevice, unsigned int)>("cuGreenCtxCreate");
  auto* stream_of = driver_function<CUresult(CUstream*, CUgreenCtx, unsigned int, int)>("cuGreenCtxStreamCreate");
  auto* destroy = driver_function<CUresult(CUgreenCtx)>("cuGreenCtxDestroy");
  ok(cudaFuncSetAttribute(registered("ovl_census"), cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024));
  CUdevResource all{};
  CUdevResource part{};
  CUdevResource rest{};
  unsigned int groups = 1;
  ASSERT_EQ(resource_of(0, &all, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
  ASSERT_EQ(split(&part, &groups, &all, &rest, 0, 8), CUDA_SUCCESS);
  struct Half {
    CUdevResource* resource;
    std::uint32_t sms;
    std::uint64_t first;
    std::uint64_t last;
  };
  for (const Half& half : {Half{&part, 8, 0, 7}, Half{&rest, 124, 8, 131}}) {
    CUdevResourceDesc descriptor = nullptr;
    CUgreenCtx context = nullptr;
    CUstream stream = nullptr;
    ASSERT_EQ(describe(&descriptor, half.resource, 1), CUDA_SUCCESS);
    ASSERT_EQ(create(&context, descriptor, 0, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_SUCCESS);
    ASSERT_EQ(stream_of(&stream, context, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
    {
      const TestPinned<kernels::Stamp> stamps(half.sms);
      const TestMemory arrived(sizeof(std::uint32_t));
      ok(cudaMemsetAsync(arrived.device, 0, sizeof(std::uint32_t), stream));
      const kernels::CensusArgs args{stamps.host, static_cast<std::uint32_t*>(arrived.device), half.sms,
                                     60'000'000'000};
      ok(launch("ovl_census", args, stream, {.blocks = half.sms, .shared = 227 * 1024}));
      ok(cudaStreamSynchronize(stream));
      std::set<std::uint64_t> seen;
      for (std::uint32_t i = 0; i < half.sms; ++i) seen.insert(stamps.host[i].sm);
      EXPECT_EQ(seen.size(), half.sms);
      EXPECT_EQ(*seen.begin(), half.first);
      EXPECT_EQ(*seen.rbegin(), half.last);
    }
    ok(cudaStreamDestroy(stream));
    EXPECT_EQ(destroy(context), CUDA_SUCCESS);
  }
}

}  // namespace
}  // namespace ovl::emulation
