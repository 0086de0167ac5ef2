// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/rank.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "kernels/cuda/device_kernels.hpp"

namespace ovl::cuda {
namespace {

constexpr Bytes align_bytes{256};

Bytes evict_bytes(const Device& device) { return std::max(device.l2 * 2, align_bytes); }

int priority_of(const Device& device, Priority priority) {
  return priority == Priority::high ? device.greatest_priority : device.least_priority;
}

Stream lane_stream(const Lane& lane, const Device& device, const SmPartition* partition) {
  const int priority = priority_of(device, lane.priority);
  if (lane.partition == Partition::by_role && partition != nullptr) return partition->stream(lane.role, priority);
  return Stream(device, priority);
}

}  // namespace

RankDevice::RankDevice(Rank r, const Device& d)
    : rank(r),
      device(d),
      root(d, d.least_priority),
      residents(check_residents(d)),
      marker(Bytes(sizeof(kernels::Stamp))),
      align(align_bytes),
      scratch(evict_bytes(d)) {
  warm_up();
}

void RankDevice::warm_up() {
  cudaStream_t stream = root.get();
  std::byte* memory = scratch.get();
  auto* words = reinterpret_cast<std::uint64_t*>(align.get());
  check(cudaMemsetAsync(align.get(), 0, static_cast<std::size_t>(align_bytes.value()), stream),
        "cudaMemsetAsync (align)");
  for (const DType dtype : dtypes_of(device)) {
    kernels::FillArgs fill{.out = memory, .begin = 0, .count = 16, .seed = 0, .dtype = dtype, .pattern = {}};
    for (const auto pattern : {kernels::Pattern::nothing, kernels::Pattern::random, kernels::Pattern::exact}) {
      fill.pattern = pattern;
      launched(kernels::launch_fill(fill, stream), "cudaLaunchKernelExC (fill)");
    }
    kernels::ElementwiseArgs add{.out = memory, .in = {memory}, .inputs = 1, .dtype = dtype, .count = 16};
    launched(kernels::launch_elementwise(add, stream), "cudaLaunchKernelExC (elementwise)");
  }
  launched(kernels::launch_fingerprint({memory, 64, words + 8}, stream), "cudaLaunchKernelExC (fingerprint)");
  launched(kernels::launch_busy({0}, stream), "cudaLaunchKernelExC (busy)");
  launched(kernels::launch_marker({reinterpret_cast<kernels::Stamp*>(marker.device())}, stream),
           "cudaLaunchKernelExC (marker)");
  warm_up_residents(stream);
  gate.close(stream);
  gate.open();
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize (warm-up)");

  const Event began(Timing::off);
  const auto status = static_cast<cudaError_t>(kernels::launch_busy({0}, stream, began.get()));
  launch_completion = status == cudaSuccess;
  if (!launch_completion) {
    if (ends_context(status)) check(status, "cudaLaunchKernelExC (busy)");
    static_cast<void>(cudaGetLastError());  // an older driver says so; starts are then told by events before the work
  }
  check(cudaMemsetAsync(align.get(), 0, static_cast<std::size_t>(align_bytes.value()), stream),
        "cudaMemsetAsync (align)");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize (warm-up)");
}

// Each with nothing to do: they end at once.
void RankDevice::warm_up_residents(cudaStream_t stream) const {
  const ReportMemory report(1);
  const DeviceMemory memory{Bytes(kernels::ring_fifo)};
  const kernels::Until at_once = halt.until(nullptr, 0, 0);
  launched(kernels::launch_occupy({.blocks = 1, .until = at_once, .reports = report.reports()},
                                  occupy_shared_bytes(device), stream),
           "cudaFuncSetAttribute or cudaLaunchKernelExC (occupy)");
  launched(kernels::launch_stream({.from = memory.get(),
                                   .to = memory.get() + kernels::ring_slice,
                                   .size = 1,
                                   .bytes = 1,
                                   .ns_per_byte = 0,
                                   .blocks = 1,
                                   .until = at_once,
                                   .reports = report.reports(),
                                   .moved = report.moved()},
                                  stream),
           "cudaLaunchKernelExC (stream)");
  launched(kernels::launch_ring_proxy({.in = memory.get(),
                                       .out = memory.get(),
                                       .fifo = memory.get(),
                                       .count = 0,
                                       .ns_per_byte = 0,
                                       .dtype = DType::f32,
                                       .steps = kernels::RingSteps::both,
                                       .blocks = 1,
                                       .until = at_once,
                                       .reports = report.reports(),
                                       .moved = report.moved()},
                                      proxy_shared_bytes(device), stream),
           "cudaFuncSetAttribute or cudaLaunchKernelExC (ring_proxy)");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize (warm-up)");
}

LaneState::LaneState(const Lane& declared, LaneId id, const LaneNeeds& needs, RankDevice& rank,
                     const SmPartition* partition)
    : lane(id), stream(lane_stream(declared, rank.device, partition)) {
  if (needs.gemm) workspace = DeviceMemory(workspace_of(rank.device));
  if (needs.staging.value() > 0) staging = MappedMemory(needs.staging);
  if (needs.fifo.value() > 0) {
    fifo = DeviceMemory(needs.fifo);
    check(cudaMemsetAsync(fifo.get(), 0, static_cast<std::size_t>(needs.fifo.value()), rank.root.get()),
          "cudaMemsetAsync (fifo)");
  }
}

RankCase::RankCase(RankDevice& r, const Program& program, const std::vector<LaneNeeds>& needs, int comm_sms)
    : rank(r), arena(r.device, program.buffers) {
  const SmPartition* partition = nullptr;
  if (comm_sms > 0) {
    std::unique_ptr<SmPartition>& kept = r.partitions[comm_sms];
    if (kept == nullptr) kept = std::make_unique<SmPartition>(r.device, comm_sms);
    partition = kept.get();
  }
  for (const Buffer& buffer : program.buffers) buffer_copies.push_back(buffer.copies);
  for (std::size_t l = 0; l < program.lanes.size(); ++l) {
    lanes.push_back(needs[l].used ? std::make_unique<LaneState>(program.lanes[l], LaneId(l), needs[l], r, partition)
                                  : nullptr);
  }
}

void RankCase::make_events(const std::vector<Plan>& plans, std::size_t local_rank) {
  for (const Plan& plan : plans) {
    while (events.size() < plan.ranks[local_rank].events) events.emplace_back(Timing::off);
  }
  std::size_t most_words = 0;
  std::vector<int> most_blocks;
  for (const Plan& plan : plans) {
    const RankPlan& mine = plan.ranks[local_rank];
    most_words = std::max(most_words, mine.words);
    most_blocks.resize(std::max(most_blocks.size(), mine.report_blocks.size()));
    for (std::size_t r = 0; r < mine.report_blocks.size(); ++r) {
      most_blocks[r] = std::max(most_blocks[r], mine.report_blocks[r]);
    }
  }
  words.emplace(most_words, rank.root.get());
  for (const int blocks : most_blocks) reports.emplace_back(blocks);
}

void RankCase::make_step_events(std::size_t steps) {
  while (step_events.size() < steps) step_events.emplace_back(Timing::on);
}

}  // namespace ovl::cuda
