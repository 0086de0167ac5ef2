// SPDX-License-Identifier: Apache-2.0
//
// What an error says, for tests of its words.
#pragma once

#include <functional>
#include <string>

#include "base/error.hpp"

namespace ovl::test {

// The text of the Error that `call` throws, whose kind is expected to be `kind`; "no error" where it throws none.
std::string error_text(ErrorKind kind, const std::function<void()>& call);
std::string error_text(const std::function<void()>& call);  // of a usage error

}  // namespace ovl::test
