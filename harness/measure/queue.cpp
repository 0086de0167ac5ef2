// SPDX-License-Identifier: Apache-2.0
#include "measure/queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "measure/summary.hpp"
#include "metrics/queueing.hpp"
#include "results/schema.hpp"

namespace ovl {
namespace {

// What the case spans where the user does not say, in times of one operation alone.
constexpr double usual_duration = 120;
constexpr double late = 0.1;              // of the mean time between arrivals
constexpr double late_mark = 0.05;        // share of late submissions from which the row says so
constexpr double queue_full_mark = 0.75;  // likewise, backlog of a lane as a part of its launch queue

// A queue that was not empty while arrivals came: the time when it is lies beyond what was seen, so in an order of
// times it comes last, and a median of replays is known as long as most of them saw it.
constexpr double still_busy = std::numeric_limits<double>::infinity();
double if_seen(double time) { return std::isfinite(time) ? time : unknown_number; }

// What a replay tells of itself, by the column that holds its median.
constexpr const char* read_columns[] = {"growth_rate", "drain_time",    "in_system",   "time_in_system",
                                        "in_queue",    "time_in_queue", "throughput",  "little_gap",
                                        "lateness",    "late_share",    "backlog_most"};

using Values = std::vector<std::pair<std::string, Value>>;

// The later of two times, unknown where one is.
Seconds later(Seconds a, Seconds b) {
  return std::isnan(a.value()) || std::isnan(b.value()) ? unknown_time : std::max(a, b);
}

// Arrivals and services in the order of time; at the same time the arrival first, so that no backlog is negative.
std::vector<std::pair<Seconds, int>> changes(const std::vector<Served>& operations, Seconds Served::*in,
                                             Seconds Served::*out) {
  std::vector<std::pair<Seconds, int>> all;
  for (const Served& op : operations) {
    all.emplace_back(op.*in, 1);
    all.emplace_back(op.*out, -1);
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.first, -a.second) < std::tuple(b.first, -b.second);
  });
  return all;
}

// The integral over time of how many are in a place.
double time_spent(const std::vector<Served>& operations, Seconds Served::*in, Seconds Served::*out) {
  double area = 0;
  Seconds before(0);
  std::int64_t inside = 0;
  for (const auto& [time, change] : changes(operations, in, out)) {
    area += static_cast<double>(inside) * (time - before).value();
    inside += change;
    before = time;
  }
  return area;
}

Seconds mean_stay(const std::vector<Served>& operations, Seconds Served::*in, Seconds Served::*out) {
  Seconds sum(0);
  for (const Served& op : operations) sum += op.*out - op.*in;
  return sum / static_cast<double>(operations.size());
}

// ---- times and rates of a case -------------------------------------------------------------------------------------

constexpr double most_points = 100'000;

// What is known of a case once an operation's own time is.
struct Rates {
  Seconds alone;  // one operation on one lane; 0: not measured yet
  WorkUnitsPerSecond arrival;
  Seconds duration;
  Seconds step;
};

Rates rates_of(const QueueQuestion& q, const Tuning& tuning) {
  const Seconds alone = q.queue.given.value_or(tuning.comm_time);
  const WorkUnitsPerSecond service = WorkUnits(1) / alone;
  return {.alone = alone,
          .arrival = q.arrival.value_or(service * q.load),
          .duration = q.duration.value_or(alone * usual_duration),
          .step = q.step.value_or(q.duration.value_or(alone * usual_duration) / usual_duration)};
}

QueueSpec at_once(const QueueQuestion& q, const Tuning& tuning, int lanes) {
  QueueSpec spec = q.queue;
  spec.window = tuning.repeats;
  spec.serving = lanes;
  spec.backlog = tuning.repeats * lanes;
  spec.arrivals.clear();
  return spec;
}

// While tuning, what one operation takes is still to be found.
Program queue_of(const QueueQuestion& q, const Tuning& tuning) {
  const Rates rates = rates_of(q, tuning);
  if (const double points = rates.duration / rates.step; points > most_points) {
    throw impossible_error(fmt::format("a step of {} makes {:.3g} points of {}", format_seconds(rates.step), points,
                                       format_seconds(rates.duration)),
                           fmt::format("series.csv has up to {:.0f} of a replay", most_points),
                           fmt::format("type --step {:.3g}s or more", rates.duration.value() / most_points));
  }
  if (rates.alone == Seconds(0)) return queue_program(at_once(q, tuning, 1));
  QueueSpec spec = q.queue;
  spec.window = tuning.repeats;
  spec.serving = spec.lanes;
  const Seconds apart = WorkUnits(1) / rates.arrival;
  spec.arrivals = q.arrivals == Arrivals::constant ? constant_arrivals(apart, rates.duration)
                                                   : poisson_arrivals(apart, rates.duration, q.seed);
  if (spec.backlog == 0 && spec.arrivals.empty()) {
    throw impossible_error("nothing is queued",
                           fmt::format("in {} no operation arrives, one comes every {}", format_seconds(rates.duration),
                                       format_seconds(apart)),
                           "type a longer --duration or a --backlog");
  }
  return queue_program(spec);
}

double own_value(const Summary& s, std::string_view column) {
  for (const auto& [known, estimate] : s.own) {
    if (known == column) return estimate.value;
  }
  return unknown_number;
}

Interval own_interval(const Summary& s, std::string_view column) {
  for (const auto& [known, estimate] : s.own) {
    if (known == column) return estimate.interval;
  }
  return {};
}

// Served by all lanes: as measured, or as given where time is virtual.
FluidQueue fluid_of(const QueueQuestion& q, const Summary& s) {
  const WorkUnitsPerSecond service = q.fluid_only ? WorkUnits(q.queue.lanes) / q.queue.given.value_or(unknown_time)
                                                  : WorkUnitsPerSecond(own_value(s, "capacity"));
  return {rates_of(q, s.tuning).arrival, service, WorkUnits(static_cast<double>(q.queue.backlog))};
}

bool known(const FluidQueue& fluid) { return std::isfinite(fluid.service.value()) && fluid.service.value() > 0; }

// ---- reading a replay
// ------------------------------------------------------------------------------------------------

// Operations a second while all lanes have work: from the latest start of a rank to the latest end.
void read_rate(const Program& arm, Sample& sample) {
  const auto operations = static_cast<double>(arm.classes.front().body.size());
  sample.values.emplace_back("rate", operations / role_time(sample, Role::communication).value());
}

void read_queue(const Program& arm, const Timings& timings, const Rates& rates, Sample& sample) {
  const std::vector<Served> operations = served(arm, timings);
  sample.queue = queue_over_time(operations, rates.step, rates.duration);
  const Seconds empty = first_empty(operations, rates.duration);
  const QueueAverages mean = averages(operations);
  const Lateness lateness = ovl::lateness(operations);
  std::int64_t most = 0;
  std::int64_t inside = 0;
  for (const auto& [time, change] : changes(operations, &Served::submitted, &Served::completed)) {
    inside += change;
    most = std::max(most, inside);
  }
  sample.values = {{"growth_rate", backlog_slope(sample.queue, empty)},
                   {"drain_time", std::isnan(empty.value()) ? still_busy : empty.value()},
                   {"in_system", mean.in_system},
                   {"time_in_system", mean.time_in_system.value()},
                   {"in_queue", mean.in_queue},
                   {"time_in_queue", mean.time_in_queue.value()},
                   {"throughput", mean.throughput},
                   {"little_gap", mean.little_gap},
                   {"lateness", lateness.most.value()},
                   {"late_share", lateness.share},
                   {"backlog_most", static_cast<double>(most)}};
}

// ---- columns, series, words
// ------------------------------------------------------------------------------------------

// What makes the row say less about the queue than about who filled it; empty: nothing.
std::string mark_of(const QueueQuestion& q, const Summary& s) {
  std::string mark;
  if (const double share = own_value(s, "late_share"); share > late_mark) {
    mark = fmt::format("{:.0f} % of the submissions late, by up to {}: the submitter cannot keep this rate",
                       100 * share, format_seconds(Seconds(own_value(s, "lateness"))));
  }
  const double of_lane = own_value(s, "backlog_most") / q.queue.lanes;
  if (q.queue_depth > 0 && of_lane > queue_full_mark * q.queue_depth) {
    mark += fmt::format(
        "{}backlog of {:.0f} a lane near its launch queue, which holds about {}: from there on "
        "handing over waits",
        mark.empty() ? "" : "; ", of_lane, q.queue_depth);
  }
  return mark;
}

void add_means(Values& values, const std::string& name, const std::optional<QueueMeans>& means) {
  if (!means) return;
  values.emplace_back(name + "_in_system", means->in_system.value());
  values.emplace_back(name + "_time_in_system", means->time_in_system.value());
  values.emplace_back(name + "_in_queue", means->in_queue.value());
  values.emplace_back(name + "_time_in_queue", means->time_in_queue.value());
}

Values derived(const QueueQuestion& q, const Summary& s) {
  const Rates rates = rates_of(q, s.tuning);
  Values values{{"arrival_rate", rates.arrival.value()},
                {"duration", rates.duration.value()},
                {"operations", static_cast<std::int64_t>(s.program.classes.front().body.size())},
                {"mark", mark_of(q, s)}};
  const FluidQueue fluid = fluid_of(q, s);
  if (!known(fluid)) return values;
  values.emplace_back("utilization", utilization(fluid.arrival, fluid.service));
  values.emplace_back("fluid_growth_rate", growth_rate(fluid).value());
  values.emplace_back("fluid_drain_time", drain_time(fluid).value());
  if (q.queue.lanes > 1) {
    values.emplace_back("steady_state", std::string("several servers"));
    return values;
  }
  const std::optional<QueueMeans> exponential = mm1(fluid.arrival, fluid.service);
  values.emplace_back("steady_state", std::string(exponential ? "stable" : "unstable"));
  add_means(values, "mm1", exponential);
  add_means(values, "md1", md1(fluid.arrival, fluid.service));
  return values;
}

// Times k · step up to the duration, which rounding must not cut short.
std::int64_t steps_within(Seconds step, Seconds duration) {
  return static_cast<std::int64_t>(std::floor(duration / step * (1 + 1e-12)));
}

std::vector<Row> fluid_rows(const FluidQueue& fluid, Seconds step, Seconds duration) {
  std::vector<Row> rows;
  for (std::int64_t k = 0; k <= steps_within(step, duration); ++k) {
    const Seconds time = step * static_cast<double>(k);
    const WorkUnits backlog = backlog_at(fluid, time);
    const WorkUnits submitted = fluid.backlog + fluid.arrival * time;
    Row& row = rows.emplace_back(series_schema());
    row.set("time_s", time.value()).set("backlog", backlog.value());
    row.set("growth_rate", growth_rate(fluid).value()).set("drain_time_s", drain_time(fluid).value());
    row.set("submitted", submitted.value()).set("completed", (submitted - backlog).value());
    row.set("fluid_backlog", backlog.value()).set("output_rate", output_rate(fluid, time).value());
    row.set("kind", std::string("fluid"));
  }
  return rows;
}

std::vector<Row> replay_rows(const FluidQueue& fluid, std::span<const Sample> used) {
  std::vector<Row> rows;
  for (const Sample& sample : used) {
    if (sample.arm != queue_arm) continue;
    for (const QueuePoint& point : sample.queue) {
      Row& row = rows.emplace_back(series_schema());
      row.set("time_s", point.time.value());
      row.set("backlog", static_cast<double>(point.submitted - point.completed));
      row.set("growth_rate", noted(sample, "growth_rate")).set("drain_time_s", if_seen(noted(sample, "drain_time")));
      row.set("submitted", static_cast<double>(point.submitted));
      row.set("completed", static_cast<double>(point.completed));
      if (known(fluid)) row.set("fluid_backlog", backlog_at(fluid, point.time).value());
      row.set("kind", std::string("replay")).set("round", static_cast<std::int64_t>(sample.round));
    }
  }
  return rows;
}

std::string rate_text(double value, Interval interval, double of) {
  std::string text = fmt::format("{:.3g}", value / of);
  if (interval.width() > 0) text += fmt::format(" [{:.3g}, {:.3g}]", interval.low / of, interval.high / of);
  return text;
}

std::string words(const QueueQuestion& q, const Summary& s) {
  const FluidQueue fluid = fluid_of(q, s);
  if (!known(fluid)) return "the service rate was not seen";
  const double mu = fluid.service.value();
  const double growth = own_value(s, "growth_rate");
  std::string text =
      std::isnan(growth)
          ? fmt::format("rho {:.3g}: too few points before it is empty for a slope", fluid.arrival / fluid.service)
          : fmt::format("rho {:.3g}: the backlog {} by {} of the service rate, the fluid line by {:.3g}",
                        fluid.arrival / fluid.service, growth < 0 ? "changes" : "grows",
                        rate_text(growth, own_interval(s, "growth_rate"), mu), growth_rate(fluid).value() / mu);
  const Seconds drain(if_seen(own_value(s, "drain_time")));
  const Seconds line = drain_time(fluid);
  if (q.queue.backlog > 0 && (!std::isnan(drain.value()) || std::isfinite(line.value()))) {
    text += fmt::format("; first empty after {}, the fluid line after {}",
                        std::isnan(drain.value()) ? "more than the replay shows" : format_seconds(drain),
                        std::isfinite(line.value()) ? format_seconds(line) : "never");
  }
  const std::string mark = mark_of(q, s);
  return mark.empty() ? text : "MARKED, " + mark + "; " + text;
}

}  // namespace

std::vector<Served> served(const Program& program, const Timings& timings) {
  require(program.classes.size() == 1, "all ranks of a queue submit the same");
  std::vector<Served> operations;
  std::map<OpId, std::size_t> index;
  for (const Operation& op : program.classes.front().body) {
    if (is_ordering(op.work)) continue;
    index[op.id] = operations.size();
    operations.push_back({.planned = op.not_before});
  }
  std::vector<std::size_t> seen(operations.size());
  for (const OperationTiming& t : timings.operations) {
    const auto at = index.find(t.op);
    if (at == index.end()) continue;
    Served& op = operations[at->second];
    const bool first = seen[at->second]++ == 0;
    op.submitted = first ? t.enqueued : later(op.submitted, t.enqueued);
    op.started = first ? t.start : later(op.started, t.start);
    op.completed = first ? t.end : later(op.completed, t.end);
  }
  return operations;
}

std::vector<QueuePoint> queue_over_time(const std::vector<Served>& operations, Seconds step, Seconds duration) {
  std::vector<Seconds> in;
  std::vector<Seconds> out;
  for (const Served& op : operations) {
    in.push_back(op.submitted);
    out.push_back(op.completed);
  }
  // Not before it was submitted, whatever the clocks say of an operation that takes next to nothing.
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = later(in[i], out[i]);
  const auto so_far = [](std::vector<Seconds>& times) {
    std::erase_if(times, [](Seconds t) { return std::isnan(t.value()); });
    std::sort(times.begin(), times.end());
    return [&times](Seconds at) { return std::upper_bound(times.begin(), times.end(), at) - times.begin(); };
  };
  const auto submitted = so_far(in);
  const auto completed = so_far(out);
  std::vector<QueuePoint> points;
  for (std::int64_t k = 0; k <= steps_within(step, duration); ++k) {
    const Seconds time = step * static_cast<double>(k);
    // What is queued from the beginning is handed over within the first microseconds.
    points.push_back({time, submitted(time), completed(time)});
  }
  return points;
}

Seconds first_empty(const std::vector<Served>& operations, Seconds duration) {
  std::int64_t inside = 0;
  std::int64_t to_come = static_cast<std::int64_t>(
      std::count_if(operations.begin(), operations.end(), [](const Served& op) { return !op.planned; }));
  if (to_come == 0) return Seconds(0);
  for (const auto& [time, change] : changes(operations, &Served::submitted, &Served::completed)) {
    if (std::isnan(time.value()) || time > duration) break;
    inside += change;
    if (change > 0) --to_come;
    if (inside == 0 && to_come <= 0) return time;
  }
  return unknown_time;
}

double backlog_slope(const std::vector<QueuePoint>& points, Seconds until) {
  double n = 0;
  double t_sum = 0;
  double b_sum = 0;
  const auto counts = [&](const QueuePoint& p) { return std::isnan(until.value()) || p.time <= until; };
  const auto backlog = [](const QueuePoint& p) { return static_cast<double>(p.submitted - p.completed); };
  for (const QueuePoint& p : points) {
    if (!counts(p)) continue;
    n += 1;
    t_sum += p.time.value();
    b_sum += backlog(p);
  }
  if (n < 3) return unknown_number;
  double above = 0;
  double below = 0;
  for (const QueuePoint& p : points) {
    if (!counts(p)) continue;
    const double t = p.time.value() - t_sum / n;
    above += t * (backlog(p) - b_sum / n);
    below += t * t;
  }
  return above / below;
}

QueueAverages averages(const std::vector<Served>& operations) {
  QueueAverages mean;
  const auto seen = [&](Seconds Served::*time) {
    return !operations.empty() && std::none_of(operations.begin(), operations.end(),
                                               [&](const Served& op) { return std::isnan((op.*time).value()); });
  };
  if (!seen(&Served::submitted) || !seen(&Served::completed)) return mean;
  Seconds end(0);
  for (const Served& op : operations) end = std::max(end, op.completed);
  mean.throughput = static_cast<double>(operations.size()) / end.value();
  mean.in_system = time_spent(operations, &Served::submitted, &Served::completed) / end.value();
  mean.time_in_system = mean_stay(operations, &Served::submitted, &Served::completed);
  mean.little_gap = mean.in_system / littles_law(WorkUnitsPerSecond(mean.throughput), mean.time_in_system).value() - 1;
  if (!seen(&Served::started)) return mean;
  mean.in_queue = time_spent(operations, &Served::submitted, &Served::started) / end.value();
  mean.time_in_queue = mean_stay(operations, &Served::submitted, &Served::started);
  return mean;
}

Lateness lateness(const std::vector<Served>& operations) {
  Lateness found;
  Seconds last(0);
  double arrivals = 0;
  for (const Served& op : operations) {
    if (!op.planned) continue;
    last = std::max(last, *op.planned);
    arrivals += 1;
  }
  if (arrivals == 0) return found;
  found.most = unknown_time;
  double behind = 0;
  for (const Served& op : operations) {
    if (!op.planned) continue;
    const Seconds by = op.submitted - *op.planned;
    found.most = Seconds(std::fmax(found.most.value(), by.value()));
    if (!(by <= last / arrivals * late)) behind += 1;
  }
  found.share = behind / arrivals;
  return found;
}

void ask_about_queue(CaseSpec& spec, const QueueQuestion& question) {
  const QueueQuestion q = question;
  // What can be said of rates before anything is measured: a service of one a second stands for the unknown one.
  const WorkUnitsPerSecond service = WorkUnits(1) / q.queue.given.value_or(Seconds(1));
  static_cast<void>(
      growth_rate({q.arrival.value_or(service * q.load), service, WorkUnits(static_cast<double>(q.queue.backlog))}));
  spec.tuned = !q.queue.given;
  spec.build = [q](const Tuning& tuning) { return queue_of(q, tuning); };
  spec.kept = static_cast<int>(most_queued);
  const auto all_at_once = [q](int lanes) {
    return [q, lanes](const Program& placed, const Tuning& tuning) {
      Program program = queue_program(at_once(q, tuning, lanes));
      program.lanes = placed.lanes;  // where the placement put them
      program.communicators = placed.communicators;
      program.graph = placed.graph;
      return program;
    };
  };
  const auto rate = [](const Program& arm, const Tuning& /*tuning*/, const Timings& /*timings*/, Sample& sample) {
    read_rate(arm, sample);
  };
  spec.arms = {{.name = std::string(name(Arm::comm)), .program = all_at_once(1), .covering = {}, .read = rate}};
  if (q.queue.lanes > 1) {
    spec.arms.push_back(
        {.name = std::string(capacity_arm), .program = all_at_once(q.queue.lanes), .covering = {}, .read = rate});
  }
  spec.arms.push_back({.name = std::string(queue_arm),
                       .program = [](const Program& placed, const Tuning& /*tuning*/) { return placed; },
                       .covering = {},
                       .instrumented = true,
                       .read = [q](const Program& arm, const Tuning& tuning, const Timings& timings,
                                   Sample& sample) { read_queue(arm, timings, rates_of(q, tuning), sample); }});

  const std::string_view all_lanes = q.queue.lanes > 1 ? capacity_arm : name(Arm::comm);
  const auto capacity = [all_lanes](const ArmMedians& medians) { return medians.value(all_lanes, "rate"); };
  const auto service_rate = [](const ArmMedians& medians) { return medians.value(name(Arm::comm), "rate"); };
  spec.estimates = {{"service_rate", service_rate},
                    {"capacity", capacity},
                    {"capacity_gain", [=](const ArmMedians& medians) {
                       return q.queue.lanes > 1 ? capacity(medians) / service_rate(medians) : unknown_number;
                     }}};
  for (const char* column : read_columns) {
    spec.estimates.push_back(
        {column, [column](const ArmMedians& medians) { return medians.value(queue_arm, column); }});
  }
  spec.watched = [capacity](std::span<const Sample> used, std::int64_t /*repeats*/, std::uint64_t seed) {
    const auto growth = [&](const ArmMedians& medians) {
      return medians.value(queue_arm, "growth_rate") / capacity(medians);
    };
    return estimate(used, growth, seed, 200).interval;
  };
  spec.derive = [q](const Summary& s) { return derived(q, s); };
  spec.over_time = [q](const Summary& s, std::span<const Sample> used) {
    if (!q.fluid_only) return replay_rows(fluid_of(q, s), used);
    const Rates rates = rates_of(q, s.tuning);
    return fluid_rows(fluid_of(q, s), rates.step, rates.duration);
  };
  spec.words = [q](const Summary& s) { return words(q, s); };
}

std::vector<Column> queue_columns() {
  std::vector<Column> columns;
  const auto real = [&](const std::string& column, const std::string& unit, const std::string& help) {
    columns.push_back({column, ColumnType::real, unit, help});
  };
  const auto with_interval = [&](const std::string& column, const std::string& unit, const std::string& help) {
    real(column, unit, help);
    real(column + "_low", unit, "lower end of the 95 % interval of " + column);
    real(column + "_high", unit, "upper end of the 95 % interval of " + column);
  };
  real("arrival_rate", "1/s", "lambda: operations a second that are submitted, by plan");
  real("duration", "s", "in which arrivals come");
  columns.push_back({"operations", ColumnType::integer, "1", "submitted in a replay, those queued at time 0 included"});
  with_interval("service_rate", "1/s", "mu of one lane: operations a second while it always has one (arm comm)");
  with_interval("capacity", "1/s", "of all lanes together, each with as many operations at once (arm capacity)");
  with_interval("capacity_gain", "1", "capacity / service_rate, of the same rounds; empty: one lane");
  real("utilization", "1", "rho: arrival_rate / capacity");
  with_interval("growth_rate", "1/s",
                "slope of the line through the backlog until it is first empty, median over the replays");
  real("fluid_growth_rate", "1/s", "arrival_rate - capacity");
  with_interval("drain_time", "s",
                "when the queue is first empty, median over the replays, those that never were counted as later than "
                "all; empty: most were not");
  real("fluid_drain_time", "s", "backlog / (capacity - arrival_rate); inf: never");
  with_interval("in_system", "1", "L: operations queued or served, average over time of a whole replay, its start too");
  with_interval("time_in_system", "s", "W: from submission to completion, average over its operations");
  with_interval("in_queue", "1", "Lq: likewise, waiting only; empty where starts are not seen");
  with_interval("time_in_queue", "s", "Wq: likewise");
  with_interval("throughput", "1/s", "operations / last completion");
  with_interval("little_gap", "1", "L / (throughput W) - 1, each counted by itself");
  with_interval("lateness", "s", "of the arrival that was submitted latest after its time");
  with_interval("late_share", "1", "arrivals that were submitted late by more than a tenth of the time between two");
  with_interval("backlog_most", "1", "the largest backlog");
  columns.push_back({"mark", ColumnType::text, "",
                     "late submissions, or a backlog near the launch queue's depth: what the row is also about"});
  columns.push_back({"steady_state", ColumnType::text, "",
                     "stable; unstable: rho >= 1, no mean exists; several servers: no closed form here"});
  for (const auto& [model, full] : {std::pair{"mm1", "M/M/1"}, {"md1", "M/D/1"}}) {
    const std::string prefix(model);
    real(prefix + "_in_system", "1", std::string(full) + ": L in the steady state, of arrival_rate and capacity");
    real(prefix + "_time_in_system", "s", std::string(full) + ": W");
    real(prefix + "_in_queue", "1", std::string(full) + ": Lq");
    real(prefix + "_time_in_queue", "s", std::string(full) + ": Wq");
  }
  return columns;
}

}  // namespace ovl
