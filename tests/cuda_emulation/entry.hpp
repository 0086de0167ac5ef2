// SPDX-License-Identifier: Apache-2.0
//
// What every entry point of the runtime and the driver does around its own work: asks for an injected fault, refuses
// without a driver or with a broken context, sees that no error was ignored, and remembers what it returned.
#pragma once

#include <cuda_runtime_api.h>

#include <type_traits>

#include "emulator.hpp"

namespace ovl::emulation {

enum class Does {
  tell,     // works without a driver and with a broken context
  query,    // reads, synchronises
  make,     // what it made is there, whatever broke elsewhere meanwhile: the next call tells
  work,     // enqueues: no error may have been ignored
  release,  // releases whatever else it returns
};

// The thread's last error, as cudaGetLastError has it.
cudaError_t last_error(bool clear);
void remember(const char* call, cudaError_t error);

// cudaErrorInsufficientDriver, cudaErrorNoDevice, or success.
cudaError_t no_device();

// Result is cudaError_t or CUresult; their numbers agree.
template <class Result, class Body>
Result entry(const char* call, void* site, Does does, Body body, int usual = cudaErrorUnknown) {
  const auto told = [call](int code) {
    // The driver's errors are not the runtime's last one.
    if constexpr (std::is_same_v<Result, cudaError_t>) {
      remember(call, static_cast<cudaError_t>(code));
    } else if (code != cudaSuccess && code != cudaErrorNotReady) {
      failed(call, code);
    }
    return static_cast<Result>(code);
  };
  int code = cudaSuccess;
  const bool injected = fails(call, site, usual, &code);
  if (does == Does::work) must_have_read_error(call);
  if (does != Does::tell && no_device() != cudaSuccess) return told(no_device());
  if (does == Does::release) {
    const int released = static_cast<int>(body());
    if (!injected && sticky_error() == cudaSuccess) return told(released);
  }
  if (injected) return told(code);
  if (does == Does::tell) return told(static_cast<int>(body()));
  if (sticky_error() != cudaSuccess) return told(sticky_error());
  const int result = static_cast<int>(body());
  return told(does != Does::make && sticky_error() != cudaSuccess ? sticky_error() : result);
}

}  // namespace ovl::emulation
