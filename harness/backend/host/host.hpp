// SPDX-License-Identifier: Apache-2.0
//
// The host backend: ranks are threads of this process, a lane is a worker pinned to a core, compute is OpenBLAS and the
// transport `shm` is a ring over shared memory. It takes cores and memory bandwidth from compute as a device's
// communication takes SMs, on any machine.
#pragma once

#include <memory>

#include "backend/backend.hpp"
#include "backend/registry.hpp"
#include "backend/world.hpp"

namespace ovl {

// Throws Error(usage) for cores that do not exist or may not be used, too many ranks, or less than one BLAS thread;
// Error(impossible) in a world of several processes: the ranks of `shm` share one.
std::unique_ptr<Backend> open_host(World& world, const SessionOptions& options);

// Always usable; any device is preferred to it.
BackendEntry host_entry();

}  // namespace ovl
