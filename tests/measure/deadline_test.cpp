// SPDX-License-Identifier: Apache-2.0
//
// The watcher's time is real, so nothing here depends on how long something takes: a limit of a millisecond is waited
// for until it has passed, one of an hour never passes.
#include "measure/deadline.hpp"

#include <gtest/gtest.h>

#include <future>
#include <stdexcept>

#include "backend/progress.hpp"
#include "support/sample_programs.hpp"

namespace ovl {
namespace {

const Seconds an_hour(3600);

// Only progress and abort: all that a watcher asks of a backend.
class Watched final : public Backend {
 public:
  std::vector<LaneProgress> lanes;

  [[nodiscard]] Description describe() const override { return {}; }
  [[nodiscard]] Conditions conditions() override { return {}; }
  [[nodiscard]] Support supports(const Program& /*program*/) const override { return {}; }
  [[nodiscard]] std::unique_ptr<Prepared> prepare(std::vector<Program> /*arms*/, Data /*data*/,
                                                  std::uint64_t /*seed*/) override {
    return nullptr;
  }
  [[nodiscard]] std::vector<LaneProgress> progress() const override { return lanes; }
  void abort() noexcept override { aborted_.set_value(); }  // a second abort would end the test

  // A replay that comes back only when aborted.
  void hang() { aborted_.get_future().wait(); }

 private:
  std::promise<void> aborted_;
};

OpId op(std::size_t position) { return sample::pair().classes[0].body[position].id; }

TEST(Deadline, AHangIsAbortedAndReportedLaneByLane) {
  Watched backend;
  backend.lanes = {{Rank(0), LaneId(0), op(0), op(0)},
                   {Rank(0), LaneId(1), op(1), OpId()},
                   {Rank(1), LaneId(0), op(0), OpId()},
                   {Rank(1), LaneId(1), OpId(), OpId()}};
  const Program program = sample::pair();
  Deadline deadline(backend, Seconds(1e-3));
  {
    const Deadline::Watch watch(deadline, program);
    backend.hang();
  }
  EXPECT_EQ(deadline.report(), progress_text(program, backend.lanes));
  EXPECT_EQ(deadline.report(),
            "rank 0 compute: enqueued %1 gemm 4x4x4 f32, completed %1 gemm 4x4x4 f32; "
            "rank 0 comm: enqueued %2 all_reduce 64 f32 comm=0, completed nothing; "
            "rank 1 compute: enqueued %1 gemm 4x4x4 f32, completed nothing; "
            "rank 1 comm: enqueued nothing, completed nothing");
}

TEST(Deadline, AHangAfterManyReplaysInTimeIsFoundToo) {
  Watched backend;
  const Program program = sample::pair();
  Deadline deadline(backend, Seconds(1e-3));
  backend.lanes = {{Rank(0), LaneId(0), OpId(), OpId()}};
  for (int i = 0; i < 1000; ++i) const Deadline::Watch watch(deadline, program);
  {
    const Deadline::Watch watch(deadline, program);
    backend.hang();
  }
  EXPECT_EQ(deadline.report(), "rank 0 compute: enqueued nothing, completed nothing");
}

TEST(Deadline, ReplaysInTimeLeaveNoReport) {
  Watched backend;
  const Program program = sample::pair();
  Deadline deadline(backend, an_hour);
  for (int i = 0; i < 1000; ++i) const Deadline::Watch watch(deadline, program);
  EXPECT_EQ(deadline.report(), "");
}

TEST(Deadline, AReplayThatThrowsIsNoHang) {
  Watched backend;
  const Program program = sample::pair();
  Deadline deadline(backend, an_hour);
  const auto replay = [&] {
    const Deadline::Watch watch(deadline, program);
    throw std::runtime_error("a lane failed");
  };
  EXPECT_THROW(replay(), std::runtime_error);
  EXPECT_EQ(deadline.report(), "");
}

// Each would hang this test for an hour.
TEST(Deadline, EndsAtOnceWhateverItWaitsFor) {
  Watched backend;
  const Program program = sample::pair();
  { const Deadline never_used(backend, an_hour); }
  {
    Deadline timing(backend, an_hour);
    const Deadline::Watch watch(timing, program);
  }
  {
    Deadline idle(backend, Seconds(1e-3));
    { const Deadline::Watch watch(idle, program); }
  }
}

TEST(ProgressText, WhatTheProgramLacksIsItsNumber) {
  EXPECT_EQ(progress_text(sample::pair(), {{Rank(0), LaneId(0), OpId(99), OpId()}}),
            "rank 0 compute: enqueued %99, completed nothing");
  EXPECT_EQ(progress_text(sample::pair(), {{Rank(0), LaneId(9), OpId(), OpId()}}),
            "rank 0 lane 9: enqueued nothing, completed nothing");
  EXPECT_EQ(progress_text(sample::pair(), {}), "");
}

}  // namespace
}  // namespace ovl
