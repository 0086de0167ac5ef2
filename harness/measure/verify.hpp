// SPDX-License-Identifier: Apache-2.0
//
// Whether what was timed was also computed. The epilogue of a program names the operations; their outputs are compared
// with what their kind says of their inputs, read back from the backend.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.hpp"
#include "program/program.hpp"
#include "program/reference.hpp"

namespace ovl {

// Contents of buffers, of one copy.
using Inputs = std::map<std::pair<BufferId, Rank>, std::vector<double>>;

// Before a replay of `slot`: the buffers in which an operation that the epilogue names sums in place.
Inputs inputs(const Program& program, const Prepared& prepared, std::int64_t slot);

// What every rank has in copy 0 of every buffer.
Contents contents(const Program& program, const Prepared& prepared);

// Exact data (small integers, every partial sum exact): equality. Operations whose sums may be too large for that
// (beyond_exact) are passed over. A GEMM is checked by Freivalds' method (Freivalds,
// "Probabilistic machines can use less running time", 1977): C·x = A·(B·x) for two integer vectors without zeros. A row
// with one wrong element never passes, nor does one that is not all integers (NaN: never written); one with several
// wrong elements, as if drawn at random, passes with a probability of at most 1/8 for each vector.
// Random data: sums within (n - 1)·u·sum |x_i| of the exact sum, whatever the order, u the unit roundoff of the dtype
// (Jeannerod and Rump, "Improved error bounds for inner products in floating-point arithmetic", 2013, section 1); the
// fp64 reference gets the same allowance with its own u. Moved elements are equal. GEMMs are left to a comparison with
// the solo run.
// What an operation sums in place it overwrites: its inputs are those of `before`.
// Returns the first failure with operation, rank, element, got and expected; empty: all is well. All ranks must be of
// this process, and the operations that meet in a group have one id in all classes.
std::string verify(const Program& program, const Prepared& prepared, Data data, std::int64_t slot,
                   const Inputs& before = {});

// The buffers that a class's body writes and that hold the same whether its communication runs or not: it writes none
// of them, and nothing that reads what it wrote, by whatever way, does. What GEMMs wrote there is compared with their
// solo run.
std::set<BufferId> independent_of_communication(const RankClass& rank_class);

// Multiplications of all GEMMs of all ranks: what a serial replay takes, about a second for each 10^9.
double products_of(const Program& program);

// Why exact data cannot tell of the first operation named by the epilogue that sums up more than its dtype holds
// exactly (base/random.hpp: k above 65536 in bf16, more than 256 ranks, or both together where
// ranks sum up what GEMMs wrote); empty: they can tell of all. Depends on the
// program alone.
std::string beyond_exact(const Program& program);

}  // namespace ovl
