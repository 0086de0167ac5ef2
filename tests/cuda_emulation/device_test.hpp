// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the emulated libraries share: device memory with values, and streams. Every call must succeed.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>
#include <vector>

namespace ovl::emulation::testing {

inline void must(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    ADD_FAILURE() << what << ": " << cudaGetErrorString(status);
    std::abort();
  }
}

// An array on the current device.
template <class T>
class Array {
 public:
  explicit Array(const std::vector<T>& values) : count_(values.size()) {
    must(cudaMalloc(&memory_, count_ * sizeof(T)), "cudaMalloc");
    must(cudaMemcpy(memory_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  explicit Array(std::size_t count) : Array(std::vector<T>(count)) {}
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { must(cudaFree(memory_), "cudaFree"); }

  [[nodiscard]] T* get() const { return static_cast<T*>(memory_); }
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> all(count_);
    must(cudaMemcpy(all.data(), memory_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return all;
  }

 private:
  std::size_t count_;
  void* memory_ = nullptr;
};

// On the current device.
class Stream {
 public:
  Stream() { must(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0), "cudaStreamCreateWithPriority"); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { must(cudaStreamDestroy(stream_), "cudaStreamDestroy"); }
  [[nodiscard]] cudaStream_t get() const { return stream_; }
  void synchronize() const { must(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }
  // Asked many times, without waiting for it: a hang shows as never ready.
  [[nodiscard]] bool ready() const {
    for (int i = 0; i < 200; ++i) {
      const cudaError_t status = cudaStreamQuery(stream_);
      if (status == cudaSuccess) {
        return true;
      }
      static_cast<void>(cudaGetLastError());
    }
    return false;
  }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace ovl::emulation::testing
