// SPDX-License-Identifier: Apache-2.0
#include "app/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

#include "app/command_line.hpp"
#include "base/error.hpp"
#include "results/build_info.hpp"

namespace ovl {
namespace {

bool has_axis(const Bench& bench, const std::string& name) {
  return std::any_of(bench.axes.begin(), bench.axes.end(), [&](const Axis& axis) { return axis.name == name; });
}

bool asks_for_nodes(const std::string& text) {
  return text.find('x') != std::string::npos && text.find_first_not_of("0123456789") != 0;
}

// "8x128" is 8 ranks on each of 128 nodes, "8x16x8" 8 racks of 16 such nodes; returns all of them.
int parse_nodes(Options& o, const std::string& text, int most) {
  std::vector<int> units;
  std::int64_t ranks = 1;
  for (std::size_t begin = 0; begin <= text.size() && ranks > 0 && ranks <= most;) {
    const std::size_t end = std::min(text.find('x', begin), text.size());
    int value = 0;
    const auto [rest, ec] = std::from_chars(text.data() + begin, text.data() + end, value);
    ranks = ec == std::errc{} && rest == text.data() + end && value > 0 ? ranks * value : 0;
    units.push_back(static_cast<int>(std::min<std::int64_t>(ranks, most)));
    begin = end + 1;
  }
  if (ranks < 1 || ranks > most) {
    throw usage_error(fmt::format("--ranks \"{}\" is not ranks of a node times nodes", text),
                      fmt::format("all are whole numbers, together 1 to {} ranks", most),
                      "type for example --ranks 8x128, or 8x16x8 for racks of 16 nodes");
  }
  units.pop_back();  // the last unit is all
  if (!o.units.empty() && o.units != units) {
    throw usage_error(
        fmt::format("--ranks asks for nodes of {} and of {} ranks", fmt::join(o.units, ", "), fmt::join(units, ", ")),
        "a run has nodes of one size", "start one run for each size");
  }
  o.units = std::move(units);
  return static_cast<int>(ranks);
}

// 0: the backend's choice.
int parse_ranks(const std::string& axis, const std::string& text, int most) {
  if (text == "default") return 0;
  int ranks = 0;
  const char* end = text.data() + text.size();
  const auto [rest, ec] = std::from_chars(text.data(), end, ranks);
  if (ec != std::errc{} || rest != end || ranks < 1 || ranks > most) {
    throw usage_error(fmt::format("--{} \"{}\" is not a number of {}", axis, text, axis),
                      fmt::format("it is a whole number from 1 to {}, or default", most),
                      fmt::format("type for example --{} 2,4", axis));
  }
  return ranks;
}

// What only several options together make wrong.
void require_consistent(const Options& o) {
  const StopRule& stop = o.measure.stop;
  if (stop.max_rounds < stop.min_rounds) {
    throw usage_error(fmt::format("--max-samples {} is less than --min-samples {}", stop.max_rounds, stop.min_rounds),
                      "", fmt::format("type --min-samples {} too", stop.max_rounds));
  }
  for (const std::string& flag : o.google_benchmark) {
    if (o.launches > 1 && (flag.starts_with("--benchmark_format") || flag.starts_with("--benchmark_out"))) {
      throw usage_error(flag.substr(0, flag.find('=')) + " does not go with --launches",
                        "every launch would write its own", "leave one of them out; --format csv has all launches");
    }
  }
  if (o.fit && o.format == Format::text) {
    throw usage_error("--fit chooses between two tables", "the text output has both", "add --format csv or json");
  }
  if (!o.machine.empty() && o.backend != "model") {
    throw usage_error("--machine describes a machine to the model backend", "the others measure the one they run on",
                      "add --backend model, or leave it out");
  }
  if ((!o.units.empty() || o.skew != 0) && o.backend != "model") {
    throw usage_error(o.skew != 0 ? "--skew is the model's" : "--ranks of a node times nodes is the model's",
                      "the others measure ranks as they are and where they are",
                      o.skew != 0 ? "add --backend model, or leave it out" : "add --backend model, or type --ranks N");
  }
  if (!o.out.empty() && !release_build() && !o.allow_debug) {
    throw usage_error("results are only written by a Release build",
                      fmt::format("this one is {}{}", build_info().build_type,
                                  build_info().sanitizers.empty() ? "" : " with sanitizers"),
                      "build with --preset release, or add --allow-debug");
  }
  if (!o.out.empty()) return;
  const auto needs = [](const std::string& what) {
    return usage_error(what + " needs a run directory", "without --out nothing is written", "add --out DIR");
  };
  if (o.resume) throw needs("--resume");
  if (o.timeline) throw needs("--timeline");
  if (o.launches > 1) throw needs("--launches");
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

std::vector<int> parse_cores(const std::string& text) {
  std::vector<int> cores;
  for (const std::string& core : split_list("cores", text)) {
    int number = -1;
    const auto [rest, ec] = std::from_chars(core.data(), core.data() + core.size(), number);
    if (ec != std::errc{} || *rest != '\0' || number < 0) {
      throw usage_error("--cores \"" + text + "\" is not a list of core numbers", "", "type for example --cores 0,1");
    }
    cores.push_back(number);
  }
  return cores;
}

std::optional<Options> parse_options(const Bench& bench, int argc, char** argv) {
  Options o;
  CLI::App app(bench.question, "overlap-" + bench.name);
  app.set_version_flag("--version", fmt::format("overlapbench {} ({}, {})", build_info().version,
                                                build_info().git_revision, build_info().build_type));

  std::map<std::string, std::vector<std::string>> lists;
  std::map<std::string, bool> flags;
  const OptionGroup axes(app, "Axes");
  for (const Axis& axis : bench.axes) {
    if (axis.flag) {
      axes.flag("--" + axis.name, flags[axis.name], axis.help);
    } else {
      axes.list("--" + axis.name, lists[axis.name], fmt::format("{} [{}]", axis.help, axis.fallback));
    }
  }

  constexpr int most = 1'000'000;
  const OptionGroup where(app, "Where");
  where.text("--backend", o.backend, "auto, host, cuda or model [auto: cuda where a GPU answers, else host]");
  where.text("--transport", o.transport,
             "what moves the bytes: on host shm, or under mpirun mpi, mpi-openmpi, mpi-mpich [the backend's first]");
  if (!has_axis(bench, bench.ranks_axis)) {
    where.value("--ranks",
                "ranks of the whole run, or with model 8x128: of a node times nodes, 8x16x8: in racks of 16 "
                "[the backend's default]",
                [&o](const std::string& text) {
                  o.units.clear();  // of an option given twice the last one counts
                  o.ranks = asks_for_nodes(text)
                                ? parse_nodes(o, text, most)
                                : static_cast<int>(OptionGroup::parse_whole("--ranks", text, 1, most, 0));
                });
  }
  where.value("--cores", "host: cores that lanes may use, for example 0,1 [all allowed ones]",
              [&o](const std::string& text) { o.cores = parse_cores(text); });
  where.text("--machine", o.machine, "model: machine.json, what it predicts with [none: only given durations]");
  where.value("--skew", "model: each rank computes by up to this much slower or faster, for example 5% [none]",
              [&o](const std::string& text) { o.skew = text == "0%" ? 0 : parse_percent("--skew", text, 99); });
  where.text(
      "--master", o.master,
      "host:port where the processes of a job meet, on the machine of process 0 [from torchrun, srun or mpirun]");

  const OptionGroup results(app, "Results");
  results.text("--out", o.out, "run directory to write [none: only print]");
  results.flag("--resume", o.resume, "continue the run in --out: nothing is measured twice");
  results.flag("--timeline", o.timeline, "write timeline/<case>.json for Perfetto");
  results.value("--format", "text, csv or json on standard output [text]",
                [&o](const std::string& text) { o.format = parse_enum<Format>(text); });
  if (bench.series) results.flag("--fit", o.fit, "with --format csv or json: print the fits, not the cases");
  results.flag("--list", o.list, "print the names of the cases, as --benchmark_filter lets them pass");
  results.flag("--dry-run", o.dry_run, "print the cases and one program");
  results.flag("--allow-debug", o.allow_debug, "write results from a build that is not Release; they say so");

  const OptionGroup measuring(app, "Measuring");
  bool include_launch = false;
  measuring.real("--precision", o.measure.stop.precision, 1e-6, 10,
                 "stop when the 95 % interval of the hidden share is narrower [0.05]");
  measuring.whole("--min-samples", o.measure.stop.min_rounds, 2, most,
                  "rounds before --precision may stop a case [20]");
  measuring.whole("--max-samples", o.measure.stop.max_rounds, 2, most,
                  "rounds at most; spoilt ones are measured again, up to four times as many [1000]");
  measuring.duration("--max-time", o.measure.stop.max_time,
                     "time for the rounds of one case, whatever they reached; tuning, verification, warm-up and an "
                     "instrumented pass come on top [8s; 60s with --interleave block]");
  measuring.duration("--window", o.measure.window, "shorter operations repeat within one timed window [the backend's]");
  measuring.whole("--launches", o.launches, 1, 1000, "fresh processes that each measure every case [1]");
  measuring.value("--interleave", "sample: all arms once a round; block: 2 s on each arm [sample]",
                  [&o](const std::string& text) { o.measure.interleave = parse_enum<Interleave>(text); });
  measuring.whole("--seed", o.measure.seed, 0, std::numeric_limits<std::int64_t>::max(),
                  "of orders, data and intervals [1]");
  measuring.value("--verify", "on or off: check results before timing [on]", [&o](const std::string& text) {
    if (text != "on" && text != "off") throw unknown_value("verify", text, {"on", "off"});
    o.measure.verify = text == "on";
  });
  measuring.flag("--include-launch", include_launch, "start the clock before the work is handed over");
  measuring.duration("--deadline", o.measure.deadline, "a replay that takes longer is a hang [60s]");
  int launch_index = -1;
  const OptionGroup hidden(app, "");
  hidden.whole("--launch-index", launch_index, 0, most, "");  // from the parent of --launches
  hidden.text("--launch-environment", o.launch_environment, "");
  hidden.whole("--launch-parent", o.launch_parent, 0, std::numeric_limits<std::int64_t>::max(), "");
  add_config_file(app);
  app.footer(
      "Google Benchmark's --benchmark_filter, --benchmark_list_tests, --benchmark_format and --benchmark_out work "
      "on the cases.\nExit codes: 0 good, 1 a case failed, 2 usage, 3 not possible here, 130 interrupted.");

  o.command_line.assign(argv, argv + argc);
  const auto flags_for_google_benchmark = parse_command_line(app, argc, argv);
  if (!flags_for_google_benchmark) return std::nullopt;
  o.google_benchmark = *flags_for_google_benchmark;

  for (const Axis& axis : bench.axes) {
    if (axis.flag) {
      o.axes.set(axis.name, {flags[axis.name] ? "on" : "off"}, flags[axis.name]);
      continue;
    }
    std::vector<std::string> values;
    for (const std::string& text : lists[axis.name]) {
      for (std::string& value : split_list(axis.name, text)) values.push_back(std::move(value));
    }
    o.axes.set(axis.name, values.empty() ? split_list(axis.name, axis.fallback) : values, !values.empty());
  }
  if (has_axis(bench, bench.ranks_axis)) {
    std::vector<std::string> values = o.axes[bench.ranks_axis];
    for (std::string& value : values) {
      if (asks_for_nodes(value)) value = std::to_string(parse_nodes(o, value, most));
      o.ranks = std::max(o.ranks, parse_ranks(bench.ranks_axis, value, most));
    }
    o.axes.set(bench.ranks_axis, values);
  }
  if (o.measure.interleave == Interleave::block && app.count("--max-time") == 0) {
    o.measure.stop.max_time = Seconds(60);  // a round takes 10 s
  }
  o.measure.launch = include_launch ? Launch::live : Launch::gated;
  if (o.backend == "auto" && bench.all_given && bench.all_given(o.axes)) o.backend = "model";
  if (launch_index >= 0) o.launch_index = launch_index;
  require_consistent(o);
  return o;
}

}  // namespace ovl
