// SPDX-License-Identifier: Apache-2.0
//
// Kernel intervals by CUPTI, loaded at run time: a separate pass, never the headline one. Which operation a kernel
// belongs to is told by an external correlation id that is pushed around each enqueue.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/api.hpp"

namespace ovl::cuda {

struct KernelRecord {
  std::uint64_t tag = 0;       // what was pushed; 0: none
  std::string name;            // kernel, or "memcpy" / "memset"
  std::uint64_t start_ns = 0;  // on CUPTI's clock
  std::uint64_t end_ns = 0;
  int device = 0;
  int blocks = 0;  // grid size: CTAs; 0 for copies
  int threads = 0;
  int registers = 0;
  int shared_bytes = 0;
};

class Trace {
 public:
  Trace();  // never throws: unavailable without the library
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  ~Trace();

  // Tries once whether CUPTI can be had: it may be there and refuse.
  [[nodiscard]] bool available();
  [[nodiscard]] std::string status() const;

  // Without effect where it is not available; where CUPTI refuses it is not available from then on.
  void start();
  // All records since start(), after everything has been synchronised. Empty, and status() says why, where any was
  // lost.
  [[nodiscard]] std::vector<KernelRecord> stop();
  // Tags what this thread enqueues from here on.
  void push(std::uint64_t tag) const;
  void pop() const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace ovl::cuda
