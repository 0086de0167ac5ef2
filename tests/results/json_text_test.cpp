// SPDX-License-Identifier: Apache-2.0
#include "results/json_text.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace ovl {
namespace {

std::string nested(std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); }

TEST(ParseJson, TakesWhatIsNestedAsOursIs) {
  EXPECT_EQ(parse_json(R"({"a": [1, {"b": "[[[[{{{{\"[["}]})").at("a").at(1).at("b"), "[[[[{{{{\"[[");
  EXPECT_FALSE(parse_json(nested(32)).is_discarded());
  // Neighbours are not nested in each other, and brackets within texts open nothing.
  std::string many;
  for (int i = 0; i < 100; ++i) many += R"([["[[\\"]],)";
  EXPECT_FALSE(parse_json("[" + many + "0]").is_discarded());
}

TEST(ParseJson, DiscardsWhatIsDeeperAndWhatIsNone) {
  EXPECT_TRUE(parse_json(nested(33)).is_discarded());
  EXPECT_TRUE(parse_json(nested(1'000'000)).is_discarded());
  EXPECT_TRUE(parse_json(std::string(1'000'000, '{')).is_discarded());
  for (const char* text : {"", "{", "nul", "\"\\", "[1,]", "\x1b", "{\"a\": 1} 2"}) {
    EXPECT_TRUE(parse_json(text).is_discarded()) << text;
  }
}

}  // namespace
}  // namespace ovl
