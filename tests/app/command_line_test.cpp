// SPDX-License-Identifier: Apache-2.0
#include "app/command_line.hpp"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "base/error.hpp"

namespace ovl {
namespace {

TEST(ShellLine, QuotesWhatAShellWouldChange) {
  EXPECT_EQ(shell_line({"./overlap-pair", "--bytes", "1MiB,64KiB:1MiB:x4"}),
            "./overlap-pair --bytes 1MiB,64KiB:1MiB:x4");
  EXPECT_EQ(shell_line({"a b", "", "$HOME", "it's"}), R"('a b' '' '$HOME' 'it'\''s')");
  // What would end the line, or command the terminal, as bash, zsh and ksh write it.
  EXPECT_EQ(shell_line({"a\nb", "\x1b[2Jit's\\"}), R"($'a\012b' $'\033[2Jit\'s\\')");
}

// Exit code and standard error of a body.
std::pair<int, std::string> guard(const std::function<int()>& body) {
  testing::internal::CaptureStderr();
  const int code = guarded("overlap-toy", body);
  return {code, testing::internal::GetCapturedStderr()};
}

TEST(Output, CommandsNoTerminal) {
  testing::internal::CaptureStderr();
  print_message(
      "red \x1b[31m, line\r, bell\a\x7f, \xc2\x9b"
      "31m, half \xc3, \x9b; kept: a\tb\nc, \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "red \\x1b[31m, line\\x0d, bell\\x07\\x7f, \\xc2\\x9b"
            "31m, half \\xc3, \\x9b; kept: a\tb\nc, \xc3\xa4 \xe2\x82\xac "
            "\xf0\x9f\x98\x80\n");
  testing::internal::CaptureStdout();
  print_out("key\x1b]0;owned\x07,1\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "key\\x1b]0;owned\\x07,1\n");
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
  EXPECT_EQ(guard([]() -> int { throw failure("key a\nb", "\x1b[2J"); }),
            Result(1, "overlap-toy: key a\\x0ab: \\x1b[2J\n"));
  EXPECT_EQ(guard([]() -> int { throw std::bad_alloc(); }),
            Result(1, "overlap-toy: this process got no more memory; make the sizes smaller, or allow it more\n"));
}

}  // namespace
}  // namespace ovl
