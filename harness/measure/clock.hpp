// SPDX-License-Identifier: Apache-2.0
//
// The clock of budgets (how long to warm up, when to stop), never of measurements: those come from the backend.
#pragma once

#include "base/units.hpp"

namespace ovl {

class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;
  // Seconds since an arbitrary zero; never goes back.
  [[nodiscard]] virtual Seconds now() = 0;
};

// std::chrono::steady_clock.
class SteadyClock final : public Clock {
 public:
  [[nodiscard]] Seconds now() override;
};

}  // namespace ovl
