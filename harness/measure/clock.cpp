// SPDX-License-Identifier: Apache-2.0
#include "measure/clock.hpp"

#include <chrono>

namespace ovl {

Seconds SteadyClock::now() {
  return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

}  // namespace ovl
