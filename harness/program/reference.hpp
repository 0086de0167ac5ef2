// SPDX-License-Identifier: Apache-2.0
//
// What a program computes: its body replayed in double precision, one operation after another in an order that it
// guarantees, so that two lanes never run at once. On exact data (base/random.hpp) every backend must leave the same in
// every buffer of every rank, to the last element. Straightforward, so for small sizes.
#pragma once

#include <string>
#include <vector>

#include "program/program.hpp"

namespace ovl {

// By rank, buffer and element: one copy of each buffer. NaN: nothing was written.
using Contents = std::vector<std::vector<std::vector<double>>>;

struct Reference {
  Contents contents;
  // Empty: each sum is exact in its dtype whatever the order of its terms. Else the first that is not.
  std::string inexact;
};

// From what the buffers hold after the prologue. The program has passed check(), or its findings are races: then this
// is what it would compute if it took its turns in issue order. Throws std::logic_error when ranks never meet.
Reference run_serially(const Program& program, Contents start);

struct Difference {
  std::int64_t elements = 0;  // that differ, of all ranks
  std::string first;          // "reduced[3] on rank 1 is 5, expected 7"; empty: none
};

// Compares the named buffers. NaN equals NaN.
Difference compare(const Program& program, const Contents& got, const Contents& expected,
                   const std::vector<std::string>& buffers);

}  // namespace ovl
