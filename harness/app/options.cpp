// SPDX-License-Identifier: Apache-2.0
#include "app/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <map>

#include "app/command_line.hpp"
#include "base/error.hpp"
#include "results/build_info.hpp"

namespace ovl {
namespace {

// A duration as people type it: 500us, 20ms, 8s, 2min. A number without a unit is seconds.
Seconds parse_duration(const std::string& option, const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, ec] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  static const std::map<std::string, double> units{{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"min", 60}};
  const auto unit = units.find(std::string(rest, static_cast<std::size_t>(end - rest)));
  if (ec != std::errc{} || unit == units.end() || !(number > 0)) {
    throw usage_error(option + " \"" + text + "\" is not a duration", "it is a positive number with us, ms, s or min",
                      "type for example 20ms or 8s");
  }
  return Seconds(number * unit->second);
}

void require_range(const std::string& option, double value, double low, double high) {
  if (!(value >= low && value <= high)) {
    throw usage_error(fmt::format("{} {} is out of range", option, value),
                      fmt::format("it is from {} to {}", low, high),
                      fmt::format("type for example {} {}", option, low));
  }
}

}  // namespace

std::vector<std::string> split_list(const std::string& option, const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t comma = text.find(',', begin);
    parts.push_back(text.substr(begin, comma - begin));
    if (parts.back().empty()) {
      throw usage_error("--" + option + " \"" + text + "\" has an empty element", "elements are separated by one comma",
                        "leave out the extra comma");
    }
    if (comma == std::string::npos) return parts;
    begin = comma + 1;
  }
}

std::optional<Options> parse_options(const Bench& bench, int argc, char** argv) {
  Options o;
  CLI::App app(bench.question, "overlap-" + bench.name);
  app.set_version_flag("--version", fmt::format("overlapbench {} ({}, {})", build_info().version,
                                                build_info().git_revision, build_info().build_type));
  app.set_config("--config", "", "read options from a TOML file; the command line wins")->check(CLI::ExistingFile);
  app.allow_config_extras(CLI::config_extras_mode::error);

  std::map<std::string, std::vector<std::string>> lists;
  std::map<std::string, bool> flags;
  for (const Axis& axis : bench.axes) {
    if (axis.flag) {
      app.add_flag("--" + axis.name, flags[axis.name], axis.help)->group("Axes");
    } else {
      app.add_option("--" + axis.name, lists[axis.name], fmt::format("{} [{}]", axis.help, axis.fallback))
          ->group("Axes")
          ->allow_extra_args(false)
          ->type_name("LIST");
    }
  }

  std::string max_time = "8s";
  std::string window;
  std::string deadline = "60s";
  std::string interleave = "sample";
  std::string format = "text";
  std::string cores;
  std::string verify = "on";
  bool include_launch = false;
  int launch_index = -1;
  const auto option = [&](const char* name, auto& target, const std::string& help, const char* group) {
    return app.add_option(name, target, help)
        ->group(group)
        ->type_name("")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  };
  option("--backend", o.backend, "auto, host, cuda or model [auto: cuda where a GPU answers, else host]", "Where");
  option("--transport", o.transport, "what moves the bytes [the backend's first]", "Where");
  option("--ranks", o.ranks, "ranks of the whole run [the backend's default]", "Where");
  option("--cores", cores, "host: cores that lanes may use, for example 0,1 [all allowed ones]", "Where");
  option("--out", o.out, "run directory to write [none: only print]", "Results");
  app.add_flag("--resume", o.resume, "continue the run in --out: nothing is measured twice")->group("Results");
  app.add_flag("--timeline", o.timeline, "write timeline/<case>.json for Perfetto")->group("Results");
  option("--format", format, "text, csv or json on standard output [text]", "Results");
  app.add_flag("--list", o.list, "print the names of the cases")->group("Results");
  app.add_flag("--dry-run", o.dry_run, "print the cases and one program")->group("Results");
  app.add_flag("--allow-debug", o.allow_debug, "write results from a build that is not Release; they say so")
      ->group("Results");
  option("--precision", o.measure.stop.precision, "stop when the 95 % interval of the hidden share is narrower [0.05]",
         "Measuring");
  option("--min-samples", o.measure.stop.min_rounds, "rounds at least [20]", "Measuring");
  option("--max-samples", o.measure.stop.max_rounds, "rounds at most [1000]", "Measuring");
  option("--max-time", max_time, "time for one case [8s]", "Measuring");
  option("--window", window, "shorter operations repeat within one timed window [the backend's]", "Measuring");
  option("--launches", o.launches, "fresh processes that each measure every case [1]", "Measuring");
  option("--interleave", interleave, "sample: all arms once a round; block: 2 s on each arm [sample]", "Measuring");
  option("--seed", o.measure.seed, "of orders, data and intervals [1]", "Measuring");
  option("--verify", verify, "on or off: check results before timing [on]", "Measuring");
  app.add_flag("--include-launch", include_launch, "start the clock before the work is handed over")
      ->group("Measuring");
  option("--deadline", deadline, "a replay that takes longer is a hang [60s]", "Measuring");
  app.add_option("--launch-index", launch_index)->group("");  // from the parent of --launches
  app.footer(
      "Google Benchmark's --benchmark_filter, --benchmark_list_tests, --benchmark_format and --benchmark_out work "
      "on the cases.\nExit codes: 0 good, 1 a case failed, 2 usage, 3 not possible here, 130 interrupted.");

  o.command_line.assign(argv, argv + argc);
  const auto flags_for_google_benchmark = parse_command_line(app, argc, argv);
  if (!flags_for_google_benchmark) return std::nullopt;
  o.google_benchmark = *flags_for_google_benchmark;

  for (const Axis& axis : bench.axes) {
    if (axis.flag) {
      o.axes.set(axis.name, {flags[axis.name] ? "on" : "off"});
      continue;
    }
    std::vector<std::string> values;
    for (const std::string& text : lists[axis.name]) {
      for (std::string& value : split_list(axis.name, text)) values.push_back(std::move(value));
    }
    o.axes.set(axis.name, values.empty() ? split_list(axis.name, axis.fallback) : values);
  }
  if (!cores.empty()) {
    for (const std::string& core : split_list("cores", cores)) {
      int number = -1;
      const auto [rest, ec] = std::from_chars(core.data(), core.data() + core.size(), number);
      if (ec != std::errc{} || *rest != '\0' || number < 0) {
        throw usage_error("--cores \"" + cores + "\" is not a list of core numbers", "",
                          "type for example --cores 0,1");
      }
      o.cores.push_back(number);
    }
  }
  if (verify != "on" && verify != "off") throw unknown_value("verify", verify, {"on", "off"});
  o.format = parse_enum<Format>(format);
  o.measure.verify = verify == "on";
  o.measure.interleave = parse_enum<Interleave>(interleave);
  o.measure.launch = include_launch ? Launch::live : Launch::gated;
  o.measure.stop.max_time = parse_duration("--max-time", max_time);
  o.measure.deadline = parse_duration("--deadline", deadline);
  if (!window.empty()) o.measure.window = parse_duration("--window", window);
  require_range("--precision", o.measure.stop.precision, 1e-6, 10);
  require_range("--min-samples", o.measure.stop.min_rounds, 2, 1e6);
  require_range("--max-samples", o.measure.stop.max_rounds, o.measure.stop.min_rounds, 1e6);
  require_range("--launches", o.launches, 1, 1000);
  if (app.count("--ranks") > 0) require_range("--ranks", o.ranks, 1, 1e6);
  if (launch_index >= 0) o.launch_index = launch_index;
  if (o.out.empty()) {
    const auto needs = [](const std::string& what) {
      return usage_error(what + " needs a run directory", "without --out nothing is written", "add --out DIR");
    };
    if (o.resume) throw needs("--resume");
    if (o.timeline) throw needs("--timeline");
    if (o.launches > 1) throw needs("--launches");
  } else if (!release_build() && !o.allow_debug) {
    throw usage_error("results are only written by a Release build",
                      fmt::format("this one is {}{}", build_info().build_type,
                                  build_info().sanitizers.empty() ? "" : " with sanitizers"),
                      "build with --preset release, or add --allow-debug");
  }
  return o;
}

}  // namespace ovl
