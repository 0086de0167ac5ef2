// SPDX-License-Identifier: Apache-2.0
//
// What is ordered before what: a vector clock with one lane a stream. Host threads share one clock, since how they
// order each other is not seen here: whatever one of them has waited for is past for all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ovl::emulation {

class Clock {
 public:
  void join(const Clock& other);
  // The next step of a lane, from 1.
  std::uint64_t tick(std::size_t lane);
  // Whether that step of the lane is before, or at, this clock.
  [[nodiscard]] bool has(std::size_t lane, std::uint64_t step) const;

 private:
  std::vector<std::uint64_t> steps_;
};

}  // namespace ovl::emulation
