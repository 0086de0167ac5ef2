// SPDX-License-Identifier: Apache-2.0
#include "base/enum_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ovl {

enum class Fruit { apple, pear };
template <>
struct EnumNames<Fruit> {
  static constexpr std::string_view axis = "fruit";
  static constexpr std::pair<Fruit, std::string_view> table[] = {{Fruit::apple, "apple"}, {Fruit::pear, "pear"}};
};

namespace {

TEST(EnumNames, OneTablePrintsParsesAndLists) {
  static_assert(name(Fruit::pear) == "pear");
  EXPECT_EQ(parse_enum<Fruit>("apple"), Fruit::apple);
  EXPECT_THAT(names<Fruit>(), testing::ElementsAre("apple", "pear"));
}

TEST(EnumNames, UnknownNameIsAUsageErrorWithTheNearest) {
  try {
    parse_enum<Fruit>("Pear");
    FAIL() << "accepted a name that is not in the table";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_STREQ(error.what(), "fruit \"Pear\" is unknown: known are apple, pear; did you mean pear?");
  }
}

}  // namespace
}  // namespace ovl
