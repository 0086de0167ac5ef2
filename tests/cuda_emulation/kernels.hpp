// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ovl::emulation {

// Loads a kernel on a device, once: waits for the device to be idle, as a module load may.
void load_kernel(const std::string& name, int device);

}  // namespace ovl::emulation
