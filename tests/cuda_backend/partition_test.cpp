// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/partition.hpp"

#include <gmock/gmock.h>

#include <string>

#include "backend/cuda/driver.hpp"
#include "base/error.hpp"
#include "cuda_backend/needs_device.hpp"

namespace ovl::cuda {
namespace {

using testing::HasSubstr;

class PartitionTest : public NeedsDevice {
 protected:
  void SetUp() override {
    NeedsDevice::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!driver().has_green_contexts()) GTEST_SKIP() << "this driver has no green contexts";
  }

  std::string refusal(int comm_sms) {
    try {
      const SmPartition partition(device, comm_sms);
      return "none: " + partition.text();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::impossible);
      return error.what();
    }
  }
};

TEST_F(PartitionTest, SplitsAllSmsAndProvesIt) {
  const SmPartition partition(device, 16);
  EXPECT_EQ(partition.sms(Role::communication), 16);
  EXPECT_EQ(partition.sms(Role::compute) + 16, device.sms);
  EXPECT_EQ(partition.text(), "compute " + std::to_string(device.sms - 16) + " SMs, comm 16 SMs, proven by " +
                                  std::to_string(device.sms) + " SM ids");
}

// From compute capability 9.0 the smallest part is 8, and each a multiple of it.
TEST_F(PartitionTest, RoundsUpToWhatTheDeviceSplits) {
  if (device.capability() < 90) GTEST_SKIP() << "other parts";
  EXPECT_EQ(SmPartition(device, 1).sms(Role::communication), 8);
  EXPECT_EQ(SmPartition(device, 9).sms(Role::communication), 16);
}

TEST_F(PartitionTest, LeavesSmsForBoth) {
  EXPECT_THAT(refusal(0), HasSubstr("leave none for compute"));
  EXPECT_THAT(refusal(device.sms), HasSubstr("leave none for compute; leave out the placement partitioned"));
}

TEST_F(PartitionTest, GivesStreamsOfBothRoles) {
  const SmPartition partition(device, 8);
  const Stream compute = partition.stream(Role::compute, device.least_priority);
  const Stream comm = partition.stream(Role::communication, device.greatest_priority);
  EXPECT_NE(compute.get(), comm.get());
  check(cudaStreamSynchronize(compute.get()), "cudaStreamSynchronize");
  check(cudaStreamSynchronize(comm.get()), "cudaStreamSynchronize");
}

}  // namespace
}  // namespace ovl::cuda
