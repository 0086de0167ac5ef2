// SPDX-License-Identifier: Apache-2.0
#include "backend/host/host.hpp"

#include <algorithm>
#include <set>

#include "backend/host/blas.hpp"
#include "backend/host/session.hpp"
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

}  // namespace

std::unique_ptr<Backend> open_host(World& world, const SessionOptions& options) {
  if (world.size() > 1) {
    throw impossible_error("the shm transport cannot span " + std::to_string(world.size()) + " processes",
                           "its ranks are threads of one process", "start one process");
  }
  if (options.blas_threads < 1) {
    throw usage_error("blas threads " + std::to_string(options.blas_threads), "a GEMM needs a thread",
                      "type 1 or more");
  }
  std::vector<int> cores = chosen_cores(options.cores);
  const int ranks = options.ranks == 0 ? fitting_ranks(cores.size()) : options.ranks;
  auto session = std::make_unique<host::Session>(std::move(cores), ranks);
  const int most = session->describe().most_ranks;
  if (ranks < 1 || ranks > most) {
    throw usage_error("ranks " + std::to_string(ranks), "the host backend places 1 to " + std::to_string(most),
                      "type a number in this range");
  }
  host::set_blas_threads(options.blas_threads);
  return session;
}

BackendEntry host_entry() {
  return {"host", 1, [] { return std::string(); }, open_host};
}

}  // namespace ovl
