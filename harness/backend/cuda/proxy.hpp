// SPDX-License-Identifier: Apache-2.0
//
// The transport "proxy": a rank that is alone on one GPU runs a kernel of ours that does there what a ring collective
// of many ranks does within a GPU. It shows what communication takes from compute; it is no fabric, and every row says
// so.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/units.hpp"
#include "kernels/cuda/device_kernels.hpp"
#include "program/program.hpp"

namespace ovl::cuda {

struct Proxy {
  BytesPerSecond rate;  // of the link that it keeps to, what is sent; 0: as fast as it goes
};

// "proxy", or with the rate of its link: "proxy:50GB/s". Nothing: another transport. Throws Error(usage) for a rate
// that is none.
std::optional<Proxy> parse_proxy(std::string_view transport);

// Which parts of a ring a collective has: those that add reduce, all others gather; an all_reduce is both.
kernels::RingSteps proxy_steps(CollectiveKind kind);

// A token clock's step; 0 for no rate.
double ns_per_byte(BytesPerSecond rate);

}  // namespace ovl::cuda
