// SPDX-License-Identifier: Apache-2.0
//
// Fully sharded data parallel training: every rank keeps a part of each layer's weights, gathers a layer before it
// computes with it, once forward and once backward, and reduces and scatters the layer's gradients afterwards. How far
// ahead layers are gathered is bought with memory: a gathered layer is a slot, a slot used too early is a race.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/units.hpp"
#include "program/program.hpp"
#include "schedule/layers.hpp"

namespace ovl {

struct FsdpSpec {
  int ranks = 2;
  Layers layers;
  DType dtype = DType::f32;  // of everything: a dtype whose products it can hold, so not f8e4m3
  // Layers gathered ahead of the one that computes. 0: each layer waits for its own.
  std::int64_t prefetch = 1;
  // At most this many layers are gathered or being gathered at once, PyTorch's limit_all_gathers (2 there); 0: as many
  // as the prefetch needs.
  std::int64_t in_flight = 0;
  // Gathers and reductions on two communicators and lanes, so that neither waits for the other; else both on one.
  bool two_communicators = true;
  // With a bound on one rank's memory a program that needs more is refused with Error(usage).
  std::optional<Bytes> memory_limit = std::nullopt;
  std::int64_t repeats = 1;  // steps in one timed window

  std::string transport = "shm";
  int channels = 1;
  Waiting waiting = Waiting::yield;
  Memory memory = Memory::plain;
};

// Gathered layers that exist at once: 1 + prefetch, no more than in_flight or than there are layers.
std::int64_t fsdp_slots(const FsdpSpec& spec);

// Elements of one layer as gathered: its parameters, rounded up to a multiple of the ranks.
std::int64_t fsdp_layer_elements(const FsdpSpec& spec);

// One class of ranks, lanes "compute", "gather" and "reduce" (or "comm" for both). Forward through all layers, backward
// through all, then the optimizer on each shard, which the next step's first gather waits for. Two slots hold unreduced
// gradients of a layer. Throws Error(usage) for
// a negative depth or limit, and above memory_limit, saying how much it needs.
Program fsdp_program(const FsdpSpec& spec);

// A what-if in given durations: each layer takes these. Every operation is `busy`; buffers are one element a slot.
struct FsdpWhatIf {
  std::int64_t layers = 1;
  std::int64_t prefetch = 1;
  std::int64_t in_flight = 0;
  bool two_communicators = true;
  Seconds gather;
  Seconds forward;
  // Nothing: the forward pass alone.
  struct Backward {
    Seconds compute;
    Seconds reduce;
  };
  std::optional<Backward> backward = std::nullopt;
};
Program fsdp_program(const FsdpWhatIf& what_if, int ranks);

}  // namespace ovl
