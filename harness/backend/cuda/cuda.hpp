// SPDX-License-Identifier: Apache-2.0
//
// The cuda backend's entry: what the module registers.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "backend/backend.hpp"
#include "backend/registry.hpp"
#include "backend/world.hpp"

namespace ovl::cuda {

// Empty: a device answers. Otherwise why there is none to use.
std::string unusable_reason();
// Why nothing can be measured with this value of CUDA_LAUNCH_BLOCKING (nullptr: not set); empty: it is off.
std::string blocking_reason(const char* setting);
// One process: its ranks are threads, each with a device of its own. Several processes: one rank each, on the device of
// its number within the machine. Throws Error(usage) or Error(impossible) where ranks and devices do not fit.
std::unique_ptr<Backend> open_cuda(World& world, const SessionOptions& options);

// ---- several ranks on one GPU
// ----------------------------------------------------------------------------------------

// How many ranks one GPU may have, by NCCL as loaded and NCCL_MULTI_RANK_GPU_ENABLE (nullptr: not set): two from NCCL
// 2.30 on where that says 1, which is experimental. Their transport has a name of its own, which every row has.
int ranks_of_a_gpu(const char* setting, int nccl_version);
int ranks_of_a_gpu();
inline constexpr std::string_view shared_transport = "nccl-shared-gpu";
// Why no more than that: "NCCL refuses two ranks on one GPU".
std::string sharing_reason();

// Ranks and devices of this process.
struct Placing {
  Rank first;
  std::vector<int> devices;  // by local rank, as CUDA counts them
};
// What open_cuda decides, without touching a device. Ranks share a GPU only where there are more of them than GPUs.
Placing place_ranks(int asked, int devices, int process, int processes, int local_process, int local_processes,
                    int ranks_of_gpu = 1);

}  // namespace ovl::cuda
