// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

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
  if (options.ranks > description.most_ranks) {
    throw usage_error(
        fmt::format("--ranks {} is more than the {} backend can place", options.ranks, description.backend),
        fmt::format("there is room for {} on {}", description.most_ranks, description.device),
        fmt::format("use --ranks {} or less", description.most_ranks));
  }
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

void print_plan(const std::vector<CaseSpec>& cases) {
  fmt::print("{} cases\n", cases.size());
  for (const CaseSpec& spec : cases) fmt::print("  {}\n", spec.name);
  if (cases.empty()) return;
  const Program program = place(cases.front().build({}), cases.front().placement);
  fmt::print("\nThe first one, overlapped (hash {}):\n{}", program_hash(program), print(program));
}

void print_rows(Format format, const Schema& schema, const std::vector<Row>& rows) {
  switch (format) {
    case Format::text: fmt::print("{}", table_text(rows)); break;
    case Format::csv: fmt::print("{}", rows_as_csv(schema, rows)); break;
    case Format::json: fmt::print("{}", rows_as_json(rows)); break;
  }
  std::fflush(stdout);
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

// One process's share of a run: every case once.
class Session {
 public:
  Session(const Bench& bench, const Options& options)
      : bench_(bench),
        options_(options),
        interrupted_(watch_for_interrupts()),
        world_(make_solo_world()),
        backend_(
            known_backends().choose(options.backend).open(*world_, {.ranks = options.ranks, .cores = options.cores})),
        description_(backend_->describe()),
        schema_(summary_schema(bench.columns)),
        cases_(bench.cases(options.axes, context_of(options, description_))) {}

  int run() {
    GoogleBenchmark google(options_.google_benchmark);
    if (options_.list || google.lists_only()) return list(google);
    if (options_.dry_run) {
      print_plan(cases_);
      return 0;
    }
    open_directory();
    if (options_.launches > 1 && !options_.launch_index) return run_launches();
    measure(google);
    if (options_.launch_index) return worst(rows_);  // the parent prints
    if (!google.owns_output()) print_rows(options_.format, schema_, rows_);
    tell_where();
    return worst(rows_);
  }

 private:
  int list(GoogleBenchmark& google) {
    if (google.lists_only()) {
      std::vector<Entry> entries;
      for (const CaseSpec& spec : cases_) entries.push_back({spec.name, [] { return EntryReport{}; }});
      google.run(entries);
    } else {
      for (const CaseSpec& spec : cases_) fmt::print("{}\n", spec.name);
    }
    return 0;
  }

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

  void measure(GoogleBenchmark& google) {
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
    std::vector<Entry> entries;
    for (const CaseSpec& spec : open) {
      entries.push_back({spec.name, [&] {
                           progress.begin(spec.name);
                           const CaseResult result = runner.run(spec);
                           keep(spec, result, context);
                           progress.end(result);
                           if (result.status == Status::timeout) {
                             throw failure("case " + spec.name + " hangs", result.reason, resume_hint());
                           }
                           return entry_report(result);
                         }});
    }
    try {
      google.run(entries);
    } catch (const Error& error) {
      if (directory_) rows_ = directory_->rows();
      if (error.kind() == ErrorKind::interrupted && !options_.launch_index) {
        print_rows(options_.format, schema_, rows_);
        throw Error(error.kind(), std::string(error.what()) + "; " + resume_hint());
      }
      throw;
    }
    if (directory_) rows_ = directory_->rows();
  }

  void keep(const CaseSpec& spec, const CaseResult& result, const RowContext& context) {
    rows_.push_back(summary_row(schema_, spec, result, context));
    if (!directory_) return;
    directory_->commit(sample_rows(spec, result, context), operation_rows(spec, result, context), rows_.back());
    if (!options_.timeline) return;
    for (auto last = result.instrumented.rbegin(); last != result.instrumented.rend(); ++last) {
      if (last->first != Arm::overlapped) continue;
      directory_->write_json(timeline_path(spec.key),
                             timeline(result.program, last->second, {.key = spec.key, .source = context.source}));
      break;
    }
  }

  int run_launches() {
    int code = 0;
    backend_.reset();  // the launches have the machine for themselves
    for (int launch = 0; launch < options_.launches && !interrupted_; ++launch) {
      fmt::print(stderr, "launch {} of {}\n", launch + 1, options_.launches);
      code = std::max(code, run_launch(options_.command_line, launch));
      directory_->reload();
      if (code > 1) break;
    }
    rows_ = directory_->rows();
    const std::vector<Row> launches = launch_rows(rows_);
    directory_->write_table(launches_schema(), launches);
    print_rows(options_.format, schema_, rows_);
    if (options_.format == Format::text) fmt::print("\n{}", launches_text(launches));
    tell_where();
    if (interrupted_) throw Error(ErrorKind::interrupted, "interrupted: finished cases are kept; " + resume_hint());
    return std::max(code, worst(rows_));
  }

  [[nodiscard]] std::string resume_hint() const {
    return directory_ ? "continue with the same command and --resume"
                      : "with --out DIR what was finished would be kept";
  }

  void tell_where() const {
    if (directory_ && options_.format == Format::text) {
      fmt::print("\nResults: {}\n", directory_->path().string());
    }
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

int run_bench(const Bench& bench, int argc, char** argv) {
  return guarded("overlap-" + bench.name, [&] {
    const std::optional<Options> options = parse_options(bench, argc, argv);
    return options ? Session(bench, *options).run() : 0;
  });
}

}  // namespace ovl
