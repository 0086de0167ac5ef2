// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "app/backends.hpp"
#include "app/bench.hpp"
#include "app/command_line.hpp"
#include "app/cost_report.hpp"
#include "app/google_benchmark.hpp"
#include "app/interrupt.hpp"
#include "app/last_resort.hpp"
#include "app/launches.hpp"
#include "app/options.hpp"
#include "app/processes.hpp"
#include "app/progress.hpp"
#include "app/report.hpp"
#include "backend/distributed.hpp"
#include "base/error.hpp"
#include "measure/rows.hpp"
#include "program/print.hpp"
#include "results/fits.hpp"
#include "results/loaded_run.hpp"
#include "results/provenance.hpp"
#include "results/run_directory.hpp"
#include "results/schema.hpp"
#include "results/timeline.hpp"

namespace ovl {
namespace {

CaseContext context_of(const Options& options, const Description& description, int processes) {
  const std::vector<std::string>& transports = description.transports;
  // "mpi" is that of one MPI, "mpi-openmpi".
  const auto asked = [&](const std::string& known) {
    return options.transport.empty() || known == options.transport || known.starts_with(options.transport + "-");
  };
  const auto transport = std::find_if(transports.begin(), transports.end(), asked);
  if (transport == transports.end()) throw unknown_value("transport", options.transport, transports);
  const int ranks = options.ranks == 0 ? description.default_ranks : options.ranks;
  return {description, *transport, ranks, processes};
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
                             const Schema& summary, const std::string& launcher,
                             const std::vector<std::vector<Fact>>& processes) {
  std::vector<Schema> tables{summary, samples_schema(), operations_schema(), launches_schema()};
  if (bench.series) tables.push_back(fits_schema());
  if (bench.sweep) tables.push_back(choices_schema());
  if (bench.over_time) tables.push_back(series_schema());
  return collect_provenance({.bench = bench.name,
                             .seed = options.measure.seed,
                             .command_line = options.command_line,
                             .settings = settings_of(options),
                             .backend = description,
                             .tables = tables,
                             .launcher = launcher,
                             .processes = processes});
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
  print_out(format == Format::csv ? rows_as_csv(schema, rows) : rows_as_json(rows));
}

EntryReport entry_report(const CaseResult& result) {
  if (!result.has_numbers()) return {.skipped = fmt::format("{}: {}", name(result.status), result.reason)};
  const Summary& s = result.summary;
  const bool overlaps = !std::isnan(s.t_step.value);
  return {.time = Seconds(overlaps ? s.t_step.value : s.t_comm.value),
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

// 1 when a case failed, 3 when none at all can run here, else 0.
int exit_code(const std::vector<Row>& rows) {
  const auto is = [](const Row& row, Status status) { return std::get<std::string>(row.at("status")) == name(status); };
  const bool failed = std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
    return is(row, Status::failed_verify) || is(row, Status::timeout);
  });
  if (failed) return 1;
  const bool nothing = !rows.empty() && std::all_of(rows.begin(), rows.end(),
                                                    [&](const Row& row) { return is(row, Status::unsupported); });
  return nothing ? static_cast<int>(ErrorKind::impossible) : 0;
}

// What a replay of a program takes at most by its given durations: those of all ranks that differ, one after the other,
// as a pipeline without any overlap.
Seconds given_time(const Program& program) {
  Seconds time(0);
  for (const RankClass& c : program.classes) {
    for (const Operation& op : c.body) {
      if (const auto* busy = std::get_if<Busy>(&op.work)) time += busy->duration;
    }
  }
  return time;
}

// What a long run is going to take; empty for a short one. `given`: what a replay is known to take, of all cases.
std::string estimate(std::size_t cases, int launches, Seconds rounds, Seconds given) {
  constexpr Seconds around(5);    // tuning, verification, warm-up and the instrumented pass of a case, about
  constexpr double replays = 25;  // that these are, and the last round, about
  constexpr Seconds long_run(120);
  const auto times = static_cast<double>(cases) * launches;
  const Seconds whole = (rounds + around) * times + given * (replays * launches);
  if (whole < long_run) return {};
  const std::string of_each = launches == 1 ? "" : fmt::format(" in each of {} launches", launches);
  return fmt::format("{} cases{}, each up to {} of rounds and some seconds around them: up to about {:.0f} minutes",
                     cases, of_each, format_seconds(rounds), std::ceil(whole.value() / 60));
}

// What all processes must agree on before the first case, as text: the first line that differs is the error.
std::string plan_text(const std::vector<CaseSpec>& cases, const Options& options) {
  std::string text;
  for (const CaseSpec& spec : cases) text += spec.key + "\n";
  for (const Fact& setting : settings_of(options)) text += setting.name + " " + setting.value + "\n";
  return text + fmt::format("seed {}\nout {}\nresume {}\n", options.measure.seed, options.out, options.resume);
}

// A run: every case once, or once in each of several launches, each a process of its own. Of several processes all do
// this in step; process 0 alone prints and writes, and what it decides all are told.
class Session {
 public:
  Session(const Bench& bench, const Options& options, const BackendRegistry& backends, Processes& processes,
          LastResort& last_resort)
      : bench_(bench),
        options_(options),
        interrupted_(watch_for_interrupts()),
        last_resort_(last_resort),
        world_(*processes.world),
        launcher_(processes.launcher),
        parent_(processes.parent),
        backend_(open(backends)),
        description_(backend_->describe()),
        schema_(summary_schema(bench.columns)) {
    together(world_, [&] {
      cases_ = cases_of(options);
      require_time_for_given();
    });
    require_equal(world_, "the plan", plan_text(cases_, options));
    last_resort_.words([this](const std::string& reason) { return last_words(reason); });
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { last_resort_.words({}); }

  int run() {
    GoogleBenchmark google(options_.google_benchmark, !world_.decides());
    std::vector<std::string> names;
    for (const CaseSpec& spec : cases_) names.push_back(spec.name);
    together(world_, [&] { google.check(names); });
    const bool lists = !world_.broadcast(google.lists_only() ? "lists" : "").empty();
    if (options_.list || options_.dry_run || lists) {
      if (!lists) std::erase_if(cases_, [&](const CaseSpec& spec) { return !google.selects(spec.name); });
      decided(world_, [&] { print_only(google, names); });
      return 0;
    }
    tells_rows_ = !google.owns_output();
    const bool parent = fresh_processes() && !options_.launch_index;
    require_startable_launches();
    open_directory();
    try {
      if (parent) {
        measure_launches(google);
      } else {
        measure_cases(google);
      }
    } catch (const Error&) {
      report(false);
      throw;
    }
    write_derived();
    report(true);
    decided(world_, [&] { google.require_written(); });
    if (options_.launch_index) return 0;  // a launch has done its part; its parent judges the rows
    return std::stoi(world_.broadcast(std::to_string(exit_code(rows_))));
  }

 private:
  // Before anything has begun. Of several processes one that is interrupted ends the others when it has its cases.
  [[nodiscard]] std::vector<CaseSpec> cases_of(const Options& options) const {
    const CaseContext context = context_of(options, description_, world_.size());
    std::optional<NothingBegun> nothing_begun;
    if (world_.size() == 1) nothing_begun.emplace("overlap-" + bench_.name);
    std::vector<CaseSpec> cases = distinct(bench_.cases(options.axes, context));
    if (interrupted_) throw Error(ErrorKind::interrupted, "interrupted: nothing was begun");
    return cases;
  }

  // Whether every duration is given and a replay takes it in real time.
  [[nodiscard]] bool plays_given() const {
    return bench_.all_given && bench_.all_given(options_.axes) && description_.source != "model";
  }

  // A replay that takes as long as it was told to is no hang.
  void require_time_for_given() const {
    if (!plays_given()) return;
    constexpr double room = 1.25;  // for starting, waiting and whoever else wants the cores
    const Seconds deadline = options_.measure.deadline;
    for (const CaseSpec& spec : cases_) {
      const Seconds given = given_time(spec.build({}));
      if (given * room <= deadline) continue;
      throw usage_error(
          fmt::format("the given durations of {} take up to {} a replay", spec.name, format_seconds(given)),
          fmt::format("one that takes longer than --deadline {} is a hang", format_seconds(deadline)),
          fmt::format("type --deadline {:.0f}s", std::ceil(2 * given.value())));
    }
  }

  // Says what a long run is going to take; the launches of one say nothing.
  void tell_estimate(const std::vector<CaseSpec>& cases, int launches,
                     const std::function<void(const std::string&)>& say) const {
    if (options_.launch_index || description_.source == "model") return;
    Seconds given(0);
    if (plays_given()) {
      for (const CaseSpec& spec : cases) given += given_time(spec.build({}));
    }
    const std::string text = estimate(cases.size(), launches, options_.measure.stop.max_time, given);
    if (!text.empty()) say(text);
  }

  // Whether cases are measured in processes that this one starts.
  [[nodiscard]] bool fresh_processes() const {
    return options_.launches > 1 || (bench_.fresh_processes && bench_.fresh_processes(options_.axes));
  }

  [[nodiscard]] SessionOptions session_options() const {
    return {.ranks = options_.ranks,
            .cores = options_.cores,
            .transport = options_.transport,
            .machine = options_.machine,
            .units = options_.units,
            .skew = options_.skew,
            .seed = static_cast<std::uint64_t>(options_.measure.seed)};
  }

  std::unique_ptr<Backend> open(const BackendRegistry& backends) {
    const BackendEntry* entry = nullptr;
    together(world_, [&] { entry = &backends.choose(options_.backend); });
    require_equal(world_, "the backend", entry->name);
    if (options_.backend == "auto" && world_.decides()) {
      if (const std::string why = unused_gpu(backends, entry->name); !why.empty()) print_message(why);
    }
    std::unique_ptr<Backend> local;
    together(world_, [&] { local = entry->open(world_, session_options()); });
    if (world_.size() == 1) return local;
    Description mine;
    together(world_, [&] { mine = local->describe(); });
    processes_ = process_facts(world_, mine);
    return distribute(std::move(local), world_, interrupted_);
  }

  void print_only(GoogleBenchmark& google, const std::vector<std::string>& names) const {
    if (options_.list) {
      for (const CaseSpec& spec : cases_) print_out(spec.name + "\n");
    } else if (google.lists_only()) {
      std::vector<Entry> entries;
      for (const std::string& name : names) entries.push_back({name, [] { return EntryReport{}; }});
      google.run(entries);
    } else {
      print_plan(cases_);
    }
  }

  // A process that MPI was initialised in has used up its place in the job.
  void require_startable_launches() const {
    if (options_.scratch && world_.size() > 1) {
      throw SharedError(ErrorKind::usage, usage_error("fresh processes of several processes need a run directory",
                                                      "each hands its rows on through it", "add --out DIR")
                                              .what());
    }
    if (!fresh_processes() || !description_.transports.front().starts_with("mpi")) return;
    throw SharedError(ErrorKind::usage,
                      usage_error((options_.launches > 1 ? "--launches" : "fresh processes") +
                                      std::string(" with the transport ") + description_.transports.front(),
                                  "the processes of an MPI job are started by its launcher, once",
                                  "start it several times, each with an --out of its own")
                          .what());
  }

  void open_directory() {
    nlohmann::json provenance = provenance_of(bench_, options_, description_, schema_, launcher_, processes_);
    // What differs between the processes of this run on purpose is in their rows.
    for (const std::string& setting : environments()) {
      provenance["identity"]["environment"].erase(setting.substr(0, setting.find('=')));
    }
    require_equal(world_, "the build or environment", shared_identity(provenance));
    if (options_.out.empty()) return;
    if (description_.source == "emulated" && !options_.allow_debug) {
      throw SharedError(ErrorKind::usage, usage_error("no results from an emulated device",
                                                      "it is a test double, and its times mean nothing",
                                                      "leave out --out, or type --allow-debug in a test")
                                              .what());
    }
    decided(world_, [&] {
      if (options_.launch_index) {
        directory_ = RunDirectory::resume(options_.out, provenance, schema_, Lock::inherited);
      } else if (options_.resume) {
        directory_ = RunDirectory::resume(options_.out, provenance, schema_);
      } else {
        directory_ = RunDirectory::create(options_.out, provenance, schema_);
      }
    });
  }

  // In the order of the cases, each once.
  [[nodiscard]] std::vector<std::string> environments() const {
    std::vector<std::string> all;
    for (const CaseSpec& spec : cases_) {
      if (std::find(all.begin(), all.end(), spec.environment) == all.end()) all.push_back(spec.environment);
    }
    return all;
  }

  // Of those that want this process's environment the ones that have no row yet, as process 0 sees it.
  std::vector<CaseSpec> open_cases(const std::vector<CaseSpec>& mine, std::int64_t launch) {
    std::string open;  // a character for each case
    for (const CaseSpec& spec : mine) open += directory_ && directory_->finished(spec.key, launch) ? '0' : '1';
    open = world_.broadcast(open);
    std::vector<CaseSpec> cases;
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (open.at(i) == '1') cases.push_back(mine[i]);
    }
    return cases;
  }

  void measure_cases(GoogleBenchmark& google) {
    const std::int64_t launch = options_.launch_index.value_or(0);
    std::vector<CaseSpec> mine = cases_;
    std::erase_if(mine, [&](const CaseSpec& spec) { return spec.environment != options_.launch_environment; });
    const std::vector<CaseSpec> open = open_cases(mine, launch);
    ProgressLine progress(open.size(), !world_.decides());
    if (open.size() < mine.size()) {
      progress.say(fmt::format("{} of {} cases are finished already", mine.size() - open.size(), mine.size()));
    }
    std::vector<CaseSpec> selected = open;
    std::erase_if(selected, [&](const CaseSpec& spec) { return !google.selects(spec.name); });
    tell_estimate(selected, 1, [&](const std::string& text) { progress.say(text); });
    // Of several processes, the backend tells all of an interrupt, so that none leaves the others behind.
    static const std::atomic<bool> never{false};
    const bool alone = world_.size() == 1;
    SteadyClock local;
    SharedClock shared(world_, local);
    Clock& clock = alone ? static_cast<Clock&>(local) : shared;
    Runner runner(
        *backend_, clock, options_.measure, alone ? interrupted_ : never,
        [&](const std::string& phase, int rounds, Seconds elapsed, Interval watched) {
          progress.update(phase, rounds, elapsed, watched);
        },
        [&](const std::string& report) {
          if (alone) last_resort_.expect_end(report);  // of several, the end of their world says it
        });
    const RowContext context{.bench = bench_.name,
                             .launch = launch,
                             .source = description_.source,
                             .backend = description_.backend,
                             .options = options_.measure};
    const auto measure = [&](const CaseSpec& spec) {
      progress.begin(spec.name);
      const CaseResult result = run_case(runner, spec, context);
      // After a hang the processes no longer agree on anything: process 0 keeps what it knows.
      if (result.status != Status::timeout) {
        decided(world_, [&] { keep(spec, result, context); });
      } else if (world_.decides()) {
        keep(spec, result, context);
      }
      progress.end(result);
      if (result.status == Status::timeout) {
        throw SharedError(
            ErrorKind::failure,
            failure("case " + spec.name + " hangs", "its row says where, and this process cannot go on", how_to_go_on())
                .what());
      }
      return entry_report(result);
    };
    std::vector<Entry> entries;
    for (const CaseSpec& spec : open) entries.push_back({spec.name, [&] { return measure(spec); }});
    try {
      google.run(entries);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::interrupted) throw;
      const bool kept = !options_.out.empty() && !options_.scratch;
      throw SharedError(error.kind(), error.what() + ((kept ? ", finished cases are kept; " : "; ") + how_to_go_on()));
    }
  }

  // The case that the main thread is in, for the thread that ends a process whose main thread does not come back.
  struct UnderWay {
    std::mutex mutex;
    std::string name;  // stays after a failure: what hangs then is the release of the case
    const CaseSpec* spec = nullptr;
    const RowContext* context = nullptr;
  };
  class Entered {
   public:
    Entered(UnderWay& under_way, const CaseSpec& spec, const RowContext& context) : under_way_(under_way) {
      const std::lock_guard lock(under_way_.mutex);
      under_way_.name = spec.name;
      under_way_.spec = &spec;
      under_way_.context = &context;
    }
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;
    ~Entered() {
      const std::lock_guard lock(under_way_.mutex);
      under_way_.spec = nullptr;
    }

   private:
    UnderWay& under_way_;
  };

  // What breaks a case ends the run: the error names the case and says how to go on.
  CaseResult run_case(Runner& runner, const CaseSpec& spec, const RowContext& context) {
    const auto named = [&](const Error& error) -> std::string {
      if (error.kind() != ErrorKind::failure) return error.what();
      // The parent of a launch says how.
      return fmt::format("case {}: {}{}", spec.name, error.what(), options_.launch_index ? "" : "; " + how_to_go_on());
    };
    const Entered entered(under_way_, spec, context);
    try {
      return runner.run(spec);
    } catch (const SharedError& error) {
      throw SharedError(error.kind(), named(error));
    } catch (const Error& error) {
      throw Error(error.kind(), named(error));
    }
  }

  // Of a process that must end while its main thread is in a call that does not return. That thread keeps no row then.
  std::string last_words(const std::string& reason) {
    const std::string stuck = "a call into a library does not return, so the process ends";
    const std::lock_guard lock(under_way_.mutex);
    if (under_way_.name.empty()) return reason + "; " + stuck;
    std::string why = reason;
    if (under_way_.spec != nullptr && world_.decides() && (world_.size() == 1 || is_hang(reason))) {
      why = hang_reason(options_.measure.deadline, world_.size() == 1 ? reason : told_by_all(world_));
      CaseResult result;
      result.status = Status::timeout;
      result.reason = why + "; " + stuck;
      keep(*under_way_.spec, result, *under_way_.context);
    }
    report(false);
    return fmt::format("case {}: {}; {}{}", under_way_.name, why, stuck,
                       options_.launch_index ? "" : "; " + how_to_go_on());
  }

  void keep(const CaseSpec& spec, const CaseResult& result, const RowContext& context) {
    const Row row = summary_row(schema_, spec, result, context);
    rows_.push_back(row);
    if (bench_.sweep && !directory_) {
      for (Row& sample : sample_rows(spec, result, context)) samples_.push_back(std::move(sample));
    }
    std::vector<Row> over_time = series_rows(spec, result, context);
    if (!directory_) {
      std::move(over_time.begin(), over_time.end(), std::back_inserter(series_));
      return;
    }
    const auto whole = std::find_if(result.instrumented.rbegin(), result.instrumented.rend(),
                                    [&](const auto& replay) { return replay.first == spec.arms.back().name; });
    if (options_.timeline && whole != result.instrumented.rend()) {
      directory_->write_json(timeline_path(spec.key),
                             timeline(result.program, whole->second, {.key = spec.key, .source = context.source}));
    }
    directory_->commit(sample_rows(spec, result, context), operation_rows(spec, result, context), row, over_time);
  }

  // Every process starts its own; those of one launch are a world of their own.
  void measure_launches(const GoogleBenchmark& google) {
    backend_.reset();  // the launches have the machine for themselves
    const auto say = [&](const std::string& text) {
      if (world_.decides()) print_message(text);
    };
    std::vector<CaseSpec> selected = cases_;
    std::erase_if(selected, [&](const CaseSpec& spec) { return !google.selects(spec.name); });
    tell_estimate(selected, options_.launches, say);
    for (int launch = 0; launch < options_.launches; ++launch) {
      for (const std::string& environment : environments()) {
        const std::string with = environment.empty() ? "" : " with " + environment;
        say(fmt::format("launch #{} of {}{}", launch, options_.launches, with));
        while (!measure_launch(launch, environment)) {
          say(fmt::format("launch #{} again{}, without the case that hangs", launch, with));
        }
      }
    }
    if (options_.launches == 1) return;
    decided(world_, [&] { directory_->write_table(launches_schema(), launch_rows(directory_->rows())); });
  }

  // Whether the launch came to its end; false: a case hung, and a fresh process can measure the others.
  bool measure_launch(int launch, const std::string& environment) {
    const std::size_t finished = directory_ ? directory_->rows().size() : 0;
    const LaunchEnd end = run_launch(options_.command_line, launch, environment, parent_);
    // The worst end of all processes is that of the launch.
    const int interrupted = static_cast<int>(ErrorKind::interrupted);
    const bool stopped = world_.maximum(interrupted_ || end.code == interrupted ? 1 : 0) > 0;
    std::string text;
    for (const std::string& each : all_gather(world_, end.code == 0 ? "" : end.text)) {
      if (text.empty()) text = each;
    }
    std::string again;
    decided(world_, [&] {
      directory_->reload();
      if (stopped) {
        throw Error(ErrorKind::interrupted, "interrupted: finished cases are kept; " + how_to_go_on());
      }
      if (text.empty()) return;
      const std::vector<Row>& rows = directory_->rows();
      const bool hung = rows.size() > finished && rows.back().at("status") == Value(std::string(name(Status::timeout)));
      if (!hung) throw failure(fmt::format("launch #{} {}", launch, text), "", how_to_go_on());
      again = "again";
    });
    return world_.broadcast(again).empty();
  }

  // Of all cases so far; a resumed run has those of earlier processes.
  [[nodiscard]] std::vector<Row> fits() const {
    std::vector<Row> rows;
    if (!bench_.series) return rows;
    for (const CostSeries& series : bench_.series(directory_ ? directory_->rows() : rows_)) {
      for (Row& row : fit_rows(series, fits_of(series))) rows.push_back(std::move(row));
    }
    return rows;
  }

  // Of all samples so far, whichever process measured them.
  [[nodiscard]] std::vector<Row> choices() const {
    if (!bench_.sweep) return {};
    if (!directory_) return choice_rows(*bench_.sweep, rows_, samples_);
    const LoadedRun run = LoadedRun::read(directory_->path(), {"samples"});
    return choice_rows(*bench_.sweep, run.rows("summary"), run.rows("samples"));
  }

  // Of all cases so far, whichever process measured them.
  [[nodiscard]] std::vector<Row> over_time() const {
    if (!directory_) return series_;
    const LoadedRun run = LoadedRun::read(directory_->path(), {"series"});
    std::vector<Row> rows;
    for (const Row& loaded : run.rows("series")) {
      Row& row = rows.emplace_back(series_schema());  // the loaded one's goes with the run
      for (const Column& column : series_schema().columns) row.set(column.name, loaded.at(column.name));
    }
    return rows;
  }

  void write_derived() {
    if (options_.launch_index || (!bench_.series && !bench_.sweep)) return;
    decided(world_, [&] {
      if (directory_ && bench_.series) directory_->write_table(fits_schema(), fits());
      if (directory_ && bench_.sweep) directory_->write_table(choices_schema(), choices());
    });
  }

  // `whole`: the run came to its end. Before, what all cases together say is neither told nor written.
  void report(bool whole) {
    if (options_.launch_index || !world_.decides() || !tells_rows_) return;
    if (directory_) rows_ = directory_->rows();
    if (options_.format != Format::text) {
      if (options_.fit) {
        print_rows(options_.format, fits_schema(), fits());
      } else if (bench_.over_time) {
        print_rows(options_.format, series_schema(), over_time());
      } else {
        print_rows(options_.format, schema_, rows_);
      }
      return;
    }
    print_out(bench_.table ? bench_.table(rows_) : table_text(rows_));
    if (const std::string text = exposed_text(rows_); !text.empty()) print_out("\n" + text);
    if (whole) {
      if (bench_.series) print_out("\n" + cost_table(fits(), directory_.has_value()));
      if (bench_.sweep) print_choices();
      if (options_.launches > 1) print_out("\n" + launches_text(launch_rows(rows_)));
    } else if (bench_.series || bench_.sweep || options_.launches > 1) {
      print_out(fmt::format("\nThe run did not come to its end, so nothing is {} yet.\n",
                            bench_.series  ? "fitted"
                            : bench_.sweep ? "recommended"
                                           : "said of its launches"));
    }
    if (directory_ && !options_.scratch) print_out("\nResults: " + directory_->path().string() + "\n");
  }

  void print_choices() const {
    const std::vector<Row> rows = choices();
    if (const std::string text = choices_text(rows); !text.empty()) print_out("\n" + text);
    if (bench_.conclusion) print_out(bench_.conclusion(rows));
  }

  [[nodiscard]] std::string how_to_go_on() const {
    if (options_.out.empty() || options_.scratch) return "with --out DIR what is finished would be kept";
    if (options_.launch_index) return "its parent goes on";
    std::vector<std::string> words = options_.command_line;
    if (!options_.resume) words.emplace_back("--resume");
    return (world_.size() > 1 ? "continue, under " + launcher_ + " as before, with: " : "continue with: ") +
           shell_line(words);
  }

  const Bench& bench_;
  const Options& options_;
  const std::atomic<bool>& interrupted_;
  LastResort& last_resort_;
  World& world_;
  std::string launcher_;
  std::int64_t parent_;
  std::vector<std::vector<Fact>> processes_;
  std::unique_ptr<Backend> backend_;
  Description description_;
  Schema schema_;
  std::vector<CaseSpec> cases_;
  std::optional<RunDirectory> directory_;  // on process 0
  std::vector<Row> rows_;                  // on process 0
  std::vector<Row> samples_;               // likewise, of a sweep without a run directory
  std::vector<Row> series_;                // likewise, of what happened over time
  bool tells_rows_ = true;                 // else Google Benchmark does
  UnderWay under_way_;
};

// How long a run that broke may take to release what it has: communicators and memory of a large job take seconds.
Seconds release_time(Seconds deadline) { return std::clamp(deadline, Seconds(5), Seconds(30)); }

// Through which fresh processes hand on their rows where nobody asked for a run directory.
class ScratchDirectory {
 public:
  explicit ScratchDirectory(Options& options) {
    std::string name = (std::filesystem::temp_directory_path() / "overlapbench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw failure("no scratch directory can be made", std::strerror(errno), "set TMPDIR, or add --out DIR");
    }
    path_ = name;
    options.out = (path_ / "run").string();
    options.scratch = options.allow_debug = true;
    for (const char* word : {"--out", options.out.c_str(), "--allow-debug"}) options.command_line.emplace_back(word);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

 private:
  std::filesystem::path path_;
};

// An error that all processes have is told by process 0, or by each where process 0 does not answer; one that only this
// process has ends the others too.
int run_session(const Bench& bench, const Options& options, const BackendRegistry& backends) {
  const std::string program = "overlap-" + bench.name + ": ";
  LastResort last_resort(release_time(options.measure.deadline),
                         [&](const std::string& text) { end_process(program + text); });
  Processes processes = meet(
      options, [&](const std::string& text) { print_message(program + text); },
      [&](const std::string& reason) { last_resort.expect_end(reason); });
  World& world = *processes.world;
  try {
    return Session(bench, options, backends, processes, last_resort).run();
  } catch (const SharedError& error) {
    constexpr Seconds patience(2);
    if (world.decides() || !world.known_to_process_0(patience)) throw;
    return error.exit_code();
  } catch (const std::exception& error) {
    world.abort(fmt::format("process {} ended: {}", world.process(), error.what()));
    throw;
  }
}

}  // namespace

int run_bench(const Bench& bench, int argc, char** argv) { return run_bench(bench, argc, argv, known_backends()); }

int run_bench(const Bench& bench, int argc, char** argv, const BackendRegistry& backends) {
  return guarded("overlap-" + bench.name, [&] {
    std::optional<Options> options = parse_options(bench, argc, argv);
    if (!options) return 0;
    const bool starts_others = bench.fresh_processes && bench.fresh_processes(options->axes) && !options->launch_index;
    if (!starts_others || !options->out.empty()) return run_session(bench, *options, backends);
    const ScratchDirectory scratch(*options);
    return run_session(bench, *options, backends);
  });
}

}  // namespace ovl
