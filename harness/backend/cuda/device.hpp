// SPDX-License-Identifier: Apache-2.0
//
// The devices of this process, read once when the session opens.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cuda/api.hpp"
#include "base/units.hpp"

namespace ovl::cuda {

struct Device {
  int index = 0;  // as CUDA counts the visible ones
  std::string name;
  std::string uuid;       // "GPU-..."
  std::string pci;        // "0000:17:00.0"
  bool emulated = false;  // the test double says so in its name
  int major = 0;          // compute capability
  int minor = 0;
  int sms = 0;
  Bytes memory;
  Bytes l2;
  int least_priority = 0;  // numerically larger
  int greatest_priority = 0;
  int copy_engines = 0;
  int shared_bytes_opt_in = 0;  // a block's dynamic shared memory at most

  [[nodiscard]] int capability() const { return 10 * major + minor; }
};

// Why there is no device to use: "no GPU (cudaErrorNoDevice)"; empty: at least one answers. Never throws.
std::string no_device_reason() noexcept;
int device_count();
Device read_device(int index);
// The calling thread works with this device from here on.
void make_current(const Device& device);
Bytes free_memory(const Device& device);
// While it lives the calling thread may make other devices current; afterwards its device is what it was. Libraries
// change it as they go.
class KeepDevice {
 public:
  KeepDevice() noexcept;
  KeepDevice(const KeepDevice&) = delete;
  KeepDevice& operator=(const KeepDevice&) = delete;
  ~KeepDevice();

 private:
  int before_ = -1;
};

// In the order of DType, what cuBLASLt multiplies and NCCL reduces there: bf16 from 8.0, f8e4m3 from 8.9.
std::vector<DType> dtypes_of(const Device& device);
// Driver, runtime, cuBLASLt and NCCL versions as loaded, and from which files.
std::vector<Fact> library_facts();

}  // namespace ovl::cuda
