// SPDX-License-Identifier: Apache-2.0
//
// GEMMs of one shape in a row on a lane, their operands rotating through memory: the compute side of every schedule
// that has no model's layers.
#pragma once

#include <cstdint>
#include <vector>

#include "program/builder.hpp"
#include "schedule/models.hpp"
#include "schedule/rotation.hpp"

namespace ovl {

// A window has at most about this many GEMM operations; where more are wanted, each repeats on its own data.
inline constexpr std::int64_t most_gemms = 256;

class GemmRow {
 public:
  // Declares the buffers a, b and c: `operations` GEMMs of a window on `ranks` ranks rotate over at least `over`.
  GemmRow(ProgramBuilder& p, const GemmShape& shape, DType dtype, std::int64_t operations, int ranks, Bytes over,
          Memory memory);

  void fill(ProgramBuilder& p, ClassBuilder& ranks, LaneId lane) const;
  // Issues the operations of one class of ranks, `gemms_each` GEMMs in each of `groups` equal groups of operations;
  // what does not divide evenly goes to the first ones of a group. Returns the last writer of each slice of c, to
  // verify.
  std::vector<OpId> issue(ClassBuilder& ranks, LaneId lane, std::int64_t groups, std::int64_t gemms_each) const;

 private:
  GemmShape shape_;
  DType dtype_;
  std::int64_t operations_;
  Rotation rotation_;
  BufferId left_, right_, product_;
};

// Bytes of one GEMM's three arrays on one rank, as a real number: no size overflows it.
double gemm_bytes(const GemmShape& shape, DType dtype);

}  // namespace ovl
