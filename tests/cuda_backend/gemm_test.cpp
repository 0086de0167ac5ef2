// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm.hpp"

#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <gmock/gmock.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "backend/cuda/stream.hpp"
#include "base/error.hpp"
#include "cuda_backend/needs_device.hpp"

namespace ovl::cuda {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

const void* at(std::uintptr_t address) { return std::bit_cast<const void*>(address); }

TEST(Alignment, IsWhatAllOperandsHave) {
  EXPECT_EQ(alignment_of({at(0x1000), at(0x2000)}), 256);
  EXPECT_EQ(alignment_of({at(0x1000), at(0x2010), at(0x3000)}), 16);
  EXPECT_EQ(alignment_of({at(0x1080)}), 128);
  EXPECT_EQ(alignment_of({at(0x1001)}), 1);
}

TEST(Workspace, IsLargerFromHopperOn) {
  Device device;
  device.major = 8;
  device.minor = 9;
  EXPECT_EQ(workspace_of(device), mebibytes(4));
  device.major = 9;
  device.minor = 0;
  EXPECT_EQ(workspace_of(device), mebibytes(32));
}

class GemmTest : public NeedsDevice {
 protected:
  template <class Value>
  std::vector<Value> multiply(const GemmShape& shape, const std::vector<std::uint8_t>& a_bytes,
                              const std::vector<std::uint8_t>& b_bytes, std::int64_t repeat = 1) {
    const BlasHandle blas;
    const Stream stream(device, device.least_priority);
    const DeviceMemory a(Bytes(static_cast<std::int64_t>(a_bytes.size())));
    const DeviceMemory b(Bytes(static_cast<std::int64_t>(b_bytes.size())));
    std::vector<Value> result(static_cast<std::size_t>(shape.m * shape.n));
    const std::size_t result_bytes = result.size() * sizeof(Value);
    const DeviceMemory c(Bytes(static_cast<std::int64_t>(result_bytes)));
    const DeviceMemory workspace(workspace_of(device));
    check(cudaMemcpy(a.get(), a_bytes.data(), a_bytes.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaMemcpy(b.get(), b_bytes.data(), b_bytes.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    const GemmPlan plan(blas, shape, choose_algorithm(blas, device, shape));
    plan.enqueue(stream.get(), a.get(), b.get(), c.get(), workspace, repeat);
    check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    check(cudaMemcpy(result.data(), c.get(), result_bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return result;
  }

  template <class Value>
  static std::vector<std::uint8_t> bytes(const std::vector<Value>& values) {
    std::vector<std::uint8_t> raw(values.size() * sizeof(Value));
    std::memcpy(raw.data(), values.data(), raw.size());
    return raw;
  }
};

// | 1 2 3 |   | 1  2 |   | 1+6+15   2+8+18  |   | 22  28 |
// | 4 5 6 | · | 3  4 | = | 4+15+30  8+20+36 | = | 49  64 |
//             | 5  6 |
TEST_F(GemmTest, IsRowMajor) {
  const GemmShape shape{.m = 2, .n = 2, .k = 3, .dtype = DType::f32};
  EXPECT_THAT(multiply<float>(shape, bytes<float>({1, 2, 3, 4, 5, 6}), bytes<float>({1, 2, 3, 4, 5, 6})),
              ElementsAre(22, 28, 49, 64));
}

TEST_F(GemmTest, DoublesAreScaledInDoubles) {
  const GemmShape shape{.m = 2, .n = 2, .k = 3, .dtype = DType::f64};
  EXPECT_THAT(multiply<double>(shape, bytes<double>({1, 2, 3, 4, 5, 6}), bytes<double>({1, 2, 3, 4, 5, 6})),
              ElementsAre(22, 28, 49, 64));
}

// The result is written over, not added to: twice is once.
TEST_F(GemmTest, RepeatsGiveTheSame) {
  const GemmShape shape{.m = 1, .n = 1, .k = 2, .dtype = DType::f32};
  EXPECT_THAT(multiply<float>(shape, bytes<float>({2, 3}), bytes<float>({5, 7}), 3), ElementsAre(31));
}

// a: 16×16 of ones. b is stored n×k, its row j all of the value j % 4: c[i][j] = 16 · (j % 4), in bf16.
TEST_F(GemmTest, F8TakesItsSecondOperandTransposedAndWritesBf16) {
  if (device.capability() < 89) GTEST_SKIP() << "no f8";
  const GemmShape shape{.m = 16, .n = 16, .k = 16, .dtype = DType::f8e4m3};
  std::vector<__nv_fp8_e4m3> a(256, __nv_fp8_e4m3(1.0F));
  std::vector<__nv_fp8_e4m3> b;
  for (int j = 0; j < 16; ++j) b.insert(b.end(), 16, __nv_fp8_e4m3(static_cast<float>(j % 4)));
  const auto c = multiply<__nv_bfloat16>(shape, bytes(a), bytes(b));
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 16; ++j) {
      EXPECT_EQ(__bfloat162float(c[16 * i + j]), 16 * static_cast<float>(j % 4)) << i << "," << j;
    }
  }
}

TEST_F(GemmTest, TheAlgorithmIsRecordedAndDoesNotSplitK) {
  const BlasHandle blas;
  const GemmShape shape{.m = 256, .n = 256, .k = 256, .dtype = DType::f16, .sm_target = 16};
  const Algorithm algorithm = choose_algorithm(blas, device, shape);
  EXPECT_EQ(choose_algorithm(blas, device, shape), algorithm);
  EXPECT_THAT(algorithm_text(algorithm), StartsWith("id "));
  EXPECT_THAT(algorithm_text(algorithm), HasSubstr(", tile "));
  EXPECT_THAT(algorithm_text(algorithm), EndsWith(", split-K 1"));
  EXPECT_FALSE(waves_of(blas, device, shape) <= 0);
  const GemmPlan plan(blas, shape, algorithm);
  EXPECT_LE(plan.workspace(), workspace_of(device));
}

TEST_F(GemmTest, OperandsThatLieElsewhereThanChosenForAreRefused) {
  const BlasHandle blas;
  const GemmShape shape{.m = 16, .n = 16, .k = 16, .dtype = DType::f32};
  const GemmPlan plan(blas, shape, choose_algorithm(blas, device, shape));
  const Stream stream(device, device.least_priority);
  const DeviceMemory memory(Bytes(8192));
  const DeviceMemory workspace(workspace_of(device));
  EXPECT_ANY_THROW(
      plan.enqueue(stream.get(), memory.get() + 4, memory.get() + 2048, memory.get() + 4096, workspace, 1));
}

}  // namespace
}  // namespace ovl::cuda
