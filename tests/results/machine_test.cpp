// SPDX-License-Identifier: Apache-2.0
#include "results/machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "support/folders.hpp"

namespace ovl {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Two lines: 10 us + bytes / 10 GB/s, and from 64 KiB on 15 us + bytes / 40 GB/s.
Machine example_machine() {
  CollectiveCost cost{
      .collective = "all_reduce", .dtype = "f32", .op = "sum", .ranks = 8, .in_place = false, .origin = "run"};
  cost.segments = {{0, {10e-6, {9e-6, 11e-6}}, {1e-10, {}}}, {65536, {15e-6, {}}, {2.5e-11, {2.4e-11, 2.6e-11}}}};
  for (double bytes = 1024; bytes <= 1024 * 4096; bytes *= 4) {
    cost.points.push_back({bytes, bytes < 65536 ? 10e-6 + bytes * 1e-10 : 15e-6 + bytes * 2.5e-11});
  }
  cost.points.back().seconds *= 2;  // the worst: predicted half of what it took
  cost.least_bytes = cost.points.front().bytes;
  cost.most_bytes = cost.points.back().bytes;
  cost.median_relative_error = 0;
  cost.max_relative_error = 0.5;
  Machine machine{.name = "example-8", .fabric = "a fabric", .device = "a device"};
  machine.origins = {{.id = "run",
                      .kind = OriginKind::imported,
                      .source = "example.org/logs",
                      .file = "all_reduce.log",
                      .sha256 = std::string(64, 'a'),
                      .tool = "nccl-tests"},
                     {.id = "rates", .kind = OriginKind::published, .source = "a data sheet"}};
  machine.rates = {{"memory", "rates", {3.35e12, {}}}};
  machine.collectives = {cost};
  machine.contention = {{"all_reduce", "gemm 4096x4096x4096", "run", {1.25, {1.2, 1.3}}}};
  return machine;
}

json example_json() { return json::parse(machine_json(example_machine())); }

std::string refusal(const std::function<void(json&)>& change) {
  json document = example_json();
  change(document);
  try {
    parse_machine(document.dump());
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "nothing was refused";
}

TEST(Machine, IsReadAsItWasWritten) {
  const Machine before = example_machine();
  const Machine after = parse_machine(machine_json(before));
  EXPECT_EQ(machine_json(after), machine_json(before));
  ASSERT_EQ(after.collectives.size(), 1U);
  const CollectiveCost& cost = after.collectives.front();
  EXPECT_EQ(cost.title(), "all_reduce f32 sum, 8 ranks, out of place");
  EXPECT_EQ(cost.segments.at(1).from, 65536);
  EXPECT_DOUBLE_EQ(cost.segments.at(0).alpha.interval.high, 11e-6);
  EXPECT_TRUE(std::isnan(cost.segments.at(0).beta.interval.low));
  EXPECT_EQ(after.find_origin("run")->sha256, std::string(64, 'a'));
  EXPECT_EQ(after.find_origin("elsewhere"), nullptr);
  EXPECT_DOUBLE_EQ(after.rates.front().rate.value, 3.35e12);
  EXPECT_DOUBLE_EQ(after.contention.front().slowdown.interval.low, 1.2);
}

TEST(Machine, AGemmRateMayBeOfOneShape) {
  EXPECT_EQ(unit_of_rate("memory"), "B/s");
  EXPECT_EQ(unit_of_rate("gemm_f32"), "FLOP/s");
  EXPECT_EQ(unit_of_rate("gemm_f32@512x512x512"), "FLOP/s");
  for (const char* none : {"gemm_f32@", "gemm_f32@mlp:gpt2-small", "memory@512", "gemm_int3", ""}) {
    EXPECT_EQ(unit_of_rate(none), "") << none;
  }
  Machine shaped = example_machine();
  shaped.rates.push_back({"gemm_f32@512x512x512", "run", {2e11, {1.9e11, 2.1e11}}});
  EXPECT_EQ(parse_machine(machine_json(shaped)).rates.back().name, "gemm_f32@512x512x512");
}

TEST(Machine, TheCostIsThatOfItsSegments) {
  const CostFit fit = example_machine().collectives.front().fit();
  EXPECT_DOUBLE_EQ(fit.at(1024), 10e-6 + 1024e-10);
  EXPECT_DOUBLE_EQ(fit.at(65536), 15e-6 + 65536 * 2.5e-11);
  EXPECT_DOUBLE_EQ(fit.max_relative_error, 0.5);
}

TEST(Machine, RefusalsNameTheEntryAndWhatWouldBeRight) {
  EXPECT_THAT(refusal([](json& m) { m["version"] = 2; }),
              HasSubstr("version is 2; this build reads version 1: make the file again with overlap-machine"));
  EXPECT_THAT(refusal([](json& m) { m["format"] = "else"; }), HasSubstr("format is not \"overlapbench machine\""));
  EXPECT_THAT(refusal([](json& m) { m["name"] = "../up"; }), HasSubstr("name is no name"));
  EXPECT_THAT(refusal([](json& m) { m["colectives"] = json::array(); }),
              HasSubstr("colectives is no field of a machine description; did you mean collectives?"));
  EXPECT_THAT(refusal([](json& m) { m["collectives"][0]["segments"][0]["alpha_s"] = "fast"; }),
              HasSubstr("collectives[0].segments[0].alpha_s is \"fast\"; write a number from -10000 to 10000"));
  EXPECT_THAT(refusal([](json& m) { m["collectives"][0]["segments"][1]["from_bytes"] = 0; }),
              HasSubstr("collectives[0].segments[1].from_bytes is 0; begin with 0 and let them ascend"));
  EXPECT_THAT(refusal([](json& m) { m["collectives"][0]["segments"] = json::array(); }),
              HasSubstr("collectives[0].segments is empty or missing"));
  EXPECT_THAT(refusal([](json& m) { m["collectives"][0].erase("ranks"); }),
              HasSubstr("collectives[0].ranks is missing; write a number"));
  EXPECT_THAT(refusal([](json& m) { m["collectives"][0]["ranks"] = 2.5; }), HasSubstr("is no whole number"));
  EXPECT_THAT(refusal([](json& m) { m["collectives"][0]["load"] = "busy"; }), HasSubstr("is neither idle nor loaded"));
  EXPECT_THAT(refusal([](json& m) { m["collectives"].push_back(m["collectives"][0]); }),
              HasSubstr("collectives[1] is a second"));
  EXPECT_THAT(refusal([](json& m) { m["collectives"][0]["collective"] = "all_redcue"; }),
              HasSubstr("collectives[0].collective \"all_redcue\" is unknown"));
  EXPECT_THAT(refusal([](json& m) { m["rates"][0]["name"] = "memry"; }), HasSubstr("did you mean memory"));
  EXPECT_THAT(refusal([](json& m) { m["origins"][0]["kind"] = "guessed"; }), HasSubstr("guessed"));
  EXPECT_THAT(refusal([](json& m) { m["origins"][0]["sha256"] = "abc"; }),
              HasSubstr("origins[0].sha256 is no SHA-256"));
  EXPECT_THAT(refusal([](json& m) { m["contention"][0]["slowdown"]["low"] = 2; }), HasSubstr("ends before it begins"));
  EXPECT_THAT(refusal([](json& m) { m["fabric"] = "a\x1b[2Jb"; }), HasSubstr("fabric holds a control character"));
  EXPECT_THAT(refusal([](json& m) { m["fabric"] = std::string(401, 'x'); }), HasSubstr("more than 400 characters"));
  EXPECT_THAT(refusal([](json& m) { m = json::array(); }), HasSubstr("is no object"));
}

// A node of 8, a rack of 16 such nodes, and what connects the racks, with half of what they could send.
Machine example_of_levels() {
  Machine machine = example_machine();
  machine.levels = {{.name = "node", .ranks = 8, .bandwidth = {450e9, {}}, .latency = {1e-6, {}}, .origin = "rates"},
                    {.name = "rack", .ranks = 128, .bandwidth = {50e9, {}}, .latency = {5e-6, {}}, .origin = "rates"},
                    {.name = "spine",
                     .bandwidth = {50e9, {48e9, 51e9}},
                     .latency = {8e-6, {}},
                     .oversubscription = 2,
                     .origin = "rates"}};
  return machine;
}

TEST(Machine, LevelsAreReadAsTheyWereWritten) {
  const std::string text = machine_json(example_of_levels());
  const Machine after = parse_machine(text);
  EXPECT_EQ(machine_json(after), text);
  ASSERT_EQ(after.levels.size(), 3U);
  EXPECT_EQ(after.levels[1].ranks, 128);
  EXPECT_EQ(after.levels[1].oversubscription, 1);
  EXPECT_EQ(after.levels[2].oversubscription, 2);
  EXPECT_EQ(after.levels[2].ranks, 0) << "the last connects all";
  EXPECT_DOUBLE_EQ(after.levels[2].bandwidth.interval.low, 48e9);
  EXPECT_FALSE(example_json().contains("levels")) << "without any the file has no such field";
}

TEST(Machine, RefusalsOfLevelsNameTheFieldAndWhatItNeeds) {
  const auto refusal_of = [](const std::function<void(json&)>& change) {
    json document = json::parse(machine_json(example_of_levels()));
    change(document["levels"]);
    return refusal([&](json& m) { m = document; });
  };
  EXPECT_THAT(refusal_of([](json& l) { l[1].erase("bandwidth"); }), HasSubstr("levels[1].bandwidth is missing; write"));
  EXPECT_THAT(refusal_of([](json& l) { l[1]["bandwidth"] = -50e9; }),
              HasSubstr("levels[1].bandwidth is -50000000000.0; write a number from 1 to"));
  EXPECT_THAT(refusal_of([](json& l) { l[1]["latency"] = nullptr; }), HasSubstr("levels[1].latency is missing"));
  EXPECT_THAT(refusal_of([](json& l) { l[2]["latency"] = std::nan(""); }), HasSubstr("levels[2].latency is missing"))
      << "JSON has no NaN: it is written as null";
  EXPECT_THAT(refusal_of([](json& l) { l[2]["oversubscription"] = 0.5; }),
              HasSubstr("levels[2].oversubscription is 0.5; write a number from 1 to"));
  EXPECT_THAT(
      refusal_of([](json& l) { l[0]["oversubscription"] = 2; }),
      HasSubstr("levels[0].oversubscription is of the first level, below which nothing is shared; leave it out"));
  EXPECT_THAT(refusal_of([](json& l) { l[1]["ranks"] = 100; }),
              HasSubstr("levels[1].ranks is 100; write a multiple of the 8 of the level below"));
  EXPECT_THAT(refusal_of([](json& l) { l[1].erase("ranks"); }), HasSubstr("levels[1].ranks is missing"));
  EXPECT_THAT(refusal_of([](json& l) { l[2]["ranks"] = 1024; }),
              HasSubstr("levels[2].ranks is of the last level, which connects all; leave it out"));
  EXPECT_THAT(refusal_of([](json& l) { l = json::array({l[0]}); }), HasSubstr("levels has one entry"));
  EXPECT_THAT(refusal_of([](json& l) { l[1]["origin"] = "nowhere"; }), HasSubstr("levels[1].origin is \"nowhere\""));
  EXPECT_THAT(refusal_of([](json& l) { l[1]["name"] = "node"; }), HasSubstr("levels[1] is a second \"node\""));
  EXPECT_THAT(refusal_of([](json& l) { l[1]["bandwith"] = 1; }),
              HasSubstr("levels[1].bandwith is no field of a machine description; did you mean bandwidth?"));
  json both = json::parse(machine_json(example_of_levels()));
  both["rates"].push_back({{"name", "network"}, {"rate", 50e9}, {"origin", "rates"}});
  EXPECT_THAT(refusal([&](json& m) { m = both; }), HasSubstr("rates[1] is network, which levels say; leave one"));
}

TEST(Machine, ANumberWithoutAnOriginIsRefused) {
  EXPECT_THAT(refusal([](json& m) { m["rates"][0]["origin"] = "memory"; }),
              HasSubstr("rates[0].origin is \"memory\", which is none of origins"));
  EXPECT_THAT(refusal([](json& m) { m["origins"] = json::array(); }), HasSubstr("none of origins"));
}

TEST(Machine, ErrorsAreThoseThatThePointsGive) {
  EXPECT_THAT(refusal([](json& m) { m["collectives"][0]["max_relative_error"] = 0.1; }),
              HasSubstr("collectives[0].max_relative_error is 0.1 and its points give 0.5"));
  EXPECT_THAT(refusal([](json& m) { m["collectives"][0].erase("max_relative_error"); }), HasSubstr("its points give"));
}

TEST(Machine, TimesArePositiveOverTheSizesOfTheFit) {
  EXPECT_THAT(refusal([](json& m) { m["collectives"][0]["segments"][0]["alpha_s"] = -1e-6; }),
              HasSubstr("collectives[0].segments[0] gives no positive time at 1024 bytes"));
  EXPECT_THAT(refusal([](json& m) { m["collectives"][0]["segments"][1]["beta_s_per_byte"] = 0; }),
              HasSubstr("is not positive; large messages take time"));
}

TEST(Machine, ReadingIsBounded) {
  const auto what = [](const std::string& text) {
    try {
      parse_machine(text);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing was refused");
  };
  EXPECT_THAT(what(""), HasSubstr("is no JSON"));
  EXPECT_THAT(what("{\"format\": "), HasSubstr("is no JSON"));
  EXPECT_THAT(what(std::string(100'000, '[')), HasSubstr("nested more than eight levels deep"));
  EXPECT_THAT(what(std::string((std::size_t{4} << 20U) + 1, ' ')), HasSubstr("more than 4 MiB"));
  EXPECT_THAT(refusal([](json& m) { m["rates"] = json::array_t(1001, m["rates"][0]); }), HasSubstr("has 1001 entries"));
  EXPECT_THAT(what("{\"format\":\"overlapbench machine\",\"version\":1e999}"),
              HasSubstr("the machine description is no JSON"));
}

// The last of two would count, and which is meant nobody knows.
TEST(Machine, AFieldStandsOnceInItsObject) {
  const std::string text = machine_json(example_machine());
  const auto twice = [&](const std::string& field) -> std::string {
    std::string changed = text;
    changed.insert(changed.find(field), field + "null, ");
    try {
      parse_machine(changed);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.what();
    }
    return "nothing was refused";
  };
  EXPECT_THAT(twice("\"fabric\": "), HasSubstr("has the field fabric twice in one place; keep one of them"));
  EXPECT_THAT(twice("\"alpha_s\": "), HasSubstr("has the field alpha_s twice in one place"));
}

TEST(Machine, CollectivesOfTheBenchAndOfLogsAreKnown) {
  for (const char* name : {"exchange", "reduce_scatter+all_gather", "all_reduce:hierarchical", "sendrecv", "gather"}) {
    EXPECT_EQ(refusal([&](json& m) { m["collectives"][0]["collective"] = name; }), "nothing was refused") << name;
  }
}

TEST(Machine, AFileIsNamedInItsError) {
  EXPECT_THAT([] { read_machine("/nowhere/x.json"); },
              testing::ThrowsMessage<Error>(HasSubstr("there is no file /nowhere/x.json; name a machine description")));
}

LoadedSeries series_of(std::vector<std::vector<SizeTime>> launches) {
  return {{{"collective", "all_reduce"}, {"dtype", "f32"}, {"op", "sum"}, {"ranks", "8"}, {"in_place", "1"}},
          "imported",
          std::move(launches)};
}

TEST(Cost, OfASeriesIsItsHeadlineFit) {
  std::vector<SizeTime> points;
  for (double bytes = 1024; bytes <= 1024 * 1024; bytes *= 4) points.push_back({bytes, 20e-6 + bytes * 1e-11});
  const auto cost = cost_of(series_of({points}), "run");
  ASSERT_TRUE(cost);
  ASSERT_EQ(cost->segments.size(), 1U);
  EXPECT_NEAR(cost->segments[0].alpha.value, 20e-6, 1e-12);
  EXPECT_NEAR(cost->segments[0].beta.value, 1e-11, 1e-17);
  EXPECT_TRUE(std::isnan(cost->segments[0].alpha.interval.low));  // one launch
  EXPECT_EQ(cost->ranks, 8);
  EXPECT_EQ(cost->in_place, true);
  EXPECT_EQ(cost->least_bytes, 1024);
  EXPECT_EQ(cost->points.size(), 6U);
}

TEST(Cost, OfSeveralLaunchesHasIntervals) {
  std::vector<std::vector<SizeTime>> launches;
  for (const double alpha : {19e-6, 20e-6, 21e-6}) {
    launches.emplace_back();
    for (double bytes = 1024; bytes <= 1024 * 1024; bytes *= 4)
      launches.back().push_back({bytes, alpha + bytes * 1e-11});
  }
  const auto cost = cost_of(series_of(launches), "run");
  ASSERT_TRUE(cost);
  EXPECT_LT(cost->segments[0].alpha.interval.low, cost->segments[0].alpha.value);
  EXPECT_GT(cost->segments[0].alpha.interval.high, cost->segments[0].alpha.value);
}

TEST(Cost, NeedsFourSizes) { EXPECT_FALSE(cost_of(series_of({{{1, 1}, {2, 2}, {3, 3}, {3, 3}}}), "run")); }

// Every description that is committed is sound: its errors are those of its points (parse_machine sees to it).
TEST(CommittedMachines, AreSound) {
  const std::filesystem::path folder = test::tests_folder().parent_path() / "results" / "machines";
  std::set<std::string> names;
  std::set<std::string> fabrics;
  bool h100 = false;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const Machine machine = read_machine(entry.path());
    EXPECT_EQ(machine.name + ".json", entry.path().filename().string());
    EXPECT_FALSE(machine.fabric.empty()) << machine.name;
    EXPECT_FALSE(machine.collectives.empty() && machine.rates.empty()) << machine.name;
    for (const CollectiveCost& cost : machine.collectives) EXPECT_FALSE(cost.points.empty()) << machine.name;
    for (const Origin& origin : machine.origins)
      EXPECT_NE(origin.source, origin.file) << "a public place: " << machine.name;
    names.insert(machine.name);
    fabrics.insert(machine.fabric);
    h100 = h100 || machine.name.find("h100") != std::string::npos;
  }
  EXPECT_GE(names.size(), 12U);
  EXPECT_GE(fabrics.size(), 12U);
  EXPECT_TRUE(h100);
}

}  // namespace
}  // namespace ovl
