// SPDX-License-Identifier: Apache-2.0
#include "backend/model/machine_rates.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

namespace ovl::model {
namespace {

const double* rate_named(const Machine& machine, std::string_view name) {
  const auto found =
      std::find_if(machine.rates.begin(), machine.rates.end(), [&](const MachineRate& r) { return r.name == name; });
  return found == machine.rates.end() ? nullptr : &found->rate.value;
}

template <class Enum>
std::optional<Enum> value_named(std::string_view text) {
  for (const auto& [value, name] : EnumNames<Enum>::table) {
    if (name == text) return value;
  }
  return std::nullopt;
}

std::optional<GpuGeneration> generation_of(std::string_view device) {
  constexpr std::array<std::pair<std::string_view, GpuGeneration>, 6> names{{{"V100", GpuGeneration::volta},
                                                                             {"A100", GpuGeneration::ampere},
                                                                             {"H100", GpuGeneration::hopper},
                                                                             {"H200", GpuGeneration::hopper},
                                                                             {"B200", GpuGeneration::blackwell},
                                                                             {"B300", GpuGeneration::blackwell}}};
  for (const auto& [part, generation] : names) {
    if (device.find(part) != std::string_view::npos) return generation;
  }
  return std::nullopt;
}

// gemm_f32@512x512x512
void add_shape(Rates& rates, const MachineRate& rate) {
  constexpr std::string_view prefix = "gemm_";
  const std::string_view text = rate.name;
  const std::size_t at = text.find('@');
  if (!text.starts_with(prefix) || at == std::string_view::npos) return;
  const auto dtype = value_named<DType>(text.substr(prefix.size(), at - prefix.size()));
  std::array<std::int64_t, 3> mnk{};
  const char* next = text.data() + at;
  const char* const end = text.data() + text.size();
  for (std::int64_t& size : mnk) {
    if (next == end) return;
    const auto [rest, ec] = std::from_chars(next + 1, end, size);
    if (ec != std::errc{}) return;
    next = rest;
  }
  if (dtype && next == end) rates.gemm_shapes[{*dtype, mnk[0], mnk[1], mnk[2]}] = FlopsPerSecond(rate.rate.value);
}

void set_collectives(Rates& rates, const Machine& machine) {
  for (const bool in_place : {false, true}) {
    for (const CollectiveCost& c : machine.collectives) {
      const auto kind = value_named<CollectiveKind>(c.collective);
      if (!kind || c.load == "loaded" || c.in_place.value_or(false) != in_place) continue;
      rates.collectives.push_back({*kind, c.ranks, value_named<DType>(c.dtype), c.fit(), c.least_bytes});
    }
  }
}

}  // namespace

Rates rates_of(const Machine& machine) {
  Rates rates;
  rates.name = machine.name;
  const auto real = [&](std::string_view name, double otherwise) {
    const double* value = rate_named(machine, name);
    return value == nullptr ? otherwise : *value;
  };
  const auto whole = [&](std::string_view name, int otherwise) {
    return static_cast<int>(std::lround(real(name, otherwise)));
  };
  for (const auto& [dtype, text] : EnumNames<DType>::table) {
    if (const double* rate = rate_named(machine, "gemm_" + std::string(text)))
      rates.gemm[dtype] = FlopsPerSecond(*rate);
  }
  for (const MachineRate& r : machine.rates) add_shape(rates, r);
  rates.memory = BytesPerSecond(real("memory", unknown));
  rates.units = whole("units", 0);
  rates.comm_units = whole("comm_units", 0);
  rates.copy_engines = whole("copy_engines", 1);
  rates.kernel = Seconds(real("kernel", 0));
  rates.launch = Seconds(real("launch", 0));
  rates.link = {Seconds(real("link_latency", unknown)), BytesPerSecond(real("link", unknown))};
  rates.network = {Seconds(real("network_latency", unknown)), BytesPerSecond(real("network", unknown))};
  rates.node_ranks = whole("node_ranks", 0);
  if (!machine.levels.empty()) {
    const auto link_of = [](const MachineLevel& level) {
      return LinkCost{Seconds(level.latency.value), BytesPerSecond(level.bandwidth.value)};
    };
    rates.node_ranks = machine.levels.front().ranks;
    rates.link = link_of(machine.levels.front());
    for (std::size_t i = 1; i < machine.levels.size(); ++i) {
      const MachineLevel& level = machine.levels[i];
      rates.beyond.push_back({level.ranks, link_of(level), level.oversubscription});
    }
  }
  if (const auto generation = generation_of(machine.device); generation && whole("nccl_channels", 0) > 0) {
    rates.nccl = {*generation, whole("nccl_channels", 0), BytesPerSecond(real("nccl_channel", unknown))};
  }
  set_collectives(rates, machine);
  for (const ContentionCoefficient& c : machine.contention) {
    double* slowdown = computes(c.victim) && communicates(c.aggressor)   ? &rates.compute_slowdown
                       : communicates(c.victim) && computes(c.aggressor) ? &rates.comm_slowdown
                                                                         : nullptr;
    if (slowdown != nullptr) *slowdown = std::max(*slowdown, c.slowdown.value);
  }
  return rates;
}

}  // namespace ovl::model
