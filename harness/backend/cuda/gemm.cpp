// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm.hpp"

#include <array>
#include <bit>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "base/error.hpp"

namespace ovl::cuda {
namespace {

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));

// What the numbers are stored, summed and scaled in.
struct Types {
  cudaDataType_t in;
  cudaDataType_t out;
  cudaDataType_t scale;
  cublasComputeType_t compute;
};

Types types_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return {CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case DType::f32: return {CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DType::tf32: return {CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32};
    case DType::f16: return {CUDA_R_16F, CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DType::bf16: return {CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DType::f8e4m3: return {CUDA_R_8F_E4M3, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
  }
  throw failure("a GEMM", "its dtype is none of ours");
}

struct DestroyDescriptor {
  void operator()(cublasLtMatmulDesc_t d) const { release(cublasLtMatmulDescDestroy(d), "cublasLtMatmulDescDestroy"); }
};
struct DestroyLayout {
  void operator()(cublasLtMatrixLayout_t l) const {
    release(cublasLtMatrixLayoutDestroy(l), "cublasLtMatrixLayoutDestroy");
  }
};
struct DestroyPreference {
  void operator()(cublasLtMatmulPreference_t p) const {
    release(cublasLtMatmulPreferenceDestroy(p), "cublasLtMatmulPreferenceDestroy");
  }
};
using Descriptor = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>, DestroyDescriptor>;
using Layout = std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>, DestroyLayout>;
using Preference = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, DestroyPreference>;

template <class Value>
void set(const Descriptor& descriptor, cublasLtMatmulDescAttributes_t attribute, Value value) {
  check(cublasLtMatmulDescSetAttribute(descriptor.get(), attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
}
template <class Value>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
}

Layout make_layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
                                   rows),
        "cublasLtMatrixLayoutCreate");
  return Layout(layout);
}

// cuBLASLt is column-major, so it is given cᵀ = bᵀ · aᵀ: our b is its first operand, and no matrix is moved.
struct Matmul {
  Descriptor descriptor;
  Layout first;   // b
  Layout second;  // a
  Layout result;  // c
};

Matmul make_matmul(const GemmShape& s) {
  const Types types = types_of(s.dtype);
  cublasLtMatmulDesc_t descriptor = nullptr;
  check(cublasLtMatmulDescCreate(&descriptor, types.compute, types.scale), "cublasLtMatmulDescCreate");
  Matmul op;
  op.descriptor.reset(descriptor);
  // Stored n×k, b is column-major k×n and transposed on the way in.
  const bool transposed = s.dtype == DType::f8e4m3;
  set<std::int32_t>(op.descriptor, CUBLASLT_MATMUL_DESC_TRANSA, transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set<std::int32_t>(op.descriptor, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  if (s.sm_target > 0) set<std::int32_t>(op.descriptor, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, s.sm_target);
  op.first = transposed ? make_layout(types.in, s.k, s.n) : make_layout(types.in, s.n, s.k);
  op.second = make_layout(types.in, s.k, s.m);
  op.result = make_layout(types.out, s.n, s.m);
  return op;
}

std::string text_of(const GemmShape& s) {
  return fmt::format("a GEMM of {}x{}x{} in {}", s.m, s.n, s.k, name(s.dtype));
}

template <class Value>
Value attribute(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t which) {
  Value value = {};
  std::size_t written = 0;
  check(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, which, &value, sizeof(value), &written),
        "cublasLtMatmulAlgoConfigGetAttribute");
  return value;
}

bool splits_k(const cublasLtMatmulAlgo_t& algorithm) {
  return attribute<std::int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) > 1 ||
         attribute<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) != CUBLASLT_REDUCTION_SCHEME_NONE;
}

// Those that keep bits equal and fit the workspace, the fastest by the heuristic's estimate first; never empty.
std::vector<cublasLtMatmulHeuristicResult_t> candidates(const BlasHandle& blas, const Device& device,
                                                        const GemmShape& shape) {
  const Matmul op = make_matmul(shape);
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  const Preference preference(made);
  const auto workspace = static_cast<std::uint64_t>(workspace_of(device).value());
  set<std::uint64_t>(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
  set<std::uint32_t>(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_NONE);
  for (const auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                           CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set<std::uint32_t>(preference, which, static_cast<std::uint32_t>(shape.alignment));
  }
  std::array<cublasLtMatmulHeuristicResult_t, 32> found = {};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      blas.get(), op.descriptor.get(), op.first.get(), op.second.get(), op.result.get(), op.result.get(),
      preference.get(), static_cast<int>(found.size()), found.data(), &count);
  check(status, ("cublasLtMatmulAlgoGetHeuristic (" + text_of(shape) + ")").c_str());
  std::vector<cublasLtMatmulHeuristicResult_t> usable;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const cublasLtMatmulHeuristicResult_t& result = found.at(i);
    if (result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace && !splits_k(result.algo)) {
      usable.push_back(result);
    }
  }
  if (!usable.empty()) return usable;
  throw impossible_error(text_of(shape), "cuBLASLt has no algorithm for it here without split-K",
                         "use another dtype, or sizes that are multiples of 16");
}

// ---- names of cublasLt.h --------------------------------------------------------------------------------------------

struct Named {
  std::uint32_t id;
  const char* text;
};

constexpr Named tiles[] = {
    {CUBLASLT_MATMUL_TILE_8x8, "8x8"},         {CUBLASLT_MATMUL_TILE_8x16, "8x16"},
    {CUBLASLT_MATMUL_TILE_16x8, "16x8"},       {CUBLASLT_MATMUL_TILE_8x32, "8x32"},
    {CUBLASLT_MATMUL_TILE_16x16, "16x16"},     {CUBLASLT_MATMUL_TILE_32x8, "32x8"},
    {CUBLASLT_MATMUL_TILE_8x64, "8x64"},       {CUBLASLT_MATMUL_TILE_16x32, "16x32"},
    {CUBLASLT_MATMUL_TILE_32x16, "32x16"},     {CUBLASLT_MATMUL_TILE_64x8, "64x8"},
    {CUBLASLT_MATMUL_TILE_32x32, "32x32"},     {CUBLASLT_MATMUL_TILE_32x64, "32x64"},
    {CUBLASLT_MATMUL_TILE_64x32, "64x32"},     {CUBLASLT_MATMUL_TILE_32x128, "32x128"},
    {CUBLASLT_MATMUL_TILE_64x64, "64x64"},     {CUBLASLT_MATMUL_TILE_128x32, "128x32"},
    {CUBLASLT_MATMUL_TILE_64x128, "64x128"},   {CUBLASLT_MATMUL_TILE_128x64, "128x64"},
    {CUBLASLT_MATMUL_TILE_64x256, "64x256"},   {CUBLASLT_MATMUL_TILE_128x128, "128x128"},
    {CUBLASLT_MATMUL_TILE_256x64, "256x64"},   {CUBLASLT_MATMUL_TILE_64x512, "64x512"},
    {CUBLASLT_MATMUL_TILE_128x256, "128x256"}, {CUBLASLT_MATMUL_TILE_256x128, "256x128"},
    {CUBLASLT_MATMUL_TILE_512x64, "512x64"},   {CUBLASLT_MATMUL_TILE_64x96, "64x96"},
    {CUBLASLT_MATMUL_TILE_96x64, "96x64"},     {CUBLASLT_MATMUL_TILE_96x128, "96x128"},
    {CUBLASLT_MATMUL_TILE_128x160, "128x160"}, {CUBLASLT_MATMUL_TILE_160x128, "160x128"},
    {CUBLASLT_MATMUL_TILE_192x128, "192x128"}, {CUBLASLT_MATMUL_TILE_128x192, "128x192"},
    {CUBLASLT_MATMUL_TILE_128x96, "128x96"},   {CUBLASLT_MATMUL_TILE_32x256, "32x256"},
    {CUBLASLT_MATMUL_TILE_256x32, "256x32"},
};
constexpr Named clusters[] = {
    {CUBLASLT_CLUSTER_SHAPE_AUTO, "auto"},   {CUBLASLT_CLUSTER_SHAPE_1x1x1, "1x1"},
    {CUBLASLT_CLUSTER_SHAPE_2x1x1, "2x1"},   {CUBLASLT_CLUSTER_SHAPE_4x1x1, "4x1"},
    {CUBLASLT_CLUSTER_SHAPE_1x2x1, "1x2"},   {CUBLASLT_CLUSTER_SHAPE_2x2x1, "2x2"},
    {CUBLASLT_CLUSTER_SHAPE_4x2x1, "4x2"},   {CUBLASLT_CLUSTER_SHAPE_1x4x1, "1x4"},
    {CUBLASLT_CLUSTER_SHAPE_2x4x1, "2x4"},   {CUBLASLT_CLUSTER_SHAPE_4x4x1, "4x4"},
    {CUBLASLT_CLUSTER_SHAPE_8x1x1, "8x1"},   {CUBLASLT_CLUSTER_SHAPE_1x8x1, "1x8"},
    {CUBLASLT_CLUSTER_SHAPE_8x2x1, "8x2"},   {CUBLASLT_CLUSTER_SHAPE_2x8x1, "2x8"},
    {CUBLASLT_CLUSTER_SHAPE_16x1x1, "16x1"}, {CUBLASLT_CLUSTER_SHAPE_1x16x1, "1x16"},
};

// The library's own number where we have no name for it.
template <std::size_t count>
std::string name_in(const Named (&names)[count], std::uint32_t id) {
  for (const Named& named : names) {
    if (named.id == id) return named.text;
  }
  return "#" + std::to_string(id);
}

}  // namespace

int alignment_of(std::initializer_list<const void*> operands) {
  std::uintptr_t all = 256;
  for (const void* operand : operands) all |= std::bit_cast<std::uintptr_t>(operand);
  return 1 << std::countr_zero(all);
}

Bytes workspace_of(const Device& device) { return device.capability() >= 90 ? mebibytes(32) : mebibytes(4); }

BlasHandle::BlasHandle() { check(cublasLtCreate(&handle_), "cublasLtCreate"); }
BlasHandle::~BlasHandle() { release(cublasLtDestroy(handle_), "cublasLtDestroy"); }

Algorithm choose_algorithm(const BlasHandle& blas, const Device& device, const GemmShape& shape) {
  return std::bit_cast<Algorithm>(candidates(blas, device, shape).front().algo);
}

std::vector<Algorithm> candidate_algorithms(const BlasHandle& blas, const Device& device, const GemmShape& shape) {
  std::vector<Algorithm> all;
  for (const cublasLtMatmulHeuristicResult_t& c : candidates(blas, device, shape)) {
    all.push_back(std::bit_cast<Algorithm>(c.algo));
  }
  return all;
}

std::string algorithm_text(const Algorithm& algorithm) {
  const auto algo = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  return fmt::format("id {}, tile {}, stages #{}, cluster {}, swizzle {}, option {}, split-K {}",
                     attribute<std::int32_t>(algo, CUBLASLT_ALGO_CONFIG_ID),
                     name_in(tiles, attribute<std::uint32_t>(algo, CUBLASLT_ALGO_CONFIG_TILE_ID)),
                     attribute<std::uint32_t>(algo, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                     name_in(clusters, attribute<std::uint16_t>(algo, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID)),
                     attribute<std::uint32_t>(algo, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
                     attribute<std::uint32_t>(algo, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
                     attribute<std::int32_t>(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
}

double waves_of(const BlasHandle& blas, const Device& device, const GemmShape& shape) {
  const float waves = candidates(blas, device, shape).front().wavesCount;
  return waves > 0 ? static_cast<double>(waves) : std::numeric_limits<double>::quiet_NaN();
}

struct GemmPlan::Handles {
  cublasLtHandle_t blas = nullptr;
  GemmShape shape;
  Matmul op;
  cublasLtMatmulAlgo_t algorithm = {};
  std::size_t workspace = 0;
};

GemmPlan::GemmPlan(const BlasHandle& blas, const GemmShape& shape, const Algorithm& algorithm)
    : handles_(std::make_unique<Handles>()) {
  Handles& h = *handles_;
  h.blas = blas.get();
  h.shape = shape;
  h.op = make_matmul(shape);
  h.algorithm = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  cublasLtMatmulHeuristicResult_t result = {};
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(h.blas, h.op.descriptor.get(), h.op.first.get(), h.op.second.get(), h.op.result.get(),
                              h.op.result.get(), &h.algorithm, &result);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH) {
    throw impossible_error(text_of(shape),
                           std::string("the algorithm that rank 0 chose does not run on this device (") +
                               "cublasLtMatmulAlgoCheck: " + cublasLtGetStatusString(status) + ")",
                           "take equal GPUs (CUDA_VISIBLE_DEVICES)");
  }
  check(status, "cublasLtMatmulAlgoCheck");
  h.workspace = result.workspaceSize;
}

GemmPlan::~GemmPlan() = default;

Bytes GemmPlan::workspace() const { return Bytes(static_cast<std::int64_t>(handles_->workspace)); }

void GemmPlan::enqueue(cudaStream_t stream, const void* a, const void* b, void* c, const DeviceMemory& workspace,
                       std::int64_t repeat) const {
  const Handles& h = *handles_;
  require(alignment_of({a, b, c}) >= h.shape.alignment, "a GEMM's operands lie as its algorithm was chosen for");
  require(workspace.size() >= this->workspace(), "a GEMM's workspace is what its algorithm uses");
  // Factors lie in the type that the library scales in; they are read before the call returns.
  const double one64 = 1;
  const double zero64 = 0;
  const float one32 = 1;
  const float zero32 = 0;
  const bool wide = h.shape.dtype == DType::f64;
  const void* alpha = wide ? static_cast<const void*>(&one64) : &one32;
  const void* beta = wide ? static_cast<const void*>(&zero64) : &zero32;
  for (std::int64_t i = 0; i < repeat; ++i) {
    check(cublasLtMatmul(h.blas, h.op.descriptor.get(), alpha, b, h.op.first.get(), a, h.op.second.get(), beta, c,
                         h.op.result.get(), c, h.op.result.get(), &h.algorithm, workspace.get(),
                         static_cast<std::size_t>(workspace.size().value()), stream),
          "cublasLtMatmul");
  }
}

}  // namespace ovl::cuda
