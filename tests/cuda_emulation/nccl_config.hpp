// SPDX-License-Identifier: Apache-2.0
//
// What NCCL makes of a communicator's configuration, of a call's, and of the environment; pure.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace ovl::emulation::nccl {

// A version as NCCL writes it: 2.31.2 is 23102.
constexpr int version_code(int major, int minor, int patch) { return 10000 * major + 100 * minor + patch; }

struct Settings {
  int min_ctas = 1;
  int max_ctas = 64;
  int policy = NCCL_CTA_POLICY_DEFAULT;
};

struct Resolved {
  ncclResult_t result = ncclSuccess;
  Settings settings;
  std::string why;  // where it is not a success
};

using Environment = std::function<const char*(const char* name)>;

// `config` may be nullptr. Fields that the pretended version or the caller's header does not have are ignored; the
// environment beats what is left.
Resolved resolve(const ncclConfig_t* config, int version, const Environment& environment);

// CTAs of one kernel that moves `bytes` (the whole array of the collective): one a channel, 24 channels unless the
// limits say otherwise, and fewer than the minimum where less than 32 KiB would fall to each (512 threads of 64 bytes).
int ctas_of(const Settings& settings, std::size_t bytes);
// Kernels on symmetric windows need few: 2.
int symmetric_ctas_of(const Settings& settings, std::size_t bytes);

#if NCCL_VERSION_CODE >= 23100
struct CallSettings {
  ncclResult_t result = ncclSuccess;
  Settings settings;
  cudaEvent_t all_began = nullptr;
  std::string why;
};
// One call's configuration on top of its communicator's.
CallSettings resolve(const ncclCollConfig_t* config, int version, const Settings& communicator);
#endif

// The device's name of a kernel: "ncclDevKernel_AllReduce_Sum_bf16_RING_LL".
std::string kernel_name(std::string_view operation, std::string_view element, bool symmetric);

}  // namespace ovl::emulation::nccl
