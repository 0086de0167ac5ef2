// SPDX-License-Identifier: Apache-2.0
//
// Who slows whom, by how much, and up to where does overlap still pay?
//
// Varies: what is slowed (the victim), what runs beside it (the aggressor) and how much of it, where both run, channels
// and SMs. Held: the covering side begins before its victim and ends after it, or the round is measured again; each
// setting has baselines of its own, in the same rounds. What would prove the harness wrong: an occupied core beside a
// compute-bound GEMM that slows it though it is another core, or one that shares its core and does not.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "app/bench.hpp"
#include "app/contention_report.hpp"
#include "base/error.hpp"
#include "measure/contention.hpp"
#include "schedule/contention.hpp"

namespace {

using namespace ovl;

// What a user typed for one case, as typed: names and key are made of it.
struct Asked {
  std::string victim, aggressor, placement, channels, workers, sm_target, dtype, ranks, waiting, buffers, connections;
};

// A question about contention, and the lists that answer it where the user gives none: on cores, then on a GPU.
struct Study {
  std::string_view name;
  struct Lists {
    std::string_view victim, aggressor, placement, channels, sm_target;
  };
  Lists host, device;
};

constexpr Study studies[] = {
    {"matrix",
     {"gemm:512x512x512,gemm:8x2048x2048,elementwise:64MiB,all_reduce:16MiB",
      "occupy:1,stream:max@64MiB,copy:64MiB,all_reduce:16MiB", "partitioned", "0", "0"},
     {"gemm:8192x8192x8192,gemm:16x16384x16384,elementwise:1GiB,all_reduce:256MiB",
      "occupy:16,stream:max@1GiB,copy:1GiB,all_reduce:256MiB", "concurrent", "16", "0"}},
    {"load_curve",
     {"elementwise:64MiB",
      "stream:1GB/s@64MiB,stream:2GB/s@64MiB,stream:4GB/s@64MiB,stream:8GB/s@64MiB,stream:max@64MiB", "partitioned",
      "0", "0"},
     {"elementwise:1GiB",
      "stream:100GB/s@1GiB,stream:200GB/s@1GiB,stream:400GB/s@1GiB,stream:800GB/s@1GiB,stream:max@1GiB", "concurrent",
      "0", "0"}},
    {"placement",
     {"gemm:512x512x512", "occupy:1,all_reduce:16MiB", "partitioned,shared_core,smt_siblings", "0", "0"},
     {"gemm:8192x8192x8192", "all_reduce:256MiB", "concurrent,priority_comm,priority_compute,partitioned", "16", "0"}},
    {"sm_budget",
     {"gemm:512x512x512", "all_reduce:16MiB", "concurrent", "1,2,4", "0"},
     {"gemm:8192x8192x8192", "all_reduce:256MiB", "concurrent", "2,4,8,16,32", "0,96,112,120,128"}}};

const Study& study_of(const std::string& text) {
  std::vector<std::string> known;
  for (const Study& study : studies) {
    if (study.name == text) return study;
    known.emplace_back(study.name);
  }
  throw unknown_value("study", text, known);
}

const std::string of_the_study = "default";

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> words;
  for (;;) {
    const std::size_t comma = list.find(',');
    words.emplace_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return words;
    list.remove_prefix(comma + 1);
  }
}

// What the user typed, or what the study takes.
std::vector<std::string> values(const AxisValues& axes, const std::string& axis, std::string_view usual) {
  const std::vector<std::string>& typed = axes[axis];
  return typed == std::vector{of_the_study} ? split(usual) : typed;
}

std::vector<Asked> product(const AxisValues& axes, const Study& study, const CaseContext& context) {
  const bool device = context.backend.backend == "cuda";
  const Study::Lists& usual = device ? study.device : study.host;
  std::vector<Asked> all{{}};
  const auto multiply = [&](const std::vector<std::string>& list, std::string Asked::*axis) {
    all = multiplied(all, list, axis);
  };
  multiply(values(axes, "placement", usual.placement), &Asked::placement);
  multiply(axes["dtype"], &Asked::dtype);
  multiply(axes["ranks"], &Asked::ranks);
  multiply(axes["waiting"], &Asked::waiting);
  multiply(axes["buffers"], &Asked::buffers);
  multiply(values(axes, "workers", device ? "16" : "1"), &Asked::workers);
  multiply(values(axes, "sm_target", usual.sm_target), &Asked::sm_target);
  multiply(values(axes, "victim", usual.victim), &Asked::victim);
  multiply(values(axes, "channels", usual.channels), &Asked::channels);
  multiply(values(axes, "aggressor", usual.aggressor), &Asked::aggressor);
  multiply(axes["connections"], &Asked::connections);
  return all;
}

int parse_units(const std::string& text, std::string_view what, int least) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least) {
    throw usage_error(fmt::format("{} \"{}\" is not a number of SMs or cores", what, text),
                      fmt::format("it is {} or more", least), fmt::format("type for example --{} 8", what));
  }
  return value;
}

// Hardware queues between host and device. CUDA reads their number once in a process.
constexpr const char* connections_variable = "CUDA_DEVICE_MAX_CONNECTIONS";

// The environment that a case is to be measured in; empty: this one.
std::string connections_setting(const std::string& asked, const Description& backend) {
  if (asked == of_the_study) return {};
  constexpr std::int64_t most = 32;
  const std::int64_t connections = parse_count("connections", asked, most);
  if (backend.backend != "cuda") {
    throw usage_error(fmt::format("connections {} on the {} backend", asked, backend.backend),
                      "they are hardware queues between the host and a CUDA device",
                      "leave --connections out, or type --backend cuda");
  }
  return fmt::format("{}={}", connections_variable, connections);
}

// What this process was started with; empty: not set, or of no meaning here.
Value connections_of_this_process(const Description& backend) {
  const char* value = backend.backend == "cuda" ? std::getenv(connections_variable) : nullptr;
  std::int64_t connections = 0;
  const std::string_view text = value == nullptr ? "" : value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), connections);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return {};
  return connections;
}

CaseSpec make_case(const Asked& asked, const std::string& study, const CaseContext& context) {
  const Load victim = parse_load(asked.victim);
  const Load aggressor = parse_load(asked.aggressor);
  if (only_holds(victim)) {
    throw usage_error(fmt::format("victim \"{}\" cannot be slowed", asked.victim),
                      "it holds its SMs or cores for a given time and does no work",
                      "type for example --victim gemm:512x512x512");
  }
  const bool collective = victim.kind == LoadKind::collective || aggressor.kind == LoadKind::collective;
  // A collective as the victim is communication; any other is compute, so that where both run is the placement's.
  const Role role = victim.kind == LoadKind::collective ? Role::communication : Role::compute;
  ContentionSpec contention;
  contention.ranks = asked.ranks != "default" ? std::stoi(asked.ranks) : collective ? context.ranks : 1;
  contention.compute = role == Role::compute ? victim : aggressor;
  contention.comm = role == Role::compute ? aggressor : victim;
  contention.dtype = parse_enum<DType>(asked.dtype);
  contention.sm_target = parse_units(asked.sm_target, "sm_target", 0);
  contention.transport = context.transport;
  contention.channels = parse_channels(asked.channels);
  contention.workers = parse_units(asked.workers, "workers", 1);
  contention.waiting = parse_enum<Waiting>(asked.waiting);
  contention.memory = parse_enum<Memory>(asked.buffers);

  CaseSpec spec;
  spec.name = fmt::format("contention/{}/{}/{}/{}/c{}/w{}/sm{}/{}/r{}/{}/{}/q{}", study, asked.victim, asked.aggressor,
                          asked.placement, asked.channels, asked.workers, asked.sm_target, asked.dtype,
                          contention.ranks, asked.waiting, asked.buffers, asked.connections);
  spec.key = fmt::format(
      "contention study={} victim={} aggressor={} placement={} channels={} workers={} sm_target={} dtype={} ranks={} "
      "waiting={} buffers={} connections={} transport={}",
      study, asked.victim, asked.aggressor, asked.placement, asked.channels, asked.workers, asked.sm_target,
      asked.dtype, contention.ranks, asked.waiting, asked.buffers, asked.connections, context.transport);
  spec.environment = connections_setting(asked.connections, context.backend);
  spec.placement_name = asked.placement;
  spec.placement = parse_unordered(asked.placement, "here one side always begins before the other");
  spec.build = [contention](const Tuning& tuning) {
    ContentionSpec tuned = contention;
    tuned.compute_repeat = tuning.gemm_repeat;
    tuned.comm_repeat = tuning.comm_repeat;
    return contention_program(tuned);
  };
  spec.asked = {{"study", study},
                {"victim", asked.victim},
                {"aggressor", asked.aggressor},
                {"dtype", asked.dtype},
                {"workers", std::int64_t{contention.workers}},
                {"sm_target", std::int64_t{contention.sm_target}},
                {"device_connections", connections_of_this_process(context.backend)}};
  if (aggressor.kind == LoadKind::stream) spec.asked.emplace_back("units_held", std::int64_t{contention.workers});
  if (only_holds(aggressor)) spec.asked.emplace_back("units_held", std::int64_t{aggressor.units});
  // On the host a side runs on the cores of its lane, however many the others are.
  const int units = context.backend.backend == "host" ? 0 : context.backend.units;
  ask_who_slows_whom(spec, {.contention = contention, .victim = role, .units = units});
  return spec;
}

std::vector<Column> columns() {
  std::vector<Column> all{
      {"study", ColumnType::text, "", "matrix, load_curve, placement or sm_budget"},
      {"victim", ColumnType::text, "", "what is slowed, as asked for"},
      {"aggressor", ColumnType::text, "", "what runs beside it, as asked for"},
      {"dtype", ColumnType::text, "", "of GEMMs and collectives"},
      {"workers", ColumnType::integer, "1", "SMs or cores of a stream"},
      {"sm_target", ColumnType::integer, "1", "SMs that a GEMM may count on; 0: all"},
      {"device_connections", ColumnType::integer, "1",
       "CUDA_DEVICE_MAX_CONNECTIONS that the process ran with; empty: not set (8), or no CUDA device"},
      {"units_held", ColumnType::integer, "1", "SMs or cores that an occupier or a stream asks to hold, on each rank"}};
  for (Column& column : contention_columns()) all.push_back(std::move(column));
  return all;
}

const Bench bench{
    .name = "contention",
    .question = "Who slows whom, by how much, and up to where does overlap still pay?",
    .axes = {{"study",
              "what the lists are taken from that are not given: matrix (who slows whom), load_curve (against "
              "intensity), placement (where both run), sm_budget (channels and SMs)",
              "matrix"},
             {"victim", "loads to be slowed: " + load_examples() + " (but occupy)", of_the_study},
             {"aggressor", "loads beside it: the same, and occupy:1", of_the_study},
             placement_axis(of_the_study),
             {"channels", "channels (host) or CTAs (cuda) of a communicator; 0: its own choice", of_the_study},
             {"workers", "SMs or cores of a stream", of_the_study},
             {"sm_target", "SMs that a GEMM may count on; 0: all", of_the_study},
             dtype_axis("f32"),
             ranks_axis(),
             waiting_axis(),
             buffers_axis(),
             {"connections",
              "CUDA_DEVICE_MAX_CONNECTIONS, 1 to 32: a fresh process for each, for example 1,8,32; default: as it is",
              of_the_study}},
    .columns = columns(),
    .cases =
        [](const AxisValues& axes, const CaseContext& context) {
          std::vector<CaseSpec> cases;
          for (const std::string& text : axes["study"]) {
            const Study& study = study_of(text);
            for (const Asked& asked : product(axes, study, context)) cases.push_back(make_case(asked, text, context));
          }
          return cases;
        },
    .table = contention_table,
    .fresh_processes =
        [](const AxisValues& axes) {
          const std::vector<std::string>& asked = axes["connections"];
          return std::any_of(asked.begin(), asked.end(), [](const std::string& c) { return c != of_the_study; });
        }};

}  // namespace

int main(int argc, char** argv) { return ovl::run_bench(bench, argc, argv); }
