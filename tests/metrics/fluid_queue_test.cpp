// SPDX-License-Identifier: Apache-2.0
#include "metrics/fluid_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/units.hpp"

namespace ovl {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

constexpr FluidQueue queue(double arrival, double service, double backlog) {
  return {WorkUnitsPerSecond(arrival), WorkUnitsPerSecond(service), WorkUnits(backlog)};
}

TEST(FluidQueue, WorkedExample) {
  // 4 come and 3 go each second: one more is left behind each second, and 4 have become 9 after 5.
  const FluidQueue growing = queue(4, 3, 4);
  EXPECT_EQ(growth_rate(growing), WorkUnitsPerSecond(1));
  EXPECT_EQ(backlog_at(growing, Seconds(5)), WorkUnits(9));
  EXPECT_EQ(drain_time(growing), Seconds(inf));
  // 2 come and 3 go: one less each second, 4 are gone after 4 s, and then nothing more is owed.
  const FluidQueue draining = queue(2, 3, 4);
  EXPECT_EQ(growth_rate(draining), WorkUnitsPerSecond(-1));
  EXPECT_EQ(backlog_at(draining, Seconds(3)), WorkUnits(1));
  EXPECT_EQ(drain_time(draining), Seconds(4));
  EXPECT_EQ(backlog_at(draining, Seconds(5)), WorkUnits(0));
}

TEST(FluidQueue, EveryLineOverEightSeconds) {
  // lambda, mu, Q0, slope and drain time by hand; the backlog at 0, 1, 2, 3, 4, 5 and 8 s.
  struct Row {
    double arrival, service, backlog, growth, drain;
    double at[7];
  };
  constexpr double times[7] = {0, 1, 2, 3, 4, 5, 8};
  for (const Row& r : {Row{4, 3, 4, 1, inf, {4, 5, 6, 7, 8, 9, 12}}, Row{2, 3, 4, -1, 4, {4, 3, 2, 1, 0, 0, 0}},
                       Row{2, 3, 0, -1, 0, {0, 0, 0, 0, 0, 0, 0}}, Row{3, 3, 4, 0, inf, {4, 4, 4, 4, 4, 4, 4}}}) {
    const FluidQueue q = queue(r.arrival, r.service, r.backlog);
    EXPECT_EQ(growth_rate(q).value(), r.growth) << r.arrival;
    EXPECT_EQ(drain_time(q).value(), r.drain) << r.arrival;
    for (int i = 0; i < 7; ++i) EXPECT_EQ(backlog_at(q, Seconds(times[i])).value(), r.at[i]) << r.arrival << i;
  }
}

TEST(FluidQueue, LeavesAtTheServiceRateWhileThereIsABacklog) {
  EXPECT_EQ(output_rate(queue(2, 3, 4), Seconds(3.9)), WorkUnitsPerSecond(3));
  EXPECT_EQ(output_rate(queue(2, 3, 4), Seconds(4)), WorkUnitsPerSecond(2));  // empty: what comes goes at once
  EXPECT_EQ(output_rate(queue(4, 3, 0), Seconds(0)), WorkUnitsPerSecond(3));  // more comes than can go
  EXPECT_EQ(output_rate(queue(4, 3, 0), Seconds(1)), WorkUnitsPerSecond(3));
}

TEST(FluidQueue, KeepsItsBalance) {
  // What came less what went is what is there, for any rates: until empty all that goes goes at the service rate.
  Random random(31);
  for (int i = 0; i < 1000; ++i) {
    const FluidQueue q = queue(0.1 + random.uniform(), 0.1 + random.uniform(), 5 * random.uniform());
    const Seconds time(20 * random.uniform());
    const Seconds busy = std::min(time, drain_time(q));
    const WorkUnits gone = q.service * busy + q.arrival * (time - busy);
    EXPECT_NEAR((q.backlog + q.arrival * time - gone).value(), backlog_at(q, time).value(), 1e-12);
  }
}

TEST(FluidQueue, IsEmptyAtItsDrainTimeWhateverTheRounding) {
  Random random(32);
  for (int i = 0; i < 1000; ++i) {
    const FluidQueue q = queue(random.uniform() + 1e-3, 1 + random.uniform(), 1e6 * random.uniform());
    EXPECT_EQ(backlog_at(q, drain_time(q)), WorkUnits(0));
    EXPECT_GT(backlog_at(q, drain_time(q) * 0.999), WorkUnits(0));
  }
}

TEST(FluidQueue, EmptyAtEqualRatesStaysEmpty) {
  EXPECT_EQ(drain_time(queue(3, 3, 0)), Seconds(0));
  EXPECT_EQ(backlog_at(queue(3, 3, 0), Seconds(100)), WorkUnits(0));
  EXPECT_EQ(drain_time(queue(4, 3, 0)), Seconds(inf));  // empty now, and never again
}

TEST(FluidQueue, UtilizationIsTheLoad) {
  EXPECT_DOUBLE_EQ(utilization(WorkUnitsPerSecond(4), WorkUnitsPerSecond(3)), 4.0 / 3);
  EXPECT_EQ(utilization(WorkUnitsPerSecond(2), WorkUnitsPerSecond(4)), 0.5);
}

TEST(FluidQueue, RefusesWhatIsNoQueue) {
  for (const double rate : {0.0, -1.0, unknown_number, inf}) {
    EXPECT_THROW(growth_rate(queue(rate, 3, 4)), Error) << rate;
    EXPECT_THROW(backlog_at(queue(4, rate, 4), Seconds(1)), Error) << rate;
    EXPECT_THROW(utilization(WorkUnitsPerSecond(rate), WorkUnitsPerSecond(3)), Error) << rate;
  }
  for (const double backlog : {-1.0, unknown_number, inf})
    EXPECT_THROW(drain_time(queue(2, 3, backlog)), Error) << backlog;
  for (const double time : {-1.0, unknown_number, inf})
    EXPECT_THROW(output_rate(queue(2, 3, 4), Seconds(time)), Error) << time;
}

TEST(FluidQueue, SaysWhatIsWrongAndWhatToType) {
  const auto said = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.what();
    }
    return "nothing";
  };
  EXPECT_EQ(said([] { growth_rate(queue(0, 3, 4)); }),
            "arrival rate 0 is not possible: a queue needs work that comes and work that goes, each at a finite rate "
            "above 0; type the arrival rate in work units a second, such as 3");
  EXPECT_EQ(said([] { growth_rate(queue(4, unknown_number, 4)); }),
            "service rate nan is not possible: a queue needs work that comes and work that goes, each at a finite rate "
            "above 0; type the service rate in work units a second, such as 3");
  EXPECT_EQ(said([] { growth_rate(queue(4, 3, -2)); }),
            "backlog -2 is not possible: it is the work queued at time 0, so finite and not negative; type it in work "
            "units, such as 4, or 0 for an empty queue");
  EXPECT_EQ(said([] { backlog_at(queue(4, 3, 4), Seconds(-1)); }),
            "time -1 s is not possible: the queue begins at time 0; type a finite time in seconds, from 0 on");
}

}  // namespace
}  // namespace ovl
