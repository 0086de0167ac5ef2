// SPDX-License-Identifier: Apache-2.0
#include "results/provenance.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "base/error.hpp"
#include "base/random.hpp"
#include "results/build_info.hpp"

namespace ovl {
namespace {

using nlohmann::json;

// ---- files of the system -------------------------------------------------------------------------------------------

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

json known(std::string_view text) { return text.empty() ? json() : json(std::string(text)); }

json line_of(const std::string& path) { return known(trimmed(text_of(path))); }

// The first "name : value" line of /proc files; empty when there is none.
std::string_view field(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos && trimmed(line.substr(0, colon)) == name)
      return trimmed(line.substr(colon + 1));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return {};
}

// x86 names its model; Arm says only who made it and which part it is.
json cpu_model() {
  const std::string info = text_of("/proc/cpuinfo");
  for (const std::string_view name : {"model name", "Model", "cpu"}) {
    if (const std::string_view model = field(info, name); !model.empty()) return model;
  }
  const std::string_view part = field(info, "CPU part");
  if (part.empty()) return {};
  return fmt::format("implementer {} part {}", field(info, "CPU implementer"), part);
}

// {"L1 Data": "48K", "L3 Unified": "16384K"}, of the first CPU.
json caches() {
  json all = json::object();
  for (int index = 0;; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    const std::string level = text_of(folder + "level");
    if (level.empty()) return all.empty() ? json() : all;
    all[fmt::format("L{} {}", trimmed(level), trimmed(text_of(folder + "type")))] = line_of(folder + "size");
  }
}

json memory_bytes() {
  const std::string info = text_of("/proc/meminfo");
  const std::string_view total = field(info, "MemTotal");  // "25165824 kB"
  std::int64_t kibibytes = 0;
  const auto [rest, ec] = std::from_chars(total.data(), total.data() + total.size(), kibibytes);
  return ec == std::errc{} ? json(kibibytes * 1024) : json();
}

json hostname() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? known(name.data()) : json();
}

json kernel() {
  utsname system{};
  return ::uname(&system) == 0 ? json(fmt::format("{} {} {}", system.sysname, system.release, system.machine)) : json();
}

std::string date_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

// The variables with one of these prefixes, and no other: an environment may hold secrets.
json environment(std::initializer_list<std::string_view> prefixes) {
  json variables = json::object();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const auto begins = [&](std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; };
    if (std::none_of(prefixes.begin(), prefixes.end(), begins)) continue;
    variables[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  return variables;
}

// ---- what we were told ---------------------------------------------------------------------------------------------

json object_of(const std::vector<Fact>& facts) {
  json object = json::object();
  for (const Fact& fact : facts) object[fact.name] = fact.value;
  return object;
}

json processes_of(const std::vector<std::vector<Fact>>& processes) {
  json all = json::array();
  for (const std::vector<Fact>& process : processes) all.push_back(object_of(process));
  return all;
}

std::string_view type_name(ColumnType type) {
  switch (type) {
    case ColumnType::text: return "text";
    case ColumnType::integer: return "integer";
    case ColumnType::real: return "real";
  }
  return {};
}

json columns_of(const Schema& schema) {
  json columns = json::array();
  for (const Column& column : schema.columns) {
    columns.push_back({{"name", column.name},
                       {"type", type_name(column.type)},
                       {"unit", column.unit},
                       {"description", column.description}});
  }
  return columns;
}

json build() {
  const BuildInfo& info = build_info();
  return {{"version", info.version},       {"git_revision", info.git_revision}, {"git_state", info.git_state},
          {"build_type", info.build_type}, {"compiler", info.compiler},         {"flags", trimmed(info.flags)},
          {"sanitizers", info.sanitizers}, {"release", release_build()}};
}

json machine() {
  return {{"hostname", hostname()},
          {"cpu", cpu_model()},
          {"logical_cpus", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"allowed_cpus", known(field(text_of("/proc/self/status"), "Cpus_allowed_list"))},
          {"caches", caches()},
          {"kernel", kernel()}};
}

}  // namespace

json collect_provenance(const ProvenanceInput& input) {
  json tables = json::object();
  json schemas = json::object();
  for (const Schema& schema : input.tables) {
    const json columns = columns_of(schema);
    tables[schema.table] = {{"version", schema.version}, {"columns", columns}};
    schemas[schema.table] = fmt::format("version {}, {:016x}", schema.version, hash64(columns.dump()));
  }
  const json identity{
      {"bench", input.bench},
      {"seed", input.seed},
      {"settings", object_of(input.settings)},
      {"build", build()},
      {"machine", machine()},
      {"backend",
       {{"name", input.backend.backend}, {"device", input.backend.device}, {"facts", object_of(input.backend.facts)}}},
      {"environment", environment({"NCCL_", "CUDA_", "NVIDIA_TF32_", "OMP_", "OPENBLAS_", "MKL_", "GOTO_", "UCX_"})},
      {"schemas", schemas}};
  // Launchers set theirs anew for every job and rank, so they are recorded and not compared; of Open MPI's what users
  // set, since its daemons' own name folders and a key of the job.
  const json run{
      {"date", date_utc()},
      {"pid", ::getpid()},
      {"command_line", input.command_line},
      {"memory", memory_bytes()},
      {"governor", line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")},
      {"launcher", known(input.launcher)},
      {"backend", object_of(input.backend.at_open)},
      {"processes", processes_of(input.processes)},
      {"environment", environment({"OMPI_COMM_WORLD_", "OMPI_MCA_btl", "OMPI_MCA_coll", "OMPI_MCA_mtl", "OMPI_MCA_pml",
                                   "MPICH_", "MPIR_CVAR_", "PMI_RANK", "PMI_SIZE", "SLURM_", "TORCHELASTIC_"})}};
  return {{"identity", identity}, {"run", run}, {"tables", tables}};
}

std::string shared_identity(const json& provenance) {
  json shared = provenance.at("identity");
  shared.erase("machine");
  // Launchers give each process the device that it shall see.
  shared["environment"].erase("CUDA_VISIBLE_DEVICES");
  std::string text;
  const json flat = shared.flatten();
  for (const auto& [pointer, value] : flat.items()) text += fmt::format("{} = {}\n", pointer.substr(1), value.dump());
  return text;
}

}  // namespace ovl
