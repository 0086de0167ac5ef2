// SPDX-License-Identifier: Apache-2.0
//
// Ranks that are processes, started with fork and exec.
#include <gtest/gtest.h>
#include <nccl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace {

// How each rank's process ended: 0 is success.
std::vector<int> run(const std::string& what, int ranks) {
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::string> words{OVL_NCCL_RANK, what, std::to_string(rank), std::to_string(ranks), id.internal};
    std::vector<char*> arguments;
    for (std::string& word : words) {
      arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    pid_t child = 0;
    EXPECT_EQ(posix_spawn(&child, OVL_NCCL_RANK, nullptr, nullptr, arguments.data(), environ), 0);
    children.push_back(child);
  }
  std::vector<int> results;
  for (const pid_t child : children) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    results.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  return results;
}

TEST(NcclProcesses, SumOverTwoAndFourProcesses) {
  EXPECT_EQ(run("sum", 2), (std::vector<int>{0, 0}));
  EXPECT_EQ(run("sum", 4), (std::vector<int>{0, 0, 0, 0}));
}

TEST(NcclProcesses, TwoRanksOnOneDeviceAreRefused) { EXPECT_EQ(run("duplicate", 2), (std::vector<int>{0, 0})); }

TEST(NcclProcesses, ARankThatDiedHangsTheOthersUntilTheyAbort) {
  EXPECT_EQ(run("abandon", 2), (std::vector<int>{0, 0}));
}

}  // namespace
