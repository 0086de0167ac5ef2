// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "app/backends.hpp"
#include "app/bench.hpp"
#include "app/command_line.hpp"
#include "app/google_benchmark.hpp"
#include "app/interrupt.hpp"
#include "app/launches.hpp"
#include "app/options.hpp"
#include "app/progress.hpp"
#include "app/report.hpp"
#include "base/error.hpp"
#include "measure/rows.hpp"
#include "program/print.hpp"
#include "results/provenance.hpp"
#include "results/run_directory.hpp"
#include "results/schema.hpp"
#include "results/timeline.hpp"

namespace ovl {
namespace {

CaseContext context_of(const Options& options, const Description& description) {
  const std::vector<std::string>& transports = description.transports;
  const std::string transport = options.transport.empty() ? transports.front() : options.transport;
  if (std::find(transports.begin(), transports.end(), transport) == transports.end()) {
    throw unknown_value("transport", transport, transports);
  }
  return {description, transport, options.ranks == 0 ? description.default_ranks : options.ranks};
}

std::vector<Fact> settings_of(const Options& o) {
  return {{"precision", fmt::format("{}", o.measure.stop.precision)},
          {"min_samples", std::to_string(o.measure.stop.min_rounds)},
          {"max_samples", std::to_string(o.measure.stop.max_rounds)},
          {"max_time", fmt::format("{} s", o.measure.stop.max_time.value())},
          {"window", fmt::format("{} s", o.measure.window.value())},
          {"interleave", std::string(name(o.measure.interleave))},
          {"launch", std::string(name(o.measure.launch))},
          {"launches", std::to_string(o.launches)},
          {"verify", o.measure.verify ? "on" : "off"}};
}

nlohmann::json provenance_of(const Bench& bench, const Options& options, const Description& description,
                             const Schema& summary) {
  return collect_provenance({.bench = bench.name,
                             .seed = options.measure.seed,
                             .command_line = options.command_line,
                             .settings = settings_of(options),
                             .backend = description,
                             .tables = {summary, samples_schema(), operations_schema(), launches_schema()}});
}

// A value that is asked for twice is still one case.
std::vector<CaseSpec> distinct(std::vector<CaseSpec> cases) {
  std::set<std::string> keys;
  std::erase_if(cases, [&](const CaseSpec& spec) { return !keys.insert(spec.key).second; });
  return cases;
}

void print_plan(const std::vector<CaseSpec>& cases) {
  print_out(fmt::format("{} cases\n", cases.size()));
  for (const CaseSpec& spec : cases) print_out("  " + spec.name + "\n");
  if (cases.empty()) return;
  try {
    const Program program = place(cases.front().build({}), cases.front().placement);
    print_out(fmt::format("\nThe first one, overlapped (hash {}):\n{}", program_hash(program), print(program)));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::impossible) throw;
    print_out(fmt::format("\nThe first one will be a row with status unsupported: {}\n", error.what()));
  }
}

void print_rows(Format format, const Schema& schema, const std::vector<Row>& rows) {
  switch (format) {
    case Format::text: print_out(table_text(rows)); break;
    case Format::csv: print_out(rows_as_csv(schema, rows)); break;
    case Format::json: print_out(rows_as_json(rows)); break;
  }
}

EntryReport entry_report(const CaseResult& result) {
  if (!result.has_numbers()) return {.skipped = fmt::format("{}: {}", name(result.status), result.reason)};
  const Summary& s = result.summary;
  return {.time = Seconds(s.t_step.value),
          .counters = {{"t_compute", s.t_compute.value},
                       {"t_comm", s.t_comm.value},
                       {"t_serial", s.t_serial.value},
                       {"t_exposed", s.t_exposed.value},
                       {"hidden_share", s.hidden_share.value},
                       {"hidden_share_low", s.hidden_share.interval.low},
                       {"hidden_share_high", s.hidden_share.interval.high},
                       {"speedup", s.speedup.value},
                       {"speedup_bound", s.overlap.speedup_bound},
                       {"rounds", static_cast<double>(s.rounds)}}};
}

int worst(const std::vector<Row>& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [](const Row& row) {
                       const auto& status = std::get<std::string>(row.at("status"));
                       return status == name(Status::failed_verify) || status == name(Status::timeout);
                     })
             ? 1
             : 0;
}

// A run: every case once, or once in each of several launches, each a process of its own.
class Session {
 public:
  Session(const Bench& bench, const Options& options, const BackendRegistry& backends)
      : bench_(bench),
        options_(options),
        interrupted_(watch_for_interrupts()),
        world_(make_solo_world()),
        backend_(backends.choose(options.backend).open(*world_, {.ranks = options.ranks, .cores = options.cores})),
        description_(backend_->describe()),
        schema_(summary_schema(bench.columns)),
        cases_(distinct(bench.cases(options.axes, context_of(options, description_)))) {}

  int run() {
    GoogleBenchmark google(options_.google_benchmark);
    std::vector<std::string> names;
    for (const CaseSpec& spec : cases_) names.push_back(spec.name);
    google.check(names);
    if (options_.list) {
      for (const std::string& name : names) print_out(name + "\n");
      return 0;
    }
    if (google.lists_only()) {
      std::vector<Entry> entries;
      for (const std::string& name : names) entries.push_back({name, [] { return EntryReport{}; }});
      google.run(entries);
      return 0;
    }
    if (options_.dry_run) {
      print_plan(cases_);
      return 0;
    }
    open_directory();
    const bool parent = options_.launches > 1 && !options_.launch_index;
    try {
      if (parent) {
        measure_launches();
      } else {
        measure_cases(google);
      }
    } catch (const Error&) {
      if (!google.owns_output()) report();
      throw;
    }
    if (!google.owns_output()) report();
    return options_.launch_index ? 0 : worst(rows_);  // a launch has done its part; its parent judges the rows
  }

 private:
  void open_directory() {
    if (options_.out.empty()) return;
    const nlohmann::json provenance = provenance_of(bench_, options_, description_, schema_);
    if (options_.launch_index) {
      directory_ = RunDirectory::resume(options_.out, provenance, schema_, Lock::inherited);
    } else if (options_.resume) {
      directory_ = RunDirectory::resume(options_.out, provenance, schema_);
    } else {
      directory_ = RunDirectory::create(options_.out, provenance, schema_);
    }
  }

  void measure_cases(GoogleBenchmark& google) {
    const std::int64_t launch = options_.launch_index.value_or(0);
    std::vector<CaseSpec> open;
    for (const CaseSpec& spec : cases_) {
      if (!directory_ || !directory_->finished(spec.key, launch)) open.push_back(spec);
    }
    ProgressLine progress(open.size());
    if (open.size() < cases_.size()) {
      progress.say(fmt::format("{} of {} cases are finished already", cases_.size() - open.size(), cases_.size()));
    }
    SteadyClock clock;
    Runner runner(*backend_, clock, options_.measure, interrupted_,
                  [&](const std::string& phase, int rounds, Seconds elapsed, Interval watched) {
                    progress.update(phase, rounds, elapsed, watched);
                  });
    const RowContext context{
        .bench = bench_.name, .launch = launch, .backend = description_.backend, .options = options_.measure};
    const auto measure = [&](const CaseSpec& spec) {
      progress.begin(spec.name);
      const CaseResult result = runner.run(spec);
      keep(spec, result, context);
      progress.end(result);
      if (result.status == Status::timeout) {
        throw failure("case " + spec.name + " hangs", "its row says where, and this process cannot go on",
                      how_to_go_on());
      }
      return entry_report(result);
    };
    std::vector<Entry> entries;
    for (const CaseSpec& spec : open) entries.push_back({spec.name, [&] { return measure(spec); }});
    try {
      google.run(entries);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::interrupted) throw;
      throw Error(error.kind(), error.what() + ("; " + how_to_go_on()));
    }
  }

  void keep(const CaseSpec& spec, const CaseResult& result, const RowContext& context) {
    const Row row = summary_row(schema_, spec, result, context);
    rows_.push_back(row);
    if (!directory_) return;
    const auto overlapped = std::find_if(result.instrumented.rbegin(), result.instrumented.rend(),
                                         [](const auto& replay) { return replay.first == Arm::overlapped; });
    if (options_.timeline && overlapped != result.instrumented.rend()) {
      directory_->write_json(timeline_path(spec.key),
                             timeline(result.program, overlapped->second, {.key = spec.key, .source = context.source}));
    }
    directory_->commit(sample_rows(spec, result, context), operation_rows(spec, result, context), row);
  }

  void measure_launches() {
    backend_.reset();  // the launches have the machine for themselves
    for (int launch = 0; launch < options_.launches; ++launch) {
      print_message(fmt::format("launch #{} of {}", launch, options_.launches));
      while (!measure_launch(launch)) {
        print_message(fmt::format("launch #{} again, without the case that hangs", launch));
      }
    }
    directory_->write_table(launches_schema(), launch_rows(directory_->rows()));
  }

  // Whether the launch came to its end; false: a case hung, and a fresh process can measure the others.
  bool measure_launch(int launch) {
    const std::size_t finished = directory_->rows().size();
    const LaunchEnd end = run_launch(options_.command_line, launch);
    directory_->reload();
    if (interrupted_ || end.code == static_cast<int>(ErrorKind::interrupted)) {
      throw Error(ErrorKind::interrupted, "interrupted: finished cases are kept; " + how_to_go_on());
    }
    if (end.code == 0) return true;
    const std::vector<Row>& rows = directory_->rows();
    const bool hung = rows.size() > finished && rows.back().at("status") == Value(std::string(name(Status::timeout)));
    if (!hung) throw failure(fmt::format("launch #{} {}", launch, end.text), "", how_to_go_on());
    return false;
  }

  void report() {
    if (options_.launch_index) return;
    if (directory_) rows_ = directory_->rows();
    print_rows(options_.format, schema_, rows_);
    if (options_.format != Format::text) return;
    if (options_.launches > 1) print_out("\n" + launches_text(launch_rows(rows_)));
    if (directory_) print_out("\nResults: " + directory_->path().string() + "\n");
  }

  [[nodiscard]] std::string how_to_go_on() const {
    if (!directory_) return "with --out DIR what is finished would be kept";
    if (options_.launch_index) return "its parent goes on";
    std::vector<std::string> words = options_.command_line;
    if (!options_.resume) words.emplace_back("--resume");
    return "continue with: " + shell_line(words);
  }

  const Bench& bench_;
  const Options& options_;
  const std::atomic<bool>& interrupted_;
  std::unique_ptr<World> world_;
  std::unique_ptr<Backend> backend_;
  Description description_;
  Schema schema_;
  std::vector<CaseSpec> cases_;
  std::optional<RunDirectory> directory_;
  std::vector<Row> rows_;
};

}  // namespace

int run_bench(const Bench& bench, int argc, char** argv) { return run_bench(bench, argc, argv, known_backends()); }

int run_bench(const Bench& bench, int argc, char** argv, const BackendRegistry& backends) {
  return guarded("overlap-" + bench.name, [&] {
    const std::optional<Options> options = parse_options(bench, argc, argv);
    return options ? Session(bench, *options, backends).run() : 0;
  });
}

}  // namespace ovl
