// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/proxy.hpp"

#include "base/error.hpp"

namespace ovl::cuda {

std::optional<Proxy> parse_proxy(std::string_view transport) {
  constexpr std::string_view name = "proxy";
  constexpr std::string_view per_second = "/s";
  if (!transport.starts_with(name)) return std::nullopt;
  std::string_view rate = transport.substr(name.size());
  if (rate.empty()) return Proxy{};
  if (!rate.starts_with(':')) return std::nullopt;
  rate.remove_prefix(1);
  if (!rate.ends_with(per_second)) {
    throw usage_error("transport \"" + std::string(transport) + "\" names no rate of a link", "a rate ends in /s",
                      "type for example proxy:50GB/s, or proxy for as fast as it goes");
  }
  rate.remove_suffix(per_second.size());
  return Proxy{parse_bytes(rate) / Seconds(1)};
}

kernels::RingSteps proxy_steps(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return kernels::RingSteps::both;
    case CollectiveKind::reduce_scatter: return kernels::RingSteps::reduce;
    case CollectiveKind::all_gather:
    case CollectiveKind::broadcast:
    case CollectiveKind::all_to_all: break;
  }
  return kernels::RingSteps::gather;
}

double ns_per_byte(BytesPerSecond rate) { return rate.value() > 0 ? 1e9 / rate.value() : 0; }

}  // namespace ovl::cuda
