// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace ovl::kernels {

// Reads and writes one byte of every cache line of [memory, memory + bytes): what was in the caches leaves them.
void evict(std::byte* memory, std::int64_t bytes);

}  // namespace ovl::kernels
