// SPDX-License-Identifier: Apache-2.0
#include "schedule/queue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "program/check.hpp"
#include "program/print.hpp"

namespace ovl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

QueueSpec small() {
  QueueSpec spec;
  spec.bytes = Bytes(16);
  spec.backlog = 2;
  spec.arrivals = {Seconds(0.5), Seconds(1)};
  return spec;
}

TEST(Queue, WorkedExample) {
  EXPECT_EQ(print(queue_program(small())), R"(program queue ranks=2
lane queue0 role=comm priority=normal partition=auto waiting=yield
comm 0 queue0 transport=shm channels=0 groups={0..1}
buffer send0 f32 count=4 memory=plain copies=1
buffer receive0 f32 count=4 memory=plain copies=1
class all ranks={0..1}
  prologue
    %0 @queue0 fill -> send0[0:4]
  body
    %1 @queue0 all_reduce 16 f32 comm=0 <- send0[0:4] -> receive0[0:4]
    %2 @queue0 all_reduce 16 f32 comm=0 <- send0[0:4] -> receive0[0:4]
    %3 @queue0 all_reduce 16 f32 comm=0 not_before=0.5 s <- send0[0:4] -> receive0[0:4]
    %4 @queue0 all_reduce 16 f32 comm=0 not_before=1 s <- send0[0:4] -> receive0[0:4]
  epilogue
    %5 @queue0 verify %4
)");
}

TEST(Queue, GivenServicesAreBusyLanesWithoutMemory) {
  QueueSpec spec = small();
  spec.given = Seconds(0.25);
  spec.lanes = spec.serving = 2;
  EXPECT_EQ(print(queue_program(spec)), R"(program queue ranks=2
lane queue0 role=comm priority=normal partition=auto waiting=yield
lane queue1 role=comm priority=normal partition=auto waiting=yield
class all ranks={0..1}
  body
    %0 @queue0 busy 0.25 s
    %1 @queue1 busy 0.25 s
    %2 @queue0 busy 0.25 s not_before=0.5 s
    %3 @queue1 busy 0.25 s not_before=1 s
)");
}

TEST(Queue, IsSoundForEveryCollectiveLanesAndRotation) {
  for (const auto& [kind, text] : EnumNames<CollectiveKind>::table) {
    for (const int lanes : {1, 2, 4}) {
      for (const std::int64_t window : {1, 3}) {
        QueueSpec spec = small();
        spec.kind = kind;
        spec.ranks = 3;
        spec.bytes = Bytes(24);
        spec.lanes = spec.serving = lanes;
        spec.backlog = 5;
        spec.arrivals = constant_arrivals(Seconds(0.1), Seconds(1));
        spec.window = window;
        spec.rotate_over = Bytes(1000);
        const Program program = queue_program(spec);
        EXPECT_THAT(check(program), IsEmpty()) << text << lanes << window;
        EXPECT_EQ(program.communicators.size(), static_cast<std::size_t>(lanes));
        EXPECT_EQ(program.classes.front().body.size(), 15U);
        // What the last operation on each array wrote can be verified.
        const std::int64_t slices = program.buffers[0].count / (kind == CollectiveKind::all_gather ? 2 : 6);
        EXPECT_EQ(std::ssize(program.classes.front().epilogue), std::min<std::int64_t>(15, lanes * slices)) << text;
      }
    }
  }
}

TEST(Queue, LanesThatDoNotServeAreDeclaredAllTheSame) {
  QueueSpec spec = small();
  spec.lanes = 4;
  spec.serving = 1;
  const Program program = queue_program(spec);
  EXPECT_EQ(program.lanes.size(), 4U);
  EXPECT_EQ(program.buffers.size(), 8U);
  for (const Operation& op : program.classes.front().body) EXPECT_EQ(op.lane, LaneId(0));
}

TEST(Queue, TooManyOperationsAreRefusedBeforeAnythingIsBuilt) {
  QueueSpec spec = small();
  spec.arrivals = constant_arrivals(Seconds(1e-9), Seconds(1));
  EXPECT_EQ(std::ssize(spec.arrivals), most_queued + 1) << "not a billion";
  try {
    queue_program(spec);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::impossible);
    EXPECT_THAT(error.what(), HasSubstr("4099 operations or more are too many for one replay: 4096 are checked"));
  }
}

TEST(Arrivals, ConstantOnesComeEachTheSameTimeAfterTheOther) {
  EXPECT_THAT(constant_arrivals(Seconds(0.25), Seconds(1)),
              ElementsAre(Seconds(0.25), Seconds(0.5), Seconds(0.75), Seconds(1)));
  EXPECT_THAT(constant_arrivals(Seconds(2), Seconds(1)), IsEmpty());
}

TEST(Arrivals, PoissonOnesAreTheSameForASeedAndHaveTheRate) {
  const auto a = poisson_arrivals(Seconds(0.5), Seconds(1000), 1);
  EXPECT_EQ(a, poisson_arrivals(Seconds(0.5), Seconds(1000), 1));
  EXPECT_NE(a, poisson_arrivals(Seconds(0.5), Seconds(1000), 2));
  EXPECT_TRUE(std::is_sorted(a.begin(), a.end()));
  EXPECT_LE(a.back(), Seconds(1000));
  // 2000 expected, with a standard deviation of 45.
  EXPECT_NEAR(static_cast<double>(a.size()), 2000, 4 * 45);
  // Gaps are exponential: e^-1 of them are longer than the mean.
  std::vector<Seconds> gaps(a.size());
  std::adjacent_difference(a.begin(), a.end(), gaps.begin());
  const auto longer = std::count_if(gaps.begin(), gaps.end(), [](Seconds g) { return g > Seconds(0.5); });
  EXPECT_NEAR(static_cast<double>(longer) / static_cast<double>(gaps.size()), 0.3679, 0.04);
}

}  // namespace
}  // namespace ovl
