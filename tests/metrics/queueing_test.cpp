// SPDX-License-Identifier: Apache-2.0
#include "metrics/queueing.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.hpp"
#include "base/random.hpp"

namespace ovl {
namespace {

TEST(Queueing, WorkedExample) {
  // 2 of 3 a second: rho = 2/3. M/M/1: L = (2/3) / (1/3) = 2, W = 1 / (3 - 2) = 1 s, of which 1/3 s is service.
  const QueueMeans m = mm1(WorkUnitsPerSecond(2), WorkUnitsPerSecond(3)).value();
  EXPECT_NEAR(m.in_system.value(), 2, 1e-15);
  EXPECT_NEAR(m.time_in_system.value(), 1, 1e-15);
  EXPECT_NEAR(m.in_queue.value(), 4.0 / 3, 1e-15);
  EXPECT_NEAR(m.time_in_queue.value(), 2.0 / 3, 1e-15);
  // The fluid with the same rates is empty: all of this is what variation costs.
  EXPECT_EQ(backlog_at({WorkUnitsPerSecond(2), WorkUnitsPerSecond(3), WorkUnits(4)}, Seconds(100)), WorkUnits(0));
  // M/D/1: half the queue, 2/3, and the 2/3 in service: L = 4/3; W = 1/3 + 1/3 s.
  const QueueMeans d = md1(WorkUnitsPerSecond(2), WorkUnitsPerSecond(3)).value();
  EXPECT_NEAR(d.in_system.value(), 4.0 / 3, 1e-15);
  EXPECT_NEAR(d.time_in_system.value(), 2.0 / 3, 1e-15);
  EXPECT_NEAR(d.in_queue.value(), 2.0 / 3, 1e-15);
  EXPECT_NEAR(d.time_in_queue.value(), 1.0 / 3, 1e-15);
}

TEST(Queueing, FourLoads) {
  struct Row {
    double arrival, service;
    double mm1[4], md1[4];  // L, W, Lq, Wq to four decimals
  };
  for (const Row& r :
       {Row{2, 3, {2, 1, 1.3333, 0.6667}, {1.3333, 0.6667, 0.6667, 0.3333}},
        Row{1, 2, {1, 1, 0.5, 0.5}, {0.75, 0.75, 0.25, 0.25}}, Row{9, 10, {9, 1, 8.1, 0.9}, {4.95, 0.55, 4.05, 0.45}},
        Row{2.9, 3, {29, 10, 28.0333, 9.6667}, {14.9833, 5.1667, 14.0167, 4.8333}}}) {
    const auto expect = [&](const QueueMeans& means, const double(&by_hand)[4]) {
      EXPECT_NEAR(means.in_system.value(), by_hand[0], 5e-5) << r.arrival;
      EXPECT_NEAR(means.time_in_system.value(), by_hand[1], 5e-5) << r.arrival;
      EXPECT_NEAR(means.in_queue.value(), by_hand[2], 5e-5) << r.arrival;
      EXPECT_NEAR(means.time_in_queue.value(), by_hand[3], 5e-5) << r.arrival;
    };
    expect(mm1(WorkUnitsPerSecond(r.arrival), WorkUnitsPerSecond(r.service)).value(), r.mm1);
    expect(md1(WorkUnitsPerSecond(r.arrival), WorkUnitsPerSecond(r.service)).value(), r.md1);
  }
}

TEST(Queueing, FullLoadIsUnstableAndNeverNegative) {
  for (const double arrival : {3.0, 4.0, 1e9}) {  // at 4 of 3 the formula would say L = -4
    EXPECT_FALSE(mm1(WorkUnitsPerSecond(arrival), WorkUnitsPerSecond(3)).has_value()) << arrival;
    EXPECT_FALSE(md1(WorkUnitsPerSecond(arrival), WorkUnitsPerSecond(3)).has_value()) << arrival;
  }
  EXPECT_GT(mm1(WorkUnitsPerSecond(2.999999), WorkUnitsPerSecond(3)).value().in_system, WorkUnits(1e6 / 2));
}

TEST(Queueing, LittlesLawHoldsForQueueAndSystem) {
  EXPECT_EQ(littles_law(WorkUnitsPerSecond(2), Seconds(1.5)), WorkUnits(3));
  Random random(33);
  for (int i = 0; i < 1000; ++i) {
    const WorkUnitsPerSecond service(0.1 + random.uniform());
    const WorkUnitsPerSecond arrival = service * (0.001 + 0.99 * random.uniform());
    for (const auto& means : {mm1(arrival, service).value(), md1(arrival, service).value()}) {
      EXPECT_NEAR(littles_law(arrival, means.time_in_system) / means.in_system, 1, 1e-12);
      EXPECT_NEAR(littles_law(arrival, means.time_in_queue) / means.in_queue, 1, 1e-12);
    }
  }
}

TEST(Queueing, AConstantServiceHalvesTheQueue) {
  Random random(34);
  for (int i = 0; i < 100; ++i) {
    const WorkUnitsPerSecond arrival(0.01 + 0.98 * random.uniform());
    EXPECT_NEAR(
        md1(arrival, WorkUnitsPerSecond(1)).value().in_queue / mm1(arrival, WorkUnitsPerSecond(1)).value().in_queue,
        0.5, 1e-12);
  }
}

TEST(Queueing, RefusesWhatIsNoRate) {
  for (const double rate :
       {0.0, -2.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(mm1(WorkUnitsPerSecond(rate), WorkUnitsPerSecond(3)), Error) << rate;
    EXPECT_THROW(md1(WorkUnitsPerSecond(2), WorkUnitsPerSecond(rate)), Error) << rate;
  }
}

}  // namespace
}  // namespace ovl
