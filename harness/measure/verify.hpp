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
// "Probabilistic machines can use less running time", 1977) with two random integer vectors: C·x = A·(B·x), which a
// wrong element passes with a probability below 1/9 each; a missing or NaN result never passes.
// Random data: collectives within (n - 1)·u·sum |x_i| of the fp64 sum in any order, u the unit roundoff of the dtype
// (Higham, "Accuracy and stability of numerical algorithms", 2002, section 4.2); moved elements are equal; GEMMs are
// left to a comparison with the solo run.
// Returns the first failure with operation, rank, element, got and expected; empty: all is well. All ranks must be of
// this process.
std::string verify(const Program& program, const Prepared& prepared, Data data, std::int64_t slot);

}  // namespace ovl
