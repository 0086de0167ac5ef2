// SPDX-License-Identifier: Apache-2.0
#include "measure/queue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backend/model/model.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "measure/rows.hpp"
#include "measure/runner.hpp"
#include "program/builder.hpp"
#include "results/schema.hpp"
#include "support/rows.hpp"
#include "support/scripted.hpp"

namespace ovl {
namespace {

using test::real;
using test::StillClock;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// Queued from the beginning or, with a time, planned for then; submitted, started and completed.
Served op(double submitted, double started, double completed, std::optional<Seconds> planned = {}) {
  return {planned, Seconds(submitted), Seconds(started), Seconds(completed)};
}

// Two are there, one a second is served; one more comes at 1.5 s, and one at 5 s finds the queue empty.
std::vector<Served> worked() {
  return {op(0, 0, 1), op(0, 1, 2), op(1.5, 2, 3, Seconds(1.5)), op(5, 5, 6, Seconds(5))};
}

// ---- from records to numbers
// -----------------------------------------------------------------------------------------

TEST(Queue, BacklogIsWhatWasSubmittedAndIsNotCompleted) {
  const std::vector<QueuePoint> points = queue_over_time(worked(), Seconds(0.5), Seconds(6));
  ASSERT_EQ(points.size(), 13U);
  const std::int64_t by_hand[] = {2, 2, 1, 2, 1, 1, 0, 0, 0, 0, 1, 1, 0};  // at 0, 0.5, ... 6 s
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i].time, Seconds(0.5) * static_cast<double>(i));
    EXPECT_EQ(points[i].submitted - points[i].completed, by_hand[i]) << points[i].time.value();
  }
  EXPECT_EQ(points.back().submitted, 4);
}

TEST(Queue, ItsLastPointIsNotLostToRounding) {
  EXPECT_EQ(queue_over_time({}, Seconds(0.1), Seconds(0.3)).size(), 4U) << "0.1 + 0.1 + 0.1 is more than 0.3";
}

TEST(Queue, IsFirstEmptyWhenNothingIsQueuedNorServed) {
  EXPECT_EQ(first_empty(worked(), Seconds(6)), Seconds(3));
  EXPECT_TRUE(std::isnan(first_empty(worked(), Seconds(2.9)).value())) << "not seen while arrivals come";
  EXPECT_EQ(first_empty({op(1, 1, 2, Seconds(1))}, Seconds(6)), Seconds(0)) << "nothing was queued at the beginning";
  // The second is handed over when the first is complete already: not before all are there that were to be at once.
  EXPECT_EQ(first_empty({op(0, 0, 0.1), op(0.2, 0.2, 0.4)}, Seconds(6)), Seconds(0.4));
  // One arrives at the moment at which the last one leaves.
  EXPECT_EQ(first_empty({op(0, 0, 1), op(1, 1, 2, Seconds(1))}, Seconds(6)), Seconds(2));
}

TEST(Queue, SlopeIsThatOfTheLineThroughTheBacklogUntilItIsEmpty) {
  std::vector<QueuePoint> line;
  for (int i = 0; i <= 4; ++i) line.push_back({Seconds(i), 10, 2 * i});
  EXPECT_DOUBLE_EQ(backlog_slope(line, unknown_time), -2);
  line.push_back({Seconds(5), 10, 10});
  line.push_back({Seconds(6), 10, 10});
  EXPECT_GT(backlog_slope(line, unknown_time), -2);
  EXPECT_DOUBLE_EQ(backlog_slope(line, Seconds(5)), -2);
  // 2 2 1 2 at 0 0.5 1 1.5: (-0.75 0.25 - 0.25 0.25 + 0.25 (-0.75) + 0.75 0.25) / (2 (0.75² + 0.25²)) = -0.2
  EXPECT_NEAR(backlog_slope(queue_over_time(worked(), Seconds(0.5), Seconds(1.5)), unknown_time), -0.2, 1e-15);
  EXPECT_TRUE(std::isnan(backlog_slope(line, Seconds(1)))) << "two points are no measurement of a slope";
}

TEST(Queue, AveragesOverTimeAndOverOperationsKeepLittlesLaw) {
  const QueueAverages mean = averages(worked());
  // Stays of 1, 2, 1.5 and 1 s are 5.5 operation seconds in 6 s; of these waiting 0, 1, 0.5 and 0.
  EXPECT_DOUBLE_EQ(mean.time_in_system.value(), 5.5 / 4);
  EXPECT_DOUBLE_EQ(mean.in_system, 5.5 / 6);
  EXPECT_DOUBLE_EQ(mean.time_in_queue.value(), 1.5 / 4);
  EXPECT_DOUBLE_EQ(mean.in_queue, 1.5 / 6);
  EXPECT_DOUBLE_EQ(mean.throughput, 4.0 / 6);
  EXPECT_NEAR(mean.little_gap, 0, 1e-15);
}

TEST(Queue, WithoutStartsWaitingIsUnknown) {
  std::vector<Served> operations = worked();
  operations[1].started = unknown_time;
  EXPECT_TRUE(std::isnan(averages(operations).in_queue));
  EXPECT_DOUBLE_EQ(averages(operations).in_system, 5.5 / 6);
  operations[1].completed = unknown_time;
  EXPECT_TRUE(std::isnan(averages(operations).in_system));
  EXPECT_TRUE(std::isnan(averages({}).in_system));
}

TEST(Queue, LateIsMoreThanATenthOfTheTimeBetweenArrivals) {
  // Each 1 s: 0.05 s late is kept, 0.15 s is not.
  const Lateness seen = lateness({op(0.5, 1, 2), op(1.05, 2, 3, Seconds(1)), op(2.15, 3, 4, Seconds(2))});
  EXPECT_NEAR(seen.most.value(), 0.15, 1e-12);
  EXPECT_EQ(seen.share, 0.5);
  EXPECT_EQ(lateness({op(7, 7, 8)}).share, 0) << "what is queued from the beginning has no time";
  EXPECT_EQ(lateness({op(unknown_number, unknown_number, 3, Seconds(1))}).share, 1) << "unknown is not kept";
}

TEST(Queue, AnOperationIsSubmittedAndServedWithItsLastRank) {
  ProgramBuilder p("queue", 2);
  const LaneId lane = p.lane({.name = "queue0", .role = Role::communication});
  p.all_ranks().submit(Seconds(1), lane, Busy{Seconds(1)});
  const Program program = std::move(p).finish();
  Timings t;
  t.operations = {
      {.rank = Rank(0), .op = OpId(0), .lane = lane, .enqueued = Seconds(1), .start = Seconds(1.5), .end = Seconds(3)},
      {.rank = Rank(1),
       .op = OpId(0),
       .lane = lane,
       .enqueued = Seconds(1.2),
       .start = Seconds(1.4),
       .end = Seconds(2)}};
  const std::vector<Served> all = served(program, t);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].planned, Seconds(1));
  EXPECT_EQ(all[0].submitted, Seconds(1.2));
  EXPECT_EQ(all[0].started, Seconds(1.5));
  EXPECT_EQ(all[0].completed, Seconds(3));
  t.operations[0].start = unknown_time;
  EXPECT_TRUE(std::isnan(served(program, t)[0].started.value())) << "one rank's start is not the operation's";
}

// ---- cases on the model
// ------------------------------------------------------------------------------------------------

const Schema& queue_schema() {
  static const Schema all = [] {
    std::vector<Column> own{{"arrivals", ColumnType::text, "", ""}};
    for (Column& c : queue_columns()) own.push_back(std::move(c));
    return summary_schema(own);
  }();
  return all;
}

struct MeasuredQueue {
  Row row{queue_schema()};
  std::vector<Row> series;
};

MeasuredQueue measure(const QueueQuestion& question, const model::Rates& rates = {}) {
  CaseSpec spec;
  spec.name = spec.key = "queue";
  spec.placement_name = "concurrent";
  ask_about_queue(spec, question);
  const auto backend = open_model(rates, 2);
  StillClock clock;
  const std::atomic<bool> interrupted{false};
  const CaseResult result = Runner(*backend, clock, {}, interrupted).run(spec);
  EXPECT_EQ(result.status, Status::ok) << result.reason;
  const RowContext context{.bench = "queue", .source = "model", .backend = "model", .options = {}};
  return {summary_row(queue_schema(), spec, result, context), series_rows(spec, result, context)};
}

std::string queue_text(const Row& row, std::string_view column) { return format_value(row.at(column)); }

QueueQuestion given(double arrival, double service, std::int64_t backlog, double duration = 8, double step = 1) {
  QueueQuestion q;
  q.queue.given = WorkUnits(1) / WorkUnitsPerSecond(service);
  q.queue.backlog = backlog;
  q.arrival = WorkUnitsPerSecond(arrival);
  q.duration = Seconds(duration);
  q.step = Seconds(step);
  q.fluid_only = true;
  return q;
}

TEST(Queue, OfGivenRatesIsTheFluidLine) {
  const MeasuredQueue growing = measure(given(4, 3, 4));
  ASSERT_EQ(growing.series.size(), 9U);
  for (std::size_t t = 0; t <= 8; ++t) {
    const Row& row = growing.series[t];
    EXPECT_EQ(real(row, "time_s"), static_cast<double>(t));
    EXPECT_EQ(real(row, "backlog"), 4 + static_cast<double>(t));
    EXPECT_EQ(real(row, "growth_rate"), 1);
    EXPECT_TRUE(std::isinf(real(row, "drain_time_s")));
    EXPECT_EQ(queue_text(row, "kind"), "fluid");
    EXPECT_EQ(queue_text(row, "key"), "queue");
  }
  const MeasuredQueue draining = measure(given(2, 3, 4));
  for (std::size_t t = 0; t <= 8; ++t) {
    const Row& row = draining.series[t];
    EXPECT_EQ(real(row, "backlog"), t < 4 ? 4 - static_cast<double>(t) : 0);
    EXPECT_EQ(real(row, "drain_time_s"), 4);
    EXPECT_EQ(real(row, "output_rate"), t < 4 ? 3 : 2);
    EXPECT_EQ(real(row, "submitted") - real(row, "completed"), real(row, "backlog"));
  }
}

// The same rates as single operations in virtual time: a staircase around that line.
TEST(Queue, OperationsOfGivenTimesFollowTheFluidLine) {
  for (const double arrival : {4.5, 4.0, 2.7, 1.5}) {
    QueueQuestion q = given(arrival, 3, 60, 20, 0.25);
    q.fluid_only = false;
    const Row row = measure(q).row;
    EXPECT_NEAR(real(row, "capacity"), 3, 1e-9);
    EXPECT_NEAR(real(row, "fluid_growth_rate"), arrival - 3, 1e-9);
    EXPECT_NEAR(real(row, "growth_rate"), arrival - 3, 0.03) << arrival;
    EXPECT_NEAR(real(row, "utilization"), arrival / 3, 1e-9);
    EXPECT_NEAR(real(row, "little_gap"), 0, 1e-9);
    EXPECT_EQ(real(row, "late_share"), 0);
    EXPECT_EQ(queue_text(row, "mark"), "");
  }
  QueueQuestion q = given(2, 3, 20, 40, 0.25);
  q.fluid_only = false;
  const MeasuredQueue draining = measure(q);
  EXPECT_EQ(real(draining.row, "fluid_drain_time"), 20);
  // Operations are whole: the last of the backlog is gone by up to 1 / (mu - lambda) before the line is at 0.
  EXPECT_LE(real(draining.row, "drain_time"), 20 + 1e-9);
  EXPECT_GT(real(draining.row, "drain_time"), 19);
  EXPECT_EQ(queue_text(draining.series.front(), "kind"), "replay");
  EXPECT_EQ(draining.series.size(), 2U * 161) << "two rounds";
  // The staircase is never more than an operation beside the line, plus the one that is being served.
  for (const Row& row : draining.series) {
    EXPECT_NEAR(real(row, "backlog"), real(row, "fluid_backlog"), 1.001) << real(row, "time_s");
  }
}

// ---- what is measured
// --------------------------------------------------------------------------------------------------

// An all_reduce takes 1 ms whatever its size.
model::Rates queue_machine(Seconds launch = Seconds(0)) {
  model::Rates rates;
  rates.name = "made-up";
  rates.collectives.push_back({CollectiveKind::all_reduce, 2, std::nullopt, {}, 0});
  rates.collectives.back().cost.segments = {{0, {1e-3, 0}}};
  rates.launch = launch;
  return rates;
}

QueueQuestion of_load(double load, int lanes = 1) {
  QueueQuestion q;
  q.queue.transport = "nccl";
  q.queue.bytes = Bytes(64);
  q.queue.backlog = 20;
  q.queue.lanes = lanes;
  q.load = load;
  return q;
}

TEST(Queue, ServiceIsMeasuredFirstAndLoadsArePartsOfIt) {
  const Row row = measure(of_load(1.5), queue_machine()).row;
  EXPECT_NEAR(real(row, "service_rate"), 1000, 1e-6);
  EXPECT_NEAR(real(row, "t_comm"), 1e-3, 1e-12);
  EXPECT_NEAR(real(row, "arrival_rate"), 1500, 1e-6);
  EXPECT_NEAR(real(row, "duration"), 0.12, 1e-9) << "120 services";
  EXPECT_EQ(queue_text(row, "operations"), "200") << "20, and 180 in 120 ms";
  EXPECT_NEAR(real(row, "growth_rate"), 500, 5);
  EXPECT_EQ(queue_text(row, "launch_mode"), "live");
  EXPECT_TRUE(std::isnan(real(row, "drain_time")));
  EXPECT_THAT(queue_text(row, "verdict"), StartsWith("rho 1.5: the backlog grows by 0."));
  const Row less = measure(of_load(0.67), queue_machine()).row;
  EXPECT_NEAR(real(less, "fluid_drain_time"), 20 / 330.0, 1e-9);
  EXPECT_LE(real(less, "drain_time"), 20 / 330.0 + 1e-9);
  EXPECT_GT(real(less, "drain_time"), 19 / 330.0);
}

// Of five replays two were never seen empty: the middle one is the latest that was. Of five with three, nothing is
// known.
TEST(Queue, AReplayThatWasNeverSeenEmptyIsLaterThanAllThatWere) {
  CaseSpec spec;
  ask_about_queue(spec, of_load(0.67));
  const auto drain = std::find_if(spec.estimates.begin(), spec.estimates.end(),
                                  [](const auto& e) { return e.column == "drain_time"; });
  ASSERT_NE(drain, spec.estimates.end());
  const auto middle = [&](std::vector<double> times) {
    std::vector<Sample> samples;
    for (std::size_t i = 0; i < times.size(); ++i) {
      samples.push_back({.round = static_cast<int>(i), .arm = "queue", .values = {{"drain_time", times[i]}}});
    }
    return estimate(samples, drain->statistic, 1).value;
  };
  constexpr double later = std::numeric_limits<double>::infinity();
  EXPECT_EQ(middle({3, later, 1, later, 2}), 3);
  EXPECT_EQ(middle({3, later, later, later, 2}), later);
}

TEST(Queue, LanesWithUnitsOfTheirOwnServeMore) {
  // Without a limit of units two lanes are served side by side.
  const Row two = measure(of_load(1.5, 2), queue_machine()).row;
  EXPECT_NEAR(real(two, "capacity"), 2000, 1e-6);
  EXPECT_NEAR(real(two, "capacity_gain"), 2, 1e-9);
  EXPECT_NEAR(real(two, "utilization"), 0.75, 1e-9);
  EXPECT_EQ(queue_text(two, "steady_state"), "several servers");
  // Where one communicator takes all units, the other waits: what another lane adds is nothing.
  model::Rates narrow = queue_machine();
  narrow.units = narrow.comm_units = 1;
  const Row crowded = measure(of_load(1.5, 2), narrow).row;
  EXPECT_NEAR(real(crowded, "capacity_gain"), 1, 1e-9);
  EXPECT_NEAR(real(crowded, "growth_rate"), 500, 10);
  EXPECT_TRUE(std::isnan(real(measure(of_load(1.5), queue_machine()).row, "capacity_gain")));
}

TEST(Queue, ASubmitterThatCannotKeepTheRateMarksTheRow) {
  // Handing over takes 2 ms, and 1000 are to come in a second.
  const Row row = measure(of_load(1), queue_machine(milliseconds(2))).row;
  EXPECT_GT(real(row, "late_share"), 0.9);
  EXPECT_GT(real(row, "lateness"), 0.05);
  EXPECT_THAT(queue_text(row, "mark"), HasSubstr("of the submissions late"));
  EXPECT_THAT(queue_text(row, "verdict"), StartsWith("MARKED, "));
}

TEST(Queue, ABacklogNearTheLaunchQueueMarksTheRow) {
  QueueQuestion q = of_load(1.5);
  q.queue_depth = 100;
  EXPECT_THAT(queue_text(measure(q, queue_machine()).row, "mark"),
              HasSubstr("near its launch queue, which holds about 100"));
  q.queue_depth = 200;
  EXPECT_EQ(queue_text(measure(q, queue_machine()).row, "mark"), "");
}

TEST(Queue, MeansOfTheSteadyStateAreThoseOfTheMeasuredRates) {
  const Row stable = measure(of_load(2.0 / 3), queue_machine()).row;
  EXPECT_EQ(queue_text(stable, "steady_state"), "stable");
  EXPECT_NEAR(real(stable, "mm1_in_system"), 2, 1e-6);
  EXPECT_NEAR(real(stable, "mm1_time_in_system"), 3e-3, 1e-9);
  EXPECT_NEAR(real(stable, "md1_in_system"), 4.0 / 3, 1e-6);
  EXPECT_NEAR(real(stable, "md1_time_in_queue"), 1e-3, 1e-9);
  const Row unstable = measure(of_load(4.0 / 3), queue_machine()).row;
  EXPECT_EQ(queue_text(unstable, "steady_state"), "unstable");
  EXPECT_TRUE(std::isnan(real(unstable, "mm1_in_system"))) << "never negative";
  EXPECT_TRUE(std::isnan(real(unstable, "md1_time_in_queue")));
}

// A long Poisson queue with equal services is M/D/1: at a load of 0.5 operations wait half a service.
TEST(Queue, PoissonArrivalsWaitAsTheoryHasIt) {
  QueueQuestion q = of_load(0.5);
  q.queue.backlog = 0;
  q.arrivals = Arrivals::poisson;
  q.duration = Seconds(7.5);  // about 3750 operations
  const Row row = measure(q, queue_machine()).row;
  EXPECT_NEAR(real(row, "time_in_queue"), real(row, "md1_time_in_queue"), 0.1e-3);
  EXPECT_NEAR(real(row, "in_system"), real(row, "md1_in_system"), 0.1);
  q.seed = 2;
  EXPECT_NE(real(measure(q, queue_machine()).row, "time_in_queue"), real(row, "time_in_queue"));
}

TEST(Queue, OfTooManyOperationsIsARowThatSaysSo) {
  CaseSpec spec;
  spec.name = spec.key = "queue";
  spec.placement_name = "concurrent";
  QueueQuestion q = of_load(1);
  q.duration = Seconds(60);
  ask_about_queue(spec, q);
  const auto backend = open_model(queue_machine(), 2);
  StillClock clock;
  const std::atomic<bool> interrupted{false};
  const CaseResult result = Runner(*backend, clock, {}, interrupted).run(spec);
  EXPECT_EQ(result.status, Status::unsupported);
  EXPECT_THAT(result.reason, HasSubstr("too many for one replay"));
}

TEST(Queue, RatesThatAreNoQueueAreRefused) {
  CaseSpec spec;
  for (const double rate : {0.0, -1.0, unknown_number, HUGE_VAL}) {
    EXPECT_THROW(ask_about_queue(spec, given(rate, 3, 4)), Error) << rate;
    EXPECT_THROW(ask_about_queue(spec, given(4, rate, 4)), Error) << rate;
  }
}

}  // namespace
}  // namespace ovl
