// SPDX-License-Identifier: Apache-2.0
#include "support/folders.hpp"

namespace ovl::test {

std::filesystem::path tests_folder() { return OVL_TESTS_DIR; }

}  // namespace ovl::test
