// SPDX-License-Identifier: Apache-2.0
//
// What a schedule's buffers hold before a replay, and which of its results can be verified after one.
#pragma once

#include "program/program.hpp"

namespace ovl {

// Adds to the prologue of every class a fill of each buffer that its body reads and no fill has written yet. Also of
// those that the body writes first: in an arm that leaves out the writer, what reads it still works on the case's data.
void fill_what_is_read(Program& program);

// Adds to the epilogue of every class a verify of each GEMM and collective whose inputs and outputs nobody writes after
// it in issue order: a slot that was used again holds another operation's. Of GEMMs only those whose operands are
// filled or gathered: products of products may leave the integers that are exact.
void verify_what_lasts(Program& program);

}  // namespace ovl
