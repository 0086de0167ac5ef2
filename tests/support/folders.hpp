// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace ovl::test {

// The folder tests of this source tree, for golden files and what is committed beside it.
std::filesystem::path tests_folder();

}  // namespace ovl::test
