// SPDX-License-Identifier: Apache-2.0
//
// What a machine does to measurements without saying so. Cores move apart and together (another L3 slice) and change
// communication by 2x; two busy cores turn out to be one physical core and halve each other; a hypervisor steals time;
// other processes run. Each probe takes about a millisecond.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/backend.hpp"
#include "backend/host/clock.hpp"

namespace ovl::host {

// One-way latency between two threads that answer each other. Both call it, with the same `shared`, one as `first`.
class PingPong {
 public:
  // Returns the median over batches on the first thread, unknown_time on the other.
  Seconds play(bool first);

 private:
  alignas(128) std::atomic<std::uint32_t> ball_{0};
};

// Multiply-adds per second that this core does in about a millisecond.
double work_rate();

// CPU time of the machine and of this process.
struct CpuTimes {
  Stamp at = 0;
  double busy = 0;  // seconds over the cores in use, as the kernel counts them
  double stolen = 0;
  double own = 0;  // seconds of this process
};
// NaN where /proc/stat cannot be read.
CpuTimes read_cpu_times(const std::vector<int>& cores);

// steal_share and foreign_cpu_share between two readings: of the time that the cores in use have together. The kernel
// counts in ticks of 10 ms, so an interval under half a second says nothing: NaN.
std::vector<Reading> cpu_shares(const CpuTimes& before, const CpuTimes& after, std::size_t cores);
inline constexpr Stamp shortest_cpu_interval = 500'000'000;

// Mean current frequency of these cores in Hz; NaN where the system does not say.
double read_frequency(const std::vector<int>& cores);

}  // namespace ovl::host
