// SPDX-License-Identifier: Apache-2.0
//
// Who slows whom: two sides on every rank that share nothing but the machine, and the program in which one of them
// covers the other: begins before it and outlives it, so that the other is slowed from its first moment to its last.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "program/program.hpp"
#include "schedule/models.hpp"

namespace ovl {

// What a side does. Bytes of elementwise, stream and copy are those of both arrays together, so that they tell what
// cache holds them; of a collective, the whole array as nccl-tests counts.
enum class LoadKind { gemm, elementwise, collective, occupy, stream, copy };

struct Load {
  LoadKind kind = LoadKind::gemm;
  GemmShape shape;
  Bytes bytes;
  CollectiveKind collective = CollectiveKind::all_reduce;
  int units = 1;        // that it holds: SMs or cores
  BytesPerSecond pace;  // of a stream, read and written; 0: as fast as it goes
};

// "gemm:512x512x512" (or a model's layer, gemm:mlp:gpt2-small), "elementwise:64MiB", "all_reduce:16MiB" (any
// collective), "occupy:2", "stream:max@64MiB", "stream:4GB/s@64MiB" (64MiB where there is no size), "copy:64MiB".
// Throws Error(usage).
Load parse_load(std::string_view text);
std::string load_examples();

// An aggressor that is not slowed itself: it holds units for a time that it was given.
bool only_holds(const Load& load);

// As often as it may be done in one window: kinds that are one operation however often, and those that are a list.
std::int64_t most_repeats(const Load& load);

struct ContentionSpec {
  int ranks = 1;
  Load compute;  // the side on the compute lane
  Load comm;     // and the one on the communication lane, whatever it does
  std::int64_t compute_repeat = 1;
  std::int64_t comm_repeat = 1;
  DType dtype = DType::f32;
  int sm_target = 0;  // of a GEMM
  std::string transport = "shm";
  int channels = 1;
  int workers = 1;  // SMs or cores of a stream
  Waiting waiting = Waiting::yield;
  Memory memory = Memory::plain;
};

// One class of ranks, lanes "compute" and "comm", nothing that orders them. Each side does its operation as often as
// its repeat says: GEMMs in one operation, occupy a millisecond each, stream its arrays once each. Operands do not
// rotate: a load is what fits its bytes. GEMMs and collectives are verified. Throws Error(usage) for more bytes than
// can be counted.
Program contention_program(const ContentionSpec& spec);

// Each operation that the loaded program repeats is done this many times as often as in the other, times `cover`.
inline constexpr std::int64_t covering_amount = 3;

// The program in which all of `covering`'s work begins before the other role's and ends after it: what holds or streams
// lasts until the victim is done; else it is done covering_amount · cover times, equal on all ranks, and whether that
// was enough is seen in each sample. The victim's work and its ids stay. Of a program that orders nothing, with one
// lane a role.
Program covered_by(const Program& program, Role covering, std::int64_t cover);

}  // namespace ovl
