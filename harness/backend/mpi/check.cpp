// SPDX-License-Identifier: Apache-2.0
#include "backend/mpi/check.hpp"

#include <mpi.h>

#include <array>
#include <string>

#include "base/error.hpp"

namespace ovl::mpi {

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw failure(std::string(call) + " failed", std::string(text.data(), static_cast<std::size_t>(length)));
}

}  // namespace ovl::mpi
