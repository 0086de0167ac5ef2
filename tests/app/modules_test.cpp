// SPDX-License-Identifier: Apache-2.0
#include "app/modules.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "app/backends.hpp"
#include "results/build_info.hpp"

namespace ovl {
namespace {

// A folder for the lifetime of one test.
class Modules : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  ~Modules() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) / "ovl_modules_test" /
                                  testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST(LoadErrorText, SaysWhichLibraryIsMissing) {
  EXPECT_EQ(load_error_text("libnccl.so.2: cannot open shared object file: No such file or directory"),
            "libnccl.so.2 is missing");
  EXPECT_EQ(load_error_text("/x.so: undefined symbol: f"), "/x.so: undefined symbol: f");
}

// A module of this version says so in the words that this library knows.
TEST(ModuleVersion, BeginsWithTheVersion) {
  EXPECT_TRUE(std::string(module_version).starts_with(std::string(build_info().version) + " ")) << module_version;
}

TEST_F(Modules, AreLookedForOnlyWhenAskedFor) {
  const BackendEntry entry = module_entry("cuda", 2, {folder_});
  EXPECT_EQ(entry.name, "cuda");
  EXPECT_EQ(entry.preference, 2);
  std::ofstream(folder_ / "overlapbench-cuda.so") << "no library";
  EXPECT_TRUE(entry.unusable().starts_with("its module cannot be loaded: ")) << entry.unusable();
  std::filesystem::remove(folder_ / "overlapbench-cuda.so");
  EXPECT_TRUE(entry.unusable().starts_with("its module cannot be loaded: ")) << "once";
}

TEST_F(Modules, ThatAreNotThereAreNotPartOfTheBuild) {
  const std::string first = folder_;
  EXPECT_EQ(module_entry("cuda", 2, {folder_, folder_ / "none"}).unusable(),
            "this build has no cuda backend (no overlapbench-cuda.so in " + first + ", " + first + "/none)");
  EXPECT_EQ(module_entry("cuda", 2, {}).unusable(), "this build has no cuda backend");
}

TEST_F(Modules, ThatTheEnvironmentNamesAndAreNotThereAreToldWithThePlace) {
  ::setenv("OVERLAPBENCH_MODULE_PATH", "/nonexistent", 1);
  EXPECT_EQ(module_entry("cuda", 2).unusable(),
            "overlapbench-cuda.so is not in /nonexistent, where OVERLAPBENCH_MODULE_PATH has it looked for: name its "
            "folder, or unset the variable");
  ::unsetenv("OVERLAPBENCH_MODULE_PATH");
}

TEST_F(Modules, AreInTheFoldersOfTheEnvironmentAndNowhereElse) {
  ::setenv("OVERLAPBENCH_MODULE_PATH", "a::b/c", 1);
  EXPECT_EQ(module_folders(), (std::vector<std::filesystem::path>{"a", "b/c"}));
  ::unsetenv("OVERLAPBENCH_MODULE_PATH");
  ASSERT_EQ(module_folders().size(), 2U);
  for (const auto& folder : module_folders()) EXPECT_TRUE(folder.is_absolute()) << folder;
}

// Somebody with a GPU must not take the host's numbers for its.
TEST_F(Modules, AGpuThatIsLeftAloneIsTold) {
  const std::string driver = folder_;
  BackendRegistry backends;
  EXPECT_EQ(unused_gpu(backends, "host", driver), "");
  backends.add({"cuda", 2, [] { return std::string("libnccl.so.2 is missing"); }, {}});
  EXPECT_EQ(unused_gpu(backends, "host", driver),
            "a GPU driver is loaded here, but the cuda backend cannot be used: libnccl.so.2 is missing");
  EXPECT_EQ(unused_gpu(backends, "cuda", driver), "");
  EXPECT_EQ(unused_gpu(backends, "host", driver + "/none"), "");
  BackendRegistry without;
  without.add(module_entry("cuda", 2, {folder_}));
  EXPECT_EQ(unused_gpu(without, "host", driver), "");
}

}  // namespace
}  // namespace ovl
