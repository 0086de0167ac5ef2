// SPDX-License-Identifier: Apache-2.0
#include "cuda_emulation/nccl_config.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace ovl::emulation::nccl {
namespace {

Environment environment(std::map<std::string, std::string> variables = {}) {
  return [variables = std::move(variables)](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

ncclConfig_t config(int min_ctas = NCCL_CONFIG_UNDEF_INT, int max_ctas = NCCL_CONFIG_UNDEF_INT) {
  ncclConfig_t made = NCCL_CONFIG_INITIALIZER;
  made.minCTAs = min_ctas;
  made.maxCTAs = max_ctas;
  return made;
}

TEST(NcclConfig, BothLimitsTogether) {
  const ncclConfig_t both = config(4, 4);
  const Resolved resolved = resolve(&both, 22809, environment());
  EXPECT_EQ(resolved.result, ncclSuccess);
  EXPECT_EQ(resolved.settings.min_ctas, 4);
  EXPECT_EQ(resolved.settings.max_ctas, 4);
}

TEST(NcclConfig, AMinimumAloneIsInvalidAMaximumAloneIsNot) {
  const ncclConfig_t minimum = config(4);
  const Resolved refused = resolve(&minimum, 22809, environment());
  EXPECT_EQ(refused.result, ncclInvalidArgument);
  EXPECT_EQ(refused.why, "Invalid config min/max channels attribute value 4/undefined");
  const ncclConfig_t maximum = config(NCCL_CONFIG_UNDEF_INT, 4);
  EXPECT_EQ(resolve(&maximum, 22809, environment()).result, ncclSuccess);
}

TEST(NcclConfig, RefusesZeroAndCapsAt64) {
  const ncclConfig_t none = config(0, 0);
  EXPECT_EQ(resolve(&none, 22809, environment()).result, ncclInvalidArgument);
  const ncclConfig_t many = config(100, 200);
  EXPECT_EQ(resolve(&many, 22809, environment()).settings.max_ctas, 64);
  EXPECT_EQ(resolve(&many, 22809, environment()).settings.min_ctas, 64);
}

TEST(NcclConfig, MustBeInitialized) {
  ncclConfig_t wild = config();
  wild.magic = 0;
  const Resolved refused = resolve(&wild, 22809, environment());
  EXPECT_EQ(refused.result, ncclInvalidArgument);
  EXPECT_EQ(refused.why, "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
}

TEST(NcclConfig, TheEnvironmentBeatsTheStructure) {
  const ncclConfig_t both = config(4, 4);
  const Resolved resolved =
      resolve(&both, 22809, environment({{"NCCL_MAX_CTAS", "8"}, {"NCCL_MIN_CTAS", "6"}, {"NCCL_CTA_POLICY", "2"}}));
  EXPECT_EQ(resolved.settings.max_ctas, 8);
  EXPECT_EQ(resolved.settings.min_ctas, 6);
  EXPECT_EQ(resolved.settings.policy, NCCL_CTA_POLICY_ZERO);
}

TEST(NcclConfig, ThePolicyHasNamesFrom229) {
  const Environment zero = environment({{"NCCL_CTA_POLICY", "ZERO"}});
  EXPECT_EQ(resolve(nullptr, 22902, zero).settings.policy, NCCL_CTA_POLICY_ZERO);
  EXPECT_EQ(resolve(nullptr, 22809, zero).settings.policy, NCCL_CTA_POLICY_DEFAULT);
}

TEST(NcclConfig, FieldsThatAVersionDoesNotHaveAreIgnored) {
  ncclConfig_t zero = config();
  zero.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  EXPECT_EQ(resolve(&zero, 22809, environment()).settings.policy, NCCL_CTA_POLICY_ZERO);
  EXPECT_EQ(resolve(&zero, 22605, environment()).settings.policy, NCCL_CTA_POLICY_DEFAULT);  // an older library
  zero.version = 22605;
  EXPECT_EQ(resolve(&zero, 22809, environment()).settings.policy, NCCL_CTA_POLICY_DEFAULT);  // an older caller
}

TEST(NcclConfig, ALargeOperationTakesAllChannelsASmallOneFewer) {
  constexpr std::size_t large = std::size_t{1} << 30;
  EXPECT_EQ(ctas_of({}, large), 24);
  EXPECT_EQ(ctas_of({.min_ctas = 32}, large), 32);
  EXPECT_EQ(ctas_of({.max_ctas = 8}, large), 8);
  EXPECT_EQ(ctas_of({}, 3 * 32768), 3);
  EXPECT_EQ(ctas_of({}, 3 * 32768 - 1), 2);
  EXPECT_EQ(ctas_of({.min_ctas = 16, .max_ctas = 16}, 4), 1);  // the minimum does not hold for small ones
  EXPECT_EQ(symmetric_ctas_of({}, large), 2);
  EXPECT_EQ(symmetric_ctas_of({.max_ctas = 1}, large), 1);
}

TEST(NcclConfig, KernelsAreNamedAsOnADevice) {
  EXPECT_EQ(kernel_name("AllReduce", "bf16", false), "ncclDevKernel_AllReduce_Sum_bf16_RING_LL");
  EXPECT_EQ(kernel_name("AllGather", "f32", false), "ncclDevKernel_AllGather_RING_LL");
  EXPECT_EQ(kernel_name("SendRecv", "f32", false), "ncclDevKernel_SendRecv");
  EXPECT_EQ(kernel_name("AllGather", "f32", true), "ncclSymkDevKernel_AllGather_ST");
}

#if NCCL_VERSION_CODE >= 23100
ncclCollConfig_t call_config(int min_ctas, int max_ctas) {
  ncclCollConfig_t made = NCCL_COLLCONFIG_INITIALIZER;
  made.minCTAs = min_ctas;
  made.maxCTAs = max_ctas;
  return made;
}

TEST(NcclCallConfig, NarrowsTheCommunicatorsLimits) {
  const ncclCollConfig_t four = call_config(4, 4);
  EXPECT_EQ(resolve(&four, 23203, Settings{}).settings.max_ctas, 4);
  EXPECT_EQ(resolve(&four, 23203, Settings{}).settings.min_ctas, 4);
  const CallSettings refused = resolve(&four, 23203, Settings{.max_ctas = 2});
  EXPECT_EQ(refused.result, ncclInvalidArgument);
  EXPECT_EQ(refused.why, "Invalid config min/max channels attribute value 4/4, the communicator's maximum is 2");
  EXPECT_EQ(resolve(nullptr, 23203, Settings{.max_ctas = 2}).settings.max_ctas, 2);
}

TEST(NcclCallConfig, MustBeInitialized) {
  ncclCollConfig_t wild = call_config(1, 1);
  wild.magic = 0;
  EXPECT_EQ(resolve(&wild, 23203, Settings{}).result, ncclInvalidArgument);
}

TEST(NcclCallConfig, AnEventMarksTheStartFrom232) {
  ncclCollConfig_t marked = call_config(1, 1);
  int event = 0;
  marked.launchCompletionEvent = static_cast<cudaEvent_t>(static_cast<void*>(&event));
  EXPECT_EQ(resolve(&marked, 23203, Settings{}).all_began, marked.launchCompletionEvent);
  EXPECT_EQ(resolve(&marked, 23102, Settings{}).all_began, nullptr);
}
#endif

}  // namespace
}  // namespace ovl::emulation::nccl
