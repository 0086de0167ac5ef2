// SPDX-License-Identifier: Apache-2.0
#include "results/table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/random.hpp"
#include "results/schema.hpp"

namespace ovl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Records = std::vector<std::vector<std::string>>;

const Schema& small_schema() {
  static const Schema schema{"small",
                             1,
                             {{"key", ColumnType::text, "", "the case"},
                              {"count", ColumnType::integer, "1", "how many"},
                              {"time", ColumnType::real, "s", "how long"}}};
  return schema;
}

TEST(Table, WritesOneLineARowInTheOrderOfTheColumns) {
  Row row(small_schema());
  row.set("time", 0.0246).set("key", "gemm 64, ring").set("count", std::int64_t{3});
  EXPECT_EQ(csv_header(small_schema()), "key,count,time\n");
  EXPECT_EQ(csv_line(row), "\"gemm 64, ring\",3,0.0246\n");
}

TEST(Table, LeavesTheUnknownEmptyAndWritesZeroAsZero) {
  Row row(small_schema());
  row.set("count", std::int64_t{0}).set("time", std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(csv_line(row), ",0,\n");
  EXPECT_EQ(row.at("time"), Value{});
  row.set("count", std::monostate{});
  EXPECT_EQ(csv_line(row), ",,\n");
}

TEST(Table, KeepsSignsAndInfinity) {
  Row row(small_schema());
  row.set("count", std::int64_t{-7}).set("time", -0.5);
  EXPECT_EQ(csv_line(row), ",-7,-0.5\n");
  row.set("time", std::numeric_limits<double>::infinity());
  EXPECT_EQ(csv_line(row), ",-7,inf\n");
}

TEST(Table, RefusesAnUnknownColumnAndAValueOfAnotherType) {
  Row row(small_schema());
  EXPECT_THAT([&] { row.set("speed", 1.0); }, ThrowsMessage<std::logic_error>("table small has no column speed"));
  EXPECT_THROW(static_cast<void>(row.at("speed")), std::logic_error);
  EXPECT_THAT([&] { row.set("time", std::int64_t{1}); },
              ThrowsMessage<std::logic_error>("column time of table small does not hold a value of this type"));
  EXPECT_THROW(row.set("count", 1.0), std::logic_error);
  EXPECT_THROW(row.set("key", 1.0), std::logic_error);
  EXPECT_THROW(row.set("count", std::string("1")), std::logic_error);
}

TEST(Table, EveryColumnOfEveryTableIsDescribed) {
  const Schema summary = summary_schema({});
  for (const Schema* schema : {&samples_schema(), &operations_schema(), &launches_schema(), &summary}) {
    for (const Column& column : schema->columns) {
      EXPECT_FALSE(column.description.empty()) << schema->table << "." << column.name;
      EXPECT_EQ(column.unit.empty(), column.type == ColumnType::text) << schema->table << "." << column.name;
      EXPECT_EQ(&column, &schema->columns[schema->index_of(column.name)]) << column.name << " is there twice";
    }
  }
}

TEST(Table, ABenchsColumnIsNoneThatIsThere) {
  EXPECT_EQ(summary_schema({{"mine", ColumnType::real, "s", "of the bench"}}).columns.back().name, "mine");
  EXPECT_THROW(summary_schema({{"t_step", ColumnType::real, "s", "again"}}), std::logic_error);
}

TEST(Csv, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(csv_line({"a b", "x,y", "say \"so\"", "two\nlines", "cr\r", ""}),
            "a b,\"x,y\",\"say \"\"so\"\"\",\"two\nlines\",\"cr\r\",\n");
}

TEST(Csv, ReadsWhatItWrites) {
  const Records records{{"a", "x,y", "say \"so\""}, {"two\nlines", "\r", ""}, {"", "", ""}, {"\"", ",", "\n"}};
  std::string text;
  for (const auto& record : records) text += csv_line(record);
  EXPECT_EQ(parse_csv(text), records);
}

TEST(Csv, ReadsTheLineEndsOfOtherPrograms) {
  EXPECT_THAT(parse_csv("a,b\r\n1,\"2\"\r\n"), ElementsAre(ElementsAre("a", "b"), ElementsAre("1", "2")));
}

TEST(Csv, HasNoRecordsInAnEmptyText) { EXPECT_TRUE(parse_csv("").empty()); }

TEST(Csv, DropsAnUnterminatedLastLineWhereverItBreaksOff) {
  const std::string first = csv_line({"a", "1"});
  const std::string second = csv_line({"say \"so\",\nthen", "2"});
  const Records one{{"a", "1"}};
  for (std::size_t written = 0; written < second.size(); ++written) {
    EXPECT_EQ(parse_csv(first + second.substr(0, written)), one) << written << " bytes of the second line";
  }
  EXPECT_EQ(parse_csv(first + second).size(), 2U);
}

TEST(Csv, NamesTheLineOfATextThatIsNotCsv) {
  EXPECT_THAT([] { parse_csv("a\n\"two\nlines\"\nb\"c\n"); },
              ThrowsMessage<Error>("line 4 is not CSV: a quote or CR stands in a field without quotes"));
  EXPECT_THAT([] { parse_csv("a\n\"b\"c\n"); },
              ThrowsMessage<Error>("line 2 is not CSV: text follows a closing quote"));
}

TEST(Csv, AnyTextRoundTrips) {
  const std::vector<std::string> pieces{",", "\"", "\"\"",   "\n",     "\r",         "\r\n",
                                        "a", " ",  "\u00e9", "\u4e2d", "\U0001f980", std::string(1, '\0')};
  Random random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    Records records(1 + random.below(3), std::vector<std::string>(1 + random.below(4)));
    std::string text;
    for (auto& record : records) {
      for (auto& field : record) {
        for (std::uint64_t n = random.below(6); n > 0; --n) field += pieces[random.below(pieces.size())];
      }
      text += csv_line(record);
    }
    ASSERT_EQ(parse_csv(text), records) << text;
  }
}

TEST(Csv, AnyDoubleRoundTripsBitForBit) {
  Random random(2);
  const auto round_trip = [](double number) {
    Row row(small_schema());
    row.set("time", number);
    const Row back = parse_row(small_schema(), parse_csv(csv_line(row)).front());
    return std::get<double>(back.at("time"));
  };
  std::vector<double> numbers{0.0, -0.0, 0.1, 1e-9, 1e300, 5e-324, std::numeric_limits<double>::max()};
  for (int i = 0; i < 20000; ++i) {
    const auto number = std::bit_cast<double>(random.next());
    if (!std::isnan(number)) numbers.push_back(number);
  }
  for (const double number : numbers) {
    ASSERT_EQ(std::bit_cast<std::uint64_t>(round_trip(number)), std::bit_cast<std::uint64_t>(number)) << number;
  }
}

TEST(ParseRow, TypesEachFieldByItsColumn) {
  const Row row = parse_row(small_schema(), {"k", "-3", "2.5e-3"});
  EXPECT_EQ(row.at("key"), Value{std::string("k")});
  EXPECT_EQ(row.at("count"), Value{std::int64_t{-3}});
  EXPECT_EQ(row.at("time"), Value{0.0025});
  EXPECT_EQ(parse_row(small_schema(), {"", "", ""}).values(), std::vector<Value>(3));
}

TEST(ParseRow, NamesTheColumnThatDoesNotFit) {
  EXPECT_THAT(
      [] {
        parse_row(small_schema(), {"k", "2.5", "1"});
      },
      ThrowsMessage<Error>("column count holds \"2.5\": which is not a number of its type"));
  EXPECT_THAT([] { parse_row(small_schema(), {"k", "2", "1 s"}); }, ThrowsMessage<Error>(HasSubstr("column time")));
  EXPECT_THAT([] { parse_row(small_schema(), {"k"}); },
              ThrowsMessage<Error>("a row of table small has 1 fields: the table has 3 columns"));
}

}  // namespace
}  // namespace ovl
