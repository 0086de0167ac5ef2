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

#include "backend/backend.hpp"
#include "backend/registry.hpp"

namespace ovl {

struct BackendUnderTest {
  std::string name;
  std::string transport;
  std::function<std::unique_ptr<Backend>()> open;
};

inline std::string subject(const testing::TestParamInfo<BackendUnderTest>& info) { return info.param.name; }
inline void PrintTo(const BackendUnderTest& b, std::ostream* out) { *out << b.name; }

class BackendConformance : public testing::TestWithParam<BackendUnderTest> {
 protected:
  void SetUp() override { backend_ = GetParam().open(); }
  std::unique_ptr<Backend> backend_;
};

}  // namespace ovl
