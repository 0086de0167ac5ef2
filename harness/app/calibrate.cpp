// SPDX-License-Identifier: Apache-2.0
#include "app/calibrate.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/command_line.hpp"
#include "app/machine.hpp"
#include "app/report.hpp"
#include "base/error.hpp"
#include "metrics/calibration.hpp"
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

// Placements that the model plays as one lane beside another, or one after the other.
const std::set<std::string, std::less<>> side_by_side{"concurrent",    "partitioned",   "comm_first",
                                                      "compute_first", "priority_comm", "priority_compute"};
constexpr std::string_view in_turn = "serial";

struct CalibrateOptions {
  std::vector<std::string> runs;
  std::string base;
  std::string out;
  std::string name;
};

// nullopt: --help or --version was printed.
std::optional<CalibrateOptions> parse_calibrate_options(int argc, char** argv) {
  CalibrateOptions o;
  CLI::App app("What does this machine cost, learnt from pairs that ran alone and together?", "overlap-calibrate");
  app.set_version_flag("--version", fmt::format("overlapbench {}", build_info().version));
  app.add_option("RUN", o.runs, "run directories of overlap-pair")->type_name("");
  const OptionGroup knowing(app, "What is known already");
  knowing.text("--machine", o.base, "a description whose other numbers are kept [none]");
  const OptionGroup writing(app, "Results");
  writing.text("--out", o.out, "the description to write: NAME.json");
  writing.text("--name", o.name, "name of the machine [that of the file]");
  app.footer(
      "Every case, shape and size is left out once and predicted from the others: the table says how far off.\n"
      "Predict with --backend model --machine NAME.json, and compare with overlap-plots predicted.\n"
      "Exit codes: 0 good, 1 cannot be written, 2 usage, or nothing to learn from.");
  if (!parse_command_line(app, argc, argv)) return std::nullopt;
  const std::string example = "type overlap-calibrate RUN... --out NAME.json";
  if (o.runs.empty()) throw usage_error("no run is named", "", example);
  if (o.out.empty()) throw usage_error("--out is missing", "", example);
  require_new_description(o.out);
  const bool named = !o.name.empty();
  if (!named) o.name = fs::path(o.out).stem().string();
  try {
    parse_machine(machine_json(Machine{.name = o.name}));
  } catch (const Error& error) {
    throw usage_error(fmt::format("{} {}", named ? "--name" : "--out, after which the machine is called,",
                                  printable(named ? o.name : o.out, 400)),
                      error.what(), "type for example --name this-machine");
  }
  std::set<fs::path> runs;
  for (const std::string& run : o.runs) {
    std::error_code unknown;
    if (!runs.insert(fs::weakly_canonical(run, unknown)).second) {
      throw usage_error(fmt::format("{} is named twice", printable(run, 400)),
                        "its cases would be held out and learnt from at once", "name each run once");
    }
  }
  return o;
}

std::optional<PairObservation> observation_of(const Row& row) {
  const auto whole = [&](std::string_view column) { return whole_in(row, column).value_or(0); };
  const std::string placement = text_in(row, "placement");
  const bool together = side_by_side.contains(placement);
  if (!together && placement != in_turn) return std::nullopt;
  const Gemm gemm{whole("m"), whole("n"), whole("k"), parse_enum<DType>(text_in(row, "dtype")), 1};
  return PairObservation{.gemm = fmt::format("{}x{}x{}", gemm.m, gemm.n, gemm.k),
                         .dtype = gemm.dtype,
                         .flops = flops_of(gemm),
                         .repeat = number_in(row, "gemm_repeat"),
                         .collective = parse_enum<CollectiveKind>(text_in(row, "collective")),
                         .ranks = static_cast<int>(whole("ranks")),
                         .bytes = number_in(row, "bytes"),
                         .compute = Seconds(number_in(row, "t_compute")),
                         .comm = Seconds(number_in(row, "t_comm")),
                         .step = Seconds(number_in(row, "t_step")),
                         .together = together};
}

struct LearntCase {
  PairObservation seen;  // of several launches the median
  std::string label;
  std::string layout;    // which cores its lanes ran on
  bool crowded = false;  // fewer cores than lanes
};
struct Learnt {
  std::vector<LearntCase> cases;
  std::vector<std::string> left_out;  // which and why
};

std::string label_of(const Row& row) {
  return fmt::format("{} {} {} {}", text_in(row, "gemm"), format_bytes(Bytes(whole_in(row, "bytes").value_or(0))),
                     text_in(row, "placement"), text_in(row, "waiting"));
}

void learn_from(const LoadedRun& run, Learnt& learnt) {
  std::map<std::string, std::vector<LearntCase>> cases;
  for (const Row& row : run.rows("summary")) {
    if (!has_numbers(row)) continue;
    if (text_in(row, "source") == "model") {
      throw usage_error(fmt::format("{} was predicted, not measured", run.name()),
                        "a model that learns from a model learns nothing", "name a run that was measured");
    }
    if (const std::optional<PairObservation> o = observation_of(row)) {
      cases[text_in(row, "key")].push_back(
          {*o, label_of(row), text_in(row, "layout"), whole_in(row, "oversubscribed").value_or(0) == 1});
    } else {
      learnt.left_out.push_back(label_of(row) + ": left out, the model does not know what lanes on one core share");
    }
  }
  for (const auto& [key, launches] : cases) {
    LearntCase one = launches.front();
    const auto middle = [&, &seen = launches](Seconds PairObservation::*time) {
      std::vector<double> values;
      for (const LearntCase& c : seen) values.push_back((c.seen.*time).value());
      return Seconds(median(values));
    };
    one.seen.compute = middle(&PairObservation::compute);
    one.seen.comm = middle(&PairObservation::comm);
    one.seen.step = middle(&PairObservation::step);
    learnt.cases.push_back(one);
  }
}

// Where ranks share cores, a GEMM alone takes another time than on a core of its own, and a description has one rate:
// it learns from the layout of most cases, of as many of the one in which both run side by side.
std::vector<PairObservation> of_one_layout(Learnt& learnt) {
  std::map<std::string, std::pair<std::size_t, bool>> layouts;  // how many cases, and whether they are side by side
  bool crowded = false;
  for (const LearntCase& c : learnt.cases) {
    layouts[c.layout].first += 1;
    layouts[c.layout].second = layouts[c.layout].second || c.seen.together;
    crowded = crowded || c.crowded;
  }
  const auto most = std::max_element(layouts.begin(), layouts.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<PairObservation> observations;
  for (const LearntCase& c : learnt.cases) {
    if (!crowded || c.layout == most->first) {
      observations.push_back(c.seen);
    } else {
      learnt.left_out.push_back(
          fmt::format("{}: left out, its lanes are on {}, those of most cases on {}: with fewer cores than lanes the "
                      "same work takes another time there",
                      c.label, c.layout, most->first));
    }
  }
  return observations;
}

Origin origin_of(const LoadedRun& run, const Machine& machine) {
  Origin origin{.id = "pairs", .kind = OriginKind::measured};
  for (int i = 2; machine.find_origin(origin.id) != nullptr; ++i) origin.id = fmt::format("pairs{}", i);
  for (const Row& row : run.rows("summary")) {
    if (text_in(row, "source") == "emulated") origin.kind = OriginKind::emulated;
  }
  origin.source = fs::path(run.name()).filename().string();
  origin.tool = "overlapbench " + run.text_at({"identity", "build", "version"});
  origin.date = run.text_at({"run", "date"});
  return origin;
}

// What a description says that each kernel takes beside its work; unknown where it does not.
Seconds kernel_of(const Machine& machine) {
  for (const MachineRate& r : machine.rates) {
    if (r.name == "kernel") return Seconds(r.rate.value);
  }
  return unknown_time;
}

// What was learnt replaces what the description said of the same thing; a kernel's overhead was not learnt where known.
void add(Machine& machine, const Calibration& learnt, const std::string& origin) {
  const auto set_rate = [&](const std::string& name, double rate) {
    std::erase_if(machine.rates, [&](const MachineRate& r) { return r.name == name; });
    machine.rates.push_back({name, origin, {.value = rate}});
  };
  const bool kernel_known = std::isfinite(kernel_of(machine).value());
  for (const GemmRate& g : learnt.gemms) {
    set_rate(fmt::format("gemm_{}", name(g.dtype)), g.rate.value());
    if (g.kernel.value() > 0 && !kernel_known) set_rate("kernel", g.kernel.value());  // that of all
  }
  for (const ShapeRate& s : learnt.shapes) set_rate(fmt::format("gemm_{}@{}", name(s.dtype), s.gemm), s.rate.value());
  for (const CommCost& c : learnt.comms) {
    std::erase_if(machine.collectives, [&](const CollectiveCost& known) {
      return known.collective == name(c.collective) && known.ranks == c.ranks && known.dtype == name(c.dtype) &&
             known.load != "loaded" && !known.in_place.value_or(false);
    });
    CollectiveCost cost{.collective = std::string(name(c.collective)), .dtype = std::string(name(c.dtype))};
    cost.op = c.collective == CollectiveKind::all_reduce || c.collective == CollectiveKind::reduce_scatter ? "sum" : "";
    cost.ranks = c.ranks;
    cost.in_place = false;
    cost.load = "idle";
    cost.origin = origin;
    for (const Segment& s : c.fit.segments) cost.segments.push_back({s.from, {s.line.alpha}, {s.line.beta}});
    cost.least_bytes = c.points.front().bytes;
    cost.most_bytes = c.points.back().bytes;
    cost.points = c.points;
    const CostFit fit = cost.fit();
    cost.median_relative_error = fit.median_relative_error;
    cost.max_relative_error = fit.max_relative_error;
    machine.collectives.push_back(std::move(cost));
  }
  std::erase_if(machine.contention, [](const ContentionCoefficient& c) {
    return (computes(c.victim) && communicates(c.aggressor)) || (communicates(c.victim) && computes(c.aggressor));
  });
  machine.contention.push_back({"gemm", "comm", origin, {.value = learnt.slowdown.compute}});
  machine.contention.push_back({"comm", "gemm", origin, {.value = learnt.slowdown.comm}});
}

std::string percent(const std::vector<double>& errors, double at) {
  std::vector<double> sizes;
  for (const double e : errors) sizes.push_back(std::fabs(e));
  return errors.empty() ? "-" : fmt::format("{:.1f} %", 100 * (at < 1 ? median(sizes) : quantile(sizes, at)));
}

std::string errors_text(const std::vector<PairObservation>& observations, Seconds kernel) {
  TableLines lines{{"held out", "t_compute", "worst", "t_comm", "worst", "t_step", "worst", "n"}};
  for (const auto& [what, text] : {std::pair{HeldOut::one_case, "a case"},
                                   {HeldOut::shape, "a GEMM shape"},
                                   {HeldOut::size, "a collective's size"}}) {
    const HeldOutErrors e = held_out_errors(observations, what, kernel);
    lines.push_back({text, percent(e.compute, 0), percent(e.compute, 1), percent(e.comm, 0), percent(e.comm, 1),
                     percent(e.step, 0), percent(e.step, 1), std::to_string(e.step.size())});
  }
  return aligned(lines);
}

std::string fitted_text(const Calibration& learnt) {
  std::string text;
  for (const GemmRate& g : learnt.gemms) {
    text += fmt::format("  gemm_{}: {:.4g} FLOP/s and {} each; {} shapes known by themselves\n", name(g.dtype),
                        g.rate.value(), time_text(g.kernel.value()),
                        std::count_if(learnt.shapes.begin(), learnt.shapes.end(),
                                      [&](const ShapeRate& s) { return s.dtype == g.dtype; }));
  }
  for (const CommCost& c : learnt.comms) {
    text += fmt::format("  {} {}, {} ranks: alpha {}, beta {:.4g} ps/B, {} segment{}, {} points\n", name(c.collective),
                        name(c.dtype), c.ranks, time_text(c.fit.alpha()), c.fit.beta() * 1e12, c.fit.segments.size(),
                        c.fit.segments.size() == 1 ? "" : "s", c.points.size());
  }
  return text + fmt::format("  while both run: compute {:.3f} times as long, communication {:.3f}\n",
                            learnt.slowdown.compute, learnt.slowdown.comm);
}

int calibrate_command(int argc, char** argv) {
  const std::optional<CalibrateOptions> options = parse_calibrate_options(argc, argv);
  if (!options) return 0;
  const CalibrateOptions& o = *options;
  Machine machine;
  if (!o.base.empty()) machine = read_machine(o.base);
  machine.name = o.name;

  Learnt learnt;
  std::string origin;
  for (const std::string& path : o.runs) {
    const LoadedRun run = LoadedRun::read(path, {});
    if (const std::string bench = run.text_at({"identity", "bench"}); bench != "pair") {
      throw usage_error(fmt::format("{} is a run of overlap-{}", run.name(), bench),
                        "a calibration learns from GEMMs and collectives alone and together",
                        "name runs of overlap-pair");
    }
    learn_from(run, learnt);
    Origin from = origin_of(run, machine);
    if (machine.device.empty()) machine.device = run.text_at({"identity", "backend", "device"});
    if (origin.empty()) {
      origin = from.id;
      machine.origins.push_back(std::move(from));
    } else {  // numbers of all runs together
      machine.origins.back().source += ", " + from.source;
    }
  }
  const Seconds kernel = kernel_of(machine);
  const std::vector<PairObservation> observations = of_one_layout(learnt);
  const Calibration calibration = calibrated(observations, kernel);
  if (calibration.gemms.empty() || calibration.comms.empty()) {
    throw usage_error("there is nothing to learn from", "no case has all of its times, side by side or in turn",
                      "measure with overlap-pair --placement partitioned,serial and more than one size");
  }
  for (const std::string& left : learnt.left_out) print_message(left);
  add(machine, calibration, origin);
  const std::string text = machine_json(machine);
  parse_machine(text);  // what is written can be read
  without_resume("name another --out, in a place with room that you may write to", [&] { replace_text(o.out, text); });
  print_out(
      fmt::format("{}, of {} cases:\n{}\nErrors of cases that the calibration had not seen, median and worst:\n{}",
                  machine.name, observations.size(), fitted_text(calibration), errors_text(observations, kernel)));
  return 0;
}

}  // namespace

int run_calibrate(int argc, char** argv) {
  return guarded("overlap-calibrate", [&] { return calibrate_command(argc, argv); });
}

}  // namespace ovl
