// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/nvml.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <string>

#include "cuda_backend/needs_device.hpp"

namespace ovl::cuda {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::StartsWith;

std::vector<std::string> names_of(const std::vector<Reading>& readings) {
  std::vector<std::string> names;
  for (const Reading& r : readings) names.push_back(r.name + " " + r.unit);
  return names;
}

// No library, or none that knows this device: all is unknown, and nothing is zero.
TEST(Nvml, OfAnUnknownDeviceKnowsNothing) {
  const Nvml nvml;
  EXPECT_THAT(nvml.status(), AnyOf(StartsWith("not loaded: no libnvidia-ml.so.1"), StartsWith("not usable: "),
                                   StartsWith("loaded, driver version ")));
  Device nowhere;
  nowhere.uuid = "GPU-none";
  nowhere.pci = "ffff:ff:ff.0";
  const std::vector<Reading> readings = nvml.readings(nowhere);
  EXPECT_THAT(names_of(readings), ElementsAre("sm_clock Hz", "memory_clock Hz", "power W", "temperature C", "energy J",
                                              "throttle 1", "gpu_processes 1"));
  for (const Reading& r : readings) EXPECT_TRUE(std::isnan(r.value)) << r.name;
}

TEST(Nvml, ThrottlingAndOtherProcessesMakeABlockNoisy) {
  for (const Reading& r : Nvml().readings(Device())) {
    if (r.name == "throttle") {
      EXPECT_EQ(r.limit, 0);
    } else if (r.name == "gpu_processes") {
      EXPECT_EQ(r.limit, 1);
    } else {
      EXPECT_TRUE(std::isnan(r.limit)) << r.name;
    }
  }
}

class NvmlOnDevice : public NeedsDevice {};

TEST_F(NvmlOnDevice, ReadsWhatItKnowsInSiUnits) {
  const Nvml nvml;
  if (!nvml.status().starts_with("loaded")) GTEST_SKIP() << nvml.status();
  for (const Reading& r : nvml.readings(device)) {
    if (std::isnan(r.value)) continue;
    if (r.name.ends_with("clock")) {
      EXPECT_GT(r.value, 1e8) << r.name;  // megahertz would be below
    }
    if (r.name == "power") {
      EXPECT_LT(r.value, 5000);  // milliwatts would be above
    }
    EXPECT_GE(r.value, 0) << r.name;
  }
}

}  // namespace
}  // namespace ovl::cuda
