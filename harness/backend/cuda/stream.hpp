// SPDX-License-Identifier: Apache-2.0
//
// Owners of streams and events. Made and destroyed with their device current.
#pragma once

#include <utility>

#include "backend/cuda/api.hpp"
#include "backend/cuda/device.hpp"

namespace ovl::cuda {

class Stream {
 public:
  // Non-blocking towards the default stream. `priority` is CUDA's number: lower goes first.
  Stream(const Device& device, int priority);
  // Takes over a stream of a green context.
  explicit Stream(cudaStream_t stream) : stream_(stream) {}
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

enum class Timing { on, off };

class Event {
 public:
  explicit Event(Timing timing);
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept;
  ~Event();

  [[nodiscard]] cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Both completed and made with Timing::on. Half a microsecond of resolution.
Seconds between(const Event& start, const Event& end);

}  // namespace ovl::cuda
