// SPDX-License-Identifier: Apache-2.0
#include "app/selfcheck.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/backends.hpp"
#include "app/command_line.hpp"
#include "app/google_benchmark.hpp"
#include "app/options.hpp"
#include "app/report.hpp"
#include "base/error.hpp"
#include "measure/doctor.hpp"
#include "measure/selfcheck.hpp"
#include "results/table.hpp"

namespace ovl {
namespace {

constexpr std::int64_t gemm_size = 512;
constexpr const char* only_gemm_rate = "--print-gemm-rate";  // what the fresh process is asked

// The variables that make OpenBLAS choose other kernels than the CPU's best. It reads them once, when it is loaded.
const std::vector<std::string> blas_overrides{"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"};

// The GEMM rate of a fresh process without those variables; NaN when it cannot be had.
double unhindered_gemm_rate() {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return std::numeric_limits<double>::quiet_NaN();
  const pid_t child = fork();
  if (child == 0) {
    for (const std::string& variable : blas_overrides) unsetenv(variable.c_str());
    dup2(ends[1], STDOUT_FILENO);
    execl("/proc/self/exe", "overlap-selfcheck", only_gemm_rate, "--backend", "host", static_cast<char*>(nullptr));
    _exit(127);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 64> part{};
  for (ssize_t n = 0; child > 0 && (n = read(ends[0], part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  return text.empty() ? std::numeric_limits<double>::quiet_NaN() : std::strtod(text.c_str(), nullptr);
}

MachineCheck blas_check(Backend& backend) {
  return {"blas_held_back",
          "1",
          "GEMM rate without OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE / with them",
          1.1,
          4,
          "unset them: they choose slower kernels than this CPU has",
          [&backend] {
            std::string set;
            for (const std::string& variable : blas_overrides) {
              const char* value = std::getenv(variable.c_str());
              if (value != nullptr && *value != '\0') set += fmt::format(" {}={}", variable, value);
            }
            const double here = gemm_rate(backend, gemm_size);
            const std::string rate = fmt::format("{:.1f} GFLOP/s a lane", here / 1e9);
            if (set.empty()) return CheckValue{1, rate + ", neither is set"};
            const double free = unhindered_gemm_rate();
            return CheckValue{free / here, fmt::format("{},{}; {:.1f} GFLOP/s without", rate, set, free / 1e9)};
          }};
}

// Streams that are to run side by side need hardware queues of their own. CUDA reads the number once, when it is
// loaded.
MachineCheck connections_check() {
  return {
      .name = "lanes_a_connection", .unit = "1", .meaning = "two lanes / CUDA_DEVICE_MAX_CONNECTIONS", .measure = [] {
        constexpr double usual = 8;
        const char* value = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
        if (value == nullptr || *value == '\0') return CheckValue{2 / usual, "not set: 8"};
        const double connections = std::strtod(value, nullptr);
        if (!(connections >= 1)) return CheckValue{std::numeric_limits<double>::quiet_NaN(), value};
        return CheckValue{2 / connections, fmt::format("CUDA_DEVICE_MAX_CONNECTIONS={}", value)};
      }};
}

// NCCL_MIN_CTAS, NCCL_MAX_NCHANNELS and their like win over what a communicator is told.
MachineCheck ctas_check() {
  return {.name = "ctas_overridden",
          .unit = "1",
          .meaning = "NCCL variables that set CTAs or channels from outside",
          .measure = [] {
            std::string set;
            int count = 0;
            for (char** entry = environ; *entry != nullptr; ++entry) {
              const std::string_view variable(*entry);
              const std::string_view name = variable.substr(0, variable.find('='));
              if (!name.starts_with("NCCL_")) continue;
              if (name.find("CTAS") == name.npos && name.find("NCHANNELS") == name.npos) continue;
              set += fmt::format("{}{}", set.empty() ? "" : " ", variable);
              ++count;
            }
            return CheckValue{static_cast<double>(count), set.empty() ? "none is set" : set};
          }};
}

// What the kernel may do to the clock; a guest often cannot see it.
MachineCheck governor_check() {
  return {"frequency_governor",
          "1",
          "0: performance, 1: one that changes the clock with the load",
          0.5,
          2,
          "set the governor to performance (cpupower frequency-set -g performance)",
          [] {
            std::ifstream file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
            std::string governor;
            if (!(file >> governor)) return CheckValue{std::numeric_limits<double>::quiet_NaN(), "not visible here"};
            return CheckValue{governor == "performance" ? 0.0 : 1.0, governor};
          }};
}

std::string reading_text(double value, const std::string& unit) {
  if (std::isnan(value)) return "unknown";
  if (unit == "s") return format_seconds(Seconds(value));
  return fmt::format("{:.3g}{}", value, unit == "1" ? "" : " " + unit);
}

std::string blockers_text(const std::vector<Blocker>& blockers) {
  if (blockers.empty()) return "\nOverlap: nothing that was measured stands in its way\n";
  std::string text = "\nWhat stands in the way of overlap here, most important first:\n";
  for (const Blocker& b : blockers) {
    text += fmt::format("  {} is {}, more than {}: {}\n      try: {}\n", b.check, reading_text(b.value, b.unit),
                        reading_text(b.limit, b.unit), b.why, b.setting);
  }
  return text;
}

const Schema& selfcheck_schema() {
  static const Schema schema{
      "selfcheck",
      1,
      {{"check", ColumnType::text, "", "what was checked"},
       {"value", ColumnType::real, "", "in the unit of the column unit"},
       {"unit", ColumnType::text, "", "s, 1/s or 1"},
       {"trust", ColumnType::text, "", "good, care, bad or unknown"},
       {"meaning", ColumnType::text, "", "what the number is"},
       {"detail", ColumnType::text, "", "spread, or what was found"},
       {"advice", ColumnType::text, "", "what to change"},
       {"overlap_limit", ColumnType::real, "", "up to which it leaves overlap alone, where it does not"},
       {"blocks_overlap", ColumnType::text, "", "what it does to overlap; empty: nothing"},
       {"setting", ColumnType::text, "", "what to try for overlap"}}};
  return schema;
}

Row row_of(const CheckResult& r, const std::vector<Blocker>& blockers) {
  Row row(selfcheck_schema());
  row.set("check", r.name).set("value", r.value.value).set("unit", r.unit);
  row.set("trust", std::string(name(r.trust))).set("meaning", r.meaning);
  row.set("detail", r.value.detail).set("advice", r.advice);
  for (const Blocker& b : blockers) {
    if (b.check == r.name) row.set("overlap_limit", b.limit).set("blocks_overlap", b.why).set("setting", b.setting);
  }
  return row;
}

// A number that can be trusted may still say that overlap is held up.
std::string_view judgement(const CheckResult& r, const std::vector<Blocker>& blockers) {
  const bool blocks =
      std::any_of(blockers.begin(), blockers.end(), [&](const Blocker& b) { return b.check == r.name; });
  return blocks && r.trust == Trust::good ? "blocks" : name(r.trust);
}

void print_text(const Description& d, const std::vector<CheckResult>& results, const std::vector<Blocker>& blockers) {
  print_out(fmt::format("{} backend on {}\n\n", d.backend, d.device));
  for (const CheckResult& r : results) {
    print_out(fmt::format("{:<8} {:<22} {:>10}  {}\n", judgement(r, blockers), r.name,
                          reading_text(r.value.value, r.unit), r.meaning));
    if (!r.value.detail.empty()) print_out(fmt::format("{:<43} {}\n", "", r.value.detail));
  }
  const auto blocks = [&](const CheckResult& r) { return judgement(r, blockers) == "blocks"; };
  if (std::any_of(results.begin(), results.end(), blocks)) {
    print_out("blocks: no reason to doubt numbers, and in the way of overlap\n");
  }
  print_out(fmt::format("\nVerdict: {}\n", trust_verdict(results)));
  print_out(blockers_text(blockers));
}

int selfcheck_command(int argc, char** argv) {
  CLI::App app("Can the numbers of this machine be trusted, and what stands in the way of overlap?",
               "overlap-selfcheck");
  std::string backend_name = "auto";
  Format format = Format::text;
  Seconds watch(3);
  int ranks = 0;
  std::vector<int> cores;
  bool print_gemm_rate = false;
  const OptionGroup options(app, "Options");
  options.text("--backend", backend_name, "auto, host or cuda");
  options.whole("--ranks", ranks, 1, 1'000'000, "ranks of the replays [the backend's default]");
  options.value("--cores", "host: cores to check, for example 0,1 [all allowed ones]",
                [&cores](const std::string& text) { cores = parse_cores(text); });
  options.duration("--watch", watch, "time to watch the machine for states that flip [3s]");
  options.value("--format", "text, csv or json [text]",
                [&format](const std::string& text) { format = parse_enum<Format>(text); });
  OptionGroup(app, "").flag(only_gemm_rate, print_gemm_rate, "");
  app.footer(
      "Google Benchmark's --benchmark_filter, --benchmark_list_tests, --benchmark_format and --benchmark_out "
      "work on the checks.\nExit codes: 0 good or with care, 1 do not trust, 2 usage, 3 not possible here.");
  const std::optional<std::vector<std::string>> flags = parse_command_line(app, argc, argv);
  if (!flags) return 0;

  const auto world = make_solo_world();
  if (backend_name == "model") {
    throw usage_error("the self-check of the model backend says nothing", "it predicts and has no machine to trust",
                      "leave out --backend, or type host or cuda");
  }
  const auto backend = known_backends().choose(backend_name).open(*world, {.ranks = ranks, .cores = cores});
  if (print_gemm_rate) {
    print_out(fmt::format("{}\n", gemm_rate(*backend, gemm_size)));
    return 0;
  }
  SteadyClock clock;
  std::vector<MachineCheck> checks = backend_checks(*backend, clock, watch);
  if (backend->describe().backend == "host") checks.push_back(blas_check(*backend));
  checks.push_back(governor_check());
  for (MachineCheck& check : overlap_checks(*backend, clock)) checks.push_back(std::move(check));
  if (backend->describe().backend == "cuda") {
    checks.push_back(connections_check());
    checks.push_back(ctas_check());
  }

  std::vector<CheckResult> results;
  std::vector<Entry> entries;
  for (const MachineCheck& check : checks) {
    entries.push_back({"selfcheck/" + check.name, [&] {
                         results.push_back(judge_check(check, check.measure()));
                         const CheckResult& r = results.back();
                         const bool timed = r.unit == "s";
                         return EntryReport{.skipped = std::isnan(r.value.value) ? "unknown here" : "",
                                            .time = Seconds(timed ? r.value.value : 0),
                                            .counters = {{"value", r.value.value}}};
                       }});
  }
  GoogleBenchmark google(*flags);
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.push_back(entry.name);
  google.check(names);
  google.run(entries);
  if (google.lists_only()) return 0;
  if (!google.owns_output()) {
    const std::vector<Blocker> blockers = likely_blockers(results);
    std::vector<Row> rows;
    for (const CheckResult& r : results) rows.push_back(row_of(r, blockers));
    switch (format) {
      case Format::text: print_text(backend->describe(), results, blockers); break;
      case Format::csv: print_out(rows_as_csv(selfcheck_schema(), rows)); break;
      case Format::json: print_out(rows_as_json(rows)); break;
    }
  }
  google.require_written();
  const bool bad =
      std::any_of(results.begin(), results.end(), [](const CheckResult& r) { return r.trust == Trust::bad; });
  return bad ? 1 : 0;
}

}  // namespace

int run_selfcheck(int argc, char** argv) {
  return guarded("overlap-selfcheck", [&] { return selfcheck_command(argc, argv); });
}

}  // namespace ovl
