// SPDX-License-Identifier: Apache-2.0
#include "backend/host/host.hpp"

#include <algorithm>
#include <set>

#include "backend/host/blas.hpp"
#include "backend/host/session.hpp"
#include "backend/launcher_environment.hpp"
#include "base/error.hpp"

namespace ovl {
namespace {

std::string listed(const std::vector<int>& cores) {
  std::string text;
  for (const int core : cores) text += (text.empty() ? "" : ", ") + std::to_string(core);
  return text;
}

std::vector<int> chosen_cores(const std::vector<int>& wanted) {
  const host::Topology topology;
  std::vector<int> free = topology.cores();
  if (wanted.empty()) return free;
  for (const int core : wanted) {
    if (!topology.allowed(core)) {
      throw usage_error("core " + std::to_string(core) + " cannot be used", "this process may run on " + listed(free),
                        "choose among these");
    }
  }
  if (std::set<int>(wanted.begin(), wanted.end()).size() != wanted.size()) {
    throw usage_error("cores " + listed(wanted), "one is named twice", "name each core once");
  }
  return wanted;
}

// Two ranks make a collective; more where each still has a core for compute and one for communication.
int fitting_ranks(std::size_t cores) { return std::clamp(static_cast<int>(cores) / 2, 2, 8); }

// What to open, checked on this process; all of it may fail on one alone.
struct Wanted {
  std::vector<int> cores;
  std::string library;  // empty: none, for shm
  std::function<MessagePassing&()> initialise;
};

std::string library_for(const World& world, const std::string& transport) {
  if (transport == "shm") return {};
  if (!transport.empty()) return message_library(read_environment(), transport);
  return world.size() > 1 ? launched_library(read_environment()) : "";
}

Wanted checked(const World& world, const SessionOptions& options, const LoadMessagePassing& load) {
  const std::vector<std::string> transports{"shm", "mpi", std::string("mpi-") + open_mpi_library,
                                            std::string("mpi-") + mpich_library};
  if (!options.transport.empty() &&
      std::find(transports.begin(), transports.end(), options.transport) == transports.end()) {
    throw unknown_value("transport", options.transport, transports);
  }
  if (options.blas_threads < 1) {
    throw usage_error("blas threads " + std::to_string(options.blas_threads), "a GEMM needs a thread",
                      "type 1 or more");
  }
  Wanted wanted{chosen_cores(options.cores), library_for(world, options.transport), {}};
  if (!wanted.library.empty()) {
    if (options.ranks != 0 && options.ranks != world.size()) {
      throw usage_error("--ranks " + std::to_string(options.ranks) + " in " + std::to_string(world.size()) +
                            (world.size() == 1 ? " process" : " processes"),
                        "over MPI each process is a rank", "leave --ranks out, or start as many processes");
    }
    wanted.initialise = load(wanted.library);
  } else if (world.size() > 1) {
    throw impossible_error("the shm transport cannot span " + std::to_string(world.size()) + " processes",
                           "its ranks are threads of one process",
                           "start one process; or with mpirun and --transport mpi, where processes are ranks");
  }
  return wanted;
}

std::unique_ptr<host::Session> open_shm(const SessionOptions& options, std::vector<int> cores) {
  const int ranks = options.ranks == 0 ? fitting_ranks(cores.size()) : options.ranks;
  auto session = std::make_unique<host::Session>(std::move(cores), ranks);
  const int most = session->describe().most_ranks;
  if (ranks < 1 || ranks > most) {
    throw usage_error("ranks " + std::to_string(ranks), "the host backend places 1 to " + std::to_string(most),
                      "type a number in this range");
  }
  return session;
}

std::unique_ptr<host::Session> open_mpi(World& world, const Wanted& wanted) {
  MessagePassing* messages = nullptr;
  together(world, [&] { messages = &wanted.initialise(); });
  auto neighbours = std::make_unique<host::Neighbours>(world, *messages, "mpi-" + wanted.library, wanted.cores);
  return std::make_unique<host::Session>(wanted.cores, world.size(), std::move(neighbours));
}

}  // namespace

std::unique_ptr<Backend> open_host(World& world, const SessionOptions& options, const LoadMessagePassing& load) {
  Wanted wanted;
  together(world, [&] { wanted = checked(world, options, load); });
  auto session = wanted.library.empty() ? open_shm(options, wanted.cores) : open_mpi(world, wanted);
  host::set_blas_threads(options.blas_threads);
  return session;
}

BackendEntry host_entry(LoadMessagePassing load) {
  return {"host", 1, [] { return std::string(); },
          [load = std::move(load)](World& world, const SessionOptions& options) {
            return open_host(world, options, load);
          }};
}

}  // namespace ovl
