// SPDX-License-Identifier: Apache-2.0
#include "backend/registry.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace ovl {
namespace {

BackendEntry entry(const std::string& name, int preference, const std::string& unusable = "") {
  return {name, preference, [unusable] { return unusable; }, {}};
}

BackendRegistry registry(std::vector<BackendEntry> entries) {
  BackendRegistry r;
  for (BackendEntry& e : entries) r.add(std::move(e));
  return r;
}

std::string error_of(const BackendRegistry& registry, const std::string& wanted, ErrorKind kind) {
  try {
    return "chose " + registry.choose(wanted).name;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
}

TEST(Registry, AutoTakesTheUsableBackendOfTheHighestPreference) {
  EXPECT_EQ(registry({entry("model", 0), entry("cuda", 20), entry("host", 10)}).choose("auto").name, "cuda");
  EXPECT_EQ(registry({entry("model", 0), entry("cuda", 20, "no driver"), entry("host", 10)}).choose("auto").name,
            "host");
}

TEST(Registry, ANameTakesThatBackendWhateverIsPreferred) {
  const BackendRegistry r = registry({entry("cuda", 20), entry("host", 10)});
  EXPECT_EQ(r.choose("host").name, "host");
  EXPECT_EQ(r.names(), (std::vector<std::string>{"cuda", "host"}));
}

TEST(Registry, AnUnusableBackendSaysWhyNot) {
  const BackendRegistry r = registry({entry("cuda", 20, "the driver does not answer"), entry("host", 10)});
  EXPECT_EQ(error_of(r, "cuda", ErrorKind::impossible),
            "backend \"cuda\" cannot run here: cuda: the driver does not answer; --backend auto takes one that can");
}

TEST(Registry, WithoutAnyUsableBackendAutoSaysWhyOfEach) {
  const BackendRegistry r = registry({entry("cuda", 20, "no driver"), entry("host", 10, "no cores")});
  EXPECT_EQ(error_of(r, "auto", ErrorKind::impossible),
            "backend \"auto\" cannot run here: cuda: no driver; host: no cores");
}

TEST(Registry, AnUnknownNameIsOfferedTheNearest) {
  EXPECT_EQ(error_of(registry({entry("cuda", 20), entry("host", 10)}), "hots", ErrorKind::usage),
            "backend \"hots\" is unknown: known are cuda, host, auto; did you mean host?");
}

// Asked only about the backend that was named: a probe of a driver may take its time.
TEST(Registry, OnlyTheNamedBackendIsProbed) {
  BackendRegistry r;
  bool probed = false;
  r.add({"cuda", 20, [&] { return probed = true, std::string(); }, {}});
  r.add(entry("host", 10));
  EXPECT_EQ(r.choose("host").name, "host");
  EXPECT_FALSE(probed);
}

}  // namespace
}  // namespace ovl
