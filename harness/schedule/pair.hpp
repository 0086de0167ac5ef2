// SPDX-License-Identifier: Apache-2.0
//
// The simplest overlap: a GEMM and a collective that do not depend on each other, side by side on every rank.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.hpp"
#include "program/program.hpp"

namespace ovl {

struct PairSpec {
  int ranks = 2;
  // GEMM: c (m×n) = a (m×k) · b (k×n), `gemm_repeat` times in a row. c is of gemm_output(dtype).
  std::int64_t m = 1024;
  std::int64_t n = 1024;
  std::int64_t k = 1024;
  std::int64_t gemm_repeat = 1;
  // Collective over all ranks; `bytes` is the whole array, nccl-tests' convention.
  CollectiveKind collective = CollectiveKind::all_reduce;
  Bytes bytes = mebibytes(25);
  DType dtype = DType::f32;

  std::string transport = "shm";
  int channels = 1;
  Waiting waiting = Waiting::yield;
  Memory memory = Memory::plain;
  MessageProgress progress = {};

  // Pairs of GEMM and collective in one timed window.
  std::int64_t repeats = 1;
  // The operands of the GEMMs, and those of the collectives, each rotate over at least this much memory of all ranks:
  // an arm that runs one kind alone then finds its data in a cache as little as the overlapped one does. At most over
  // 4096 different ones of each.
  Bytes rotate_over = Bytes(0);
};

// Elements of the collective: bytes / size of the dtype, rounded up to a multiple of `ranks` elements where the kind
// divides the array. Throws Error(usage) above 2^60 bytes.
std::int64_t collective_count(const PairSpec& spec);

// One class of ranks. Lanes "compute" and "comm". The GEMMs of the window are issued first, then its collectives: a
// window stands for one longer pair, and in the serial arm the caches change hands once, as between two long
// operations. Consecutive operations use consecutive slices, and consecutive replay slots consecutive copies. Throws
// Error(usage) when the arrays of all ranks take more than 2^60 bytes.
Program pair_program(const PairSpec& spec);

}  // namespace ovl
