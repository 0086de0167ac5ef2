// SPDX-License-Identifier: Apache-2.0
//
// MPI in this process: initialised at most once, since MPI allows no more, and ended when the process ends.
#pragma once

#include "backend/message_passing.hpp"

namespace ovl::mpi {

// Initialises MPI at the first call. Throws Error(failure).
//
// At the end of the process MPI_Finalize is called when all processes of the job have come that far. Where one broke
// off, or does not come within ten seconds, the job is ended by MPI_Abort, by process 0 if it can be, for it writes.
MessagePassing& open();

}  // namespace ovl::mpi
