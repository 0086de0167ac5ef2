// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ovl::mpi {

// Throws Error(failure) with the library's own words for a code that is not MPI_SUCCESS.
void check(int code, const char* call);

}  // namespace ovl::mpi
