// SPDX-License-Identifier: Apache-2.0
#include "backend/host/progress_engine.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "backend/host/neighbours.hpp"

namespace ovl::host {
namespace {

// Ends at the n-th test after it was posted, and keeps count of who asked.
class Countdown final : public MessageOperation {
 public:
  explicit Countdown(int needed) : needed_(needed) {}
  void post(std::span<std::byte* const> /*memory*/) override {
    left_ = needed_;
    ++posts;
  }
  bool test() override {
    ++tests;
    last_asked = std::this_thread::get_id();
    return --left_ <= 0;
  }
  std::atomic<int> posts{0};
  std::atomic<int> tests{0};
  std::atomic<std::thread::id> last_asked;

 private:
  int needed_;
  int left_ = 0;
};

constexpr MessageProgress none{ProgressMode::none, Seconds(0)};
constexpr MessageProgress always_poll{ProgressMode::poll, Seconds(0)};
constexpr MessageProgress rarely_poll{ProgressMode::poll, Seconds(1e6)};
constexpr MessageProgress own_thread{ProgressMode::thread, Seconds(0)};

// A rank with a compute lane, which is this thread, and a communication lane that posts one operation and waits for it.
struct Rank2Lanes {
  Rank2Lanes(const MessageProgress& progress, int tests)
      : operation(tests),
        messages(progress),
        compute(messages.add(Role::compute)),
        comm(messages.add(Role::communication)) {
    messages.restart();
  }
  void start() {
    thread = std::thread([this] {
      try {
        messages.post(comm, operation, {});
        messages.complete(comm, waiter);
        ended = true;
        messages.leave(comm);
      } catch (const Stopped&) {
        stopped = true;
      }
    });
  }

  StopFlag stop;
  Waiter waiter{Waiting::yield, &stop};
  Countdown operation;
  ProgressEngine messages;
  ProgressEngine::Party& compute;
  ProgressEngine::Party& comm;
  std::atomic<bool> ended{false};
  std::atomic<bool> stopped{false};
  std::thread thread;
};

TEST(ProgressEngine, NoneLeavesMessagesAloneUntilNobodyComputes) {
  Rank2Lanes rank(none, 3);
  rank.start();
  rank.messages.begin_work(rank.compute, rank.waiter);
  EXPECT_EQ(rank.operation.posts, 1) << "what can be posted is posted before the rank computes";
  for (int piece = 0; piece < 10; ++piece) rank.messages.look(rank.compute, rank.waiter);
  EXPECT_EQ(rank.operation.tests, 0);
  EXPECT_FALSE(rank.ended);
  rank.messages.leave(rank.compute);
  rank.thread.join();
  EXPECT_TRUE(rank.ended);
  EXPECT_EQ(rank.operation.tests, 3);
  EXPECT_NE(rank.operation.last_asked.load(), std::this_thread::get_id()) << "the communication lane did";
}

TEST(ProgressEngine, PollMovesMessagesOnBetweenTwoPiecesOfWork) {
  Rank2Lanes rank(always_poll, 3);
  rank.start();
  rank.messages.begin_work(rank.compute, rank.waiter);
  rank.messages.look(rank.compute, rank.waiter);
  rank.messages.look(rank.compute, rank.waiter);
  EXPECT_EQ(rank.operation.tests, 2);
  EXPECT_FALSE(rank.ended);
  rank.messages.look(rank.compute, rank.waiter);
  EXPECT_TRUE(rank.ended) << "the look that sees the end waits for what the lane posts next";
  EXPECT_EQ(rank.operation.tests, 3);
  EXPECT_EQ(rank.operation.last_asked.load(), std::this_thread::get_id());
  rank.messages.look(rank.compute, rank.waiter);
  EXPECT_EQ(rank.operation.tests, 3) << "nothing is under way";
  rank.messages.leave(rank.compute);
  rank.thread.join();
}

TEST(ProgressEngine, PollAsksNoSoonerThanItsInterval) {
  Rank2Lanes rank(rarely_poll, 1);
  rank.start();
  rank.messages.begin_work(rank.compute, rank.waiter);
  for (int piece = 0; piece < 10; ++piece) rank.messages.look(rank.compute, rank.waiter);
  EXPECT_EQ(rank.operation.tests, 0);
  rank.messages.leave(rank.compute);
  rank.thread.join();
  EXPECT_TRUE(rank.ended);
}

TEST(ProgressEngine, ThreadMovesItsOwnMessagesOnWhileTheRankComputes) {
  Rank2Lanes rank(own_thread, 1000);
  rank.start();
  rank.messages.begin_work(rank.compute, rank.waiter);
  rank.thread.join();  // with nobody's help
  EXPECT_EQ(rank.operation.tests, 1000);
  rank.messages.leave(rank.compute);
}

TEST(ProgressEngine, AComputeLaneThatWaitsForAnEventDoesNotCompute) {
  for (const MessageProgress& progress : {none, rarely_poll}) {
    Rank2Lanes rank(progress, 5);
    Signal finished;
    rank.thread = std::thread([&] {
      rank.messages.post(rank.comm, rank.operation, {});
      rank.messages.complete(rank.comm, rank.waiter);
      rank.messages.set(rank.comm, finished, 1, rank.waiter);
      rank.messages.leave(rank.comm);
    });
    rank.messages.wait(rank.compute, finished, 1, rank.waiter);
    EXPECT_EQ(rank.operation.tests, 5);
    rank.messages.leave(rank.compute);
    rank.thread.join();
  }
}

TEST(ProgressEngine, AnEventOfComputeLetsCommunicationPostBeforeComputeGoesOn) {
  Rank2Lanes rank(none, 1);
  Signal ready;
  rank.thread = std::thread([&] {
    rank.messages.wait(rank.comm, ready, 1, rank.waiter);
    rank.messages.post(rank.comm, rank.operation, {});
    rank.messages.complete(rank.comm, rank.waiter);
    rank.messages.leave(rank.comm);
  });
  rank.messages.begin_work(rank.compute, rank.waiter);
  EXPECT_EQ(rank.operation.posts, 0);
  rank.messages.set(rank.compute, ready, 1, rank.waiter);
  EXPECT_EQ(rank.operation.posts, 1);
  EXPECT_EQ(rank.operation.tests, 0);
  rank.messages.leave(rank.compute);
  rank.thread.join();
}

TEST(ProgressEngine, OneLaneThatDoesBothWaitsForItsMessagesItself) {
  for (const MessageProgress& progress : {none, rarely_poll, own_thread}) {
    ProgressEngine messages(progress);
    ProgressEngine::Party& lane = messages.add(Role::compute);
    messages.restart();
    Countdown operation(4);
    const Waiter waiter{Waiting::spin, nullptr};
    messages.begin_work(lane, waiter);
    messages.end_work(lane);
    messages.post(lane, operation, {});
    messages.complete(lane, waiter);
    EXPECT_EQ(operation.tests, 4);
    messages.leave(lane);
  }
}

TEST(ProgressEngine, AnAbortEndsEveryWait) {
  for (const MessageProgress& progress : {none, always_poll, own_thread}) {
    Rank2Lanes rank(progress, 1'000'000'000);
    rank.start();
    rank.messages.begin_work(rank.compute, rank.waiter);
    rank.stop.raise();
    rank.thread.join();
    EXPECT_TRUE(rank.stopped);
  }
}

// Asked at 100, answered at 5040 there, back at 120: there it was 5040 when it was 110 here, give or take 10.
TEST(ClockOffset, IsKnownToHalfTheLengthOfTheQuickestLook) {
  const ClockOffset known = clock_offset({{.sent = 0, .theirs = 5000, .received = 90},
                                          {.sent = 100, .theirs = 5040, .received = 120},
                                          {.sent = 200, .theirs = 5190, .received = 260}});
  EXPECT_EQ(known.offset, 4930);
  EXPECT_EQ(known.error, 10);
}

}  // namespace
}  // namespace ovl::host
