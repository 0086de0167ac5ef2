// SPDX-License-Identifier: Apache-2.0
//
// A queue: equal operations that are submitted over time, by one plan that all ranks share, to one or several lanes
// that serve them in order. Work is counted in operations: one is a work unit (metrics/fluid_queue.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "program/program.hpp"

namespace ovl {

// Times of arrival, after the origin, that lie within the duration: those of a plan, known before anything runs.
// constant: one each `apart`, the first after one. poisson: gaps are exponential with that mean, drawn by the seed.
std::vector<Seconds> constant_arrivals(Seconds apart, Seconds duration);
std::vector<Seconds> poisson_arrivals(Seconds apart, Seconds duration, std::uint64_t seed);

// What a replay takes to check grows faster than its operations.
inline constexpr std::int64_t most_queued = 4096;

struct QueueSpec {
  int ranks = 2;
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes bytes = mebibytes(1);  // the whole array, nccl-tests' convention
  DType dtype = DType::f32;
  std::optional<Seconds> given;  // in place of the collective: each operation keeps its lane busy that long

  int lanes = 1;                  // each with a communicator of its own
  int serving = 1;                // lanes that are used: operation i goes to lane i % serving
  std::int64_t backlog = 0;       // Q0: operations that are submitted at once
  std::vector<Seconds> arrivals;  // and those that follow, not decreasing

  std::string transport = "shm";
  int channels = 0;
  Waiting waiting = Waiting::yield;
  Memory memory = Memory::plain;

  std::int64_t window = 1;       // operations on a lane that the rotation counts on, so that arms share their buffers
  Bytes rotate_over = Bytes(0);  // memory of all ranks that the operands rotate through, see rotation.hpp
};

// Lanes "queue0", "queue1" ... of role communication. Throws Error(impossible) for more than most_queued operations,
// and Error(usage) when the arrays of all ranks take more than 2^60 bytes.
Program queue_program(const QueueSpec& spec);

}  // namespace ovl
