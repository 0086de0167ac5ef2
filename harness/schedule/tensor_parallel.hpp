// SPDX-License-Identifier: Apache-2.0
//
// Tensor parallel layers as Megatron-LM cuts them, forward pass: of each pair of matrices (qkv and proj, mlp and down)
// the first is cut by columns and the second by rows, so that every rank has a part of the inner width and holds a
// summand of the pair's output, which is all-reduced before the next pair can begin. Nothing hides there but by tiling:
// the rows of the output in parts, one reduced while the next is computed, and the next pair begins on the first part.
#pragma once

#include <cstdint>
#include <string>

#include "base/enum_names.hpp"
#include "base/units.hpp"
#include "program/program.hpp"
#include "schedule/layers.hpp"

namespace ovl {

// How the summands become whole. sequence: reduce_scatter over the rows, then all_gather of them: what lies between
// (norms, dropout) then works on a part of the rows (Korthikanti et al., "Reducing activation recomputation in large
// transformer models", 2022). Both move the same bytes.
enum class TensorParallelMode { all_reduce, sequence };
template <>
struct EnumNames<TensorParallelMode> {
  static constexpr std::string_view axis = "tensor parallel mode";
  static constexpr std::pair<TensorParallelMode, std::string_view> table[] = {
      {TensorParallelMode::all_reduce, "all_reduce"}, {TensorParallelMode::sequence, "sequence"}};
};

struct TensorParallelSpec {
  int ranks = 2;
  Layers layers;             // of the whole model; every inner width divides by the ranks
  DType dtype = DType::f32;  // of everything: a dtype whose products it can hold, so not f8e4m3
  TensorParallelMode mode = TensorParallelMode::all_reduce;
  int tiles = 1;  // of the rows; they divide the tokens, and a tile's rows divide by the ranks in sequence mode
  std::int64_t repeats = 1;  // forward passes in one timed window

  std::string transport = "shm";
  int channels = 1;
  Waiting waiting = Waiting::yield;
  Memory memory = Memory::plain;
};

// One class of ranks, lanes "compute" and "comm". A pair's first GEMM reads the previous pair's reduced output; its
// second reads a filled operand in place of the activation. A pass begins when the one before it has ended. Throws
// Error(usage) where something does not divide.
Program tensor_parallel_program(const TensorParallelSpec& spec);

// A what-if in given durations: `pairs` pairs whose two GEMMs take `first` and `second` and whose reduction takes alpha
// for each tile and `wire` for all of them. Every operation is `busy`; buffers are one element a tile.
struct TensorParallelWhatIf {
  int pairs = 1;
  int tiles = 1;
  Seconds first;
  Seconds second;
  Seconds wire;
  Seconds alpha;
};
Program tensor_parallel_program(const TensorParallelWhatIf& what_if, int ranks);

}  // namespace ovl
