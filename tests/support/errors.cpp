// SPDX-License-Identifier: Apache-2.0
#include "support/errors.hpp"

#include <gtest/gtest.h>

namespace ovl::test {

std::string error_text(ErrorKind kind, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind);
    return e.what();
  }
  return "no error";
}

std::string error_text(const std::function<void()>& call) { return error_text(ErrorKind::usage, call); }

}  // namespace ovl::test
