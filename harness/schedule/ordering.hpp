// SPDX-License-Identifier: Apache-2.0
//
// What order is for: a small training step done right, and the same with one mistake. Gradients are computed one after
// another, reduced, and added to the weights. On purpose the producer is slow and each reduction begins with a pause,
// so that a missing edge shows in every run and not now and then.
#pragma once

#include <cstdint>
#include <string>

#include "base/enum_names.hpp"
#include "base/units.hpp"
#include "program/program.hpp"

namespace ovl {

// missing_producer_event: reductions do not wait for their gradients; fast, and they sum up what was there before.
// missing_consumer_wait: the weights do not wait for the reductions; as fast, and wrong in the last ones.
// global_sync: correct, but the host waits for everything between computing and communicating, so nothing overlaps.
// rank_misorder: the last rank begins with the second reduction, whose size is another: the ranks never agree.
enum class OrderingVariant { correct, missing_producer_event, missing_consumer_wait, global_sync, rank_misorder };
template <>
struct EnumNames<OrderingVariant> {
  static constexpr std::string_view axis = "variant";
  static constexpr std::pair<OrderingVariant, std::string_view> table[] = {
      {OrderingVariant::correct, "correct"},
      {OrderingVariant::missing_producer_event, "missing_producer_event"},
      {OrderingVariant::missing_consumer_wait, "missing_consumer_wait"},
      {OrderingVariant::global_sync, "global_sync"},
      {OrderingVariant::rank_misorder, "rank_misorder"}};
};

struct OrderingSpec {
  OrderingVariant variant = OrderingVariant::correct;
  int ranks = 2;
  int gradients = 3;  // two or more
  // The first gradient is m×n, the i-th i times as high.
  std::int64_t m = 64;
  std::int64_t n = 64;
  std::int64_t k = 64;
  DType dtype = DType::f32;  // one whose products it can hold, so not f8e4m3
  // Before each gradient; a quarter of it before each reduction. Longer than a reduction and a GEMM take.
  Seconds stall = milliseconds(4);
  // Launches rank_misorder all the same: it hangs or fails. Else its findings are unexpected and it is refused.
  bool run_anyway = false;

  std::string transport = "shm";
  int channels = 1;
  Waiting waiting = Waiting::yield;
  Memory memory = Memory::plain;
};

// Lanes "compute" and "comm"; buffers "gradients", "reduced", "weights". One class of ranks, but two for rank_misorder.
// The variants that are wrong on purpose expect their finding: race, or mismatch with run_anyway.
Program ordering_program(const OrderingSpec& spec);

}  // namespace ovl
