// SPDX-License-Identifier: Apache-2.0
#include "app/command_line.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "base/error.hpp"

namespace ovl {
namespace {

TEST(ShellLine, QuotesWhatAShellWouldChange) {
  EXPECT_EQ(shell_line({"./overlap-pair", "--bytes", "1MiB,64KiB:1MiB:x4"}),
            "./overlap-pair --bytes 1MiB,64KiB:1MiB:x4");
  EXPECT_EQ(shell_line({"a b", "", "$HOME", "it's"}), R"('a b' '' '$HOME' 'it'\''s')");
}

// Exit code and standard error of a body.
std::pair<int, std::string> guard(const std::function<int()>& body) {
  testing::internal::CaptureStderr();
  const int code = guarded("overlap-toy", body);
  return {code, testing::internal::GetCapturedStderr()};
}

TEST(Guarded, TurnsErrorsIntoOneLineAndAnExitCode) {
  using Result = std::pair<int, std::string>;
  EXPECT_EQ(guard([] { return 0; }), Result(0, ""));
  EXPECT_EQ(guard([]() -> int { throw usage_error("ranks 0", "too few", "type 2"); }),
            Result(2, "overlap-toy: ranks 0: too few; type 2\n"));
  EXPECT_EQ(guard([]() -> int { throw impossible_error("no cuda", "none built", ""); }),
            Result(3, "overlap-toy: no cuda: none built\n"));
  EXPECT_EQ(guard([]() -> int { throw failure("disk", "full"); }), Result(1, "overlap-toy: disk: full\n"));
  EXPECT_EQ(guard([]() -> int { throw Error(ErrorKind::interrupted, "interrupted"); }),
            Result(130, "overlap-toy: interrupted\n"));
  EXPECT_EQ(guard([]() -> int { throw std::logic_error("impossible"); }),
            Result(1, "overlap-toy: impossible; this is a defect of overlapbench, please report it\n"));
}

}  // namespace
}  // namespace ovl
