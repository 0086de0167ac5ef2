// SPDX-License-Identifier: Apache-2.0
#include "schedule/data.hpp"

#include <gtest/gtest.h>

#include "program/builder.hpp"
#include "program/print.hpp"

namespace ovl {
namespace {

std::string part(const std::string& printed, const std::string& from) {
  const std::size_t at = printed.find("  " + from + "\n");
  return at == std::string::npos ? "" : printed.substr(at);
}

// Two GEMMs write one slot, a reduction reads it between them, and weights are updated by the sums.
struct Slot {
  ProgramBuilder p{"slot", 2};
  LaneId lane = p.lane({.name = "lane"});
  CommId world = p.world("world", "shm", 1);
  BufferId a = p.buffer({.name = "a", .count = 4});
  BufferId slot = p.buffer({.name = "slot", .count = 4});
  BufferId sum = p.buffer({.name = "sum", .count = 8});
  BufferId weights = p.buffer({.name = "weights", .count = 4});
  BufferId result = p.buffer({.name = "result", .count = 4});
  ClassBuilder all = p.all_ranks();

  void step(std::int64_t i) {
    all.body(lane, Gemm{2, 2, 2}, {p.whole(a), p.whole(a)}, {p.whole(slot)});
    all.body(lane, Collective{.comm = world, .count = 4}, {p.whole(slot)}, {{sum, 4 * i, 4}});
  }
  Program finish() {
    all.body(lane, Elementwise{}, {{sum, 4, 4}}, {p.whole(weights)});
    all.body(lane, Gemm{2, 2, 2}, {p.whole(a), {sum, 0, 4}}, {p.whole(result)});
    return std::move(p).finish();
  }
};

// `result` alone is read by nobody. What the optimizer adds to is read too.
TEST(FillWhatIsRead, WorkedExample) {
  Slot s;
  s.step(0);
  s.step(1);
  Program program = s.finish();
  fill_what_is_read(program);
  EXPECT_NE(print(program).find("prologue\n    %6 @lane fill -> a[0:4], slot[0:4], sum[0:8], weights[0:4]\n"),
            std::string::npos)
      << print(program);
}

TEST(FillWhatIsRead, LeavesAloneWhatIsFilled) {
  Slot s;
  s.all.prologue(s.lane, Fill{}, {}, {s.p.whole(s.a), s.p.whole(s.weights)});
  s.step(0);
  s.step(1);
  Program program = s.finish();
  fill_what_is_read(program);
  ASSERT_EQ(program.classes[0].prologue.size(), 2U);
  EXPECT_EQ(program.classes[0].prologue[1].writes.size(), 2U) << "slot and sum";
  fill_what_is_read(program);
  EXPECT_EQ(program.classes[0].prologue.size(), 2U) << "nothing is left to fill";
}

// The first reduction's input was overwritten and the first GEMM's output; the last GEMM multiplies sums of products.
TEST(VerifyWhatLasts, WorkedExample) {
  Slot s;
  s.step(0);
  s.step(1);
  Program program = s.finish();
  verify_what_lasts(program);
  EXPECT_EQ(part(print(program), "epilogue"), "  epilogue\n    %6 @lane verify %2\n    %7 @lane verify %3\n");
}

TEST(VerifyWhatLasts, AGemmOfWhatWasGatheredIsVerified) {
  ProgramBuilder p("gathered", 2);
  const LaneId lane = p.lane({.name = "lane"});
  const CommId world = p.world("world", "shm", 1);
  const BufferId shard = p.buffer({.name = "shard", .count = 2});
  const BufferId whole = p.buffer({.name = "whole", .count = 4});
  const BufferId product = p.buffer({.name = "product", .count = 4});
  ClassBuilder all = p.all_ranks();
  all.body(lane, Collective{CollectiveKind::all_gather, world, DType::f32, 4}, {p.whole(shard)}, {p.whole(whole)});
  all.body(lane, Gemm{2, 2, 2}, {p.whole(whole), p.whole(whole)}, {p.whole(product)});
  Program program = std::move(p).finish();
  verify_what_lasts(program);
  EXPECT_EQ(part(print(program), "epilogue"), "  epilogue\n    %2 @lane verify %0\n    %3 @lane verify %1\n");
}

TEST(ScheduleData, OfNothingIsNothing) {
  ProgramBuilder p("nothing", 1);
  p.lane({.name = "lane"});
  p.all_ranks();
  Program program = std::move(p).finish();
  fill_what_is_read(program);
  verify_what_lasts(program);
  EXPECT_TRUE(program.classes[0].prologue.empty());
  EXPECT_TRUE(program.classes[0].epilogue.empty());
}

}  // namespace
}  // namespace ovl
