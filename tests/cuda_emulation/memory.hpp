// SPDX-License-Identifier: Apache-2.0
//
// Device memory: an address range that the host cannot touch, never given out twice, and storage that tasks use
// instead. Each allocation remembers who touched it last, for as long as somebody could conflict with that.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "emulator.hpp"
#include "streams.hpp"

namespace ovl::emulation {

// What a pointer is to the device.
struct Place {
  enum class Kind { pageable, pinned, device } kind = Kind::pageable;
  int device = 0;               // of device memory
  std::byte* memory = nullptr;  // where the host may touch it
};
// [pointer, pointer + bytes). Within the device's address range but not inside one live allocation: a violation.
Place place_of(const void* pointer, std::size_t bytes, const char* call);

// Checks what a task touches (inside one live allocation; a kernel: its own device's or pinned) and that it is ordered
// against what others did there; then remembers it as the stream's step. With books() held.
void touch(const Task& task, Stream& stream, std::uint64_t step);

cudaError_t allocate_pinned(void** pointer, std::size_t bytes);
cudaError_t free_pinned(void* pointer);
std::size_t memory_in_use(int device);

}  // namespace ovl::emulation
