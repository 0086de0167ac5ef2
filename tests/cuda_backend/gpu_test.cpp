// SPDX-License-Identifier: Apache-2.0
//
// What only a real device can tell. On an emulated one these are skipped: its times mean nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backend/cuda/cuda.hpp"
#include "backend/cuda/gemm.hpp"
#include "backend/cuda/residents.hpp"
#include "backend/cuda/stream.hpp"
#include "cuda_backend/needs_device.hpp"
#include "program/builder.hpp"
#include "stats/summary.hpp"

namespace ovl::cuda {
namespace {

class RealGpu : public NeedsDevice {
 protected:
  void SetUp() override {
    NeedsDevice::SetUp();
    if (IsSkipped()) return;
    if (device.emulated) GTEST_SKIP() << "an emulated device has no times";
  }
};

// Median seconds of what `enqueue` puts on a stream, over several runs after one.
template <class Enqueue>
double seconds_of(const Device& device, const Enqueue& enqueue) {
  const Stream stream(device, 0);
  const Event start(Timing::on);
  const Event end(Timing::on);
  std::vector<double> times;
  for (int i = 0; i < 11; ++i) {
    check(cudaEventRecord(start.get(), stream.get()), "cudaEventRecord");
    enqueue(stream.get());
    check(cudaEventRecord(end.get(), stream.get()), "cudaEventRecord");
    check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    if (i > 0) times.push_back(between(start, end).value());
  }
  return median(times);
}

// The algorithm that the backend records is at least 95 % as fast as the best of all that cuBLASLt offers.
TEST_F(RealGpu, TheChosenGemmIsNearTheBestThatCublasltHas) {
  const BlasHandle blas;
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const std::vector<DType> known = dtypes_of(device);
    if (std::find(known.begin(), known.end(), dtype) == known.end()) continue;
    const GemmShape shape{.m = 4096, .n = 4096, .k = 4096, .dtype = dtype};
    const Bytes bytes = size_of(dtype) * (shape.m * shape.n);
    const DeviceMemory a(bytes);
    const DeviceMemory b(bytes);
    const DeviceMemory c(bytes);
    check(cudaMemsetAsync(a.get(), 0, static_cast<std::size_t>(bytes.value()), nullptr), "cudaMemsetAsync");
    check(cudaMemsetAsync(b.get(), 0, static_cast<std::size_t>(bytes.value()), nullptr), "cudaMemsetAsync");
    const DeviceMemory workspace(workspace_of(device));
    const auto time = [&](const Algorithm& algorithm) {
      const GemmPlan plan(blas, shape, algorithm);
      return seconds_of(device, [&](cudaStream_t s) { plan.enqueue(s, a.get(), b.get(), c.get(), workspace, 1); });
    };
    const double chosen = time(choose_algorithm(blas, device, shape));
    double best = chosen;
    for (const Algorithm& algorithm : candidate_algorithms(blas, device, shape)) best = std::min(best, time(algorithm));
    RecordProperty(std::string("rate_share_") + std::string(name(dtype)), std::to_string(best / chosen));
    EXPECT_GE(best / chosen, 0.95) << name(dtype);
  }
}

// A copy within the device moves at least half of what HBM of any data centre GPU since Volta does: 400 GB/s both ways.
TEST_F(RealGpu, ACopyIsNotSlowedByTheHarness) {
  const Bytes bytes = mebibytes(256);
  const DeviceMemory from(bytes);
  const DeviceMemory to(bytes);
  const double seconds = seconds_of(device, [&](cudaStream_t s) {
    check(cudaMemcpyAsync(to.get(), from.get(), static_cast<std::size_t>(bytes.value()), cudaMemcpyDeviceToDevice, s),
          "cudaMemcpyAsync");
  });
  EXPECT_GT(2 * static_cast<double>(bytes.value()) / seconds, 400e9);
}

// ---- kernels that stay ----------------------------------------------------------------------------------------------

// 512 MiB at a fifth of what HBM of any data centre GPU since Volta does, and a ring at the rate of a link: within 5 %.
TEST_F(RealGpu, StreamAndRingKeepTheirPace) {
  const std::int64_t size = mebibytes(256).value();
  const DeviceMemory from{Bytes(size)};
  const DeviceMemory to{Bytes(size)};
  const Halt halt;
  constexpr int blocks = 16;
  ReportMemory report(blocks);
  const DeviceMemory fifo{Bytes(blocks * kernels::ring_fifo)};
  check(cudaMemsetAsync(fifo.get(), 0, static_cast<std::size_t>(blocks * kernels::ring_fifo), nullptr),
        "cudaMemsetAsync");
  const kernels::Until until = halt.until(nullptr, 0, 20'000'000'000);
  constexpr double stream_rate = 40e9;  // copied
  const double stream_seconds = seconds_of(device, [&](cudaStream_t s) {
    const kernels::StreamArgs args{.from = from.get(),
                                   .to = to.get(),
                                   .size = size,
                                   .bytes = size,
                                   .ns_per_byte = 1e9 / stream_rate,
                                   .blocks = blocks,
                                   .until = until,
                                   .reports = report.reports(),
                                   .moved = report.moved()};
    check(static_cast<cudaError_t>(kernels::launch_stream(args, s)), "cudaLaunchKernelExC");
  });
  EXPECT_NEAR(static_cast<double>(size) / stream_seconds / stream_rate, 1, 0.05);
  constexpr double ring_rate = 50e9;  // sent; an all_reduce sends each byte twice
  const double ring_seconds = seconds_of(device, [&](cudaStream_t s) {
    const kernels::RingProxyArgs args{.in = from.get(),
                                      .out = to.get(),
                                      .fifo = fifo.get(),
                                      .count = size / 4,
                                      .ns_per_byte = 1e9 / ring_rate,
                                      .dtype = DType::f32,
                                      .steps = kernels::RingSteps::both,
                                      .blocks = blocks,
                                      .until = until,
                                      .reports = report.reports(),
                                      .moved = report.moved()};
    check(static_cast<cudaError_t>(kernels::launch_ring_proxy(args, proxy_shared_bytes(device), s)),
          "cudaLaunchKernelExC");
  });
  EXPECT_NEAR(2 * static_cast<double>(size) / ring_seconds / ring_rate, 1, 0.05);
}

// Nothing between the origin and the end: events and joins alone, microseconds and not milliseconds.
TEST_F(RealGpu, AnEmptyArmTakesNextToNothingAndTheGateOpens) {
  const auto world = make_solo_world();
  const auto backend = open_cuda(*world, {.ranks = 1});
  ProgramBuilder p("empty", 1);
  const LaneId lane = p.lane({.name = "compute"});
  const BufferId out = p.buffer({.name = "out", .count = 8});
  p.all_ranks().prologue(lane, Fill{}, {}, {p.whole(out)});
  const auto prepared = backend->prepare({std::move(p).finish()}, Data::random, 1);
  std::vector<double> steps;
  for (int i = 0; i < 20; ++i) steps.push_back(prepared->run(0, {}).step().value());
  EXPECT_LT(median(steps), 200e-6);
}

}  // namespace
}  // namespace ovl::cuda
