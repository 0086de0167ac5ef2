// SPDX-License-Identifier: Apache-2.0
#include "metrics/bucket_curve.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/error.hpp"
#include "base/random.hpp"

namespace ovl {
namespace {

constexpr BucketCurve in_milliseconds(double backward, double wire, double latency) {
  return {milliseconds(backward), milliseconds(wire), milliseconds(latency)};
}

TEST(BucketCurve, WorkedExample) {
  // Backward 8 ms, wire 4 ms, 1 ms a bucket. Two buckets are there at 4 and 8 and take 1 + 2 each: they end at 7 and
  // 11, 3 ms after the backward pass. Four are there at 2, 4, 6, 8 and take 2 each: 4, 6, 8, 10; exposed 2 ms. Eight
  // are there every ms and take 1.5: from 1 on one after the other, 1 + 8 * 1.5 = 13; exposed 5 ms.
  const BucketCurve curve = in_milliseconds(8, 4, 1);
  const auto ends = bucket_ends(curve, 2);
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_NEAR(ends[0].value(), 7e-3, 1e-15);
  EXPECT_NEAR(ends[1].value(), 11e-3, 1e-15);
  EXPECT_NEAR(exposed_time(curve, 2).value(), 3e-3, 1e-15);
  EXPECT_NEAR(exposed_time(curve, 4).value(), 2e-3, 1e-15);
  EXPECT_NEAR(exposed_time(curve, 8).value(), 5e-3, 1e-15);
  // The bottom: (8 - 4) / 1 = 4 buckets, beyond sqrt(8 / 1) = 2.8.
  EXPECT_NEAR(bottom_of_curve(curve), 4, 1e-12);
  EXPECT_EQ(best_bucket_count(curve), 4);
}

TEST(BucketCurve, PublishedVectors) {
  // 14 GB of gradients beside a backward pass of 100 ms, 50 us a bucket: 28 GB on the wire at 150 and at 360 GB/s. All
  // in milliseconds, as derived; to four decimals.
  struct Row {
    std::int64_t buckets;
    double slow, fast;  // step
  };
  const BucketCurve slow{milliseconds(100), Seconds(28.0 / 150), microseconds(50)};
  const BucketCurve fast{milliseconds(100), Seconds(28.0 / 360), microseconds(50)};
  for (const Row& r :
       {Row{1, 286.7167, 177.8278}, Row{2, 236.7667, 138.9389}, Row{4, 211.8667, 119.4944}, Row{8, 199.5667, 109.7722},
        Row{16, 193.7167, 104.9111}, Row{32, 191.3917, 102.4806}, Row{45, 191.1389, 101.7784},
        Row{64, 191.4292, 101.2653}, Row{128, 193.8479, 100.6576}, Row{256, 199.8573, 100.3538},
        Row{535, 213.6036, 104.7147}, Row{1024, 237.9643, 129.0754}, Row{4096, 391.4911, 282.6022}}) {
    EXPECT_NEAR(bucket_ends(slow, r.buckets).back().value() * 1e3, r.slow, 5e-5) << r.buckets;
    EXPECT_NEAR(exposed_time(slow, r.buckets).value() * 1e3, r.slow - 100, 5e-5) << r.buckets;
    EXPECT_NEAR(bucket_ends(fast, r.buckets).back().value() * 1e3, r.fast, 5e-5) << r.buckets;
    EXPECT_NEAR(exposed_time(fast, r.buckets).value() * 1e3, r.fast - 100, 5e-5) << r.buckets;
  }
  EXPECT_NEAR(bottom_of_curve(slow), std::sqrt(2000.0), 1e-9);  // communication is the longer part
  EXPECT_EQ(best_bucket_count(slow), 45);
  EXPECT_NEAR(bottom_of_curve(fast), 444.44, 5e-3);  // (100 - 77.78) / 0.05
  EXPECT_EQ(best_bucket_count(fast), 444);
  EXPECT_NEAR(exposed_time(fast, 444).value() * 1e3, 0.2252, 5e-5);
}

TEST(BucketCurve, ClosedFormIsTheRecurrence) {
  Random random(41);
  for (int i = 0; i < 300; ++i) {
    const BucketCurve curve = in_milliseconds(1 + 100 * random.uniform(), 200 * random.uniform(), random.uniform());
    const auto buckets = 1 + static_cast<std::int64_t>(200 * random.uniform());
    EXPECT_NEAR((bucket_ends(curve, buckets).back() - curve.backward).value(), exposed_time(curve, buckets).value(),
                1e-12);
  }
}

TEST(BucketCurve, TheBestIsTheLeastOfAll) {
  Random random(42);
  for (int i = 0; i < 100; ++i) {
    const BucketCurve curve =
        in_milliseconds(1 + 100 * random.uniform(), 200 * random.uniform(), 0.1 + 10 * random.uniform());
    const Seconds least = exposed_time(curve, best_bucket_count(curve));
    for (std::int64_t n = 1; n <= 2000; ++n) ASSERT_LE(least, exposed_time(curve, n)) << n;
  }
}

TEST(BucketCurve, CommunicationBoundBottom) {
  // Where communication is the longer part, the bottom lies at W - T_b + 2 sqrt(a T_b), here 91.138 ms.
  const BucketCurve curve{milliseconds(100), Seconds(28.0 / 150), microseconds(50)};
  const double bottom = (curve.wire - curve.backward).value() + 2 * std::sqrt(100e-3 * 50e-6);
  EXPECT_NEAR(exposed_time(curve, best_bucket_count(curve)).value(), bottom, 1e-6);
}

TEST(BucketCurve, OneBucketIsNoOverlap) {
  EXPECT_NEAR(exposed_time(in_milliseconds(8, 4, 1), 1).value(), 5e-3, 1e-15);  // all of it, after the backward pass
  EXPECT_EQ(bottom_of_curve(in_milliseconds(1, 5, 100)), 1);                    // a latency too high to pay twice
  EXPECT_EQ(best_bucket_count(in_milliseconds(1, 5, 100)), 1);
  EXPECT_EQ(exposed_time(in_milliseconds(8, 0, 0), 5), Seconds(0));
}

TEST(BucketCurve, CountsBuckets) {
  EXPECT_EQ(bucket_count(mebibytes(100), mebibytes(25)), 4);
  EXPECT_EQ(bucket_count(mebibytes(100), Bytes(26214399)), 5);
  EXPECT_EQ(bucket_count(Bytes(1), mebibytes(25)), 1);
  EXPECT_EQ(bucket_count(Bytes(14'000'000'000), mebibytes(25)), 535);
}

TEST(BucketCurve, RefusesWhatIsNoCurve) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const auto said = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.what();
    }
    return "nothing";
  };
  EXPECT_EQ(
      said([] { exposed_time(in_milliseconds(0, 4, 1), 2); }),
      "backward time 0 s is not possible: it is a finite duration above 0; give the backward time in seconds, such "
      "as 0.1");
  EXPECT_EQ(said([] { bucket_ends(in_milliseconds(8, -1000, 1), 2); }),
            "wire time -1 s is not possible: it is a duration, finite and not negative; give the wire time in seconds, "
            "such as 0.1");
  EXPECT_EQ(
      said([] { bottom_of_curve(in_milliseconds(8, 4, nan)); }),
      "latency nan s is not possible: it is a duration, finite and not negative; give the latency in seconds, such "
      "as 0.1");
  EXPECT_EQ(said([] { exposed_time(in_milliseconds(8, 4, 1), 0); }),
            "0 buckets are not possible: the gradients are sent in at least one; give a number of buckets from 1 on");
  EXPECT_EQ(said([] { best_bucket_count(in_milliseconds(8, 4, 0)); }),
            "a latency of 0 s has no best number of buckets: where a bucket costs nothing of its own, more of them are "
            "always better; give a latency that a collective can have, such as 20e-6");
  EXPECT_EQ(
      said([] { bucket_count(Bytes(0), mebibytes(25)); }),
      "0 B in buckets of 26214400 B is not possible: both are sizes above 0; give the gradients' and the bucket's "
      "size, such as 1GiB and 25MiB");
}

}  // namespace
}  // namespace ovl
