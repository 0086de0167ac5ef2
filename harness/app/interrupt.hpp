// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace ovl {

// From now on SIGINT and SIGTERM set the returned flag: the case under way is given up, the run ends with exit code
// 130. A second signal ends the process at once.
const std::atomic<bool>& watch_for_interrupts();

}  // namespace ovl
