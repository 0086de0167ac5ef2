// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/stream.hpp"

namespace ovl::cuda {

Stream::Stream(const Device& device, int priority) {
  make_current(device);
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority), "cudaStreamCreateWithPriority");
}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(stream_, other.stream_);
  return *this;
}

Stream::~Stream() {
  if (stream_ != nullptr) release(cudaStreamDestroy(stream_), "cudaStreamDestroy");
}

Event::Event(Timing timing) {
  const unsigned int flags = timing == Timing::on ? cudaEventDefault : cudaEventDisableTiming;
  check(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreateWithFlags");
}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(event_, other.event_);
  return *this;
}

Event::~Event() {
  if (event_ != nullptr) release(cudaEventDestroy(event_), "cudaEventDestroy");
}

Seconds between(const Event& start, const Event& end) {
  float elapsed = 0;
  check(cudaEventElapsedTime(&elapsed, start.get(), end.get()), "cudaEventElapsedTime");
  return milliseconds(static_cast<double>(elapsed));
}

}  // namespace ovl::cuda
