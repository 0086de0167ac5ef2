// SPDX-License-Identifier: Apache-2.0
//
// Holds a rank's root stream until the host opens it: by a stream wait-value, or by a kernel that spins where the
// driver has none or OVERLAPBENCH_GATE=spin asks for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "backend/cuda/memory.hpp"
#include "base/enum_names.hpp"

namespace ovl::cuda {

enum class GateKind { wait_value, spin };

// A gate that nobody opens for so long is a defect: the replay fails rather than hangs.
inline constexpr Seconds gate_timeout{30};

// By the driver and OVERLAPBENCH_GATE. Throws Error(usage) for a value that is no gate, Error(impossible) for one that
// this driver lacks.
GateKind choose_gate(bool has_wait_value, const char* wanted);

class Gate {
 public:
  Gate();  // on the current device
  // Enqueues the wait; the stream stands still until open().
  void close(cudaStream_t stream);
  // From any thread, any number of times.
  void open() noexcept;
  // The spinning kernel gave up waiting.
  [[nodiscard]] bool timed_out() const;
  [[nodiscard]] GateKind kind() const { return kind_; }

 private:
  GateKind kind_;
  MappedMemory memory_;
  std::atomic<std::uint32_t> closed_{0};  // grows with each use, so that an old opening never opens a new gate
};

}  // namespace ovl::cuda

template <>
struct ovl::EnumNames<ovl::cuda::GateKind> {
  static constexpr std::string_view axis = "gate";
  static constexpr std::pair<cuda::GateKind, std::string_view> table[] = {{cuda::GateKind::wait_value, "wait_value"},
                                                                          {cuda::GateKind::spin, "spin"}};
};
