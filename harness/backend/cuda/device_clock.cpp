// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device_clock.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "base/error.hpp"

namespace ovl::cuda {

std::int64_t host_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

ClockRelation relate(std::span<const ClockSample> samples) {
  require(!samples.empty(), "a clock relation needs a sample");
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
  for (const ClockSample& s : samples) {
    low = std::max(low, s.before - static_cast<std::int64_t>(s.device));
    high = std::min(high, s.after - static_cast<std::int64_t>(s.device));
  }
  const std::int64_t width = high - low;
  return {low + width / 2, (width < 0 ? -width : width) / 2};
}

ClockRelation relate_barriers(std::span<const std::int64_t> mine, std::span<const std::int64_t> of_process_0) {
  require(!mine.empty() && mine.size() == of_process_0.size(), "stamps of barriers come in pairs");
  std::vector<std::int64_t> differences;
  for (std::size_t i = 0; i < mine.size(); ++i) differences.push_back(of_process_0[i] - mine[i]);
  std::sort(differences.begin(), differences.end());
  const std::int64_t middle = differences[differences.size() / 2];
  // Half of all lie between the quartiles.
  const std::int64_t spread = differences[differences.size() * 3 / 4] - differences[differences.size() / 4];
  return {middle, spread / 2};
}

DeviceClock::DeviceClock() : stamp_(Bytes(sizeof(kernels::Stamp))) {}

void DeviceClock::measure(cudaStream_t stream, int rounds, const StopFlag& stop) {
  auto* stamp = reinterpret_cast<kernels::Stamp*>(stamp_.host());
  const std::atomic_ref<std::uint64_t> seen(stamp->nanoseconds);
  std::vector<ClockSample> samples;
  for (int i = 0; i < rounds; ++i) {
    seen.store(0, std::memory_order_seq_cst);
    ClockSample sample{.before = host_now()};
    check(
        static_cast<cudaError_t>(kernels::launch_marker({reinterpret_cast<kernels::Stamp*>(stamp_.device())}, stream)),
        "cudaLaunchKernelExC (marker)");
    // The stamp, not the stream, ends the round: the stream is done much later.
    for (int tries = 1; (sample.device = seen.load(std::memory_order_acquire)) == 0; ++tries) {
      if (stop.raised()) throw failure("the replay was aborted", "it was told to stop while clocks were related");
      if (tries % 1024 == 0) {
        const cudaError_t status = cudaStreamQuery(stream);
        if (status != cudaErrorNotReady) check(status, "cudaStreamQuery (marker)");
      }
      std::this_thread::yield();
    }
    sample.after = host_now();
    samples.push_back(sample);
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize (marker)");
  }
  relation_ = relate(samples);
}

}  // namespace ovl::cuda
