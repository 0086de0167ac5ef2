// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/api.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/error.hpp"

namespace ovl::cuda {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Caught {
  std::string text;
  ErrorKind kind = ErrorKind::usage;
};

template <class Status>
Caught caught(Status status, const char* call) {
  try {
    check(status, call);
  } catch (const Error& error) {
    return {error.what(), error.kind()};
  }
  return {"nothing was thrown", ErrorKind::usage};
}

TEST(Check, SuccessIsSilent) {
  EXPECT_NO_THROW(check(cudaSuccess, "cudaMalloc"));
  EXPECT_NO_THROW(check(CUDA_SUCCESS, "cuGreenCtxCreate"));
  EXPECT_NO_THROW(check(CUBLAS_STATUS_SUCCESS, "cublasLtMatmul"));
  EXPECT_NO_THROW(check(ncclSuccess, "ncclAllReduce"));
}

TEST(Check, NamesTheCallTheRankTheCodeAndWhatToTry) {
  const RankScope rank(Rank(3));
  const Caught error = caught(cudaErrorMemoryAllocation, "cudaMalloc (2GiB)");
  EXPECT_EQ(error.text,
            "cudaMalloc (2GiB) failed on rank 3: out of memory (cudaErrorMemoryAllocation); use smaller sizes, fewer "
            "buffer copies or fewer ranks, or end what else holds the GPU");
  EXPECT_EQ(error.kind, ErrorKind::impossible);
}

TEST(Check, TheRankIsThatOfTheInnermostScope) {
  EXPECT_THAT(caught(cudaErrorInvalidValue, "cudaMemcpyAsync").text, StartsWith("cudaMemcpyAsync failed: "));
  const RankScope outer(Rank(0));
  {
    const RankScope inner(Rank(7));
    EXPECT_THAT(caught(cudaErrorInvalidValue, "cudaMemcpyAsync").text, HasSubstr("failed on rank 7: "));
  }
  EXPECT_THAT(caught(cudaErrorInvalidValue, "cudaMemcpyAsync").text, HasSubstr("failed on rank 0: "));
}

TEST(Check, AnOldDriverSaysWhichOneIsNeeded) {
  const Caught error = caught(cudaErrorInsufficientDriver, "cudaSetDevice");
  const std::string needed = std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
  EXPECT_THAT(error.text, HasSubstr("(cudaErrorInsufficientDriver); install a driver for CUDA " + needed));
  EXPECT_EQ(error.kind, ErrorKind::impossible);
}

TEST(Check, AMissingDeviceSaysWhereToLook) {
  EXPECT_THAT(caught(cudaErrorNoDevice, "cudaSetDevice").text,
              HasSubstr("see what nvidia-smi lists and what CUDA_VISIBLE_DEVICES leaves of it"));
}

TEST(Check, AfterABrokenContextOnlyANewProcessHelps) {
  EXPECT_TRUE(ends_context(cudaErrorIllegalAddress));
  EXPECT_TRUE(ends_context(cudaErrorLaunchFailure));
  EXPECT_TRUE(ends_context(static_cast<cudaError_t>(721)));
  EXPECT_FALSE(ends_context(cudaErrorMemoryAllocation));
  EXPECT_FALSE(ends_context(cudaSuccess));
  const Caught error = caught(cudaErrorIllegalAddress, "cudaEventQuery");
  EXPECT_THAT(error.text, HasSubstr("start a new one"));
  EXPECT_EQ(error.kind, ErrorKind::failure);
}

TEST(Check, TheDriversCodesAreNamedToo) {
  const Caught memory = caught(CUDA_ERROR_OUT_OF_MEMORY, "cuGreenCtxCreate");
  EXPECT_THAT(memory.text, StartsWith("cuGreenCtxCreate failed: "));
  EXPECT_EQ(memory.kind, ErrorKind::impossible);
  EXPECT_EQ(caught(CUDA_ERROR_INVALID_VALUE, "cuStreamWaitValue32").kind, ErrorKind::failure);
}

TEST(Check, CublasWithoutAnAlgorithmIsImpossibleNotBroken) {
  const Caught error = caught(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmul");
  EXPECT_THAT(error.text, HasSubstr("CUBLAS_STATUS_NOT_SUPPORTED"));
  EXPECT_THAT(error.text, HasSubstr("use another dtype, or sizes that are multiples of 16"));
  EXPECT_EQ(error.kind, ErrorKind::impossible);
  EXPECT_EQ(caught(CUBLAS_STATUS_ALLOC_FAILED, "cublasLtCreate").kind, ErrorKind::impossible);
  EXPECT_EQ(caught(CUBLAS_STATUS_EXECUTION_FAILED, "cublasLtMatmul").kind, ErrorKind::failure);
}

TEST(Check, NcclSaysWhoseFaultItMayBe) {
  EXPECT_THAT(caught(ncclInvalidUsage, "ncclCommInitRankConfig").text,
              HasSubstr("give every rank a GPU of its own and all of them the same NCCL"));
  EXPECT_THAT(caught(ncclRemoteError, "ncclAllReduce").text, HasSubstr("another rank ended or cannot be reached"));
  EXPECT_THAT(caught(ncclUnhandledCudaError, "ncclAllReduce").text, HasSubstr("NCCL_DEBUG=INFO"));
  EXPECT_THAT(caught(ncclSystemError, "ncclGroupEnd").text, HasSubstr("NCCL_SOCKET_IFNAME"));
  EXPECT_THAT(caught(ncclInProgress, "ncclAllReduce").text, HasSubstr("unset NCCL_COMM_BLOCKING"));
}

// The header of NCCL 2.28 has no 8; a newer library that is loaded in its place returns it.
TEST(Check, CodesThatTheHeaderLacksAreToldByNumber) {
  EXPECT_THAT(caught(static_cast<ncclResult_t>(8), "ncclCommFinalize").text, HasSubstr("(ncclTimeout)"));
  EXPECT_THAT(caught(static_cast<ncclResult_t>(15), "ncclCommFinalize").text, HasSubstr("(ncclResult 15)"));
}

TEST(Release, TellsOnceACallOnStderr) {
  testing::internal::CaptureStderr();
  release(cudaErrorInvalidResourceHandle, "cudaEventDestroy (of this test)");
  release(cudaErrorInvalidResourceHandle, "cudaEventDestroy (of this test)");
  release(cudaSuccess, "cudaStreamDestroy (of this test)");
  release(cudaErrorCudartUnloading, "cudaFree (of this test)");
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, StartsWith("overlapbench: while releasing: cudaEventDestroy (of this test) failed: "));
  EXPECT_EQ(told.find('\n'), told.size() - 1) << told;
}

}  // namespace
}  // namespace ovl::cuda
