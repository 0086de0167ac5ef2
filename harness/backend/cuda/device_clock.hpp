// SPDX-License-Identifier: Apache-2.0
//
// How a device's clock (%globaltimer) stands to the host's steady clock. Events of different devices cannot be
// compared; a marker's stamp beside the origin event and this relation put all ranks on one clock.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cuda/memory.hpp"
#include "backend/cuda/worker.hpp"
#include "kernels/cuda/device_kernels.hpp"

namespace ovl::cuda {

// Nanoseconds of the steady clock since an arbitrary point, the same for all processes of one machine.
std::int64_t host_now();

// One round trip: the device read its clock after `before` and before `after`.
struct ClockSample {
  std::int64_t before = 0;
  std::int64_t after = 0;
  std::uint64_t device = 0;
};

// host = device + offset, ± error. Nanoseconds.
struct ClockRelation {
  std::int64_t offset = 0;
  std::int64_t error = 0;
  [[nodiscard]] std::int64_t to_host(std::uint64_t device) const { return static_cast<std::int64_t>(device) + offset; }
};

// Every sample says offset lies in [before - device, after - device]; what all of them allow (Marzullo). Where a coarse
// or drifting clock makes them contradict each other, the middle of the contradiction and its half width.
ClockRelation relate(std::span<const ClockSample> samples);

// Steady clocks of processes on different machines: offset to add so that process 0's holds, from stamps that all took
// when a barrier let them go, the i-th of each belonging together. The median, since a barrier lets go one after the
// other by a varying delay.
ClockRelation relate_barriers(std::span<const std::int64_t> mine, std::span<const std::int64_t> of_process_0);

class DeviceClock {
 public:
  DeviceClock();  // of the current device
  // `rounds` round trips on an idle stream. Throws Error(failure) when the stop flag was raised meanwhile.
  void measure(cudaStream_t stream, int rounds, const StopFlag& stop);
  [[nodiscard]] const ClockRelation& relation() const { return relation_; }

 private:
  MappedMemory stamp_;
  ClockRelation relation_;
};

}  // namespace ovl::cuda
