// SPDX-License-Identifier: Apache-2.0
#include "app/config_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace ovl {
namespace {

// The complaint about a text in which only `bytes` takes a list; "" where there is none.
std::string file_complaint(const std::string& text) {
  try {
    require_toml("run.toml", text, [](const std::string& key) { return key == "bytes"; });
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "";
}

TEST(ConfigFile, TakesKeysWithTextsNumbersTruthsAndLists) {
  EXPECT_EQ(file_complaint(""), "");
  EXPECT_EQ(file_complaint("# a remark\n\nranks = 2 # two\nmax-time='8s'\r\nbalance = true\nwindow = \"a \\\" # b\"\n"),
            "");
  EXPECT_EQ(file_complaint("bytes = []\n"), "");
  EXPECT_EQ(file_complaint("bytes = [\"4KiB\", # small\n  '1MiB:4MiB:x2',\n]\nranks = 2"), "");
  EXPECT_EQ(file_complaint("[section]\nranks = 2\n"), "") << "told by the parser";
}

TEST(ConfigFile, NamesTheLineAndTheKey) {
  EXPECT_EQ(file_complaint("ranks = 2\nbytes = [\"4KiB\", \"1MiB\"\nprecision = 1\n"),
            "the configuration file run.toml is not TOML: in line 2 the list of bytes has no end; write ] behind it");
  EXPECT_EQ(file_complaint("bytes = [\"4KiB\","),
            "the configuration file run.toml is not TOML: in line 1 the list of bytes has no end; write ] behind it");
  EXPECT_EQ(file_complaint("ranks = [2, 4]\n"),
            "the configuration file run.toml has a list for ranks: in line 1 and it takes one value; write ranks = "
            "VALUE");
  EXPECT_EQ(file_complaint("ranks = 2\n\n# again\nranks = 4\n"),
            "the configuration file run.toml has the key ranks twice: in line 4 and in line 1; keep one of them");
  EXPECT_THAT(file_complaint("out = \"runs\n"),
              testing::HasSubstr("in line 1 a text of out has no end; write \" behind it"));
  EXPECT_THAT(file_complaint("ranks =\n"), testing::HasSubstr("ranks has no value"));
  EXPECT_THAT(file_complaint("ranks = 2 3\n"), testing::HasSubstr("something follows the value of ranks"));
  EXPECT_THAT(file_complaint("ranks 2\n"), testing::HasSubstr("there is no key = value; write for example ranks = 2"));
}

}  // namespace
}  // namespace ovl
