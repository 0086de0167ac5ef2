// SPDX-License-Identifier: Apache-2.0
#include "backend/launcher_environment.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"

namespace ovl {
namespace {

constexpr int first_port = 20000;  // Linux hands out 32768 and up, and few services live between these
constexpr int default_ports = 10000;
constexpr int last_port = 65535;

const std::string* find(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() || found->second.empty() ? nullptr : &found->second;
}

std::string text_of(const Environment& environment, const std::string& name) {
  const std::string* text = find(environment, name);
  return text == nullptr ? "" : *text;
}

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t number = 0;
  const auto [rest, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (ec != std::errc{} || rest != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

// The variable as a number from 0 up; nullopt: not set.
std::optional<int> number_of(const Environment& environment, const std::string& name) {
  const std::string* text = find(environment, name);
  if (text == nullptr) return std::nullopt;
  constexpr std::int64_t most = 1'000'000;
  const std::optional<std::int64_t> number = whole(*text);
  if (!number || *number > most) {
    throw usage_error(name + "=\"" + *text + "\" is no number of processes", "a launcher sets it to a whole number",
                      "start with torchrun, srun or mpirun, or unset it");
  }
  return static_cast<int>(*number);
}

// What a launcher calls the numbers that it gives.
struct Names {
  std::string launcher;
  std::string process;
  std::string size;
  std::string local_process;
  std::string local_size;
};

const Names torchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
const Names open_mpi{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                     "OMPI_COMM_WORLD_LOCAL_SIZE"};
const Names mpich{"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

Error incomplete(const Names& names, const std::string& set, const std::string& missing) {
  return usage_error(set + " is set and " + missing + " is not", names.launcher + " sets both",
                     "start with torchrun, srun or mpirun, or unset " + set);
}

void require_below(const std::string& name, int value, const std::string& size_name, int size) {
  if (value < size) return;
  throw usage_error(fmt::format("{}={} with {}={}", name, value, size_name, size), "processes are numbered from 0",
                    "start with torchrun, srun or mpirun, or unset both");
}

// Which process of how many: set together, or not at all.
std::optional<Launched> read_place(const Environment& environment, const Names& names) {
  const auto process = number_of(environment, names.process);
  const auto size = number_of(environment, names.size);
  if (!process && !size) return std::nullopt;
  if (!size) throw incomplete(names, names.process, names.size);
  if (!process) throw incomplete(names, names.size, names.process);
  require_below(names.process, *process, names.size, *size);
  return Launched{.launcher = names.launcher, .process = *process, .size = *size};
}

std::optional<Launched> read(const Environment& environment, const Names& names) {
  const std::optional<Launched> place = read_place(environment, names);
  if (!place) return std::nullopt;
  Launched launched = *place;
  launched.local_size = 0;
  const auto local_process = number_of(environment, names.local_process);
  const auto local_size = number_of(environment, names.local_size);
  if (local_process && !local_size && launched.size > 1) throw incomplete(names, names.local_process, names.local_size);
  if (local_size && !local_process && launched.size > 1) throw incomplete(names, names.local_size, names.local_process);
  if (local_process && local_size) {
    require_below(names.local_process, *local_process, names.local_size, *local_size);
    require_below(names.local_size, *local_size - 1, names.size, launched.size);
    launched.local_process = *local_process;
    launched.local_size = *local_size;
  }
  return launched;
}

// "4(x2),3" -> 4, 4, 3: tasks of each machine; empty: not as Slurm writes it.
std::vector<int> tasks_per_node(const std::string& text) {
  std::vector<int> tasks;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view part = std::string_view(text).substr(begin, comma - begin);
    const std::size_t bracket = part.find("(x");
    const auto count = whole(part.substr(0, bracket));
    const auto times = bracket == std::string_view::npos ? std::optional<std::int64_t>(1)
                       : part.back() == ')'              ? whole(part.substr(bracket + 2, part.size() - bracket - 3))
                                                         : std::nullopt;
    constexpr std::int64_t most = 1'000'000;
    if (!count || !times || *count > most || *times > most) return {};
    tasks.insert(tasks.end(), static_cast<std::size_t>(*times), static_cast<int>(*count));
    begin = comma + 1;
  }
  return tasks;
}

// A step of srun: not the shell of sbatch or salloc, whose steps have numbers at the end of 32 bits or none.
bool in_slurm_step(const Environment& environment) {
  const std::string* step = find(environment, "SLURM_STEP_ID");
  if (step == nullptr) step = find(environment, "SLURM_STEPID");
  constexpr std::int64_t first_special = 0xfffffff0;
  const auto number = step == nullptr ? std::nullopt : whole(*step);
  return number && *number < first_special;
}

std::optional<Launched> read_slurm(const Environment& environment) {
  if (!in_slurm_step(environment)) return std::nullopt;
  const bool in_step = find(environment, "SLURM_STEP_NUM_TASKS") != nullptr;
  const Names names{"srun", "SLURM_PROCID", in_step ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", "SLURM_LOCALID", ""};
  const std::optional<Launched> place = read_place(environment, names);
  if (!place) return std::nullopt;
  Launched launched = *place;
  launched.local_process = number_of(environment, names.local_process).value_or(0);
  const std::string* tasks = find(environment, "SLURM_STEP_TASKS_PER_NODE");
  if (tasks == nullptr) tasks = find(environment, "SLURM_TASKS_PER_NODE");
  const std::vector<int> nodes = tasks_per_node(tasks == nullptr ? "" : *tasks);
  const auto node = static_cast<std::size_t>(number_of(environment, "SLURM_NODEID").value_or(0));
  launched.local_size = node < nodes.size() ? nodes[node] : 0;
  return launched;
}

// What a launcher calls its job; empty: it does not say.
std::string job_of(const Environment& environment, const std::string& launcher) {
  if (launcher == torchrun.launcher) {
    // "none" is what torchrun calls a job that nobody named.
    const std::string id = text_of(environment, "TORCHELASTIC_RUN_ID");
    return id == "none" ? "" : id;
  }
  if (launcher == open_mpi.launcher) {
    const std::string space = text_of(environment, "PMIX_NAMESPACE");
    return space.empty() ? text_of(environment, "OMPI_MCA_ess_base_jobid") : space;
  }
  const std::string job = text_of(environment, "SLURM_JOB_ID");
  const std::string step = text_of(environment, "SLURM_STEP_ID");
  return job.empty() ? "" : job + "." + step;
}

// What the user set for all processes, as the name of a job without one: its hash, since a job is no secret.
std::string chosen_name(const Environment& environment) {
  std::string chosen = text_of(environment, "OVERLAPBENCH_TOKEN");
  if (chosen.empty()) chosen = text_of(environment, "OVERLAPBENCH_TOKEN_FILE");
  return chosen.empty() ? "" : fmt::format("token {:016x}", hash64(chosen));
}

struct Place {
  std::string host;
  int port = 0;
};

// "host:port", "[::1]:port"; `said` is how the user said it.
Place parse_place(const std::string& text, const std::string& said) {
  const std::size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    throw usage_error(said + " \"" + text + "\" has several colons", "", "write an IPv6 address in brackets");
  }
  const auto port = colon == std::string::npos ? std::nullopt : whole(std::string_view(text).substr(colon + 1));
  if (host.empty() || !port || *port < 1 || *port > last_port) {
    throw usage_error(said + " \"" + text + "\" is not host:port", "process 0 listens there, the others connect",
                      "type for example --master node01:29600");
  }
  return {host, static_cast<int>(*port)};
}

int port_of(const std::string& job) {
  return first_port + static_cast<int>(hash64(job) % static_cast<std::uint64_t>(default_ports));
}

std::optional<Place> place_of(const Environment& environment, const Launched& launched, const std::string& master) {
  if (!master.empty()) return parse_place(master, "--master");
  const std::string address = text_of(environment, "MASTER_ADDR");
  if (const std::string port = text_of(environment, "MASTER_PORT"); !address.empty() && !port.empty()) {
    const bool bare = address.find(':') != std::string::npos && address.front() != '[';  // an IPv6 address
    Place place = parse_place((bare ? "[" + address + "]" : address) + ":" + port, "MASTER_ADDR:MASTER_PORT");
    const bool taken = text_of(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True";
    if (taken) place.port += place.port < last_port ? 1 : -1;
    return place;
  }
  const int port = port_of(launched.job);
  if (launched.local_size == launched.size) return Place{"127.0.0.1", port};
  if (!address.empty()) return Place{address, port};
  if (launched.launcher == "srun") {
    std::string nodes = text_of(environment, "SLURM_STEP_NODELIST");
    if (nodes.empty()) nodes = text_of(environment, "SLURM_JOB_NODELIST");
    if (const std::string node = first_node(nodes); !node.empty()) return Place{node, port};
  }
  return std::nullopt;
}

// Two launchers that both count to the same number have counted the same processes.
void require_agreement(const std::vector<Launched>& all) {
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i].size == all.front().size && all[i].process != all.front().process) {
      throw usage_error(fmt::format("{} says that this is process {} of {}, {} says process {}", all.front().launcher,
                                    all.front().process, all.front().size, all[i].launcher, all[i].process),
                        "their variables contradict each other", "unset those of the one that did not start it");
    }
  }
}

std::string read_token_file(const std::string& path) {
  const auto complaint = [&](const std::string& why) {
    return usage_error("OVERLAPBENCH_TOKEN_FILE=" + path + " cannot be used", why,
                       "name a file with one line that only you may read (chmod 600)");
  };
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw complaint(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw complaint("it is not a file");
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) throw complaint("others may read or write it");
  std::ifstream file(path);
  std::string token;
  if (!std::getline(file, token) || token.empty()) throw complaint("its first line is empty or cannot be read");
  return token;
}

}  // namespace

Environment read_environment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals != nullptr) environment.emplace(std::string(static_cast<const char*>(*entry), equals), equals + 1);
  }
  return environment;
}

std::string job_token(const Environment& environment, const std::string& job) {
  std::string token = text_of(environment, "OVERLAPBENCH_TOKEN");
  if (const std::string path = text_of(environment, "OVERLAPBENCH_TOKEN_FILE"); token.empty() && !path.empty()) {
    token = read_token_file(path);
  }
  if (token.empty()) return job;
  if (token.size() > longest_token) {
    throw usage_error(fmt::format("the token has {} characters", token.size()),
                      fmt::format("World takes {} at most", longest_token), "use a shorter one");
  }
  return token;
}

std::string first_node(const std::string& node_list) {
  const std::size_t end = node_list.find_first_of("[,");
  if (end == std::string::npos || node_list[end] == ',') return node_list.substr(0, end);
  const std::size_t first = node_list.find_first_of("-,]", end);
  if (first == std::string::npos) return {};
  const std::size_t close = node_list.find(']', first);
  if (close == std::string::npos) return {};
  const std::size_t next = std::min(node_list.find(',', close), node_list.size());
  // Some names go on behind the brackets; a second pair of brackets has its first value too.
  const std::string rest = node_list.substr(close + 1, next - close - 1);
  return node_list.substr(0, end) + node_list.substr(end + 1, first - end - 1) +
         (rest.find('[') == std::string::npos ? rest : first_node(rest));
}

Launched launched_by(const Environment& environment, const std::string& master, std::int64_t parent) {
  std::vector<Launched> all;
  for (const Names* names : {&torchrun, &open_mpi, &mpich}) {
    if (const auto launched = read(environment, *names)) all.push_back(*launched);
  }
  const std::optional<Launched> slurm = read_slurm(environment);
  if (slurm) all.push_back(*slurm);
  if (all.empty()) {
    if (master.empty()) return {};
    throw usage_error("--master \"" + master + "\" with one process", "no launcher says that there are several",
                      "start with torchrun, srun or mpirun, or set RANK and WORLD_SIZE, or leave it out");
  }
  require_agreement(all);
  Launched launched = all.front();
  if (launched.size <= 1) return {.launcher = launched.launcher};
  // srun --mpi=pmi2 leaves to Slurm's own variables who shares a machine.
  if (launched.launcher == mpich.launcher && slurm && slurm->size == launched.size) {
    launched.local_process = slurm->local_process;
    launched.local_size = slurm->local_size;
  }
  launched.job = job_of(environment, launched.launcher);
  if (launched.job.empty() && launched.local_size == launched.size) {
    const std::string chosen = chosen_name(environment);
    launched.job = chosen.empty() ? fmt::format("child of {}", parent) : chosen;
    launched.job_guessed = chosen.empty();
  }
  const std::optional<Place> place = place_of(environment, launched, master);
  if (!place) {
    throw usage_error(
        fmt::format("{} started {} processes and nothing says where they meet", launched.launcher, launched.size),
        "process 0 listens at an address that all can reach",
        "type --master host:port with the machine of process 0 and a free port");
  }
  launched.host = place->host;
  launched.port = place->port;
  return launched;
}

}  // namespace ovl
