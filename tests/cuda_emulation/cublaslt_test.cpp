// SPDX-License-Identifier: Apache-2.0
//
// The emulated cuBLASLt through its interface.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cuda_emulation/device_test.hpp"
#include "cuda_emulation/emulator.hpp"

namespace ovl::emulation {
namespace {

using testing::Array;
using testing::must;
using testing::Stream;
using Floats = std::vector<float>;

void blas(cublasStatus_t status) { ASSERT_EQ(status, CUBLAS_STATUS_SUCCESS) << cublasLtGetStatusName(status); }

// A product of columns-first matrices m x k and k x n, and everything that cuBLASLt wants for it.
class Gemm {
 public:
  Gemm(std::uint64_t m, std::uint64_t n, std::uint64_t k, cudaDataType in = CUDA_R_32F, cudaDataType out = CUDA_R_32F,
       cublasComputeType_t compute = CUBLAS_COMPUTE_32F, bool a_transposed = false) {
    blas(cublasLtCreate(&handle));
    blas(cublasLtMatmulDescCreate(&operation, compute, CUDA_R_32F));
    const std::int32_t transposed = a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    blas(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
    blas(cublasLtMatrixLayoutCreate(&a, in, a_transposed ? k : m, a_transposed ? m : k,
                                    static_cast<std::int64_t>(a_transposed ? k : m)));
    blas(cublasLtMatrixLayoutCreate(&b, in, k, n, static_cast<std::int64_t>(k)));
    blas(cublasLtMatrixLayoutCreate(&c, out, m, n, static_cast<std::int64_t>(m)));
    blas(cublasLtMatmulPreferenceCreate(&preference));
    const std::uint64_t workspace = 1 << 20;
    blas(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                              sizeof workspace));
  }
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;
  ~Gemm() {
    blas(cublasLtMatmulPreferenceDestroy(preference));
    for (const cublasLtMatrixLayout_t layout : {a, b, c}) {
      blas(cublasLtMatrixLayoutDestroy(layout));
    }
    blas(cublasLtMatmulDescDestroy(operation));
    blas(cublasLtDestroy(handle));
  }

  void forbid_split_k() const {
    const std::uint32_t none = CUBLASLT_REDUCTION_SCHEME_NONE;
    blas(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &none,
                                              sizeof none));
  }
  cublasStatus_t heuristic(std::vector<cublasLtMatmulHeuristicResult_t>* results) const {
    results->resize(8);
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, operation, a, b, c, c, preference, 8, results->data(), &found);
    results->resize(static_cast<std::size_t>(found));
    return status;
  }
  [[nodiscard]] std::vector<cublasLtMatmulHeuristicResult_t> algorithms() const {
    std::vector<cublasLtMatmulHeuristicResult_t> results;
    blas(heuristic(&results));
    return results;
  }
  cublasStatus_t run(const cublasLtMatmulAlgo_t& algorithm, const void* in_a, const void* in_b, void* out,
                     cudaStream_t stream, void* workspace = nullptr, std::size_t bytes = 0, float beta = 0) const {
    const float alpha = 1;
    return cublasLtMatmul(handle, operation, &alpha, in_a, a, in_b, b, &beta, out, c, out, c, &algorithm, workspace,
                          bytes, stream);
  }

  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t b = nullptr;
  cublasLtMatrixLayout_t c = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
};

int config(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  std::int32_t value = 0;
  std::size_t written = 0;
  blas(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written));
  EXPECT_EQ(written, sizeof value);
  return value;
}

class CublasLt : public ::testing::Test {
 protected:
  void SetUp() override { must(cudaSetDevice(0), "cudaSetDevice"); }
};

// | 1 3 | | 5 7 |   | 1*5+3*6  1*7+3*8 |   | 23 31 |
// | 2 4 | | 6 8 | = | 2*5+4*6  2*7+4*8 | = | 34 46 |
TEST_F(CublasLt, MultipliesOnAStream) {
  const Gemm gemm(2, 2, 2);
  gemm.forbid_split_k();
  const Stream stream;
  const Array<float> a(Floats{1, 2, 3, 4});
  const Array<float> b(Floats{5, 6, 7, 8});
  const Array<float> d(Floats(4, std::numeric_limits<float>::quiet_NaN()));  // beta 0: what was there is not read
  blas(gemm.run(gemm.algorithms().front().algo, a.get(), b.get(), d.get(), stream.get()));
  stream.synchronize();
  EXPECT_EQ(d.values(), (Floats{23, 34, 31, 46}));
}

TEST_F(CublasLt, BetaAddsWhatWasThere) {
  const Gemm gemm(2, 2, 2);
  gemm.forbid_split_k();
  const Stream stream;
  const Array<float> a(Floats{1, 2, 3, 4});
  const Array<float> b(Floats{5, 6, 7, 8});
  const Array<float> d(Floats{1, 2, 3, 4});
  blas(gemm.run(gemm.algorithms().front().algo, a.get(), b.get(), d.get(), stream.get(), nullptr, 0, 10));
  stream.synchronize();
  EXPECT_EQ(d.values(), (Floats{33, 54, 61, 86}));
}

TEST_F(CublasLt, F8IsTransposedNormalAndGivesBf16) {
  const Gemm gemm(16, 16, 16, CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F, true);
  gemm.forbid_split_k();
  const Stream stream;
  const Array<std::uint8_t> a(std::vector<std::uint8_t>(256, 0x3c));  // 1.5
  const Array<std::uint8_t> b(std::vector<std::uint8_t>(256, 0x40));  // 2
  const Array<std::uint16_t> d(256);
  blas(gemm.run(gemm.algorithms().front().algo, a.get(), b.get(), d.get(), stream.get()));
  stream.synchronize();
  EXPECT_EQ(d.values(), std::vector<std::uint16_t>(256, 0x4240));  // 16 * 3 = 48
  std::vector<cublasLtMatmulHeuristicResult_t> none;
  EXPECT_EQ(Gemm(16, 16, 16, CUDA_R_8F_E4M3, CUDA_R_16BF).heuristic(&none), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(CublasLt, TheHeuristicOffersSplitKToWhoeverDoesNotForbidIt) {
  const Gemm gemm(512, 512, 512);
  const auto all = gemm.algorithms();
  ASSERT_GE(all.size(), 3U);
  EXPECT_EQ(config(all.front().algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM), 4);
  EXPECT_EQ(all.front().workspaceSize, 65536U);
  gemm.forbid_split_k();
  for (const auto& result : gemm.algorithms()) {
    EXPECT_EQ(config(result.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM), 1);
    EXPECT_EQ(config(result.algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME), CUBLASLT_REDUCTION_SCHEME_NONE);
    cublasLtMatmulHeuristicResult_t checked{};
    blas(cublasLtMatmulAlgoCheck(gemm.handle, gemm.operation, gemm.a, gemm.b, gemm.c, gemm.c, &result.algo, &checked));
    EXPECT_EQ(checked.workspaceSize, result.workspaceSize);
    EXPECT_EQ(checked.wavesCount, result.wavesCount);
  }
}

TEST_F(CublasLt, AnSmTargetChangesTheWaves) {
  const Gemm gemm(1280, 1280, 64);
  gemm.forbid_split_k();
  const auto waves_of_tile = [&](int id) {
    for (const auto& result : gemm.algorithms()) {
      if (config(result.algo, CUBLASLT_ALGO_CONFIG_ID) == id) {
        return result.wavesCount;
      }
    }
    return -1.0F;
  };
  EXPECT_FLOAT_EQ(waves_of_tile(67), 100.0F / 132.0F);  // 10 x 10 tiles of 128 x 128
  const std::int32_t target = 50;
  blas(cublasLtMatmulDescSetAttribute(gemm.operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &target, sizeof target));
  EXPECT_FLOAT_EQ(waves_of_tile(67), 2.0F);
}

TEST_F(CublasLt, TheGridIsReadBackFromTheTrace) {
  const Gemm gemm(1280, 1280, 8, CUDA_R_16BF, CUDA_R_16BF);
  gemm.forbid_split_k();
  const Stream stream;
  const Array<std::uint16_t> a(1280 * 8);
  const Array<std::uint16_t> b(1280 * 8);
  const Array<std::uint16_t> d(1280 * 1280);
  record_spans(true);
  for (const auto& result : gemm.algorithms()) {
    if (config(result.algo, CUBLASLT_ALGO_CONFIG_ID) == 67) {
      blas(gemm.run(result.algo, a.get(), b.get(), d.get(), stream.get()));
    }
  }
  stream.synchronize();
  std::vector<KernelSpan> kernels;
  for (const KernelSpan& span : take_spans()) {
    if (span.name == "nvjet_emulated_bf16_128x128") {
      kernels.push_back(span);
    }
  }
  record_spans(false);
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].blocks, 100);
  EXPECT_FALSE(kernels[0].copy);
}

TEST_F(CublasLt, RefusesWhatCublasRefuses) {
  const Gemm gemm(64, 64, 64);
  gemm.forbid_split_k();
  const Stream stream;
  const Array<float> memory(Floats(64 * 64 + 1));
  const Array<float> out(Floats(64 * 64));
  const cublasLtMatmulAlgo_t foreign{};
  EXPECT_EQ(gemm.run(foreign, memory.get(), memory.get(), out.get(), stream.get()), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_STREQ(cublasLtGetStatusName(CUBLAS_STATUS_INVALID_VALUE), "CUBLAS_STATUS_INVALID_VALUE");
  for (const auto& result : gemm.algorithms()) {
    if (result.workspaceSize > 0) {  // it gets none
      EXPECT_EQ(gemm.run(result.algo, memory.get(), memory.get(), out.get(), stream.get()),
                CUBLAS_STATUS_INVALID_VALUE);
    } else if (config(result.algo, CUBLASLT_ALGO_CONFIG_ID) == 67) {  // wants 16 byte alignment
      EXPECT_EQ(gemm.run(result.algo, memory.get() + 1, memory.get(), out.get(), stream.get()),
                CUBLAS_STATUS_NOT_SUPPORTED);
    }
    static_cast<void>(cublasLtGetStatusString(CUBLAS_STATUS_INVALID_VALUE));
  }
  const Gemm other_types(64, 64, 64, CUDA_R_16F, CUDA_R_16F);
  EXPECT_EQ(other_types.run(gemm.algorithms().back().algo, memory.get(), memory.get(), out.get(), stream.get()),
            CUBLAS_STATUS_INVALID_VALUE);
  static_cast<void>(cublasLtGetStatusString(CUBLAS_STATUS_INVALID_VALUE));
  const std::int64_t wrong_size = 1;
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(gemm.operation, CUBLASLT_MATMUL_DESC_TRANSA, &wrong_size, sizeof wrong_size),
            CUBLAS_STATUS_INVALID_VALUE);
  static_cast<void>(cublasLtGetStatusString(CUBLAS_STATUS_INVALID_VALUE));
}

TEST_F(CublasLt, AnotherDeviceThanTheHandles) {
  const Gemm gemm(16, 16, 16);
  gemm.forbid_split_k();
  const Stream stream;
  const Array<float> memory(Floats(256));
  const Array<float> out(Floats(256));
  const auto algorithm = gemm.algorithms().front().algo;
  must(cudaSetDevice(1), "cudaSetDevice");
  EXPECT_EQ(gemm.run(algorithm, memory.get(), memory.get(), out.get(), stream.get()), CUBLAS_STATUS_EXECUTION_FAILED);
  static_cast<void>(cublasLtGetStatusString(CUBLAS_STATUS_EXECUTION_FAILED));
  must(cudaSetDevice(0), "cudaSetDevice");
}

TEST_F(CublasLt, AttributesAreReadBack) {
  const Gemm gemm(16, 16, 16);
  std::int32_t target = 77;
  blas(cublasLtMatmulDescSetAttribute(gemm.operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &target, sizeof target));
  target = 0;
  std::size_t written = 0;
  blas(cublasLtMatmulDescGetAttribute(gemm.operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &target, sizeof target,
                                      &written));
  EXPECT_EQ(target, 77);
  blas(cublasLtMatmulDescGetAttribute(gemm.operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, nullptr, 0, &written));
  EXPECT_EQ(written, 1U);
}

// ---- what a GPU would not tell -------------------------------------------------------------------------------------

using CublasLtDeathTest = CublasLt;

TEST_F(CublasLtDeathTest, OneWorkspaceForTwoStreams) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const Gemm gemm(512, 512, 16);
        const Stream first;
        const Stream second;
        const Array<float> a(512 * 16);
        const Array<float> b(512 * 16);
        const Array<float> d(512 * 512);
        const Array<float> e(512 * 512);
        const Array<float> workspace(1 << 18);
        const auto algorithm = gemm.algorithms().front().algo;  // it takes 64 KiB of it
        blas(gemm.run(algorithm, a.get(), b.get(), d.get(), first.get(), workspace.get(), 1 << 20));
        static_cast<void>(gemm.run(algorithm, a.get(), b.get(), e.get(), second.get(), workspace.get(), 1 << 20));
        first.synchronize();
      },
      ::testing::ExitedWithCode(86), "cuda_emulation: .*nvjet_emulated_f32_128x128");
}

TEST_F(CublasLtDeathTest, ALeakedHandle) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        cublasLtHandle_t handle = nullptr;
        blas(cublasLtCreate(&handle));
        std::exit(0);
      },
      ::testing::ExitedWithCode(86), "1 live cuBLASLt handles");
}

TEST_F(CublasLtDeathTest, ADescriptorDestroyedTwice) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        cublasLtMatmulPreference_t preference = nullptr;
        blas(cublasLtMatmulPreferenceCreate(&preference));
        blas(cublasLtMatmulPreferenceDestroy(preference));
        static_cast<void>(cublasLtMatmulPreferenceDestroy(preference));
      },
      ::testing::ExitedWithCode(86), "cublasLtMatmulPreferenceDestroy: destroyed before, or never made");
}

}  // namespace
}  // namespace ovl::emulation
