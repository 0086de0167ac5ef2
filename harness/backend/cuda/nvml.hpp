// SPDX-License-Identifier: Apache-2.0
//
// What the management library says of a device: clocks, power, throttling. Loaded at run time; optional.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cuda/device.hpp"

namespace ovl::cuda {

class Nvml {
 public:
  Nvml();  // never throws: without the library it knows nothing
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml();

  // sm_clock, memory_clock (Hz), power (W), temperature (C), energy (J since boot), throttle (1 where clocks are held
  // down by power, heat or hardware; limit 0), gpu_processes (that compute there; limit 1: ours). Unknown values are
  // NaN.
  [[nodiscard]] std::vector<Reading> readings(const Device& device) const;
  [[nodiscard]] std::string status() const;  // "loaded, driver version ..." or why not

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace ovl::cuda
