// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gate.hpp"

#include <cstdlib>
#include <cstring>
#include <string>

#include "backend/cuda/driver.hpp"
#include "base/error.hpp"
#include "kernels/cuda/device_kernels.hpp"

namespace ovl::cuda {
namespace {

// The word and the flag each on a line of their own.
constexpr std::size_t flag_at = 128;
constexpr Bytes gate_bytes{256};

std::uint32_t* word(std::byte* memory) { return reinterpret_cast<std::uint32_t*>(memory); }
std::uint32_t* flag(std::byte* memory) { return reinterpret_cast<std::uint32_t*>(memory + flag_at); }

}  // namespace

GateKind choose_gate(bool has_wait_value, const char* wanted) {
  if (wanted == nullptr || *wanted == '\0') return has_wait_value ? GateKind::wait_value : GateKind::spin;
  const auto kind = parse_enum<GateKind>(wanted);
  if (kind == GateKind::wait_value && !has_wait_value) {
    throw impossible_error("OVERLAPBENCH_GATE=wait_value", "this driver has no cuStreamWaitValue32",
                           "unset it or type OVERLAPBENCH_GATE=spin");
  }
  return kind;
}

Gate::Gate()
    : kind_(choose_gate(driver().wait_value != nullptr, std::getenv("OVERLAPBENCH_GATE"))), memory_(gate_bytes) {
  std::memset(memory_.host(), 0, static_cast<std::size_t>(gate_bytes.value()));
}

void Gate::close(cudaStream_t stream) {
  const std::uint32_t number = closed_.fetch_add(1) + 1;
  if (kind_ == GateKind::wait_value) {
    const auto address = reinterpret_cast<CUdeviceptr>(word(memory_.device()));
    check(driver().wait_value(reinterpret_cast<CUstream>(stream), address, number, CU_STREAM_WAIT_VALUE_GEQ),
          "cuStreamWaitValue32 (gate)");
    return;
  }
  const kernels::SpinArgs args{.word = word(memory_.device()),
                               .value = number,
                               .timed_out = flag(memory_.device()),
                               .timeout_ns = static_cast<std::uint64_t>(gate_timeout.value() * 1e9)};
  check(static_cast<cudaError_t>(kernels::launch_spin(args, stream)), "cudaLaunchKernelExC (gate)");
}

void Gate::open() noexcept {
  std::atomic_ref<std::uint32_t>(*word(memory_.host())).store(closed_.load(), std::memory_order_seq_cst);
}

bool Gate::timed_out() const {
  return std::atomic_ref<std::uint32_t>(*flag(memory_.host())).load(std::memory_order_acquire) != 0;
}

}  // namespace ovl::cuda
