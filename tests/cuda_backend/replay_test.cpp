// SPDX-License-Identifier: Apache-2.0
//
// How the ranks' workers and the thread that opens the gates meet. What replays do on devices is in session_test.cpp.
#include "backend/cuda/replay.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace ovl::cuda {
namespace {

TEST(Meeting, IsCompleteWhenEveryRankHasEnqueued) {
  Meeting meeting(2, true);
  meeting.arrive();
  EXPECT_FALSE(meeting.wait(Seconds(0))) << "one is missing, and the limit is over";
  meeting.arrive();
  EXPECT_TRUE(meeting.wait(unknown_time));
  EXPECT_FALSE(meeting.partial());
}

TEST(Meeting, ARankAtTheQueueLimitWaitsForTheOpeningAndMakesItPartial) {
  Meeting meeting(2, true);
  std::atomic<bool> went_on{false};
  std::thread rank([&] {
    meeting.pause();
    went_on = true;
  });
  meeting.arrive();
  EXPECT_TRUE(meeting.wait(unknown_time)) << "who waits for the opening is not waited for";
  EXPECT_FALSE(went_on);
  meeting.open();
  rank.join();
  EXPECT_TRUE(went_on);
  EXPECT_TRUE(meeting.partial());
}

TEST(Meeting, LiveThereIsNothingToOpen) {
  Meeting meeting(1, false);
  meeting.pause();
  EXPECT_FALSE(meeting.partial());
  EXPECT_TRUE(meeting.wait(unknown_time));
}

TEST(Meeting, KeepsTheFirstFailure) {
  Meeting meeting(1, true);
  EXPECT_EQ(meeting.error(), nullptr);
  meeting.fail(std::make_exception_ptr(std::runtime_error("first")));
  meeting.fail(std::make_exception_ptr(std::runtime_error("second")));
  try {
    std::rethrow_exception(meeting.error());
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "first");
  }
}

TEST(Worker, RunsItsJobsOnOneThreadAndHandsTheirFailuresBack) {
  std::thread::id prepared_on;
  Worker worker(Rank(3), [&] { prepared_on = std::this_thread::get_id(); });
  std::thread::id ran_on;
  worker.run([&] { ran_on = std::this_thread::get_id(); });
  EXPECT_EQ(ran_on, prepared_on);
  EXPECT_NE(ran_on, std::this_thread::get_id());
  EXPECT_THROW(worker.run([] { throw std::runtime_error("no"); }), std::runtime_error);
  bool again = false;
  worker.run([&] { again = true; });
  EXPECT_TRUE(again) << "a failure is told once";
}

TEST(Worker, WhoseDeviceCannotBeMadeCurrentDoesNotComeToBe) {
  EXPECT_THROW(Worker(Rank(0), [] { throw std::runtime_error("no device"); }), std::runtime_error);
}

}  // namespace
}  // namespace ovl::cuda
