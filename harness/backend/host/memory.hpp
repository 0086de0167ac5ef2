// SPDX-License-Identifier: Apache-2.0
//
// A rank's memory: one mapping for all its buffers, in huge pages, so that no replay faults and translation misses do
// not hide what the caches do.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "program/program.hpp"

namespace ovl::host {

struct UnmapPages {
  std::size_t size = 0;
  void operator()(std::byte* base) const;
};

class Arena {
 public:
  // Room for all copies of all buffers. Nothing is touched yet: the first writer's memory node gets the pages. Throws
  // Error(impossible) when the system has no more.
  explicit Arena(const std::vector<Buffer>& buffers);

  [[nodiscard]] std::byte* copy(BufferId buffer, int copy) const;
  // Bytes from one copy of a buffer to the next.
  [[nodiscard]] std::int64_t stride(BufferId buffer) const { return places_[buffer.index()].stride; }

 private:
  struct Place {
    std::int64_t offset = 0;
    std::int64_t stride = 0;
  };
  std::vector<Place> places_;
  std::unique_ptr<std::byte, UnmapPages> mapping_;
  std::byte* base_ = nullptr;
};

}  // namespace ovl::host
