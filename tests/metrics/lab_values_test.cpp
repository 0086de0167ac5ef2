// SPDX-License-Identifier: Apache-2.0
//
// The lab page of overlap-plots computes in the browser what these functions compute here. tests/golden/lab_values.json
// holds what they say for a grid of inputs; this test keeps it true, and plots/tests/test_lab_arithmetic.py holds the
// page's JavaScript to it. OVL_UPDATE_GOLDEN=1 writes it again.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "metrics/bucket_curve.hpp"
#include "metrics/bus_bandwidth.hpp"
#include "metrics/fluid_interference.hpp"
#include "metrics/fluid_queue.hpp"
#include "metrics/overlap.hpp"
#include "metrics/queueing.hpp"
#include "support/folders.hpp"

namespace ovl {
namespace {

using nlohmann::json;

// JSON has no infinity: it is the string "Infinity".
json number(double value) { return std::isinf(value) ? json("Infinity") : json(value); }

// Of the communication the part `beside` may run beside compute from its start, the rest only after both.
json timeline(Seconds compute, Seconds comm, double beside, Slowdowns slowdown) {
  const PairSpans spans = fluid_spans(compute, comm * beside, slowdown);
  const Seconds step = fluid_step(compute, comm * beside, slowdown) + comm * (1 - beside);
  const Overlap o = overlap({.compute = compute, .comm = comm, .serial = compute + comm, .step = step});
  return {{"compute", compute.value()},
          {"comm", comm.value()},
          {"beside", beside},
          {"slow_compute", slowdown.compute},
          {"slow_comm", slowdown.comm},
          {"compute_end", spans.compute.value()},
          {"beside_end", spans.comm.value()},
          {"step", step.value()},
          {"ideal", o.t_ideal.value()},
          {"bound", o.speedup_bound},
          {"overlap", o.t_overlap.value()},
          {"exposed", o.t_exposed.value()},
          {"hidden_share", o.hidden_share},
          {"hidden_fraction", o.hidden_fraction},
          {"speedup", o.speedup},
          {"pays", name(overlap_pays(slowdown))}};
}

json timelines() {
  json rows;
  for (const double compute : {0.1, 4.39e-4}) {
    for (const double comm : {0.1, 0.05, 28.0 / 150}) {
      for (const double beside : {0.0, 0.35, 1.0}) {
        for (const Slowdowns slowdown :
             {Slowdowns{1, 1}, Slowdowns{1.3, 1.3}, Slowdowns{2, 2}, Slowdowns{2.5, 2.5}, Slowdowns{1.1, 1.9}}) {
          rows.push_back(timeline(Seconds(compute), Seconds(comm), beside, slowdown));
        }
      }
    }
  }
  return rows;
}

json bucket(const BucketCurve& curve, std::int64_t buckets) {
  const auto ends = bucket_ends(curve, buckets);
  return {{"backward", curve.backward.value()},
          {"wire", curve.wire.value()},
          {"latency", curve.latency.value()},
          {"buckets", buckets},
          {"first_end", ends.front().value()},
          {"last_end", ends.back().value()},
          {"exposed", exposed_time(curve, buckets).value()},
          {"bottom", bottom_of_curve(curve)},
          {"best", best_bucket_count(curve)}};
}

json buckets() {
  json rows;
  for (const double bandwidth : {150e9, 360e9}) {
    const BucketCurve curve{milliseconds(100), Bytes(28'000'000'000) / BytesPerSecond(bandwidth), microseconds(50)};
    for (const std::int64_t n : {1, 2, 4, 8, 16, 32, 45, 64, 128, 256, 535, 1024, 4096})
      rows.push_back(bucket(curve, n));
  }
  for (const std::int64_t n : {1, 2, 4, 8})
    rows.push_back(bucket({milliseconds(8), milliseconds(4), milliseconds(1)}, n));
  rows.push_back(bucket({milliseconds(1), milliseconds(5), milliseconds(100)}, 1));
  return rows;
}

json wires() {
  json rows;
  for (const int ranks : {1, 2, 8, 64, 1024}) {
    const Seconds time =
        time_at_bus_bandwidth(CollectiveKind::all_reduce, ranks, Bytes(14'000'000'000), BytesPerSecond(150e9));
    rows.push_back({{"bytes", 14e9}, {"ranks", ranks}, {"bandwidth", 150e9}, {"wire", time.value()}});
  }
  return rows;
}

json counts() {
  json rows;
  for (const std::int64_t size : {26214400LL, 26214399LL, 1LL, 14'000'000'000LL}) {
    rows.push_back({{"total", 104857600}, {"bucket", size}, {"buckets", bucket_count(Bytes(104857600), Bytes(size))}});
  }
  return rows;
}

json fluids() {
  json rows;
  for (const FluidQueue& q : {FluidQueue{WorkUnitsPerSecond(4), WorkUnitsPerSecond(3), WorkUnits(4)},
                              FluidQueue{WorkUnitsPerSecond(2), WorkUnitsPerSecond(3), WorkUnits(4)},
                              FluidQueue{WorkUnitsPerSecond(2), WorkUnitsPerSecond(3), WorkUnits(0)},
                              FluidQueue{WorkUnitsPerSecond(3), WorkUnitsPerSecond(3), WorkUnits(4)},
                              FluidQueue{WorkUnitsPerSecond(3), WorkUnitsPerSecond(3), WorkUnits(0)},
                              FluidQueue{WorkUnitsPerSecond(4), WorkUnitsPerSecond(3), WorkUnits(0)},
                              FluidQueue{WorkUnitsPerSecond(0.7), WorkUnitsPerSecond(1.3), WorkUnits(2.5)}}) {
    for (const double time : {0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 4.1}) {
      rows.push_back({{"arrival", q.arrival.value()},
                      {"service", q.service.value()},
                      {"initial", q.backlog.value()},
                      {"time", time},
                      {"backlog", backlog_at(q, Seconds(time)).value()},
                      {"growth", growth_rate(q).value()},
                      {"drain", number(drain_time(q).value())},
                      {"output", output_rate(q, Seconds(time)).value()}});
    }
  }
  return rows;
}

json means(const std::optional<QueueMeans>& m) {
  if (!m) return "unstable";
  return {{"in_system", m->in_system.value()},
          {"time_in_system", m->time_in_system.value()},
          {"in_queue", m->in_queue.value()},
          {"time_in_queue", m->time_in_queue.value()}};
}

json steady() {
  json rows;
  for (const auto& [arrival, service] : {std::pair{2.0, 3.0}, std::pair{1.0, 2.0}, std::pair{9.0, 10.0},
                                         std::pair{2.9, 3.0}, std::pair{3.0, 3.0}, std::pair{4.0, 3.0}}) {
    rows.push_back({{"arrival", arrival},
                    {"service", service},
                    {"utilization", utilization(WorkUnitsPerSecond(arrival), WorkUnitsPerSecond(service))},
                    {"mm1", means(mm1(WorkUnitsPerSecond(arrival), WorkUnitsPerSecond(service)))},
                    {"md1", means(md1(WorkUnitsPerSecond(arrival), WorkUnitsPerSecond(service)))}});
  }
  return rows;
}

// One row a line, so that a changed number is a changed line.
std::string rows_as_lines(const json& values) {
  std::string text;
  for (const auto& [topic, rows] : values.items()) {
    text += (text.empty() ? "{\n" : ",\n") + json(topic).dump() + ": ";
    if (!rows.is_array()) {
      text += rows.dump();
      continue;
    }
    std::string lines;
    for (const json& row : rows) lines += (lines.empty() ? "[\n " : ",\n ") + row.dump();
    text += lines + "\n]";
  }
  return text + "\n}\n";
}

TEST(LabValues, AreWhatTheHarnessComputes) {
  const json values{{"timeline", timelines()},
                    {"bucket", buckets()},
                    {"wire", wires()},
                    {"count", counts()},
                    {"fluid", fluids()},
                    {"steady", steady()},
                    {"assumptions", {{"mm1", mm1_assumptions}, {"md1", md1_assumptions}}}};
  const std::filesystem::path golden = test::tests_folder() / "golden" / "lab_values.json";
  if (std::getenv("OVL_UPDATE_GOLDEN") != nullptr) std::ofstream(golden) << rows_as_lines(values);
  std::ostringstream text;
  text << std::ifstream(golden).rdbuf();
  const json now = values.flatten();  // one entry a number, named by its path
  const json then = json::parse(text.str()).flatten();
  ASSERT_EQ(now.size(), then.size());
  for (const auto& [path, value] : now.items()) {
    ASSERT_TRUE(then.contains(path)) << path;
    if (!value.is_number()) {
      EXPECT_EQ(value, then[path]) << path;
      continue;
    }
    // Not to the bit: another compiler may contract a product and a sum into one rounding.
    const double expected = then[path].get<double>();
    EXPECT_NEAR(value.get<double>(), expected, 1e-12 * std::fabs(expected) + 1e-17) << path;
  }
}

}  // namespace
}  // namespace ovl
