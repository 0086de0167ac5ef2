// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/evict.hpp"

namespace ovl::kernels {

void evict(std::byte* memory, std::int64_t bytes) {
  constexpr std::int64_t line = 64;
  for (std::int64_t i = 0; i < bytes; i += line) memory[i] ^= std::byte{1};
}

}  // namespace ovl::kernels
