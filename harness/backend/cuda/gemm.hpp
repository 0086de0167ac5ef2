// SPDX-License-Identifier: Apache-2.0
//
// GEMMs by cuBLASLt: the algorithm is chosen once (on rank 0), recorded, and the same in every arm, solo and
// overlapped. No split-K, a workspace a stream: bits are equal from run to run.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cuda/device.hpp"
#include "backend/cuda/memory.hpp"

namespace ovl::cuda {

// What decides the algorithm.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  DType dtype = DType::f32;
  int sm_target = 0;    // 0: all
  int alignment = 256;  // bytes, of the operands' addresses: less leaves fewer algorithms to choose from
  friend auto operator<=>(const GemmShape&, const GemmShape&) = default;
};

// The largest power of two up to 256 that divides all of these addresses.
int alignment_of(std::initializer_list<const void*> operands);

// cublasLtMatmulAlgo_t by value, so that it can be sent to other processes.
using Algorithm = std::array<std::uint64_t, 8>;

// 32 MiB from compute capability 9.0, else 4 MiB (cuBLAS guide, "cublasSetWorkspace").
Bytes workspace_of(const Device& device);

class BlasHandle {
 public:
  BlasHandle();  // for the current device
  BlasHandle(const BlasHandle&) = delete;
  BlasHandle& operator=(const BlasHandle&) = delete;
  ~BlasHandle();
  [[nodiscard]] cublasLtHandle_t get() const { return handle_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
};

// The heuristic's first algorithm without split-K that fits the workspace. Throws Error(impossible) where there is
// none.
Algorithm choose_algorithm(const BlasHandle& blas, const Device& device, const GemmShape& shape);
// All that choose_algorithm() chooses from, in the heuristic's order.
std::vector<Algorithm> candidate_algorithms(const BlasHandle& blas, const Device& device, const GemmShape& shape);
// "id 67, tile 128x256, stages 4, cluster 2x1, split-K 1": what run.json and the row say.
std::string algorithm_text(const Algorithm& algorithm);
// How many times over the chosen algorithm's blocks fill the device, as the heuristic says; NaN where it does not.
double waves_of(const BlasHandle& blas, const Device& device, const GemmShape& shape);

// c (m×n) = a (m×k) · b (k×n), row-major, beta 0. For f8e4m3 b is stored n×k (the only layout that tensor cores take)
// and c is bf16. Enqueues `repeat` times.
class GemmPlan {
 public:
  // Throws Error(impossible) where this device cannot run the algorithm that another one chose.
  GemmPlan(const BlasHandle& blas, const GemmShape& shape, const Algorithm& algorithm);
  GemmPlan(const GemmPlan&) = delete;
  GemmPlan& operator=(const GemmPlan&) = delete;
  ~GemmPlan();

  // Of the bytes that the algorithm uses; the stream's workspace must have as many.
  [[nodiscard]] Bytes workspace() const;
  void enqueue(cudaStream_t stream, const void* a, const void* b, void* c, const DeviceMemory& workspace,
               std::int64_t repeat) const;

 private:
  struct Handles;
  std::unique_ptr<Handles> handles_;
};

}  // namespace ovl::cuda
