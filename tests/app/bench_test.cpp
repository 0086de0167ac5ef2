// SPDX-License-Identifier: Apache-2.0
#include "app/bench.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "program/placement.hpp"

namespace ovl {
namespace {

TEST(AxisValues, AreTheListsOfTheAxes) {
  AxisValues values;
  values.set("bytes", {"1MiB", "2MiB"});
  values.set("balance", {"on"});
  values.set("bytes", {"64KiB"});
  EXPECT_EQ(values["bytes"], std::vector<std::string>{"64KiB"});
  EXPECT_TRUE(values.on("balance"));
  values.set("balance", {"off"});
  EXPECT_FALSE(values.on("balance"));
}

TEST(AxisValues, KnowOnlyDeclaredAxes) {
  const AxisValues values;
  try {
    static_cast<void>(values["bytse"]);
    FAIL() << "an axis that nobody declares has values";
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "broken invariant: the bench declares the axis bytse");
  }
}

// A fallback that its own parser refuses would make every bench fail that shares the axis.
TEST(SharedAxes, FallBackToValuesThatCanBeMeant) {
  EXPECT_EQ(parse_enum<Waiting>(waiting_axis().fallback), Waiting::yield);
  EXPECT_EQ(parse_enum<Memory>(buffers_axis().fallback), Memory::plain);
  EXPECT_EQ(parse_enum<DType>(dtype_axis("f32").fallback), DType::f32);
  EXPECT_EQ(parse_enum<CollectiveKind>(collective_axis("all_reduce").fallback), CollectiveKind::all_reduce);
  for (const std::string& name : placement_names()) {
    EXPECT_NE(placement_axis("serial").help.find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace ovl
