// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device.hpp"

#include <gmock/gmock.h>

#include <string>

#include "backend/cuda/driver.hpp"
#include "backend/cuda/stream.hpp"
#include "cuda_backend/needs_device.hpp"

namespace ovl::cuda {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;

Device of_capability(int major, int minor) {
  Device d;
  d.major = major;
  d.minor = minor;
  return d;
}

TEST(Dtypes, GrowWithTheCapability) {
  EXPECT_THAT(dtypes_of(of_capability(7, 5)), ElementsAre(DType::f64, DType::f32, DType::f16));
  EXPECT_THAT(dtypes_of(of_capability(8, 0)),
              ElementsAre(DType::f64, DType::f32, DType::tf32, DType::f16, DType::bf16));
  EXPECT_THAT(dtypes_of(of_capability(8, 9)),
              ElementsAre(DType::f64, DType::f32, DType::tf32, DType::f16, DType::bf16, DType::f8e4m3));
  EXPECT_EQ(of_capability(12, 1).capability(), 121);
}

TEST(LibraryFacts, NameVersionsAndFiles) {
  std::string names;
  for (const Fact& fact : library_facts()) {
    names += fact.name + " ";
    EXPECT_THAT(fact.value, Not(IsEmpty())) << fact.name;
    if (fact.name.ends_with("_library")) {
      EXPECT_THAT(fact.value, HasSubstr(".so")) << fact.name;
    }
  }
  EXPECT_EQ(names,
            "cuda_driver_version cuda_runtime_version cuda_runtime_library cublaslt_version cublaslt_library "
            "nccl_version nccl_library nccl_header_version ");
}

// What a machine without a GPU says, as the exit code 3's reason. Run with several of them.
TEST(NoDevice, TheReasonHasTheCodesName) {
  const std::string reason = no_device_reason();
  if (reason.empty()) GTEST_SKIP() << "a device answers";
  EXPECT_THAT(reason, AnyOf("no driver: libcuda.so.1 is missing or cannot be loaded (cudaErrorInsufficientDriver)",
                            MatchesRegex("the driver is for CUDA 12.2, this build needs one for CUDA 1[2-9].[0-9] "
                                         "\\(cudaErrorInsufficientDriver\\)"),
                            "no GPU (cudaErrorNoDevice)",
                            MatchesRegex("libcuda.so.1 is the toolkit's stub.* \\(cudaErrorStubLibrary\\)")));
}

class OnDevice : public NeedsDevice {};

TEST_F(OnDevice, IsReadWhole) {
  EXPECT_GE(device_count(), 1);
  EXPECT_THAT(device.uuid, MatchesRegex("GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
  EXPECT_THAT(device.pci, EndsWith(".0"));
  EXPECT_EQ(device.emulated, device.name.starts_with("Emulated"));
  EXPECT_GE(device.capability(), 75);
  EXPECT_GT(device.sms, 0);
  EXPECT_GT(device.memory.value(), 0);
  EXPECT_GT(device.l2.value(), 0);
  EXPECT_LT(device.greatest_priority, device.least_priority);
  EXPECT_GT(device.copy_engines, 0);
  EXPECT_LE(free_memory(device), device.memory);
}

TEST_F(OnDevice, ReadingOneLeavesTheCurrentOneAsItWas) {
  const int last = device_count() - 1;
  make_current(read_device(last));
  read_device(0);
  int current = -1;
  check(cudaGetDevice(&current), "cudaGetDevice");
  EXPECT_EQ(current, last);
}

TEST_F(OnDevice, AWrongIndexIsImpossible) { EXPECT_ANY_THROW(read_device(device_count())); }

TEST_F(OnDevice, EventsAreOrderedInTime) {
  Stream stream(device, device.least_priority);
  const Event start(Timing::on);
  const Event end(Timing::on);
  check(cudaEventRecord(start.get(), stream.get()), "cudaEventRecord");
  check(cudaEventRecord(end.get(), stream.get()), "cudaEventRecord");
  check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  EXPECT_GE(between(start, end).value(), 0);
  EXPECT_LE(between(end, start).value(), 0);
  Stream other = std::move(stream);
  EXPECT_NE(other.get(), nullptr);
}

TEST_F(OnDevice, EventsWithoutTimingTellNone) {
  const Stream stream(device, device.least_priority);
  const Event start(Timing::off);
  const Event end(Timing::off);
  check(cudaEventRecord(start.get(), stream.get()), "cudaEventRecord");
  check(cudaEventRecord(end.get(), stream.get()), "cudaEventRecord");
  check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  EXPECT_ANY_THROW(between(start, end));
}

TEST_F(OnDevice, TheDriverGivesItsEntryPoints) {
  EXPECT_NE(driver().wait_value, nullptr);
  EXPECT_NE(driver().get_current, nullptr);
}

}  // namespace
}  // namespace ovl::cuda
