// SPDX-License-Identifier: Apache-2.0
#include "base/units.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <type_traits>

#include "base/error.hpp"

namespace ovl {
namespace {

using testing::HasSubstr;

std::string message_for(std::string_view size) {
  try {
    parse_bytes(size);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "no error";
}

TEST(Units, DoNotMixByAccident) {
  static_assert(!std::is_convertible_v<double, Seconds>);
  static_assert(!std::is_convertible_v<Seconds, double>);
  static_assert(!std::is_constructible_v<Seconds, Bytes>);
  static_assert(sizeof(Seconds) == sizeof(double));
}

TEST(Units, DivideToRatesAndBack) {
  // 28 GB over 150 GB/s.
  const Bytes sent(28'000'000'000);
  const Seconds time = sent / BytesPerSecond(150e9);
  EXPECT_DOUBLE_EQ(time.value(), 28.0 / 150.0);
  EXPECT_DOUBLE_EQ((sent / time).value(), 150e9);
  EXPECT_DOUBLE_EQ((Flops(2e12) / Seconds(4)).value(), 0.5e12);
  EXPECT_DOUBLE_EQ((Flops(2e12) / FlopsPerSecond(1e12)).value(), 2);
}

TEST(Units, RatioOfLikeQuantitiesIsANumber) {
  EXPECT_DOUBLE_EQ(milliseconds(3) / microseconds(1500), 2.0);
  EXPECT_DOUBLE_EQ(kibibytes(3) / kibibytes(2), 1.5);
}

TEST(Units, DurationsAreSigned) {
  EXPECT_LT(milliseconds(100) - milliseconds(141), Seconds(0));
  EXPECT_EQ(-Seconds(1), Seconds(-1));
  Seconds total = Seconds(1);
  total += Seconds(2);
  total -= Seconds(4);
  EXPECT_EQ(total, Seconds(-1));
}

TEST(Units, UnknownTimeIsNotZero) {
  EXPECT_TRUE(std::isnan(unknown_time.value()));
  EXPECT_TRUE(std::isnan((unknown_time + Seconds(1)).value()));
}

TEST(ParseBytes, TakesBinaryAndDecimalSuffixes) {
  EXPECT_EQ(parse_bytes("64KiB"), Bytes(65'536));
  EXPECT_EQ(parse_bytes("25MiB"), Bytes(26'214'400));
  EXPECT_EQ(parse_bytes("1GiB"), Bytes(1'073'741'824));
  EXPECT_EQ(parse_bytes("25MB"), Bytes(25'000'000));
  EXPECT_EQ(parse_bytes("64kB"), Bytes(64'000));
  EXPECT_EQ(parse_bytes("14GB"), Bytes(14'000'000'000));
  EXPECT_EQ(parse_bytes("1.5MiB"), Bytes(1'572'864));
}

TEST(ParseBytes, PlainIntegerIsBytes) {
  EXPECT_EQ(parse_bytes("26214400"), Bytes(26'214'400));
  EXPECT_EQ(parse_bytes("1B"), Bytes(1));
  // One above 2^53, which a double cannot hold.
  EXPECT_EQ(parse_bytes("9007199254740993"), Bytes(9'007'199'254'740'993));
}

TEST(ParseBytes, RefusesAnAmbiguousSuffixAndShowsBothReadings) {
  EXPECT_EQ(message_for("1M"),
            "size \"1M\" is ambiguous: the suffix may mean a power of 1024 or of 1000; type 1MiB or 1MB");
  EXPECT_THAT(message_for("64K"), HasSubstr("type 64KiB or 64kB"));
  EXPECT_THAT(message_for("2g"), HasSubstr("type 2GiB or 2GB"));
}

TEST(ParseBytes, RefusesWhatIsNoSize) {
  EXPECT_THAT(message_for("0"), HasSubstr("is not positive"));
  EXPECT_THAT(message_for("-4KiB"), HasSubstr("is not positive"));
  EXPECT_THAT(message_for("big"), HasSubstr("does not begin with a number"));
  EXPECT_THAT(message_for(""), HasSubstr("does not begin with a number"));
  EXPECT_THAT(message_for("nan"), HasSubstr("is not a size"));
  EXPECT_THAT(message_for("64 KiB"), HasSubstr("unknown suffix \" KiB\""));
  EXPECT_THAT(message_for("0.3B"), HasSubstr("not a whole number of bytes"));
}

TEST(ParseBytes, RefusesOverflow) {
  EXPECT_EQ(parse_bytes("9223372036854775807"), Bytes(9'223'372'036'854'775'807));
  EXPECT_THAT(message_for("9223372036854775808"), HasSubstr("too large"));
  EXPECT_THAT(message_for("8589934592GiB"), HasSubstr("too large"));  // exactly 2^63
  EXPECT_THAT(message_for("1" + std::string(400, '0')), HasSubstr("too large"));
}

TEST(FormatBytes, IsTheShortestExactSpellingAndParsesBack) {
  EXPECT_EQ(format_bytes(Bytes(26'214'400)), "25MiB");
  EXPECT_EQ(format_bytes(Bytes(1'000)), "1kB");
  EXPECT_EQ(format_bytes(Bytes(12'345)), "12345");
  EXPECT_EQ(format_bytes(Bytes(14'000'000'000)), "14GB");
  for (const std::int64_t n : {1LL, 1'024LL, 1'000LL, 26'214'400LL, 12'345LL, 9'223'372'036'854'775'807LL}) {
    EXPECT_EQ(parse_bytes(format_bytes(Bytes(n))), Bytes(n)) << n;
  }
}

TEST(FormatSeconds, PicksAPrefixForPeople) {
  EXPECT_EQ(format_seconds(Seconds(0.0246101)), "24.61 ms");
  EXPECT_EQ(format_seconds(Seconds(187.2e-6)), "187.2 us");
  EXPECT_EQ(format_seconds(Seconds(40e-9)), "40 ns");
  EXPECT_EQ(format_seconds(Seconds(2)), "2 s");
  EXPECT_EQ(format_seconds(Seconds(0)), "0 s");
  EXPECT_EQ(format_seconds(milliseconds(-86.67)), "-86.67 ms");
  EXPECT_EQ(format_seconds(unknown_time), "unknown");
}

}  // namespace
}  // namespace ovl
