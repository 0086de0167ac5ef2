// SPDX-License-Identifier: Apache-2.0
#include "measure/selfcheck.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "program/builder.hpp"
#include "program/projection.hpp"
#include "schedule/pair.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

constexpr int replays = 200;

std::string spread(const std::vector<double>& values, const std::string& unit) {
  const auto text = [&](double p) {
    const double v = quantile(values, p);
    return unit == "s" ? format_seconds(Seconds(v)) : fmt::format("{:.3g}", v);
  };
  return fmt::format("median of {}, 5 % to 95 %: {} to {}", values.size(), text(0.05), text(0.95));
}

CheckValue summarised(const std::vector<double>& values, const std::string& unit) {
  return {median(values), spread(values, unit)};
}

// Steps of one program, the first few left out.
std::vector<Timings> replay(Backend& backend, const Program& program, int count) {
  const auto prepared = backend.prepare({program}, Data::random, 1);
  std::vector<Timings> timings;
  for (int i = 0; i < count + 5; ++i) {
    Timings t = prepared->run(0, {.slot = i});
    if (i >= 5) timings.push_back(std::move(t));
  }
  return timings;
}

std::vector<double> steps(const std::vector<Timings>& timings) {
  std::vector<double> values;
  for (const Timings& t : timings) values.push_back(t.step().value());
  return values;
}

// A compute and a comm lane on every rank, each with `operations` of no duration.
Program idle_lanes(int ranks, int operations) {
  ProgramBuilder p("idle", ranks);
  const LaneId compute = p.lane({.name = "compute", .role = Role::compute});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  ClassBuilder all = p.all_ranks();
  for (int i = 0; i < operations; ++i) {
    all.body(compute, Busy{Seconds(0)});
    all.body(comm, Busy{Seconds(0)});
  }
  return std::move(p).finish();
}

// One lane on one rank.
Program one_lane(int operations) {
  ProgramBuilder p("operations", 1);
  const LaneId compute = p.lane({.name = "compute", .role = Role::compute});
  ClassBuilder all = p.all_ranks();
  for (int i = 0; i < operations; ++i) all.body(compute, Busy{Seconds(0)});
  return std::move(p).finish();
}

// The two lanes of one rank wait for each other in turn.
Program event_chain(int hops) {
  ProgramBuilder p("events", 1);
  const LaneId compute = p.lane({.name = "compute", .role = Role::compute});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  ClassBuilder all = p.all_ranks();
  for (int i = 0; i < hops; ++i) {
    const LaneId from = i % 2 == 0 ? compute : comm;
    all.body(from, Busy{Seconds(0)});
    all.order(from, i % 2 == 0 ? comm : compute);
  }
  return std::move(p).finish();
}

CheckValue clock_resolution(Clock& clock) {
  std::vector<double> steps_seen;
  while (steps_seen.size() < 1000) {
    const Seconds first = clock.now();
    Seconds next = clock.now();
    while (next == first) next = clock.now();
    steps_seen.push_back((next - first).value());
  }
  return summarised(steps_seen, "s");
}

CheckValue replay_per_operation(Backend& backend) {
  constexpr int many = 1000;
  const std::vector<double> one = steps(replay(backend, one_lane(1), replays));
  const std::vector<double> all = steps(replay(backend, one_lane(many + 1), replays));
  return {(median(all) - median(one)) / many, fmt::format("{} operations, {}", many, spread(all, "s"))};
}

CheckValue event_hop(Backend& backend) {
  constexpr int hops = 200;
  std::vector<double> each;
  for (const double step : steps(replay(backend, event_chain(hops), replays))) each.push_back(step / hops);
  return summarised(each, "s");
}

// The spread of a fixed piece of real work: median absolute deviation over median, as a standard deviation.
CheckValue jitter(Backend& backend) {
  const PairSpec work{.ranks = 1,
                      .m = 256,
                      .n = 256,
                      .k = 256,
                      .gemm_repeat = 20,
                      .bytes = Bytes(4),
                      .transport = backend.describe().transports.front()};
  const std::vector<double> values = steps(replay(backend, project(pair_program(work), Arm::compute), replays));
  return {1.4826 * median_absolute_deviation(values) / median(values), spread(values, "s")};
}

// The conditions over a while, read once and shared by the checks that look at them.
class Watch {
 public:
  Watch(Backend& backend, Clock& clock, Seconds length) : backend_(backend), clock_(clock), length_(length) {}

  const std::vector<double>& values(const std::string& name) {
    look();
    return values_[name];
  }
  [[nodiscard]] Seconds elapsed() const { return elapsed_; }

 private:
  void look() {
    if (looked_) return;
    looked_ = true;
    const Seconds began = clock_.now();
    do {
      for (const Reading& r : backend_.conditions().readings) {
        if (!std::isnan(r.value)) values_[r.name].push_back(r.value);
      }
      elapsed_ = clock_.now() - began;
    } while (elapsed_ < length_);
  }

  Backend& backend_;
  Clock& clock_;
  Seconds length_;
  bool looked_ = false;
  Seconds elapsed_{0};
  std::map<std::string, std::vector<double>> values_;
};

// How often neighbouring readings differ by more than the factor, per second.
double flips_per_second(const std::vector<double>& values, double factor, Seconds elapsed) {
  int flips = 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (std::max(values[i], values[i - 1]) > factor * std::min(values[i], values[i - 1])) ++flips;
  }
  return values.empty() ? std::numeric_limits<double>::quiet_NaN() : flips / elapsed.value();
}

double share_above(const std::vector<double>& values, double limit) {
  const auto above = std::count_if(values.begin(), values.end(), [&](double v) { return v > limit; });
  return values.empty() ? std::numeric_limits<double>::quiet_NaN()
                        : static_cast<double>(above) / static_cast<double>(values.size());
}

}  // namespace

CheckResult judge_check(const MachineCheck& check, const CheckValue& value) {
  CheckResult result{check.name, check.unit, check.meaning, value, Trust::good, ""};
  if (std::isnan(value.value)) {
    result.trust = Trust::unknown;
  } else if (value.value > check.bad) {
    result.trust = Trust::bad;
  } else if (value.value > check.care) {
    result.trust = Trust::care;
  }
  if (result.trust == Trust::bad || result.trust == Trust::care) result.advice = check.advice;
  if (result.trust == Trust::bad && !check.advice_when_bad.empty()) result.advice = check.advice_when_bad;
  return result;
}

std::string trust_verdict(const std::vector<CheckResult>& results) {
  std::string bad;
  std::string care;
  for (const CheckResult& r : results) {
    std::string& list = r.trust == Trust::bad ? bad : care;
    if (r.trust == Trust::bad || r.trust == Trust::care) {
      list += fmt::format("{}{}: {}", list.empty() ? "" : "; ", r.name, r.advice);
    }
  }
  if (!bad.empty())
    return "do not trust absolute numbers from this machine as it is. " + bad + (care.empty() ? "" : "; " + care);
  if (!care.empty()) return "trust with care. " + care;
  const bool checked =
      std::any_of(results.begin(), results.end(), [](const CheckResult& r) { return r.trust == Trust::good; });
  if (!checked) return "unknown: nothing could be checked";
  return "trust: nothing that was checked stands in the way";
}

std::vector<MachineCheck> backend_checks(Backend& backend, Clock& clock, Seconds watch) {
  const Description d = backend.describe();
  const auto seen = std::make_shared<Watch>(backend, clock, watch);
  std::vector<MachineCheck> checks;
  checks.push_back({"clock_resolution", "s", "smallest step of the clock that budgets use", 1e-6, 1e-3,
                    "use a kernel clock source with nanoseconds (tsc)", [&clock] { return clock_resolution(clock); }});
  checks.push_back({"empty_replay", "s", "step of a replay without work: what the harness costs a window", 100e-6, 1e-3,
                    "close what else runs; give the ranks cores of their own", [&backend, ranks = d.default_ranks] {
                      return summarised(steps(replay(backend, idle_lanes(ranks, 1), replays)), "s");
                    }});
  checks.push_back({"replay_per_operation", "s", "cost of one operation on a lane, beyond its work", 200e-9, 2e-6,
                    "close what else runs; use longer operations",
                    [&backend] { return replay_per_operation(backend); }});
  checks.push_back({"event_hop", "s", "record on one lane to the wait on another", 5e-6, 100e-6,
                    "give both lanes cores of their own, or --waiting spin where there are enough",
                    [&backend] { return event_hop(backend); }});
  checks.push_back({"align_skew", "s", "spread of the ranks' origins", 20e-6, 200e-6,
                    "close what else runs; give the ranks cores of their own", [&backend, ranks = d.default_ranks] {
                      std::vector<double> skews;
                      for (const Timings& t : replay(backend, idle_lanes(ranks, 1), replays)) {
                        skews.push_back(t.align_skew().value());
                      }
                      return summarised(skews, "s");
                    }});
  checks.push_back({"jitter", "1", "scatter of a fixed GEMM: 1.48 · MAD / median", 0.02, 0.1,
                    "close what else runs, fix the clock frequency", [&backend] { return jitter(backend); }});
  checks.push_back({"core_distance", "s", "one way from core to core", 1e-6, 1e-5, "choose --cores that share a cache",
                    [seen] { return summarised(seen->values("core_distance"), "s"); }});
  checks.push_back({"core_distance_flips", "1/s", "how often that distance changes by more than 1.6x", 0, 5,
                    "the hypervisor moves virtual cores: pin them, or expect repeated blocks", [seen] {
                      const auto& values = seen->values("core_distance");
                      return CheckValue{
                          flips_per_second(values, 1.6, seen->elapsed()),
                          fmt::format("{} readings in {}", values.size(), format_seconds(seen->elapsed()))};
                    }});
  checks.push_back(
      {"shared_core_share", "1", "share of readings in which two busy cores ran like one", 0.02, 0.3,
       "something else used a core now and then: close what else runs, or expect repeated blocks",
       [seen] {
         const auto& values = seen->values("busy_core_slowdown");
         return CheckValue{share_above(values, 1.25), "slowdown of a core by the other: " + spread(values, "1")};
       },
       "most likely two of the cores are one physical core, or busy with something else: choose others with --cores"});
  checks.push_back({"steal_share", "1", "CPU time that the hypervisor gave to others, worst reading", 0.01, 0.1,
                    "the host is overcommitted: use a machine of your own", [seen] {
                      return CheckValue{quantile(seen->values("steal_share"), 1), ""};
                    }});
  checks.push_back({"foreign_cpu_share", "1", "CPU time of other processes, worst reading", 0.02, 0.2,
                    "close what else runs", [seen] {
                      return CheckValue{quantile(seen->values("foreign_cpu_share"), 1), ""};
                    }});
  return checks;
}

double gemm_rate(Backend& backend, std::int64_t size) {
  const PairSpec work{.ranks = 1,
                      .m = size,
                      .n = size,
                      .k = size,
                      .gemm_repeat = 4,
                      .bytes = Bytes(4),
                      .transport = backend.describe().transports.front()};
  const Flops flops = flops_of({work.m, work.n, work.k, work.dtype, work.gemm_repeat});
  const std::vector<double> times = steps(replay(backend, project(pair_program(work), Arm::compute), 20));
  return (flops / Seconds(median(times))).value();
}

}  // namespace ovl
