// SPDX-License-Identifier: Apache-2.0
//
// Whether what was timed was also computed. The epilogue of a program names the operations; their outputs are compared
// with what their kind says of their inputs, read back from the backend.
#pragma once

#include <string>

#include "backend/backend.hpp"
#include "program/program.hpp"

namespace ovl {

// Exact data (small integers, every partial sum exact): equality. A GEMM is checked by Freivalds' method (Freivalds,
// "Probabilistic machines can use less running time", 1977): C·x = A·(B·x) for two integer vectors without zeros. A row
// with one wrong element never passes, nor does one that is not all integers (NaN: never written); one with several
// wrong elements, as if drawn at random, passes with a probability of at most 1/8 for each vector.
// Random data: sums within (n - 1)·u·sum |x_i| of the exact sum, whatever the order, u the unit roundoff of the dtype
// (Jeannerod and Rump, "Improved error bounds for inner products in floating-point arithmetic", 2013, section 1); the
// fp64 reference gets the same allowance with its own u. Moved elements are equal. GEMMs are left to a comparison with
// the solo run.
// Returns the first failure with operation, rank, element, got and expected; empty: all is well. All ranks must be of
// this process, and those of a group read the same slices.
std::string verify(const Program& program, const Prepared& prepared, Data data, std::int64_t slot);

}  // namespace ovl
