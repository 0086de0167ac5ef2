// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/residents.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include <fmt/format.h>

#include "backend/cuda/driver.hpp"

namespace ovl::cuda {
namespace {

// Each word on a line of its own.
constexpr std::size_t line = 128;

std::uint32_t* halt_word(std::byte* memory) { return reinterpret_cast<std::uint32_t*>(memory); }
std::uint32_t* expired_word(std::byte* memory) { return reinterpret_cast<std::uint32_t*>(memory + line); }

template <class Read>
KernelCheck checked(std::string_view kernel, const kernels::StatedFootprint& stated, std::size_t shared_bytes,
                    Read read) {
  kernels::Footprint found;
  check(static_cast<cudaError_t>(read(found)),
        "cudaFuncSetAttribute, cudaFuncGetAttributes or cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return {fmt::format("{} threads of {} registers, {} B of shared memory, {} an SM", found.threads, found.registers,
                      shared_bytes, found.blocks_of_sm),
          footprint_reason(kernel, stated, found)};
}

}  // namespace

std::size_t occupy_shared_bytes(const Device& device) { return static_cast<std::size_t>(device.shared_bytes_opt_in); }

std::size_t proxy_shared_bytes(const Device& device) {
  return std::min(kernels::ring_most_shared, static_cast<std::size_t>(device.shared_bytes_opt_in));
}

std::string footprint_reason(std::string_view kernel, const kernels::StatedFootprint& stated,
                             const kernels::Footprint& found) {
  const auto reason = [&](const std::string& what) {
    return fmt::format("the kernel {} is not what it is stated to be: {}", kernel, what);
  };
  if (found.registers < stated.least_registers || found.registers > stated.most_registers) {
    return reason(fmt::format("{} registers of a thread, not {} to {}", found.registers, stated.least_registers,
                              stated.most_registers));
  }
  if (found.local_bytes > 0) return reason(fmt::format("{} B of a thread are spilled", found.local_bytes));
  if (found.blocks_of_sm < 1 || found.blocks_of_sm > stated.most_blocks_of_sm) {
    return reason(
        fmt::format("{} of its blocks fit on an SM, not 1 to {}", found.blocks_of_sm, stated.most_blocks_of_sm));
  }
  return {};
}

Residents check_residents(const Device& device) {
  const std::size_t occupy = occupy_shared_bytes(device);
  const std::size_t proxy = proxy_shared_bytes(device);
  return {.occupy = checked("ovl_occupy", kernels::occupy_footprint, occupy,
                            [&](kernels::Footprint& f) { return kernels::read_occupy_footprint(occupy, f); }),
          .stream = checked("ovl_stream", kernels::stream_footprint, sizeof(std::uint32_t),
                            [&](kernels::Footprint& f) { return kernels::read_stream_footprint(f); }),
          .proxy = checked("ovl_ring_proxy", kernels::ring_proxy_footprint, proxy,
                           [&](kernels::Footprint& f) { return kernels::read_ring_proxy_footprint(proxy, f); })};
}

Halt::Halt() : memory_(Bytes(2 * line)) {}

void Halt::raise() noexcept {
  std::atomic_ref<std::uint32_t>(*halt_word(memory_.host())).store(1, std::memory_order_seq_cst);
}

bool Halt::expired() const {
  return std::atomic_ref<std::uint32_t>(*expired_word(memory_.host())).load(std::memory_order_acquire) != 0;
}

kernels::Until Halt::until(const std::uint32_t* word, std::uint32_t value, std::uint64_t limit_ns) const {
  return {.word = word,
          .value = value,
          .halt = halt_word(memory_.device()),
          .limit_ns = limit_ns,
          .expired = word == nullptr ? nullptr : expired_word(memory_.device())};
}

Words::Words(std::size_t count, cudaStream_t stream) : memory_(Bytes(static_cast<std::int64_t>(line * count))) {
  if (count == 0) return;
  check(cudaMemsetAsync(memory_.get(), 0, line * count, stream), "cudaMemsetAsync (words)");
}

std::uint32_t* Words::at(std::size_t word) const {
  return reinterpret_cast<std::uint32_t*>(memory_.get() + line * word);
}

void Words::write(std::size_t word, std::uint32_t value, cudaStream_t stream) const {
  check(driver().write_value(reinterpret_cast<CUstream>(stream), reinterpret_cast<CUdeviceptr>(at(word)), value,
                             CU_STREAM_WRITE_VALUE_DEFAULT),
        "cuStreamWriteValue32");
}

ReportMemory::ReportMemory(int blocks)
    : blocks_(blocks),
      memory_(Bytes(static_cast<std::int64_t>(sizeof(kernels::BlockReport) + sizeof(std::uint64_t)) * blocks)) {}

kernels::BlockReport* ReportMemory::reports() const {
  return reinterpret_cast<kernels::BlockReport*>(memory_.device());
}

std::uint64_t* ReportMemory::moved() const { return reinterpret_cast<std::uint64_t*>(reports() + blocks_); }

StayReport ReportMemory::take(int blocks) {
  StayReport all;
  for (int b = 0; b < blocks; ++b) {
    kernels::BlockReport report = {};
    std::uint64_t moved = 0;
    std::memcpy(&report, memory_.host() + sizeof report * static_cast<std::size_t>(b), sizeof report);
    std::memcpy(
        &moved,
        memory_.host() + sizeof report * static_cast<std::size_t>(blocks_) + sizeof moved * static_cast<std::size_t>(b),
        sizeof moved);
    if (report.began.nanoseconds == 0) continue;
    ++all.blocks;
    all.sms.insert(report.began.sm);
    all.moved += static_cast<std::int64_t>(moved);
  }
  std::memset(memory_.host(), 0, sizeof(kernels::BlockReport) * static_cast<std::size_t>(blocks_));
  return all;
}

std::string text_of(const std::set<std::uint64_t>& sms) {
  std::string text;
  for (auto first = sms.begin(); first != sms.end();) {
    auto last = first;
    auto next = std::next(first);
    while (next != sms.end() && *next == *last + 1) last = next++;
    if (!text.empty()) text += ' ';
    text += first == last ? std::to_string(*first) : fmt::format("{}-{}", *first, *last);
    first = next;
  }
  return text;
}

}  // namespace ovl::cuda
