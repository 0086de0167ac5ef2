// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/api.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <mutex>
#include <set>
#include <string>

#include "backend/cuda/driver.hpp"
#include "base/error.hpp"

namespace ovl::cuda {
namespace {

thread_local Rank current_rank;

std::string problem_of(const char* call) {
  std::string problem = std::string(call) + " failed";
  if (current_rank.valid()) problem += " on rank " + std::to_string(current_rank.value);
  return problem;
}

constexpr const char* smaller = "use smaller sizes, fewer buffer copies or fewer ranks, or end what else holds the GPU";
constexpr const char* new_process = "the device is lost to this process: start a new one";
constexpr const char* ask_nccl = "type NCCL_DEBUG=INFO before the command to see what NCCL says";

// ---- CUDA -----------------------------------------------------------------------------------------------------------

std::string words_of(cudaError_t status) {
  return std::string(cudaGetErrorString(status)) + " (" + cudaGetErrorName(status) + ")";
}

std::string words_of(CUresult status) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver().error_name != nullptr) driver().error_name(status, &name);
  if (driver().error_text != nullptr) driver().error_text(status, &text);
  const std::string code = name != nullptr ? std::string(name) : "CUresult " + std::to_string(static_cast<int>(status));
  return text != nullptr ? std::string(text) + " (" + code + ")" : code;
}

std::string driver_advice() {
  const int has = driver_version();
  return "install a driver for CUDA " + version_text(CUDART_VERSION) + " or later" +
         (has > 0 ? "; this one is for CUDA " + version_text(has) : std::string());
}

Error error_of(cudaError_t status, const char* call) {
  const std::string problem = problem_of(call);
  const std::string why = words_of(status);
  switch (status) {
    case cudaErrorMemoryAllocation: return impossible_error(problem, why, smaller);
    case cudaErrorInsufficientDriver:
    case cudaErrorCallRequiresNewerDriver: return impossible_error(problem, why, driver_advice());
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
      return impossible_error(problem, why, "see what nvidia-smi lists and what CUDA_VISIBLE_DEVICES leaves of it");
    case cudaErrorDevicesUnavailable:
      return impossible_error(problem, why, "another process has the GPU for itself: see nvidia-smi");
    case cudaErrorNoKernelImageForDevice:
      return impossible_error(problem, why, "build with this device's architecture in CMAKE_CUDA_ARCHITECTURES");
    case cudaErrorNotSupported: return impossible_error(problem, why, "leave out the option that asks for it");
    default: return failure(problem, why, ends_context(status) ? new_process : "");
  }
}

Error error_of(CUresult status, const char* call) {
  const std::string problem = problem_of(call);
  const std::string why = words_of(status);
  switch (status) {
    case CUDA_ERROR_OUT_OF_MEMORY: return impossible_error(problem, why, smaller);
    case CUDA_ERROR_NOT_SUPPORTED: return impossible_error(problem, why, "leave out the option that asks for it");
    default: return failure(problem, why);
  }
}

// ---- cuBLASLt -------------------------------------------------------------------------------------------------------

Error error_of(cublasStatus_t status, const char* call) {
  const std::string problem = problem_of(call);
  const std::string why = std::string(cublasLtGetStatusString(status)) + " (" + cublasLtGetStatusName(status) + ")";
  switch (status) {
    case CUBLAS_STATUS_ALLOC_FAILED: return impossible_error(problem, why, smaller);
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return failure(problem, why, driver_version() < CUDART_VERSION ? driver_advice() : smaller);
    case CUBLAS_STATUS_ARCH_MISMATCH:
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return impossible_error(problem, why, "use another dtype, or sizes that are multiples of 16");
    case CUBLAS_STATUS_EXECUTION_FAILED: return failure(problem, why, new_process);
    default: return failure(problem, why, "type CUBLASLT_LOG_LEVEL=5 before the command to see the call");
  }
}

// ---- NCCL -----------------------------------------------------------------------------------------------------------

struct NcclCode {
  int code;
  const char* name;
  const char* advice;
};
// By number, since a library newer than the header has more of them.
constexpr NcclCode nccl_codes[] = {
    {1, "ncclUnhandledCudaError", "type NCCL_DEBUG=INFO before the command to see which CUDA call it was"},
    {2, "ncclSystemError",
     "type NCCL_DEBUG=INFO before the command; often it is the network (NCCL_SOCKET_IFNAME names the interface) or a "
     "full /dev/shm"},
    {3, "ncclInternalError", ask_nccl},
    {4, "ncclInvalidArgument", ask_nccl},
    {5, "ncclInvalidUsage",
     "give every rank a GPU of its own and all of them the same NCCL; NCCL_DEBUG=WARN says which rule was broken"},
    {6, "ncclRemoteError", "another rank ended or cannot be reached: read its message first"},
    {7, "ncclInProgress", "communicators must block: unset NCCL_COMM_BLOCKING"},
    {8, "ncclTimeout", "a rank is missing or cannot be reached: see that all of them started"},
};

Error error_of(ncclResult_t status, const char* call) {
  const int code = static_cast<int>(status);
  std::string name = "ncclResult " + std::to_string(code);
  std::string advice = ask_nccl;
  for (const NcclCode& known : nccl_codes) {
    if (known.code == code) {
      name = known.name;
      advice = known.advice;
    }
  }
  std::string why = std::string(ncclGetErrorString(status)) + " (" + name + ")";
  const char* last = ncclGetLastError(nullptr);
  if (last != nullptr && *last != '\0') why += ": " + std::string(last);
  return failure(problem_of(call), why, advice);
}

// ---- both -----------------------------------------------------------------------------------------------------------

// A call that fails while everything is torn down is told once a call, not once an object.
void tell(const Error& error, const char* call) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard lock(mutex);
  if (told.insert(call).second) std::fprintf(stderr, "overlapbench: while releasing: %s\n", error.what());
}

template <class Status>
void release_any(Status status, Status success, const char* call) noexcept {
  if (status == success) return;
  try {
    tell(error_of(status, call), call);
  } catch (...) {  // no memory for the message
  }
}

// The runtime keeps its last error, and a library that asks for it after its own launch would take ours for its own.
void forget_last_error() { static_cast<void>(cudaGetLastError()); }

}  // namespace

bool ends_context(cudaError_t status) {
  // The last by number: not every toolkit that we are compiled with names them (ECC contained, tensor memory leak,
  // external device).
  constexpr int sticky[] = {cudaErrorIllegalAddress,
                            cudaErrorLaunchFailure,
                            cudaErrorLaunchTimeout,
                            cudaErrorHardwareStackError,
                            cudaErrorIllegalInstruction,
                            cudaErrorMisalignedAddress,
                            cudaErrorInvalidAddressSpace,
                            cudaErrorInvalidPc,
                            cudaErrorAssert,
                            cudaErrorECCUncorrectable,
                            cudaErrorNvlinkUncorrectable,
                            226,
                            721,
                            911};
  return std::ranges::find(sticky, static_cast<int>(status)) != std::end(sticky);
}

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  forget_last_error();
  throw error_of(status, call);
}
void check(CUresult status, const char* call) {
  if (status != CUDA_SUCCESS) throw error_of(status, call);
}
void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) throw error_of(status, call);
}
void check(ncclResult_t status, const char* call) {
  if (status == ncclSuccess) return;
  forget_last_error();
  throw error_of(status, call);
}

void release(cudaError_t status, const char* call) noexcept {
  if (status == cudaErrorCudartUnloading) return;  // the process ends and the driver has gone before us
  if (status != cudaSuccess) forget_last_error();
  release_any(status, cudaSuccess, call);
}
void release(CUresult status, const char* call) noexcept { release_any(status, CUDA_SUCCESS, call); }
void release(cublasStatus_t status, const char* call) noexcept { release_any(status, CUBLAS_STATUS_SUCCESS, call); }
void release(ncclResult_t status, const char* call) noexcept { release_any(status, ncclSuccess, call); }

void forgive(cudaError_t status) noexcept {
  if (status != cudaSuccess) forget_last_error();
}
void forgive(ncclResult_t status) noexcept {
  if (status != ncclSuccess) forget_last_error();
}

int driver_version() {
  int version = 0;
  const cudaError_t status = cudaDriverGetVersion(&version);
  forgive(status);
  return status == cudaSuccess ? version : 0;
}

std::string version_text(int cuda) { return std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10); }

RankScope::RankScope(Rank rank) : before_(current_rank) { current_rank = rank; }
RankScope::~RankScope() { current_rank = before_; }

}  // namespace ovl::cuda
