// SPDX-License-Identifier: Apache-2.0
//
// For tests that run something on a device, real or emulated. Without one they are skipped, but for a build that has
// the emulation, which sets OVL_TEST_HAS_DEVICE: there a missing device is a failure.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "backend/cuda/device.hpp"

namespace ovl::cuda {

class NeedsDevice : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = no_device_reason();
    if (!reason.empty()) {
      ASSERT_EQ(std::getenv("OVL_TEST_HAS_DEVICE"), nullptr) << reason;
      GTEST_SKIP() << "no device to test: " << reason;
    }
    device = read_device(0);
    make_current(device);
  }

  Device device;
};

}  // namespace ovl::cuda
