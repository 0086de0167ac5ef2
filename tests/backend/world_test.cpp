// SPDX-License-Identifier: Apache-2.0
#include "backend/world.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace ovl {
namespace {

using testing::StartsWith;

// Process `me` of several, the others' texts written down: what it gathers and what process 0 sends to all.
class ScriptedWorld final : public World {
 public:
  ScriptedWorld(int me, std::vector<std::string> texts, std::string sent = {})
      : me_(me), texts_(std::move(texts)), sent_(std::move(sent)) {}

  [[nodiscard]] int process() const override { return me_; }
  [[nodiscard]] int size() const override { return static_cast<int>(texts_.size()); }
  void barrier() override {}
  std::string broadcast(const std::string& text) override {
    if (decides()) sent_ = text;
    return sent_;
  }
  std::vector<std::string> gather(const std::string& text) override {
    EXPECT_EQ(text, texts_[static_cast<std::size_t>(me_)]);
    return decides() ? texts_ : std::vector<std::string>{};
  }
  double minimum(double value) override { return value; }
  double maximum(double value) override { return value; }
  void abort(const std::string& /*reason*/) noexcept override {}

  [[nodiscard]] const std::string& sent() const { return sent_; }

 private:
  int me_;
  std::vector<std::string> texts_;
  std::string sent_;
};

std::string error_of(World& world, const std::string& text) {
  try {
    require_equal(world, "the plan", text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::failure);
    return error.what();
  }
  return "";
}

std::string error_of(const std::string& a, const std::string& b, const std::string& c) {
  ScriptedWorld world(0, {a, b, c});
  return error_of(world, a);
}

TEST(RequireEqual, NamesTheProcessAndTheFirstLineThatDiffers) {
  EXPECT_EQ(error_of("ranks 4\nbytes 16\nend\n", "ranks 4\nbytes 16\nend\n", "ranks 4\nbytes 32\nmore\n"),
            "the plan differs between process 0 and process 2: line 2: \"bytes 16\" and \"bytes 32\": every process "
            "must build the same plan; start all with the same options and environment");
}

TEST(RequireEqual, OfSeveralThatDifferTheFirstProcessIsNamed) {
  EXPECT_THAT(error_of("a", "b", "c"),
              StartsWith("the plan differs between process 0 and process 1: line 1: \"a\" and \"b\""));
}

TEST(RequireEqual, AMissingLineDiffersFromNothing) {
  EXPECT_THAT(error_of("a\nb\n", "a\n", "a\nb\n"),
              StartsWith("the plan differs between process 0 and process 1: line 2: \"b\" and \"\""));
  EXPECT_THAT(error_of("", "a", ""),
              StartsWith("the plan differs between process 0 and process 1: line 1: \"\" and \"a\""));
}

TEST(RequireEqual, EqualTextsPass) { EXPECT_EQ(error_of("a\nb", "a\nb", "a\nb"), ""); }

// A process other than 0 gathers nothing: it learns by what process 0 sends.
TEST(RequireEqual, EveryProcessFailsAlike) {
  ScriptedWorld first(0, {"a", "b"});
  const std::string text = error_of(first, "a");
  ScriptedWorld second(1, {"a", "b"}, first.sent());
  EXPECT_EQ(error_of(second, "b"), text);
  ScriptedWorld other(1, {"a", "a"}, "");
  EXPECT_EQ(error_of(other, "a"), "");
}

TEST(SoloWorld, IsOneProcessThatDecides) {
  const auto world = make_solo_world();
  EXPECT_EQ(world->process(), 0);
  EXPECT_EQ(world->size(), 1);
  EXPECT_TRUE(world->decides());
  EXPECT_EQ(world->broadcast("x"), "x");
  EXPECT_EQ(world->gather("x"), std::vector<std::string>{"x"});
  EXPECT_EQ(world->minimum(3), 3);
  EXPECT_EQ(world->maximum(3), 3);
  EXPECT_NO_THROW(require_equal(*world, "the plan", "x"));
}

}  // namespace
}  // namespace ovl
