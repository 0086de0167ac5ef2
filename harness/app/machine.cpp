// SPDX-License-Identifier: Apache-2.0
#include "app/machine.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/command_line.hpp"
#include "app/options.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "metrics/change.hpp"
#include "results/build_info.hpp"
#include "results/cost_series.hpp"
#include "results/file.hpp"
#include "results/import/imported.hpp"
#include "results/loaded_run.hpp"
#include "results/machine.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct MachineOptions {
  std::vector<std::string> names;  // runs, or with --check descriptions
  bool check = false;
  std::string out;
  std::string name;
  std::string fabric;
  std::string device;
  std::vector<std::string> sources;
  std::vector<MachineRate> rates;
  std::vector<std::string> rates_sources;
};

MachineRate rate_of(const std::string& text, const std::string& origin) {
  const std::size_t equals = text.find('=');
  MachineRate rate{.name = text.substr(0, equals), .origin = origin, .rate = {}};
  const std::string number = equals == std::string::npos ? "" : text.substr(equals + 1);
  const char* const end = number.data() + number.size();
  const auto [rest, ec] = std::from_chars(number.data(), end, rate.rate.value);
  if (number.empty() || ec != std::errc{} || rest != end) {
    throw usage_error(fmt::format("--rate \"{}\" is not NAME=NUMBER", printable(text)), "",
                      "type for example --rate gemm_bf16=989e12");
  }
  return rate;
}

// Of the so-and-so-many --rate that was typed.
std::string rates_origin(std::size_t index) { return index == 0 ? "rates" : fmt::format("rates{}", index + 1); }

// What the options say by themselves.
Machine said(const MachineOptions& o) {
  Machine machine{.name = o.name, .fabric = o.fabric, .device = o.device, .rates = o.rates};
  for (std::size_t i = 0; i < o.rates_sources.size(); ++i) {
    machine.origins.push_back({.id = rates_origin(i), .kind = OriginKind::published, .source = o.rates_sources[i]});
  }
  return machine;
}

// nullopt: --help or --version was printed.
std::optional<MachineOptions> parse_machine_options(int argc, char** argv) {
  MachineOptions o;
  std::vector<std::string> typed_rates;
  CLI::App app("What does this machine cost, in numbers that a model can take?", "overlap-machine");
  app.set_version_flag("--version", fmt::format("overlapbench {}", build_info().version));
  app.add_option("RUN", o.names, "run directories of overlap-collective, overlap-contention or overlap-import")
      ->type_name("");
  const OptionGroup saying(app, "What the runs do not say");
  saying.text("--name", o.name, "name of the machine [that of the file]");
  saying.text("--fabric", o.fabric, "what connects the ranks: NVLink 4, InfiniBand NDR ...");
  saying.text("--device", o.device, "what computes [the runs' device]");
  saying.list(
      "--source", o.sources,
      "where a log was published, as it is (commas too): once for all runs, or typed again for each in their order");
  saying.list("--rate", typed_rates,
              "published rates of one device: memory=3.35e12,link=450e9 (B/s),gemm_bf16=989e12 (FLOP/s); again for "
              "those of another source");
  saying.list("--rates-source", o.rates_sources, "where these rates were published, as it is, for each --rate");
  const OptionGroup writing(app, "Results");
  writing.text("--out", o.out, "the description to write: NAME.json");
  writing.flag("--check", o.check, "read descriptions instead of runs and say what is in them");
  app.footer(
      "The series are fitted as overlap-import --fit does; those with fewer than four sizes are left out.\n"
      "Exit codes: 0 good, 1 cannot be written, 2 usage, nothing to describe, or a description that is not sound.");
  if (!parse_command_line(app, argc, argv)) return std::nullopt;
  if (o.names.empty() && (o.check || typed_rates.empty())) {
    throw usage_error("no run is named", "",
                      "type overlap-machine RUN... --out NAME.json, --rate ... --out NAME.json, or --check NAME.json");
  }
  if (o.check) {
    if (!o.out.empty()) {
      throw usage_error("--out does not go with --check", "a description that is read is not written",
                        "leave one of them out");
    }
    return o;
  }
  if (o.out.empty()) throw usage_error("--out is missing", "", "type overlap-machine RUN... --out NAME.json");
  if (o.sources.size() > 1 && o.sources.size() != o.names.size()) {
    throw usage_error(fmt::format("{} sources for {} runs", o.sources.size(), o.names.size()), "",
                      "type --source once for all of them, or again for each run");
  }
  if (typed_rates.size() != o.rates_sources.size()) {
    throw usage_error("--rate and --rates-source go together", "a number without an origin is a rumour",
                      "give both, one source for each list of rates");
  }
  for (std::size_t i = 0; i < typed_rates.size(); ++i) {
    for (const std::string& rate : split_list("rate", typed_rates[i])) {
      o.rates.push_back(rate_of(rate, rates_origin(i)));
    }
  }
  require_new_description(o.out);
  if (o.name.empty()) o.name = fs::path(o.out).stem().string();
  parse_machine(machine_json(said(o)));  // what is wrong with it is found before any run is read
  return o;
}

// One origin a run; an imported run names its one log.
Origin origin_of(const LoadedRun& run, const std::string& source, std::size_t index, std::size_t runs) {
  Origin origin;
  origin.id = runs == 1 ? "run" : fmt::format("run{}", index + 1);
  const std::string folder = fs::path(run.name()).filename().string();
  if (run.text_at({"identity", "bench"}) != "import") {
    origin.kind = OriginKind::measured;
    for (const Row& row : run.rows("summary")) {
      if (text_in(row, "source") == "emulated") origin.kind = OriginKind::emulated;
    }
    origin.source = source.empty() ? folder : source;
    origin.tool = "overlapbench " + run.text_at({"identity", "build", "version"});
    origin.date = run.text_at({"run", "date"});
    return origin;
  }
  const json files = run.about().value("imported", json::array());
  if (files.size() != 1) {
    throw usage_error(fmt::format("{} was imported from {} files", run.name(), files.size()),
                      "each number names the one log that it comes from",
                      "import each log into a run of its own and name them all");
  }
  const json& file = files.front();
  const auto text = [&](const char* field) {
    return file.is_object() && file.contains(field) && file.at(field).is_string() ? file.at(field).get<std::string>()
                                                                                  : "";
  };
  origin.kind = OriginKind::imported;
  origin.file = fs::path(text("file")).filename().string();
  origin.sha256 = text("sha256");
  origin.tool = text("format");
  origin.source = source.empty() ? origin.file : source;
  return origin;
}

// How much longer collectives take beside a GEMM: the median over sizes, and over launches their mean.
std::vector<ContentionCoefficient> contention_of(const LoadedRun& run, const std::string& origin) {
  std::map<std::pair<std::string, std::string>, std::map<std::int64_t, std::vector<double>>> ratios;
  for (const Row& row : run.rows("summary")) {
    const double ratio = number_in(row, "t_loaded") / number_in(row, "t_comm");
    if (!has_numbers(row) || !std::isfinite(ratio)) continue;
    ratios[{text_in(row, "collective"), text_in(row, "gemm")}][whole_in(row, "launch").value_or(0)].push_back(ratio);
  }
  std::vector<ContentionCoefficient> all;
  for (const auto& [who, launches] : ratios) {
    std::vector<double> medians;
    for (const auto& [launch, values] : launches) medians.push_back(median(values));
    const ComparedValue e = compared_value(medians);
    all.push_back({who.first, "gemm " + who.second, origin, {e.value, e.interval}});
  }
  return all;
}

// An earlier run's counts.
bool has_rate(const Machine& machine, const std::string& name) {
  return std::any_of(machine.rates.begin(), machine.rates.end(), [&](const MachineRate& r) { return r.name == name; });
}

// One launch's: the middle of its cases, with the interval of that one.
ComparedValue middle_case(std::vector<ComparedValue> cases) {
  const auto middle = cases.begin() + static_cast<std::ptrdiff_t>((cases.size() - 1) / 2);
  std::nth_element(cases.begin(), middle, cases.end(),
                   [](const ComparedValue& a, const ComparedValue& b) { return a.value < b.value; });
  return *middle;
}

// What an operation costs beyond its work: `kernel` where all was handed over before the clock started, `launch` where
// the host did so within the window.
void add_launch_costs(Machine& machine, const LoadedRun& run, const std::string& origin) {
  std::map<std::string, std::map<std::int64_t, std::vector<ComparedValue>>> costs;  // by rate and launch
  for (const Row& row : run.rows("summary")) {
    const Interval interval{number_in(row, "launch_cost_low"), number_in(row, "launch_cost_high")};
    if (!has_numbers(row) || !(interval.low > 0)) continue;  // what may as well be nothing tells no cost
    costs[text_in(row, "launch_mode") == "live" ? "launch" : "kernel"][whole_in(row, "launch").value_or(0)].push_back(
        {number_in(row, "launch_cost"), interval});
  }
  for (const auto& [name, launches] : costs) {
    if (has_rate(machine, name)) continue;
    std::vector<double> values;
    Interval within;
    for (const auto& [launch, cases] : launches) {
      const ComparedValue one = middle_case(cases);
      if (values.empty()) within = one.interval;
      values.push_back(one.value);
    }
    const ComparedValue e = compared_value(values, within);
    if (!(e.interval.low > 0)) continue;
    machine.rates.push_back({name, origin, {e.value, e.interval}});
  }
}

// What overlap-contention saw: every victim beside every aggressor, each side on cores of its own; the rate of its
// GEMMs alone, the memory bandwidth that two streams reached together, or one alone, and what launching costs. Over
// launches their mean.
void add_contention(Machine& machine, const LoadedRun& run, const std::string& origin) {
  std::map<std::pair<std::string, std::string>, std::vector<ComparedValue>> slowdowns;
  std::map<std::string, std::map<std::int64_t, double>> rates;  // the best of each launch
  for (const Row& row : run.rows("summary")) {
    if (!has_numbers(row)) continue;
    const std::int64_t launch = whole_in(row, "launch").value_or(0);
    const std::string victim = text_in(row, "victim");
    const double slowdown = number_in(row, "victim_slowdown");
    if (std::isfinite(slowdown) && text_in(row, "placement") != "shared_core") {
      slowdowns[{victim, text_in(row, "aggressor")}].push_back(
          {slowdown, {number_in(row, "victim_slowdown_low"), number_in(row, "victim_slowdown_high")}});
    }
    const auto best = [&](const std::string& name, double rate) {
      if (!std::isfinite(rate)) return;
      double& known = rates[name].try_emplace(launch, rate).first->second;
      known = std::max(known, rate);
    };
    const double gemm = number_in(row, "gemm_rate");
    const std::string name = "gemm_" + text_in(row, "dtype");
    best(name, gemm);
    const std::string shaped = name + "@" + victim.substr(victim.find(':') + 1);
    if (!unit_of_rate(shaped).empty()) best(shaped, gemm);
    if (std::isnan(number_in(row, "pace_asked"))) best("memory", number_in(row, "pace_alone"));
    best("memory", number_in(row, "memory_bandwidth"));
  }
  for (const auto& [who, values] : slowdowns) {
    std::vector<double> launches;
    for (const ComparedValue& v : values) launches.push_back(v.value);
    const ComparedValue e = compared_value(launches, values.front().interval);
    machine.contention.push_back({who.first, who.second, origin, {e.value, e.interval}});
  }
  for (const auto& [name, launches] : rates) {
    if (has_rate(machine, name)) continue;
    std::vector<double> values;
    for (const auto& [launch, value] : launches) values.push_back(value);
    const ComparedValue e = compared_value(values);
    machine.rates.push_back({name, origin, {e.value, e.interval}});
  }
  add_launch_costs(machine, run, origin);
}

void add_run(Machine& machine, const LoadedRun& run, const Origin& origin) {
  for (const LoadedSeries& series : series_in(run)) {
    const std::string title = series_title(series.axes);
    if (series.axes.find("collective") == series.axes.end() || series.axes.find("ranks") == series.axes.end()) {
      print_message(fmt::format(
          "{}: {}: left out, the log does not say enough: import it with --collective and --ranks", run.name(), title));
      continue;
    }
    std::optional<CollectiveCost> cost = cost_of(series, origin.id);
    if (!cost) {
      print_message(fmt::format("{}: {}: left out, fewer than four sizes", run.name(), title));
      continue;
    }
    Machine alone{.name = "x", .origins = {origin}, .collectives = {*cost}};
    try {
      parse_machine(machine_json(alone));
    } catch (const Error& problem) {
      print_message(fmt::format("{}: {}: left out, {}", run.name(), title, problem.what()));
      continue;
    }
    machine.collectives.push_back(std::move(*cost));
  }
  for (ContentionCoefficient& c : contention_of(run, origin.id)) machine.contention.push_back(std::move(c));
}

std::string described(const Machine& machine) {
  const auto safe = [](const std::string& text) { return printable(text, 400); };
  std::string text = fmt::format("{}: {}{}{}\n", machine.name, safe(machine.fabric),
                                 machine.fabric.empty() || machine.device.empty() ? "" : ", ", safe(machine.device));
  for (const CollectiveCost& c : machine.collectives) {
    const CostFit fit = c.fit();
    const Origin* origin = machine.find_origin(c.origin);
    const double bus = known_bus_factor(c.collective, c.ranks) / fit.beta();
    text += fmt::format("  {}: alpha {}, {}, {} segment{}, {} points", safe(c.title()),
                        format_seconds(Seconds(fit.alpha())),
                        std::isfinite(bus) ? fmt::format("bus {:.4g} GB/s", bus / 1e9)
                                           : fmt::format("beta {:.4g} ps/B", fit.beta() * 1e12),
                        c.segments.size(), c.segments.size() == 1 ? "" : "s", c.points.size());
    if (!c.points.empty()) {
      text += fmt::format(", error median {:.1f} %, worst {:.1f} %, {}", 100 * fit.median_relative_error,
                          100 * fit.max_relative_error, fit_verdict(fit));
    }
    text += fmt::format("; {}: {}\n", name(origin->kind), safe(origin->source));
  }
  for (const MachineRate& r : machine.rates) {
    text += fmt::format("  {}: {:.4g} {}; {}: {}\n", r.name, r.rate.value, unit_of_rate(r.name),
                        name(machine.find_origin(r.origin)->kind), safe(machine.find_origin(r.origin)->source));
  }
  for (const MachineLevel& l : machine.levels) {
    text += fmt::format("  level {}{}: {:.4g} B/s, {}{}; {}: {}\n", safe(l.name),
                        l.ranks > 0 ? fmt::format(" of {} ranks", l.ranks) : "", l.bandwidth.value,
                        format_seconds(Seconds(l.latency.value)),
                        l.oversubscription > 1 ? fmt::format(", oversubscribed {:g} to 1", l.oversubscription) : "",
                        name(machine.find_origin(l.origin)->kind), safe(machine.find_origin(l.origin)->source));
  }
  for (const ContentionCoefficient& c : machine.contention) {
    text += fmt::format("  {} beside {}: {:.3f} times as long\n", safe(c.victim), safe(c.aggressor), c.slowdown.value);
  }
  return text;
}

int machine_command(int argc, char** argv) {
  const std::optional<MachineOptions> options = parse_machine_options(argc, argv);
  if (!options) return 0;
  const MachineOptions& o = *options;
  if (o.check) {
    for (const std::string& path : o.names) print_out(described(read_machine(path)));
    return 0;
  }
  Machine machine{.name = o.name, .fabric = o.fabric, .device = o.device};
  for (std::size_t i = 0; i < o.names.size(); ++i) {
    const LoadedRun run = LoadedRun::read(o.names[i], {});
    const bool contention = run.text_at({"identity", "bench"}) == "contention";
    if (!holds_series(run) && !contention) {
      throw usage_error(fmt::format("{} is a run of overlap-{}", run.name(), run.text_at({"identity", "bench"})),
                        "it says nothing about the cost of collectives by size or who slows whom",
                        "name runs of overlap-collective, overlap-contention or overlap-import");
    }
    const std::string source = o.sources.empty() ? "" : o.sources.size() == 1 ? o.sources.front() : o.sources[i];
    machine.origins.push_back(origin_of(run, source, i, o.names.size()));
    if (machine.device.empty() && machine.origins.back().kind == OriginKind::measured) {
      machine.device = run.text_at({"identity", "backend", "device"});
    }
    if (contention) {
      add_contention(machine, run, machine.origins.back().id);
    } else {
      add_run(machine, run, machine.origins.back());
    }
  }
  if (machine.collectives.empty() && machine.contention.empty() && !o.names.empty()) {
    throw usage_error("the runs hold no series to describe", "a fit needs four sizes, a collective and its ranks",
                      "see the messages above");
  }
  const Machine typed = said(o);
  machine.origins.insert(machine.origins.end(), typed.origins.begin(), typed.origins.end());
  for (const MachineRate& rate : typed.rates) {
    std::erase_if(machine.rates, [&](const MachineRate& r) { return r.name == rate.name; });  // what is typed counts
    machine.rates.push_back(rate);
  }
  const std::string text = machine_json(machine);
  print_out(described(parse_machine(text)));  // what is written can be read
  without_resume("name another --out, in a place with room that you may write to", [&] { replace_text(o.out, text); });
  return 0;
}

}  // namespace

void require_new_description(const std::string& out) {
  if (fs::path(out).extension() != ".json") {
    throw usage_error("--out " + printable(out, 400) + " is no .json file", "a description is one",
                      "type --out NAME.json");
  }
  std::error_code error;
  if (fs::exists(out, error)) {
    throw usage_error("--out " + printable(out, 400) + " is there already", "it is not overwritten",
                      "name another, or remove it");
  }
}

int run_machine(int argc, char** argv) {
  return guarded("overlap-machine", [&] { return machine_command(argc, argv); });
}

}  // namespace ovl
