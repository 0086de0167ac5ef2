// SPDX-License-Identifier: Apache-2.0
//
// What every backend that does real work must do, written against the interface. A backend's test instantiates the
// suite:
//
//   INSTANTIATE_TEST_SUITE_P(host, BackendConformance, testing::Values(BackendUnderTest{"host", "shm", open}),
//   subject);
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/registry.hpp"

namespace ovl {

// What differs between backends by what they are; the rest (ranks, dtypes) they describe themselves.
struct BackendUnderTest {
  std::string name;
  std::string transport;
  std::function<std::unique_ptr<Backend>()> open;  // null: this machine has no such device, and the test is skipped
  // How lanes can wait: devices ignore it.
  std::vector<Waiting> waitings = {Waiting::spin, Waiting::yield, Waiting::block};
  // Whether operations' starts are seen.
  bool sees_starts = true;
  // Whether the host's stamps and the lanes' are from one clock, so that the order of any two can be relied on.
  bool one_clock = true;
  // The only number of ranks that it places; 0: any from 1 to what it describes.
  int only_ranks = 0;
  int most_channels = 3;
  MessageProgress progress = {};
  // Whether reduce_scatter may leave its result in the rank's block of its input.
  bool scatters_in_place = true;
};

inline std::string subject(const testing::TestParamInfo<BackendUnderTest>& info) { return info.param.name; }
inline void PrintTo(const BackendUnderTest& b, std::ostream* out) { *out << b.name; }

class BackendConformance : public testing::TestWithParam<BackendUnderTest> {
 protected:
  void SetUp() override {
    backend_ = GetParam().open();
    if (backend_ == nullptr) GTEST_SKIP() << "no device to test";
  }
  [[nodiscard]] bool places(int ranks) const {
    if (GetParam().only_ranks != 0) return ranks == GetParam().only_ranks;
    return ranks <= backend_->describe().most_ranks;
  }
  // For what ranks do each for itself.
  [[nodiscard]] int few_ranks() const { return places(1) ? 1 : GetParam().only_ranks; }
  std::unique_ptr<Backend> backend_;
};

}  // namespace ovl
