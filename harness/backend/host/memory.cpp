// SPDX-License-Identifier: Apache-2.0
#include "backend/host/memory.hpp"

#include <sys/mman.h>

#include <cstdint>

#include "base/error.hpp"

namespace ovl::host {
namespace {

constexpr std::int64_t huge_page = std::int64_t{1} << 21;
constexpr std::int64_t page = 4096;
// Copies start on a page, and each a little further into it than the one before: buffers of one size would otherwise
// fall into the same cache sets and stores would seem to hit the loads 4 KiB away.
constexpr std::int64_t stagger = 256;

std::int64_t round_up(std::int64_t size, std::int64_t unit) { return (size + unit - 1) / unit * unit; }

}  // namespace

void UnmapPages::operator()(std::byte* base) const { munmap(base, size); }

Arena::Arena(const std::vector<Buffer>& buffers) {
  std::int64_t end = 0;
  for (const Buffer& b : buffers) {
    const std::int64_t stride = round_up(b.count * size_of(b.dtype).value(), page) + page + stagger;
    places_.push_back({end, stride});
    end += stride * b.copies;
  }
  const auto size = static_cast<std::size_t>(round_up(end, huge_page) + huge_page);
  void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    throw impossible_error("out of memory", "a rank's buffers need " + std::to_string(end >> 20) + " MiB",
                           "use fewer ranks or smaller sizes");
  }
  mapping_ = std::unique_ptr<std::byte, UnmapPages>(static_cast<std::byte*>(mapped), UnmapPages{size});
  madvise(mapped, size, MADV_HUGEPAGE);  // advice only: without it everything works, at more translation misses
  const auto misaligned = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(mapped) % huge_page);
  base_ = mapping_.get() + (huge_page - misaligned) % huge_page;
}

std::byte* Arena::copy(BufferId buffer, int copy) const {
  const Place& place = places_[buffer.index()];
  return base_ + place.offset + place.stride * copy;
}

}  // namespace ovl::host
