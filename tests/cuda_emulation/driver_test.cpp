// SPDX-License-Identifier: Apache-2.0
//
// The emulated driver: entry points by name, memory operations of streams, contexts and green contexts.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

#include "emulator.hpp"
#include "owners.hpp"

namespace ovl::emulation {
namespace {

using WaitValue = CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned int);

TEST(EmulatedDriver, IsAskedForByNameAndVersion) {
  void* pointer = nullptr;
  cudaDriverEntryPointQueryResult result{};
  ok(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &pointer, 12040, cudaEnableDefault, &result));
  EXPECT_NE(pointer, nullptr);
  EXPECT_EQ(result, cudaDriverEntryPointSuccess);
  ok(cudaGetDriverEntryPointByVersion("cuGreenCtxCreate", &pointer, 12000, cudaEnableDefault, &result));
  EXPECT_EQ(pointer, nullptr);
  EXPECT_EQ(result, cudaDriverEntryPointVersionNotSufficent);
  ok(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &pointer, 12040, cudaEnableDefault, &result));
  EXPECT_EQ(pointer, nullptr);
  EXPECT_EQ(result, cudaDriverEntryPointSymbolNotFound);
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", &pointer, 99000, cudaEnableDefault, &result),
            cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST(EmulatedDriverDeathTest, LacksWhatItIsToldToLack) {
  const auto child = [] {
    setenv("OVL_EMULATED_WITHOUT", "green_contexts,wait_value", 1);
    const bool waits = driver_function<WaitValue>("cuStreamWaitValue32") != nullptr;
    const bool splits = driver_function<WaitValue>("cuDevSmResourceSplitByCount") != nullptr;
    const bool contexts = driver_function<WaitValue>("cuCtxGetCurrent") != nullptr;
    std::exit(!waits && !splits && contexts ? 3 : 4);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(3), "");
}

// >= cyclically: 0xffffffff is one before 0.
TEST(EmulatedDriver, WaitsForAValue) {
  auto* wait = driver_function<WaitValue>("cuStreamWaitValue32");
  const TestStream stream;
  const TestPinned<std::uint32_t> word(2);
  const auto address = reinterpret_cast<CUdeviceptr>(word.host);
  const std::atomic_ref<std::uint32_t> value(word.host[0]);
  value = 5;
  for (const std::uint32_t reached : {5U, 4U, 0xffffffffU}) {
    EXPECT_EQ(wait(stream.stream, address, reached, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
  }
  EXPECT_EQ(wait(stream.stream, address, 5, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
  EXPECT_EQ(wait(stream.stream, address, 4, CU_STREAM_WAIT_VALUE_AND), CUDA_SUCCESS);
  EXPECT_EQ(wait(stream.stream, address, 5, CU_STREAM_WAIT_VALUE_NOR), CUDA_SUCCESS);
  ok(cudaStreamSynchronize(stream.stream));
  EXPECT_EQ(wait(stream.stream, address, 6, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
  EXPECT_EQ(cudaStreamQuery(stream.stream), cudaErrorNotReady);
  value = 6;
  ok(cudaStreamSynchronize(stream.stream));
}

TEST(EmulatedDriver, RefusesAWordThatIsNone) {
  auto* wait = driver_function<WaitValue>("cuStreamWaitValue32");
  const TestStream stream;
  const TestPinned<std::uint32_t> word(2);
  std::uint32_t own = 0;
  EXPECT_EQ(wait(stream.stream, reinterpret_cast<CUdeviceptr>(word.host) + 2, 0, 0), CUDA_ERROR_INVALID_VALUE);
  cudaGetLastError();
  EXPECT_EQ(wait(stream.stream, reinterpret_cast<CUdeviceptr>(&own), 0, 0), CUDA_ERROR_INVALID_VALUE);
  const char* text = nullptr;
  auto* words = driver_function<CUresult(CUresult, const char**)>("cuGetErrorString");
  EXPECT_EQ(words(CUDA_ERROR_INVALID_VALUE, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "invalid argument");
}

TEST(EmulatedDriver, WritesAValueInOrder) {
  auto* write = driver_function<WaitValue>("cuStreamWriteValue32");
  TestGate gate;
  const TestStream stream;
  const TestPinned<std::uint32_t> word;
  gate.close(stream.stream);
  EXPECT_EQ(write(stream.stream, reinterpret_cast<CUdeviceptr>(word.host), 7, 0), CUDA_SUCCESS);
  EXPECT_EQ(std::atomic_ref<std::uint32_t>(*word.host).load(), 0U);
  gate.open();
  ok(cudaStreamSynchronize(stream.stream));
  EXPECT_EQ(*word.host, 7U);
}

TEST(EmulatedDriver, HasAContextForEachDevice) {
  auto* get = driver_function<CUresult(CUcontext*)>("cuCtxGetCurrent");
  auto* set = driver_function<CUresult(CUcontext)>("cuCtxSetCurrent");
  CUcontext first = nullptr;
  CUcontext second = nullptr;
  EXPECT_EQ(get(&first), CUDA_SUCCESS);
  ok(cudaSetDevice(1));
  EXPECT_EQ(get(&second), CUDA_SUCCESS);
  EXPECT_NE(first, second);
  EXPECT_EQ(set(first), CUDA_SUCCESS);
  int device = -1;
  ok(cudaGetDevice(&device));
  EXPECT_EQ(device, 0);
}

// ------------------------------------------------------------------------------------------------------ green contexts

CUdevResource all_sms_of_device() {
  auto* resource_of = driver_function<CUresult(CUdevice, CUdevResource*, CUdevResourceType)>("cuDeviceGetDevResource");
  CUdevResource all{};
  EXPECT_EQ(resource_of(0, &all, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
  return all;
}

CUresult split(CUdevResource* parts, unsigned int* count, const CUdevResource* all, CUdevResource* rest,
               unsigned int least) {
  auto* call = driver_function<CUresult(CUdevResource*, unsigned int*, const CUdevResource*, CUdevResource*,
                                        unsigned int, unsigned int)>("cuDevSmResourceSplitByCount");
  return call(parts, count, all, rest, 0, least);
}

// 132 = 16 x 8 + 4 on 9.0: at least 8, a multiple of 8.
TEST(EmulatedGreenContexts, SplitAsCapability90Does) {
  const CUdevResource all = all_sms_of_device();
  EXPECT_EQ(all.sm.smCount, 132U);
  unsigned int groups = 0;
  EXPECT_EQ(split(nullptr, &groups, &all, nullptr, 1), CUDA_SUCCESS);
  EXPECT_EQ(groups, 16U);
  EXPECT_EQ(split(nullptr, &groups, &all, nullptr, 9), CUDA_SUCCESS);
  EXPECT_EQ(groups, 8U);  // of 16
  CUdevResource part{};
  CUdevResource rest{};
  groups = 1;
  EXPECT_EQ(split(&part, &groups, &all, &rest, 20), CUDA_SUCCESS);
  EXPECT_EQ(groups, 1U);
  EXPECT_EQ(part.sm.smCount, 24U);
  EXPECT_EQ(rest.sm.smCount, 108U);
  EXPECT_EQ(split(&part, &groups, &all, &rest, 133), CUDA_ERROR_INVALID_VALUE);
  const CUdevResource made_up{};
  EXPECT_EQ(split(&part, &groups, &made_up, &rest, 8), CUDA_ERROR_INVALID_RESOURCE_TYPE);
  cudaGetLastError();
}

struct TestGreen {
  explicit TestGreen(CUdevResource resource) {
    auto* describe =
        driver_function<CUresult(CUdevResourceDesc*, CUdevResource*, unsigned int)>("cuDevResourceGenerateDesc");
    auto* create =
        driver_function<CUresult(CUgreenCtx*, CUdevResourceDesc, CUdevice, unsigned int)>("cuGreenCtxCreate");
    auto* stream_of = driver_function<CUresult(CUstream*, CUgreenCtx, unsigned int, int)>("cuGreenCtxStreamCreate");
    CUdevResourceDesc descriptor = nullptr;
    EXPECT_EQ(describe(&descriptor, &resource, 1), CUDA_SUCCESS);
    EXPECT_EQ(create(&context, descriptor, 0, 0), CUDA_ERROR_INVALID_VALUE);  // the flag is required
    cudaGetLastError();
    EXPECT_EQ(create(&context, descriptor, 0, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_SUCCESS);
    EXPECT_EQ(stream_of(&stream, context, CU_STREAM_DEFAULT, 0), CUDA_ERROR_INVALID_VALUE);  // must not block
    cudaGetLastError();
    EXPECT_EQ(stream_of(&stream, context, CU_STREAM_NON_BLOCKING, -1), CUDA_SUCCESS);
  }
  TestGreen(const TestGreen&) = delete;
  TestGreen& operator=(const TestGreen&) = delete;
  ~TestGreen() {
    ok(cudaStreamDestroy(stream));
    destroy();
  }
  void destroy() const {
    auto* call = driver_function<CUresult(CUgreenCtx)>("cuGreenCtxDestroy");
    EXPECT_EQ(call(context), CUDA_SUCCESS);
  }
  CUgreenCtx context = nullptr;
  CUstream stream = nullptr;
};

TEST(EmulatedGreenContextsDeathTest, MustNotBeDestroyedBeforeTheirStreams) {
  const CUdevResource all = all_sms_of_device();
  const TestGreen green(all);
  EXPECT_EXIT(green.destroy(), testing::ExitedWithCode(86), "cuGreenCtxDestroy leaks a stream of it");
}

}  // namespace
}  // namespace ovl::emulation
