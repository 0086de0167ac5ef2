// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cuda.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "backend/cuda/communicator.hpp"
#include "backend/cuda/device.hpp"
#include "backend/cuda/proxy.hpp"
#include "backend/cuda/session.hpp"
#include "base/error.hpp"

namespace ovl::cuda {
namespace {

std::string text(int n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

}  // namespace

std::string blocking_reason(const char* setting) {
  if (setting == nullptr || *setting == '\0' || std::string_view(setting) == "0") return {};
  return fmt::format(
      "CUDA_LAUNCH_BLOCKING={} makes every launch wait for its kernel: lanes could not overlap, and behind a closed "
      "gate "
      "a launch would wait for ever; unset CUDA_LAUNCH_BLOCKING",
      setting);
}

std::string unusable_reason() {
  const std::string reason = blocking_reason(std::getenv("CUDA_LAUNCH_BLOCKING"));
  return reason.empty() ? no_device_reason() : reason;
}

int ranks_of_a_gpu(const char* setting, int version) {
  constexpr int v2_30 = NCCL_VERSION(2, 30, 0);
  return version >= v2_30 && setting != nullptr && std::string_view(setting) == "1" ? 2 : 1;
}

int ranks_of_a_gpu() { return ranks_of_a_gpu(std::getenv("NCCL_MULTI_RANK_GPU_ENABLE"), nccl_version()); }

std::string sharing_reason() {
  return ranks_of_a_gpu() == 1 ? "NCCL refuses two ranks on one GPU" : "NCCL takes no more than two ranks on one GPU";
}

Placing place_ranks(int asked, int devices, int process, int processes, int local_process, int local_processes,
                    int ranks_of_gpu) {
  if (asked < 0) throw usage_error("ranks " + std::to_string(asked), "a rank needs a GPU", "type 1 or more");
  Placing placing;
  if (processes == 1) {
    const int ranks = asked == 0 ? devices : asked;
    if (ranks > devices * ranks_of_gpu) {
      throw impossible_error(text(ranks, "rank") + " on " + text(devices, "GPU"), sharing_reason(),
                             "type --ranks " + std::to_string(devices * ranks_of_gpu) + " or less, or --backend host");
    }
    placing.first = Rank(0);
    for (int r = 0; r < ranks; ++r) placing.devices.push_back(r % devices);
    return placing;
  }
  if (asked != 0 && asked != processes) {
    throw usage_error("--ranks " + std::to_string(asked) + " in a job of " + std::to_string(processes) + " processes",
                      "each process has one rank", "leave --ranks out or start that many processes");
  }
  placing.first = Rank(process);
  // One visible device may well be another one in each process, as srun --gpus-per-task=1 has it; the session compares.
  if (devices == 1) {
    placing.devices = {0};
    return placing;
  }
  if (local_processes > devices * ranks_of_gpu) {
    throw impossible_error(
        std::to_string(local_processes) + " processes" + " on a machine with " + text(devices, "visible GPU"),
        "each process needs a GPU of its own: " + sharing_reason(),
        "start fewer processes on it, or make more GPUs visible with CUDA_VISIBLE_DEVICES");
  }
  placing.devices = {local_process % devices};
  return placing;
}

std::unique_ptr<Backend> open_cuda(World& world, const SessionOptions& options) {
  Placing placing;
  together(world, [&] {
    if (!options.cores.empty()) {
      throw usage_error("--cores with the cuda backend", "its lanes are streams of a GPU, not threads on cores",
                        "leave --cores out, or type --backend host");
    }
    if (const std::string reason = unusable_reason(); !reason.empty()) {
      throw impossible_error("no GPU can be used", reason, "type --backend host");
    }
    static_cast<void>(parse_proxy(options.transport));  // a rate that is none is told before a device is opened
    placing = place_ranks(options.ranks, device_count(), world.process(), world.size(), world.local_process(),
                          world.local_size(), ranks_of_a_gpu());
  });
  const int ranks = world.size() == 1 ? static_cast<int>(placing.devices.size()) : world.size();
  return std::make_unique<Session>(world, placing, ranks, options.transport);
}

}  // namespace ovl::cuda
