// SPDX-License-Identifier: Apache-2.0
//
// The host backend: a lane is a worker pinned to a core, compute is OpenBLAS. With the transport `shm` ranks are
// threads of this process and communication is a ring over shared memory; it takes cores and memory bandwidth from
// compute as a device's communication takes SMs, on any machine. With `mpi` ranks are processes, and MPI is in a
// module.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/backend.hpp"
#include "backend/message_passing.hpp"
#include "backend/registry.hpp"
#include "backend/world.hpp"

namespace ovl {

// Loads a library ("openmpi", "mpich"): Error(impossible) where it is not there. What comes back initialises it, with
// the other processes.
using LoadMessagePassing = std::function<std::function<MessagePassing&()>(const std::string& library)>;

// `options.transport`: shm, mpi (the library that the launcher belongs to), mpi-openmpi or mpi-mpich; empty: mpi where
// a launcher of MPI started several processes, else shm. Throws Error(usage) for cores that do not exist or may not be
// used, too many ranks, less than one BLAS thread, another library than the launcher's; Error(impossible) for shm in a
// world of several processes: its ranks share one.
std::unique_ptr<Backend> open_host(World& world, const SessionOptions& options, const LoadMessagePassing& load);

// Always usable; any device is preferred to it.
BackendEntry host_entry(LoadMessagePassing load);

}  // namespace ovl
