// SPDX-License-Identifier: Apache-2.0
//
// The emulated CUPTI and NVML.
#include <cupti.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "emulator.hpp"
#include "owners.hpp"

extern "C" {
int nvmlInit_v2();
int nvmlShutdown();
int nvmlSystemGetDriverVersion(char* text, unsigned int length);
int nvmlDeviceGetHandleByUUID(const char* uuid, const int** device);
int nvmlDeviceGetClockInfo(const int* device, int type, unsigned int* mhz);
int nvmlDeviceGetCurrentClocksEventReasons(const int* device, unsigned long long* reasons);
int nvmlDeviceGetPowerUsage(const int* device, unsigned int* milliwatts);
int nvmlDeviceGetTotalEnergyConsumption(const int* device, unsigned long long* millijoules);
}

namespace ovl::emulation {
namespace {

// --------------------------------------------------------------------------------------------------------------- CUPTI

#if CUDART_VERSION >= 13000
using KernelActivity = CUpti_ActivityKernel10;
using CopyActivity = CUpti_ActivityMemcpy6;
#else
using KernelActivity = CUpti_ActivityKernel9;
using CopyActivity = CUpti_ActivityMemcpy5;
#endif

struct Seen {
  std::string what;
  std::uint32_t correlation = 0;
  std::uint64_t number = 0;  // the tag, the blocks, or the bytes
  std::uint64_t nanoseconds = 0;
};
std::vector<Seen>& seen() {
  static std::vector<Seen> all;
  return all;
}

void CUPTIAPI request(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  *size = 512;  // holds few records: several buffers are asked for
  *buffer = new std::uint8_t[*size];
  *most = 0;
}

void CUPTIAPI complete(CUcontext /*context*/, std::uint32_t /*stream*/, std::uint8_t* buffer, std::size_t /*size*/,
                       std::size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    const void* raw = record;
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const auto& kernel = *static_cast<const KernelActivity*>(raw);
      seen().push_back(
          {kernel.name, kernel.correlationId, static_cast<std::uint64_t>(kernel.gridX), kernel.end - kernel.start});
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      const auto& set = *static_cast<const CUpti_ActivityMemset4*>(raw);
      seen().push_back({"memset", set.correlationId, set.bytes, set.end - set.start});
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      const auto& copy = *static_cast<const CopyActivity*>(raw);
      seen().push_back({"memcpy", copy.correlationId, copy.bytes, copy.end - copy.start});
    } else {
      const auto& tag = *static_cast<const CUpti_ActivityExternalCorrelation*>(raw);
      seen().push_back({"tag", tag.correlationId, tag.externalId, 0});
    }
  }
  delete[] buffer;
}

constexpr std::array kinds{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMSET,
                           CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};

TEST(EmulatedCupti, TellsWhatStreamsDidAndForWhom) {
  const TestStream stream;
  const TestMemory memory(16);
  std::array<char, 8> host{};
  ASSERT_EQ(cuptiActivityRegisterCallbacks(request, complete), CUPTI_SUCCESS);
  for (const CUpti_ActivityKind kind : kinds) ASSERT_EQ(cuptiActivityEnable(kind), CUPTI_SUCCESS);
  ASSERT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME), CUPTI_SUCCESS);
  const auto kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  std::uint64_t last = 0;
  EXPECT_EQ(cuptiActivityPushExternalCorrelationId(kind, 42), CUPTI_SUCCESS);
  Task kernel = work({}, {}, "kernel");
  kernel.copy = false;
  kernel.blocks = 24;
  ok(enqueue(stream.stream, kernel));
  EXPECT_EQ(cuptiActivityPopExternalCorrelationId(kind, &last), CUPTI_SUCCESS);
  EXPECT_EQ(last, 42U);
  EXPECT_EQ(cuptiActivityPopExternalCorrelationId(kind, &last), CUPTI_ERROR_QUEUE_EMPTY);
  ok(cudaMemsetAsync(memory.device, 0, 16, stream.stream));
  ok(cudaMemcpyAsync(host.data(), memory.device, 8, cudaMemcpyDeviceToHost, stream.stream));
  ok(cudaStreamSynchronize(stream.stream));
  ASSERT_EQ(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  for (const CUpti_ActivityKind on : kinds) ASSERT_EQ(cuptiActivityDisable(on), CUPTI_SUCCESS);
  ASSERT_EQ(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_RUNTIME), CUPTI_SUCCESS);
  ok(cudaMemsetAsync(memory.device, 0, 16, stream.stream));  // nobody looks any more
  ok(cudaStreamSynchronize(stream.stream));
  ASSERT_EQ(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  const std::vector<Seen> all = std::exchange(seen(), {});
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].what, "tag");
  EXPECT_EQ(all[0].number, 42U);
  EXPECT_EQ(all[1].what, "kernel");
  EXPECT_EQ(all[1].number, 24U);
  EXPECT_EQ(all[0].correlation, all[1].correlation);
  EXPECT_EQ(all[2].what, "memset");
  EXPECT_EQ(all[2].number, 16U);
  EXPECT_EQ(all[3].what, "memcpy");
  EXPECT_EQ(all[3].number, 8U);
  EXPECT_NE(all[2].correlation, all[3].correlation);
  std::size_t dropped = 7;
  EXPECT_EQ(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped), CUPTI_SUCCESS);
  EXPECT_EQ(dropped, 0U);
}

// As the real one: without records of calls there are no tags.
TEST(EmulatedCupti, TellsNoTagWithoutTheCalls) {
  const TestStream stream;
  const TestMemory memory(16);
  ASSERT_EQ(cuptiActivityRegisterCallbacks(request, complete), CUPTI_SUCCESS);
  for (const CUpti_ActivityKind kind : kinds) ASSERT_EQ(cuptiActivityEnable(kind), CUPTI_SUCCESS);
  std::uint64_t last = 0;
  cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 42);
  ok(cudaMemsetAsync(memory.device, 0, 16, stream.stream));
  cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last);
  ok(cudaStreamSynchronize(stream.stream));
  ASSERT_EQ(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  for (const CUpti_ActivityKind on : kinds) ASSERT_EQ(cuptiActivityDisable(on), CUPTI_SUCCESS);
  const std::vector<Seen> all = std::exchange(seen(), {});
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].what, "memset");
}

// What a graph does belongs to its launch: the tag of that time, one correlation for all.
TEST(EmulatedCupti, TellsTheLaunchOfAGraph) {
  const TestStream stream;
  const TestMemory memory(16);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  const auto kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  std::uint64_t last = 0;
  ASSERT_EQ(cuptiActivityRegisterCallbacks(request, complete), CUPTI_SUCCESS);
  for (const CUpti_ActivityKind on : kinds) ASSERT_EQ(cuptiActivityEnable(on), CUPTI_SUCCESS);
  ASSERT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME), CUPTI_SUCCESS);
  cuptiActivityPushExternalCorrelationId(kind, 1);
  ok(cudaStreamBeginCapture(stream.stream, cudaStreamCaptureModeThreadLocal));
  ok(cudaMemsetAsync(memory.device, 0, 16, stream.stream));
  ok(cudaMemsetAsync(memory.device, 1, 8, stream.stream));
  ok(cudaStreamEndCapture(stream.stream, &graph));
  ok(cudaGraphInstantiate(&executable, graph, 0));
  cuptiActivityPopExternalCorrelationId(kind, &last);
  cuptiActivityPushExternalCorrelationId(kind, 2);
  ok(cudaGraphLaunch(executable, stream.stream));
  cuptiActivityPopExternalCorrelationId(kind, &last);
  ok(cudaStreamSynchronize(stream.stream));
  ASSERT_EQ(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  for (const CUpti_ActivityKind on : kinds) ASSERT_EQ(cuptiActivityDisable(on), CUPTI_SUCCESS);
  ASSERT_EQ(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_RUNTIME), CUPTI_SUCCESS);
  ok(cudaGraphExecDestroy(executable));
  ok(cudaGraphDestroy(graph));
  const std::vector<Seen> all = std::exchange(seen(), {});
  ASSERT_EQ(all.size(), 4U);  // a tag and a memset, twice
  EXPECT_EQ(all[0].number, 2U);
  EXPECT_EQ(all[1].number, 16U);
  EXPECT_EQ(all[2].number, 2U);
  EXPECT_EQ(all[3].number, 8U);
  for (const Seen& one : all) EXPECT_EQ(one.correlation, all[0].correlation);
}

TEST(EmulatedCuptiDeathTest, MayBeRefused) {
  const auto child = [] {
    setenv("OVL_EMULATED_WITHOUT", "cupti", 1);
    const CUptiResult result = cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    const char* text = nullptr;
    cuptiGetResultString(result, &text);
    std::exit(text == std::string("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES") ? 3 : 4);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(3), "");
}

TEST(EmulatedCuptiDeathTest, MustNotSerialiseKernels) {
  EXPECT_EXIT(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_KERNEL), testing::ExitedWithCode(86), "serialises all kernels");
}

// ---------------------------------------------------------------------------------------------------------------- NVML

// "emulated device" and the device's number, in hexadecimal.
constexpr const char* second_uuid = "GPU-656d756c-6174-6564-2064-657669636501";

TEST(EmulatedNvml, KnowsTheDevicesByWhatTheyAre) {
  ASSERT_EQ(nvmlInit_v2(), 0);
  const int* device = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByUUID(second_uuid, &device), 0);
  EXPECT_EQ(*device, 1);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID("GPU-none", &device), 6);
  std::array<char, 80> version{};
  EXPECT_EQ(nvmlSystemGetDriverVersion(version.data(), 80), 0);
  EXPECT_STREQ(version.data(), "580.0-emulated");
  EXPECT_EQ(nvmlSystemGetDriverVersion(version.data(), 4), 7);
  EXPECT_EQ(nvmlShutdown(), 0);
}

TEST(EmulatedNvmlDeathTest, TellsWhatTheEnvironmentSays) {
  const auto child = [] {
    setenv("OVL_EMULATED_SM_MHZ", "1200", 1);
    setenv("OVL_EMULATED_CLOCK_REASONS", "8", 1);
    const int* device = nullptr;
    unsigned int sm = 0;
    unsigned int memory = 0;
    unsigned int power = 0;
    unsigned long long reasons = 0;
    unsigned long long energy = 0;
    nvmlDeviceGetHandleByUUID(second_uuid, &device);
    nvmlDeviceGetClockInfo(device, 1, &sm);
    nvmlDeviceGetClockInfo(device, 2, &memory);
    nvmlDeviceGetPowerUsage(device, &power);
    nvmlDeviceGetCurrentClocksEventReasons(device, &reasons);
    nvmlDeviceGetTotalEnergyConsumption(device, &energy);
    std::exit(sm == 1200 && memory == 3201 && power == 350000 && reasons == 8 && energy == 1000000 ? 3 : 4);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(3), "");
}

TEST(EmulatedNvmlDeathTest, MayHaveNoDriver) {
  const auto child = [] {
    setenv("OVL_EMULATED_WITHOUT", "nvml", 1);
    std::exit(nvmlInit_v2());
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(9), "");
}

}  // namespace
}  // namespace ovl::emulation
