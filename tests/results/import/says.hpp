// SPDX-License-Identifier: Apache-2.0
//
// What a reader of foreign logs warns of.
#pragma once

#include <gmock/gmock.h>

#include <cstdint>
#include <string>

#include "results/import/imported.hpp"

namespace ovl::test {

// A warning of this line that says this.
inline auto says(std::int64_t line, const std::string& text) {
  return testing::AllOf(testing::Field(&ImportWarning::line, line),
                        testing::Field(&ImportWarning::text, testing::HasSubstr(text)));
}

}  // namespace ovl::test
