// SPDX-License-Identifier: Apache-2.0
//
// Green contexts: SMs split between the lanes of compute and of communication. A split is used only after a census of
// both halves' streams has shown that their kernels run on disjoint SMs.
#pragma once

#include <memory>
#include <string>

#include "backend/cuda/device.hpp"
#include "backend/cuda/stream.hpp"
#include "program/program.hpp"

namespace ovl::cuda {

class SmPartition {
 public:
  // Communication gets `comm_sms` (rounded up to what the device can split), compute the rest. Throws Error(impossible)
  // with the reason where the driver has no green contexts, the split is refused, or the census sees an SM in both.
  SmPartition(const Device& device, int comm_sms);
  SmPartition(const SmPartition&) = delete;
  SmPartition& operator=(const SmPartition&) = delete;
  ~SmPartition();

  // A stream confined to the role's SMs.
  [[nodiscard]] Stream stream(Role role, int priority) const;
  [[nodiscard]] int sms(Role role) const;
  // "compute 116 SMs, comm 16 SMs, proven by 132 SM ids".
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
  std::string text_;
};

}  // namespace ovl::cuda
