// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/trace.hpp"

#include <gmock/gmock.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "backend/cuda/memory.hpp"
#include "backend/cuda/stream.hpp"
#include "cuda_backend/needs_device.hpp"
#include "kernels/cuda/device_kernels.hpp"

namespace ovl::cuda {
namespace {

using testing::AnyOf;
using testing::IsEmpty;
using testing::StartsWith;

TEST(Trace, SaysWhetherItIsThere) {
  Trace trace;
  if (trace.available()) {
    EXPECT_THAT(trace.status(), StartsWith("loaded, version "));
  } else {
    EXPECT_THAT(trace.status(), AnyOf(StartsWith("not loaded: no libcupti.so."), StartsWith("not usable: ")));
    trace.start();
    EXPECT_THAT(trace.stop(), IsEmpty());
  }
}

// Of a machine that has the library and keeps it from its users (CMakeLists.txt has it run on one).
TEST(NoCupti, IsNotAvailableFromTheStart) {
  const char* lacks = std::getenv("OVL_EMULATED_WITHOUT");
  if (lacks == nullptr || std::string(lacks) != "cupti") GTEST_SKIP() << "CUPTI may be here";
  Trace trace;
  EXPECT_FALSE(trace.available());
  EXPECT_EQ(trace.status(), "not usable: cuptiActivityEnable gave CUPTI_ERROR_INSUFFICIENT_PRIVILEGES");
}

TEST(Trace, WithoutAStartThereIsNothing) {
  Trace trace;
  trace.push(1);
  trace.pop();
  EXPECT_THAT(trace.stop(), IsEmpty());
}

class TraceOnDevice : public NeedsDevice {};

TEST_F(TraceOnDevice, TellsWhichKernelBelongsToWhichTag) {
  Trace trace;
  if (!trace.available()) GTEST_SKIP() << trace.status();
  const Stream stream(device, device.least_priority);
  const DeviceMemory memory(Bytes(1024));
  const kernels::BusyArgs busy{.nanoseconds = 1000};
  const auto launch = [&] {
    check(static_cast<cudaError_t>(kernels::launch_busy(busy, stream.get())), "cudaLaunchKernelExC (busy)");
  };
  launch();  // before: not traced
  check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  trace.start();
  if (!trace.available()) GTEST_SKIP() << trace.status();
  trace.push(41);
  launch();
  trace.pop();
  trace.push(42);
  check(cudaMemsetAsync(memory.get(), 0, 1024, stream.get()), "cudaMemsetAsync");
  trace.pop();
  launch();  // without a tag
  check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  const std::vector<KernelRecord> records = trace.stop();
  ASSERT_EQ(records.size(), 3U) << trace.status();
  for (const KernelRecord& r : records) {
    EXPECT_LE(r.start_ns, r.end_ns) << r.name;
    EXPECT_EQ(r.device, device.index) << r.name;
    if (r.tag == 41) {
      EXPECT_EQ(r.name, "ovl_busy");
      EXPECT_EQ(r.blocks, 1);
      EXPECT_GE(r.threads, 1);
      EXPECT_GE(r.end_ns - r.start_ns, 1000U);
    } else if (r.tag == 42) {
      EXPECT_EQ(r.name, "memset");
      EXPECT_EQ(r.blocks, 0);
    } else {
      EXPECT_EQ(r.tag, 0U);
      EXPECT_EQ(r.name, "ovl_busy");
    }
  }
  EXPECT_THAT(trace.stop(), IsEmpty());
}

}  // namespace
}  // namespace ovl::cuda
