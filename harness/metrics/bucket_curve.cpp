// SPDX-License-Identifier: Apache-2.0
#include "metrics/bucket_curve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace ovl {
namespace {

void check_duration(std::string_view name, Seconds time, bool may_be_zero) {
  if (std::isfinite(time.value()) && (time > Seconds(0) || (may_be_zero && time == Seconds(0)))) return;
  throw usage_error(fmt::format("{} {} s is not possible", name, time.value()),
                    may_be_zero ? "it is a duration, finite and not negative" : "it is a finite duration above 0",
                    fmt::format("give the {} in seconds, such as 0.1", name));
}

void check_curve(const BucketCurve& curve) {
  check_duration("backward time", curve.backward, false);
  check_duration("wire time", curve.wire, true);
  check_duration("latency", curve.latency, true);
}

void check_buckets(const BucketCurve& curve, std::int64_t buckets) {
  check_curve(curve);
  if (buckets >= 1) return;
  throw usage_error(fmt::format("{} buckets are not possible", buckets), "the gradients are sent in at least one",
                    "give a number of buckets from 1 on");
}

}  // namespace

std::vector<Seconds> bucket_ends(const BucketCurve& curve, std::int64_t buckets) {
  check_buckets(curve, buckets);
  const auto n = static_cast<double>(buckets);
  const Seconds cost = curve.latency + curve.wire / n;
  std::vector<Seconds> ends;
  Seconds end(0);
  for (std::int64_t k = 1; k <= buckets; ++k) {
    end = std::max(end, curve.backward * (static_cast<double>(k) / n)) + cost;
    ends.push_back(end);
  }
  return ends;
}

Seconds exposed_time(const BucketCurve& curve, std::int64_t buckets) {
  check_buckets(curve, buckets);
  const auto n = static_cast<double>(buckets);
  const Seconds last_bucket = curve.latency + curve.wire / n;
  const Seconds all_behind = n * curve.latency + curve.wire - curve.backward * (1 - 1 / n);
  return std::max(last_bucket, all_behind);
}

double bottom_of_curve(const BucketCurve& curve) {
  check_curve(curve);
  if (curve.latency == Seconds(0)) return std::numeric_limits<double>::infinity();
  return std::max({1.0, (curve.backward - curve.wire) / curve.latency, std::sqrt(curve.backward / curve.latency)});
}

std::int64_t best_bucket_count(const BucketCurve& curve) {
  const double bottom = bottom_of_curve(curve);
  if (!(bottom < 1e15)) {
    throw usage_error(fmt::format("a latency of {} s has no best number of buckets", curve.latency.value()),
                      "where a bucket costs nothing of its own, more of them are always better",
                      "give a latency that a collective can have, such as 20e-6");
  }
  const auto below = static_cast<std::int64_t>(std::floor(bottom));
  return exposed_time(curve, below) <= exposed_time(curve, below + 1) ? below : below + 1;
}

std::int64_t bucket_count(Bytes total, Bytes bucket) {
  if (total <= Bytes(0) || bucket <= Bytes(0)) {
    throw usage_error(fmt::format("{} B in buckets of {} B is not possible", total.value(), bucket.value()),
                      "both are sizes above 0", "give the gradients' and the bucket's size, such as 1GiB and 25MiB");
  }
  return (total.value() - 1) / bucket.value() + 1;
}

}  // namespace ovl
