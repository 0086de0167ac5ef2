// SPDX-License-Identifier: Apache-2.0
//
// A program as text: what --dry-run shows, what processes compare, what the hash in every row is of.
#pragma once

#include <string>
#include <vector>

#include "program/program.hpp"

namespace ovl {

// Complete: two programs that print alike replay alike.
std::string print(const Program& program);

// One operation, without its lists of slices: "gemm 1024x1024x1024 f32 x3", "all_reduce 25MiB f32".
std::string describe(const Operation& operation);

// Runs of consecutive ranks are one entry, so that 1,024 equal ranks are short: "{0..3,8}".
std::string describe(const std::vector<Rank>& ranks);

// hash64 of print(), as 16 hexadecimal digits.
std::string program_hash(const Program& program);

}  // namespace ovl
