// SPDX-License-Identifier: Apache-2.0
//
// Data parallel training as PyTorch's DistributedDataParallel runs it: the backward pass goes from the last layer to
// the first, gradients are gathered in buckets in the order in which they become ready, a bucket whose gradients are
// all there is all-reduced on the communication lane, and the optimizer updates a bucket's weights when it is reduced.
//
// Large buckets begin late and leave a long tail that nothing hides, small ones pay the launch cost often
// (metrics/bucket_curve.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "program/program.hpp"
#include "schedule/layers.hpp"
#include "schedule/models.hpp"

namespace ovl {

struct Bucket {
  std::vector<std::size_t> tensors;  // indices, in ready order
  DType dtype = DType::f32;
  Bytes size;
};

// Above 0. PyTorch's are first = 1 MiB, so that communication begins early, and cap = 25 MiB; it has no `last`.
struct BucketLimits {
  Bytes cap = ddp_default_bucket;
  std::optional<Bytes> first = ddp_first_bucket;
  // At least this much of what becomes ready last is a bucket of its own: a shorter tail. Nothing: as it comes.
  std::optional<Bytes> last = std::nullopt;
};

// compute_bucket_assignment_by_size of torch/csrc/distributed/c10d/reducer.cpp: greedily in ready order, one open
// bucket a dtype, which closes *after* the tensor that makes it reach its limit, so buckets overshoot. `first` limits
// the first bucket of each dtype, `cap` all others. What is still open at the end follows, by its first tensor. The
// order of the buckets is that in which they are reduced.
std::vector<Bucket> assign_buckets(std::span<const Tensor> ready_order, const BucketLimits& limits);

struct DdpSpec {
  int ranks = 2;
  Layers layers;
  DType dtype = DType::f32;  // of everything: a dtype whose products it can hold, so not f8e4m3
  BucketLimits limits;
  // The backward pass takes this long, each GEMM its share of the FLOPs, instead of running. Communication is real.
  std::optional<Seconds> backward = std::nullopt;
  std::int64_t repeats = 1;  // steps in one timed window

  std::string transport = "shm";
  int channels = 1;
  Waiting waiting = Waiting::yield;
  Memory memory = Memory::plain;
};

// All layers' gradients in ready order.
std::vector<Tensor> ddp_gradients(const DdpSpec& spec);

// One class of ranks, lanes "compute" and "comm". Backward: for each matrix, last to first, the gradient of its input,
// then of its weights; the small gradients of biases and norms are copies of filled ones. Buffers `gradients`,
// `reduced` and `weights` hold the tensors in ready order.
Program ddp_program(const DdpSpec& spec);

// A what-if in given durations: `buckets` equal parts of the backward pass, each followed by a message of alpha + wire
// / buckets on the communication lane. Every operation is `busy`; buffers are one element a bucket.
struct DdpWhatIf {
  Seconds backward;
  Seconds wire;   // all gradients in one message, without its launch
  Seconds alpha;  // of each message
  std::int64_t buckets = 1;
};
Program ddp_program(const DdpWhatIf& what_if, int ranks);

}  // namespace ovl
