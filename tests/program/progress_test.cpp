// SPDX-License-Identifier: Apache-2.0
#include "program/progress.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "program/builder.hpp"
#include "program/print.hpp"

namespace ovl {
namespace {

std::string error_of(std::string_view text) {
  try {
    parse_progress(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage) << text;
    return error.what();
  }
  return "";
}

TEST(MessageProgress, IsAModeAndWhenPollingAnInterval) {
  EXPECT_EQ(parse_progress("none"), (MessageProgress{ProgressMode::none, Seconds(0)}));
  EXPECT_EQ(parse_progress("thread"), (MessageProgress{ProgressMode::thread, Seconds(0)}));
  EXPECT_EQ(parse_progress("auto"), MessageProgress{});
  EXPECT_EQ(parse_progress("poll:100us"), (MessageProgress{ProgressMode::poll, Seconds(100 * 1e-6)}));
  EXPECT_EQ(parse_progress("poll:1.5ms"), (MessageProgress{ProgressMode::poll, Seconds(1.5 * 1e-3)}));
}

TEST(MessageProgress, HasOneNameHoweverItWasTyped) {
  for (const char* text : {"auto", "none", "thread", "poll:100us", "poll:2.5us"}) {
    EXPECT_EQ(progress_name(parse_progress(text)), text);
  }
  EXPECT_EQ(progress_name(parse_progress("poll:1ms")), "poll:1000us");
}

TEST(MessageProgress, SaysWhatToTypeInstead) {
  EXPECT_EQ(error_of("poll"),
            "progress \"poll\" has no interval: polling takes one from 1us to 1s, in us or ms; type for example "
            "--progress poll:100us");
  for (const char* text : {"poll:", "poll:100", "poll:0us", "poll:-1us", "poll:2000ms", "poll:nanus", "poll:1s"}) {
    EXPECT_NE(error_of(text).find("has no interval"), std::string::npos) << text;
  }
  EXPECT_EQ(error_of("none:100us"),
            "progress \"none:100us\" has an interval: only polling has one; type --progress none or poll:100us");
  EXPECT_NE(error_of("threads").find("progress \"threads\" is unknown"), std::string::npos);
}

TEST(MessageProgress, StandsInThePrintedProgramWhereItWasAskedFor) {
  const auto printed = [](const MessageProgress& progress) {
    ProgramBuilder p("p", 2);
    p.lane({.name = "comm"});
    p.world("world", "mpi-mpich", 1, progress);
    p.all_ranks();
    return print(std::move(p).finish());
  };
  EXPECT_NE(printed(parse_progress("poll:50us")).find("groups={0..1} progress=poll:50us\n"), std::string::npos);
  EXPECT_EQ(printed({}).find("progress"), std::string::npos);
}

}  // namespace
}  // namespace ovl
