// SPDX-License-Identifier: Apache-2.0
//
// Every call into CUDA, cuBLASLt and NCCL is checked through here: a failure becomes one Error that names the call, its
// code in words, the rank, and what to try.
#pragma once

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>

#include "base/ids.hpp"
#include "kernels/cuda/launch.hpp"

namespace ovl::cuda {

// Error(impossible) where memory ran out, else Error(failure). `call` is the function's name, with a word on its
// purpose where one function serves several: "cudaLaunchKernelExC (fill)".
void check(cudaError_t status, const char* call);
void check(CUresult status, const char* call);
void check(cublasStatus_t status, const char* call);
void check(ncclResult_t status, const char* call);

// Of a launch of our kernels, whose header names no vendor type.
inline void launched(kernels::Status status, const char* call) { check(static_cast<cudaError_t>(status), call); }

// For destructors: a release that fails is told on stderr once, since nothing can be thrown there.
void release(cudaError_t status, const char* call) noexcept;
void release(CUresult status, const char* call) noexcept;
void release(cublasStatus_t status, const char* call) noexcept;
void release(ncclResult_t status, const char* call) noexcept;

// A failure that is expected, or that another error already tells of.
void forgive(cudaError_t status) noexcept;
void forgive(ncclResult_t status) noexcept;

// Whether the process cannot use its device any more after this: the next command belongs in a new process.
bool ends_context(cudaError_t status);

// The newest CUDA that the driver serves, as CUDA counts (12040 is 12.4); 0 without a driver.
int driver_version();
std::string version_text(int cuda);

// While it lives, failures on this thread name the rank.
class RankScope {
 public:
  explicit RankScope(Rank rank);
  RankScope(const RankScope&) = delete;
  RankScope& operator=(const RankScope&) = delete;
  ~RankScope();

 private:
  Rank before_;
};

}  // namespace ovl::cuda
