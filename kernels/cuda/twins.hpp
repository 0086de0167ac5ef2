// SPDX-License-Identifier: Apache-2.0
//
// The host twin of every device kernel, by the kernel's name: the same arguments, the same result, to the bit but for
// the payload of a NaN that an f32 or f64 sum makes. Tests hold the two together; an emulated device runs these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace ovl::kernels {

// poll: what is looked at while others write it, which no order of streams protects.
enum class Access { read, write, read_write, poll };
// A piece of memory that a launch touches. `field` is the pointer within the argument structure: an emulator with
// separate address spaces rewrites it before it runs the twin.
struct Touch {
  void** field;
  std::int64_t bytes;
  Access access;
  std::int64_t offset = 0;  // of the first byte touched, from where the pointer points
  bool stamps = false;      // an array of Stamp
};

struct Twin {
  std::string_view name;  // the __global__ function's unmangled name (they are extern "C"): "ovl_fill"
  std::size_t argument_bytes;
  std::vector<Touch> (*touches)(void* arguments);
  // What block `block` of `blocks` does; blocks may run at the same time. Kernels that wait for each other, for the
  // host or for time to pass poll `stop` and end early when it says so.
  void (*run)(const void* arguments, int block, int blocks, int sm, const std::function<bool()>& stop);
  int registers = 32;  // of a thread, about what the compiler makes of it
};

std::span<const Twin> twins();

}  // namespace ovl::kernels
