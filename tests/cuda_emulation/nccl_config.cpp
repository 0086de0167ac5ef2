// SPDX-License-Identifier: Apache-2.0
#include "cuda_emulation/nccl_config.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

namespace ovl::emulation::nccl {
namespace {

constexpr unsigned magic = 0xcafebeef;
constexpr int most_channels = 64;
constexpr int undefined = NCCL_CONFIG_UNDEF_INT;

std::optional<int> number(const Environment& environment, const char* name) {
  const char* text = environment(name);
  if (text == nullptr || *text == '\0') {
    return std::nullopt;
  }
  return std::atoi(text);
}

// 0, 1, 2, and from 2.29 their names.
std::optional<int> policy(const Environment& environment, int version) {
  const char* text = environment("NCCL_CTA_POLICY");
  if (text != nullptr && version >= version_code(2, 29, 0)) {
    for (const auto& [name, value] : {std::pair<std::string_view, int>{"DEFAULT", NCCL_CTA_POLICY_DEFAULT},
                                      {"EFFICIENCY", NCCL_CTA_POLICY_EFFICIENCY},
                                      {"ZERO", NCCL_CTA_POLICY_ZERO}}) {
      if (text == name) {
        return value;
      }
    }
  }
  return number(environment, "NCCL_CTA_POLICY");
}

std::string limits_error(int min_ctas, int max_ctas) {
  const auto text = [](int value) { return value == undefined ? std::string("undefined") : std::to_string(value); };
  return "Invalid config min/max channels attribute value " + text(min_ctas) + "/" + text(max_ctas);
}

// As NCCL compares: an undefined maximum is smaller than any minimum.
bool are_limits(int min_ctas, int max_ctas) {
  return !(min_ctas != undefined && min_ctas <= 0) && !(max_ctas != undefined && max_ctas <= 0) && min_ctas <= max_ctas;
}

}  // namespace

Resolved resolve(const ncclConfig_t* config, int version, const Environment& environment) {
  const auto invalid = [](std::string why) {
    return Resolved{.result = ncclInvalidArgument, .settings = {}, .why = std::move(why)};
  };
  ncclConfig_t own = NCCL_CONFIG_INITIALIZER;
  int known = version;
  if (config != nullptr) {
    if (config->magic != magic || config->size < offsetof(ncclConfig_t, blocking)) {
      return invalid("ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
    }
    std::memcpy(&own, config, std::min(config->size, sizeof own));
    known = std::min(version, static_cast<int>(config->version));
  }
  if (known < version_code(2, 27, 0)) {
    own.CTAPolicy = undefined;
  }
  if (own.blocking != undefined && own.blocking != 0 && own.blocking != 1) {
    return invalid("Invalid config blocking attribute value " + std::to_string(own.blocking));
  }
  if (own.cgaClusterSize != undefined && (own.cgaClusterSize < 0 || own.cgaClusterSize > 8)) {
    return invalid("Invalid config cgaClusterSize attribute value " + std::to_string(own.cgaClusterSize));
  }
  if (!are_limits(own.minCTAs, own.maxCTAs)) {
    return invalid(limits_error(own.minCTAs, own.maxCTAs));
  }
  if (own.CTAPolicy != undefined && (own.CTAPolicy < NCCL_CTA_POLICY_DEFAULT || own.CTAPolicy > NCCL_CTA_POLICY_ZERO)) {
    return invalid("Invalid config CTAPolicy attribute value " + std::to_string(own.CTAPolicy));
  }

  Resolved resolved;
  Settings& settings = resolved.settings;
  settings.min_ctas = own.minCTAs == undefined ? 1 : own.minCTAs;
  settings.max_ctas = own.maxCTAs == undefined ? most_channels : own.maxCTAs;
  settings.policy = own.CTAPolicy == undefined ? NCCL_CTA_POLICY_DEFAULT : own.CTAPolicy;
  if (const auto value = number(environment, "NCCL_MIN_CTAS"); value && *value > 0) {
    settings.min_ctas = *value;
  }
  if (const auto value = number(environment, "NCCL_MAX_CTAS"); value && *value > 0) {
    settings.max_ctas = *value;
  }
  if (version >= version_code(2, 27, 0)) {
    settings.policy = policy(environment, version).value_or(settings.policy);
  }
  settings.max_ctas = std::min(settings.max_ctas, most_channels);
  settings.min_ctas = std::min(settings.min_ctas, settings.max_ctas);
  return resolved;
}

int ctas_of(const Settings& settings, std::size_t bytes) {
  constexpr std::size_t least_bytes = 512 * 64;
  auto ctas = static_cast<std::size_t>(std::clamp(24, settings.min_ctas, settings.max_ctas));
  while (ctas > 1 && bytes < ctas * least_bytes) {
    --ctas;
  }
  return static_cast<int>(ctas);
}

int symmetric_ctas_of(const Settings& settings, std::size_t bytes) { return std::min(2, ctas_of(settings, bytes)); }

#if NCCL_VERSION_CODE >= 23100
CallSettings resolve(const ncclCollConfig_t* config, int version, const Settings& communicator) {
  CallSettings call{.settings = communicator};
  if (config == nullptr) {
    return call;
  }
  const auto refuse = [&](ncclResult_t result, std::string why) {
    call.result = result;
    call.why = std::move(why);
    return call;
  };
  if (config->magic != magic || config->size < offsetof(ncclCollConfig_t, ext)) {
    return refuse(ncclInvalidArgument, "ncclCollConfig_t argument not initialized via NCCL_COLLCONFIG_INITIALIZER");
  }
  ncclCollConfig_t own = NCCL_COLLCONFIG_INITIALIZER;
  std::memcpy(&own, config, std::min(config->size, sizeof own));
  const int max_ctas = own.maxCTAs == undefined ? communicator.max_ctas : own.maxCTAs;
  if (!are_limits(own.minCTAs, max_ctas) || max_ctas > communicator.max_ctas) {
    return refuse(ncclInvalidArgument, limits_error(own.minCTAs, own.maxCTAs) + ", the communicator's maximum is " +
                                           std::to_string(communicator.max_ctas));
  }
  if (own.algSelection != nullptr && *own.algSelection != '\0' && own.forceAlgSelection != 0) {
    return refuse(ncclInvalidUsage, std::string("no algorithm \"") + own.algSelection + "\" is emulated");
  }
  call.settings.max_ctas = max_ctas;
  call.settings.min_ctas = own.minCTAs == undefined ? std::min(communicator.min_ctas, max_ctas) : own.minCTAs;
  if (own.CTAPolicy != undefined) {
    call.settings.policy = own.CTAPolicy;
  }
#if NCCL_VERSION_CODE >= 23200
  if (version >= version_code(2, 32, 0)) {
    call.all_began = own.launchCompletionEvent;
  }
#endif
  return call;
}
#endif

std::string kernel_name(std::string_view operation, std::string_view element, bool symmetric) {
  std::string name = symmetric ? "ncclSymkDevKernel_" : "ncclDevKernel_";
  name += operation;
  if (operation == "AllReduce" || operation == "ReduceScatter") {
    name += "_Sum_";
    name += element;
  }
  if (operation != "SendRecv") {
    name += symmetric ? "_ST" : "_RING_LL";
  }
  return name;
}

}  // namespace ovl::emulation::nccl
