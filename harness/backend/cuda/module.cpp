// SPDX-License-Identifier: Apache-2.0
//
// What app looks up when it has loaded the module (app/modules.hpp).
#include "backend/cuda/cuda.hpp"
#include "backend/registry.hpp"

extern "C" const char* overlapbench_version() { return ovl::module_version; }

// Where a device answers, `--backend auto` takes it before the host.
extern "C" void overlapbench_register(ovl::BackendRegistry& registry) {
  registry.add({.name = "cuda", .preference = 2, .unusable = ovl::cuda::unusable_reason, .open = ovl::cuda::open_cuda});
}
