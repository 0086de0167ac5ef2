// SPDX-License-Identifier: Apache-2.0
//
// The clock of budgets (how long to warm up, when to stop), never of measurements: those come from the backend.
#pragma once

#include "backend/world.hpp"
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

// Process 0's clock, on every process: what they decide by it they decide alike. Each now() is an operation of the
// world. In a world that broke time stands still but on process 0: whoever does anything else hears of it.
class SharedClock final : public Clock {
 public:
  // Both outlive this.
  SharedClock(World& world, Clock& local) : world_(world), local_(local) {}
  [[nodiscard]] Seconds now() override;

 private:
  World& world_;
  Clock& local_;
  Seconds last_{0};
};

}  // namespace ovl
