// SPDX-License-Identifier: Apache-2.0
//
// Its time is real, so nothing here depends on how long something takes: a patience of a millisecond is waited for
// until it has passed, one of an hour never passes.
#include "app/last_resort.hpp"

#include <gtest/gtest.h>

#include <future>
#include <stdexcept>

namespace ovl {
namespace {

const Seconds an_hour(3600);

// What is said at the end of a run that hangs; a second end would throw.
class Hanging {
 public:
  LastResort& last_resort() { return last_resort_; }
  std::string said() { return text_.get_future().get(); }

 private:
  std::promise<std::string> text_;
  LastResort last_resort_{Seconds(1e-3), [this](const std::string& text) { text_.set_value(text); }};
};

TEST(LastResort, ARunThatDoesNotComeToItsEndIsEndedWithTheFirstReason) {
  Hanging run;
  run.last_resort().expect_end("a rank failed");
  run.last_resort().expect_end("and another");
  EXPECT_EQ(run.said(), "a rank failed");
}

TEST(LastResort, TheWordsAreThoseOfTheRun) {
  Hanging run;
  run.last_resort().words([](const std::string& reason) { return "case x: " + reason; });
  run.last_resort().expect_end("a rank failed");
  EXPECT_EQ(run.said(), "case x: a rank failed");
}

TEST(LastResort, WordsThatFailAreNoReasonToSayNothing) {
  Hanging run;
  run.last_resort().words([](const std::string&) -> std::string { throw std::runtime_error("the disk is full"); });
  run.last_resort().expect_end("a rank failed");
  EXPECT_EQ(run.said(), "a rank failed; the disk is full");
}

TEST(LastResort, ARunThatComesToItsEndIsLeftAlone) {
  LastResort last_resort(an_hour, [](const std::string& text) { ADD_FAILURE() << text; });
  last_resort.expect_end("a rank failed");
}

TEST(LastResort, NothingEndsARunThatNobodyExpectsToEnd) {
  const LastResort last_resort(Seconds(0), [](const std::string& text) { ADD_FAILURE() << text; });
}

TEST(LastResort, EndsTheProcessWhateverItsThreadsAreIn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        LastResort last_resort(Seconds(1e-3), end_process);
        last_resort.expect_end("a rank failed");
        std::promise<void>().get_future().wait();  // for ever
      },
      testing::ExitedWithCode(1), "^a rank failed\n$");
}

}  // namespace
}  // namespace ovl
