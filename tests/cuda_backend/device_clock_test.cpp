// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device_clock.hpp"

#include <gtest/gtest.h>

#include "backend/cuda/stream.hpp"
#include "base/error.hpp"
#include "cuda_backend/needs_device.hpp"

namespace ovl::cuda {
namespace {

TEST(ClockRelation, IsWhatAllSamplesAllow) {
  // The host is 1000 ns ahead. Round trips of 100 and 60 ns around device times 5 and 200:
  // [960, 1060] and [985, 1045] leave 985 .. 1045.
  const std::vector<ClockSample> samples = {{.before = 965, .after = 1065, .device = 5},
                                            {.before = 1185, .after = 1245, .device = 200}};
  const ClockRelation relation = relate(samples);
  EXPECT_EQ(relation.offset, 1015);
  EXPECT_EQ(relation.error, 30);
  EXPECT_EQ(relation.to_host(500), 1515);
}

TEST(ClockRelation, OfSamplesThatContradictEachOtherIsTheMiddle) {
  // [10, 20] and [30, 40]: a coarse clock. Between 20 and 30.
  const std::vector<ClockSample> samples = {{.before = 10, .after = 20, .device = 0},
                                            {.before = 30, .after = 40, .device = 0}};
  EXPECT_EQ(relate(samples).offset, 25);
  EXPECT_EQ(relate(samples).error, 5);
}

TEST(ClockRelation, OfAClockThatIsFarAheadIsNegative) {
  const std::vector<ClockSample> samples = {{.before = 100, .after = 104, .device = 1'700'000'000'000'000'000}};
  EXPECT_EQ(relate(samples).to_host(1'700'000'000'000'000'000), 102);
}

TEST(ClockRelation, OfProcessesIsTheMedianOverTheirBarriers) {
  const std::vector<std::int64_t> mine = {100, 200, 300, 400, 500};
  const std::vector<std::int64_t> of_process_0 = {1100, 1210, 1300, 1390, 9500};  // 1000, 1010, 1000, 990, 9000
  const ClockRelation relation = relate_barriers(mine, of_process_0);
  EXPECT_EQ(relation.offset, 1000);
  EXPECT_EQ(relation.error, 5) << "quartiles 1000 and 1010";
}

class DeviceClockTest : public NeedsDevice {};

TEST_F(DeviceClockTest, PutsAMarkerBetweenTheHostsStampsAroundIt) {
  const Stream stream(device, device.least_priority);
  StopFlag stop;
  DeviceClock clock;
  clock.measure(stream.get(), 5, stop);
  MappedMemory memory(Bytes(sizeof(kernels::Stamp)));
  const std::int64_t before = host_now();
  check(static_cast<cudaError_t>(
            kernels::launch_marker({reinterpret_cast<kernels::Stamp*>(memory.device())}, stream.get())),
        "marker");
  check(cudaStreamSynchronize(stream.get()), "synchronise");
  const std::int64_t after = host_now();
  const std::int64_t seen = clock.relation().to_host(reinterpret_cast<kernels::Stamp*>(memory.host())->nanoseconds);
  EXPECT_GE(seen, before - clock.relation().error);
  EXPECT_LE(seen, after + clock.relation().error);
}

}  // namespace
}  // namespace ovl::cuda
