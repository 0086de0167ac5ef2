// SPDX-License-Identifier: Apache-2.0
//
// What app looks up when it has loaded the module (app/modules.hpp).
#include "backend/mpi/library.hpp"
#include "backend/registry.hpp"

extern "C" const char* overlapbench_version() { return ovl::module_version; }
extern "C" ovl::MessagePassing* overlapbench_message_passing() { return &ovl::mpi::open(); }
