// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "backend/registry.hpp"

namespace ovl {

// Every backend that a user may ask for; those that are not part of this build say so.
BackendRegistry known_backends();

// For `--backend auto` that fell back: why the cuda backend of this build cannot be used although the GPU driver is
// loaded. Empty: there is nothing to say. `driver` is a folder that the driver makes.
std::string unused_gpu(const BackendRegistry& backends, const std::string& chosen,
                       const std::string& driver = "/proc/driver/nvidia");

}  // namespace ovl
