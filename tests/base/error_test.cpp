// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ovl {
namespace {

using testing::ElementsAre;

TEST(Error, SaysWhatWhyAndWhatToTypeInstead) {
  const Error error = usage_error("size \"0\" is not positive", "a size is at least 1 byte", "type for example 64KiB");
  EXPECT_STREQ(error.what(), "size \"0\" is not positive: a size is at least 1 byte; type for example 64KiB");
}

TEST(Error, LeavesOutWhatIsEmpty) {
  EXPECT_STREQ(usage_error("odd", "", "round it").what(), "odd; round it");
  EXPECT_STREQ(failure("disk is full", "no space left").what(), "disk is full: no space left");
}

TEST(Error, KindDecidesTheExitCode) {
  EXPECT_EQ(failure("", "").exit_code(), 1);
  EXPECT_EQ(usage_error("", "", "").exit_code(), 2);
  EXPECT_EQ(impossible_error("", "", "").exit_code(), 3);
  EXPECT_EQ(Error(ErrorKind::interrupted, "").exit_code(), 130);
}

TEST(Require, IsAboutOurBugsAndNotAnError) {
  EXPECT_NO_THROW(require(true, "fine"));
  EXPECT_THROW(require(false, "ranks add up"), std::logic_error);
}

TEST(Nearest, OrdersByEditDistanceAndKeepsTiesInOrder) {
  const std::vector<std::string> known{"serial", "concurrent", "comm_first", "compute_first"};
  EXPECT_THAT(nearest("comm-first", known, 2), ElementsAre("comm_first", "compute_first"));
  EXPECT_THAT(nearest("a", {"x", "y"}, 2), ElementsAre("x", "y"));
  EXPECT_THAT(nearest("anything", {}), ElementsAre());
}

TEST(UnknownValue, ListsAFewKnownOnes) {
  EXPECT_STREQ(unknown_value("dtype", "fp32", {"f64", "f32"}).what(),
               "dtype \"fp32\" is unknown: known are f64, f32; did you mean f32?");
}

TEST(UnknownValue, OffersTheNearestOfMany) {
  std::vector<std::string> known;
  for (char c = 'a'; c <= 'z'; ++c) known.push_back(std::string(3, c));
  EXPECT_STREQ(unknown_value("name", "qqx", known).what(), "name \"qqx\" is unknown; did you mean qqq, xxx, aaa?");
}

}  // namespace
}  // namespace ovl
