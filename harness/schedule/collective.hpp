// SPDX-License-Identifier: Apache-2.0
//
// One collective again and again, by itself or beside a row of GEMMs that begins before it and is meant to outlast it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/enum_names.hpp"
#include "base/units.hpp"
#include "program/program.hpp"
#include "schedule/models.hpp"

namespace ovl {

// What is done with the array: a collective of the library, an exchange with the neighbours (each rank sends the array
// to the next one and receives that of the one before, as sendrecv of nccl-tests), or several collectives in sequence.
enum class CollectiveForm {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  all_to_all,
  exchange,
  reduce_scatter_all_gather,  // the identity: its result is that of all_reduce
  all_reduce_hierarchical     // reduce_scatter inside each of two groups, all_reduce across them, all_gather inside
};
template <>
struct EnumNames<CollectiveForm> {
  static constexpr std::string_view axis = "collective";
  static constexpr std::pair<CollectiveForm, std::string_view> table[] = {
      {CollectiveForm::all_reduce, "all_reduce"},
      {CollectiveForm::all_gather, "all_gather"},
      {CollectiveForm::reduce_scatter, "reduce_scatter"},
      {CollectiveForm::broadcast, "broadcast"},
      {CollectiveForm::all_to_all, "all_to_all"},
      {CollectiveForm::exchange, "exchange"},
      {CollectiveForm::reduce_scatter_all_gather, "reduce_scatter+all_gather"},
      {CollectiveForm::all_reduce_hierarchical, "all_reduce:hierarchical"}};
};

// The collective whose result a form has: what its bus bandwidth is counted as. None for an exchange.
std::optional<CollectiveKind> result_of(CollectiveForm form);

// GEMMs beside the collectives: `count` of them in the whole window, on every rank, of the collective's dtype.
struct GemmLoad {
  GemmShape shape;
  std::int64_t count = 1;
};

struct CollectiveSpec {
  int ranks = 2;
  CollectiveForm form = CollectiveForm::all_reduce;
  Bytes bytes = mebibytes(1);  // the whole array, nccl-tests' convention; what one rank sends in an exchange
  DType dtype = DType::f32;
  // As nccl-tests has it: all_gather's input is the rank's block of its output, reduce_scatter's output the rank's
  // block of its input.
  bool in_place = false;
  std::optional<GemmLoad> load;

  std::string transport = "shm";
  int channels = 0;
  Waiting waiting = Waiting::yield;
  Memory memory = Memory::plain;
  MessageProgress progress = {};

  std::int64_t repeats = 1;      // collectives in one timed window
  Bytes rotate_over = Bytes(0);  // memory of all ranks that the operands rotate through, see rotation.hpp
};

// Elements of the array: bytes / size of the dtype, rounded up to a multiple of what the form divides it into. Throws
// Error(usage) above 2^60 bytes.
std::int64_t array_count(const CollectiveSpec& spec);

// Whether one replay leaves other data behind than it found, so that the next must begin with the prologue: a sum in
// place would grow from replay to replay. Within a window each sum in place has an array of its own.
bool consumes_its_input(const CollectiveSpec& spec);

// Lanes "comm" and, with a load, "compute": the first collective then waits until the first GEMM has started.
// Throws Error(impossible) for what the form cannot do: a hierarchy without two equal groups of at least two ranks;
// all_to_all, an exchange or a sequence in place. Throws Error(usage) when the arrays of all ranks take more than 2^60
// bytes.
Program collective_program(const CollectiveSpec& spec);

}  // namespace ovl
