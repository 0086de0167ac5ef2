// SPDX-License-Identifier: Apache-2.0
//
// libcublasLt.so, emulated: its C interface as far as the cuda backend calls it. A release that is made to fail
// (OVL_EMULATED_FAIL) still releases.
#include <cublasLt.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "cuda_emulation/cublaslt_gemm.hpp"
#include "cuda_emulation/emulator.hpp"

struct cublasLtContext {
  int device;
};

namespace ovl::emulation::blas {
namespace {

// ---- what the opaque structures hold -------------------------------------------------------------------------------

struct Layout {
  std::uint32_t type;
  std::int32_t order;
  std::uint64_t rows;
  std::uint64_t columns;
  std::int64_t stride;
  std::int32_t batch;
};

struct Description {
  std::int32_t compute;
  std::int32_t scale;
  std::int32_t pointer_mode;
  std::int32_t transposed_a;
  std::int32_t transposed_b;
  std::uint32_t epilogue;
  std::int32_t sm_target;
  std::int8_t fast_accumulation;
  const void* scale_a;
  const void* scale_b;
};

struct Search {
  std::uint32_t mode;
  std::uint32_t reductions;
  std::uint64_t workspace;
  std::uint32_t alignment[4];
};

struct Recorded {
  std::uint32_t id;
  std::uint32_t magic;
  std::uint32_t in;
  std::uint32_t out;
  std::uint32_t accumulator;
};
constexpr std::uint32_t algorithm_magic = 0x4f564c47;

template <class Inner, class Opaque>
Inner unwrap(const Opaque& opaque) {
  static_assert(sizeof(Inner) <= sizeof(Opaque) && std::is_trivially_copyable_v<Inner>);
  Inner inner;
  std::memcpy(&inner, &opaque, sizeof inner);
  return inner;
}
template <class Inner, class Opaque>
void wrap(Opaque& opaque, const Inner& inner) {
  static_assert(sizeof(Inner) <= sizeof(Opaque) && std::is_trivially_copyable_v<Inner>);
  std::memcpy(&opaque, &inner, sizeof inner);
}

// Objects made and not yet destroyed. Use of any other is a violation.
class Living {
 public:
  explicit Living(const char* what) : what_(what) {}
  void add(const void* object) {
    const std::lock_guard lock(mutex_);
    objects_.insert(object);
    count_live(what_, 1);
  }
  void remove(const void* object, const char* call) {
    const std::lock_guard lock(mutex_);
    if (objects_.erase(object) == 0) {
      violation(std::string(call) + ": destroyed before, or never made (" + what_ + ")");
    }
    count_live(what_, -1);
  }
  void require(const void* object, const char* call) {
    const std::lock_guard lock(mutex_);
    if (objects_.count(object) == 0) {
      violation(std::string(call) + " uses what was destroyed or never made (" + what_ + ")");
    }
  }

 private:
  const char* what_;
  std::mutex mutex_;
  std::set<const void*> objects_;
};
Living& handles() {
  static auto* const living = new Living("cuBLASLt handles");
  return *living;
}
Living& descriptors() {
  static auto* const living = new Living("cuBLASLt descriptors");
  return *living;
}

// ---- every entry point ---------------------------------------------------------------------------------------------

cublasStatus_t told(const char* call, cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    failed(call, status);
  }
  return status;
}

// Asked what there is, "nothing" is an answer and no error that must be read.
cublasStatus_t answered(const char* call, cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? status : told(call, status);
}

std::optional<cublasStatus_t> made_to_fail(const char* call, void* site, cublasStatus_t usual) {
  int code = usual;
  if (!fails(call, site, usual, &code)) {
    return std::nullopt;
  }
  return told(call, static_cast<cublasStatus_t>(code));
}

template <class Handle>
cublasStatus_t destroy(const char* call, void* site, Living& living, Handle handle) {
  const auto failure = made_to_fail(call, site, CUBLAS_STATUS_INTERNAL_ERROR);
  if (handle != nullptr) {
    living.remove(handle, call);
    delete handle;
  }
  return failure.value_or(CUBLAS_STATUS_SUCCESS);
}

template <class Opaque, class Inner>
cublasStatus_t create(const char* call, void* site, Opaque** out, const Inner& inner) {
  if (const auto failure = made_to_fail(call, site, CUBLAS_STATUS_ALLOC_FAILED)) {
    return *failure;
  }
  if (out == nullptr) {
    return told(call, CUBLAS_STATUS_INVALID_VALUE);
  }
  *out = new Opaque{};
  wrap(**out, inner);
  descriptors().add(*out);
  return CUBLAS_STATUS_SUCCESS;
}

// The bytes of a member, to be read or written by its attribute; none: the attribute is not emulated.
using Field = std::span<std::byte>;
template <class T>
Field field(T& member) {
  return std::as_writable_bytes(std::span(&member, 1));
}

cublasStatus_t read_attribute(const char* call, Field from, void* buffer, std::size_t bytes, std::size_t* written) {
  const bool asks_size = bytes == 0;
  if (from.empty() || (asks_size ? written == nullptr : buffer == nullptr || bytes != from.size())) {
    return told(call, CUBLAS_STATUS_INVALID_VALUE);
  }
  if (!asks_size) {
    std::memcpy(buffer, from.data(), bytes);
  }
  if (written != nullptr) {
    *written = from.size();
  }
  return CUBLAS_STATUS_SUCCESS;
}

template <class Inner, class Opaque, class Select>
cublasStatus_t set_attribute(const char* call, void* site, Opaque* object, Select select, const void* buffer,
                             std::size_t bytes) {
  if (const auto failure = made_to_fail(call, site, CUBLAS_STATUS_INVALID_VALUE)) {
    return *failure;
  }
  descriptors().require(object, call);
  auto inner = unwrap<Inner>(*object);
  const Field to = select(inner);
  if (to.empty() || buffer == nullptr || bytes != to.size()) {
    return told(call, CUBLAS_STATUS_INVALID_VALUE);
  }
  std::memcpy(to.data(), buffer, bytes);
  wrap(*object, inner);
  return CUBLAS_STATUS_SUCCESS;
}

Field member(Layout& layout, cublasLtMatrixLayoutAttribute_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE: return field(layout.type);
    case CUBLASLT_MATRIX_LAYOUT_ORDER: return field(layout.order);
    case CUBLASLT_MATRIX_LAYOUT_ROWS: return field(layout.rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS: return field(layout.columns);
    case CUBLASLT_MATRIX_LAYOUT_LD: return field(layout.stride);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return field(layout.batch);
    default: return {};
  }
}

Field member(Description& description, cublasLtMatmulDescAttributes_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return field(description.compute);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE: return field(description.scale);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE: return field(description.pointer_mode);
    case CUBLASLT_MATMUL_DESC_TRANSA: return field(description.transposed_a);
    case CUBLASLT_MATMUL_DESC_TRANSB: return field(description.transposed_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return field(description.epilogue);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET: return field(description.sm_target);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM: return field(description.fast_accumulation);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER: return field(description.scale_a);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER: return field(description.scale_b);
    default: return {};
  }
}

Field member(Search& search, cublasLtMatmulPreferenceAttributes_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE: return field(search.mode);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return field(search.workspace);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return field(search.reductions);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return field(search.alignment[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return field(search.alignment[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return field(search.alignment[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return field(search.alignment[3]);
    default: return {};
  }
}

// ---- products ------------------------------------------------------------------------------------------------------

std::optional<Element> element_of(std::uint32_t type) {
  switch (type) {
    case CUDA_R_64F: return Element::f64;
    case CUDA_R_32F: return Element::f32;
    case CUDA_R_16F: return Element::f16;
    case CUDA_R_16BF: return Element::bf16;
    case CUDA_R_8F_E4M3: return Element::f8e4m3;
    default: return std::nullopt;
  }
}

// How it sums, where types of the scale fit.
std::optional<Accumulator> accumulator_of(const Description& description) {
  switch (description.compute) {
    case CUBLAS_COMPUTE_32F: return description.scale == CUDA_R_32F ? std::optional(Accumulator::f32) : std::nullopt;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return description.scale == CUDA_R_32F ? std::optional(Accumulator::tf32) : std::nullopt;
    case CUBLAS_COMPUTE_64F: return description.scale == CUDA_R_64F ? std::optional(Accumulator::f64) : std::nullopt;
    default: return std::nullopt;
  }
}

std::optional<Matrix> matrix_of(const Layout& layout, std::int32_t operation) {
  const std::optional<Element> element = element_of(layout.type);
  if (!element || layout.order != CUBLASLT_ORDER_COL || layout.batch != 1 || operation == CUBLAS_OP_C) {
    return std::nullopt;
  }
  return Matrix{.element = *element,
                .rows = static_cast<std::int64_t>(layout.rows),
                .columns = static_cast<std::int64_t>(layout.columns),
                .stride = layout.stride,
                .transposed = operation == CUBLAS_OP_T};
}

struct Question {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  Description description{};
  Product product;
  int sms = 0;
};

// What the descriptors describe, without alpha and beta.
Question question_of(const char* call, cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                     cublasLtMatrixLayout_t d) {
  Question question;
  if (handle == nullptr) {
    question.status = CUBLAS_STATUS_NOT_INITIALIZED;
    return question;
  }
  handles().require(handle, call);
  descriptors().require(operation, call);
  for (const cublasLtMatrixLayout_t layout : {a, b, c, d}) {
    descriptors().require(layout, call);
  }
  const auto description = unwrap<Description>(*operation);
  const auto of_a = matrix_of(unwrap<Layout>(*a), description.transposed_a);
  const auto of_b = matrix_of(unwrap<Layout>(*b), description.transposed_b);
  const auto of_c = matrix_of(unwrap<Layout>(*c), CUBLAS_OP_N);
  const auto of_d = matrix_of(unwrap<Layout>(*d), CUBLAS_OP_N);
  const auto accumulator = accumulator_of(description);
  const bool plain =
      description.pointer_mode == CUBLASLT_POINTER_MODE_HOST && description.epilogue == CUBLASLT_EPILOGUE_DEFAULT;
  if (!of_a || !of_b || !of_c || !of_d || !accumulator || !plain) {
    question.status = CUBLAS_STATUS_NOT_SUPPORTED;
    return question;
  }
  question.description = description;
  question.product = {.a = *of_a, .b = *of_b, .c = *of_c, .d = *of_d, .accumulator = *accumulator};
  question.sms = description.sm_target > 0 ? description.sm_target : sms();
  if (!mistake(question.product).empty()) {
    question.status = CUBLAS_STATUS_INVALID_VALUE;
  } else if (!unsupported(question.product, capability()).empty()) {
    question.status = CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return question;
}

Recorded record_of(const Product& product, int id) {
  return {.id = static_cast<std::uint32_t>(id),
          .magic = algorithm_magic,
          .in = static_cast<std::uint32_t>(product.a.element),
          .out = static_cast<std::uint32_t>(product.d.element),
          .accumulator = static_cast<std::uint32_t>(product.accumulator)};
}

// Empty: not of this library, or of a product of other types.
std::optional<Algorithm> algorithm_of(const cublasLtMatmulAlgo_t& recorded, const Product& product) {
  const auto found = unwrap<Recorded>(recorded);
  const Recorded expected = record_of(product, static_cast<int>(found.id));
  const bool same = found.magic == expected.magic && found.in == expected.in && found.out == expected.out &&
                    found.accumulator == expected.accumulator;
  return same ? algorithm(static_cast<int>(found.id)) : std::nullopt;
}

double scalar(const void* value, Accumulator accumulator) {
  if (accumulator == Accumulator::f64) {
    return load_as<double>(static_cast<const std::byte*>(value));
  }
  return static_cast<double>(load_as<float>(static_cast<const std::byte*>(value)));
}

const char* name_of(const Product& product) {
  switch (product.a.element) {
    case Element::f64: return "f64";
    case Element::f16: return "f16";
    case Element::bf16: return "bf16";
    case Element::f8e4m3: return "f8e4m3";
    default: return product.accumulator == Accumulator::tf32 ? "tf32" : "f32";
  }
}

bool is_aligned(const void* memory, std::uint64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(memory) % bytes == 0;
}

template <class T>
T* touch(T* device, std::size_t bytes) {
  std::byte* memory = address(device, bytes);
  if (memory == nullptr) {
    violation("a matrix product runs on memory that was freed");
  }
  return static_cast<T*>(static_cast<void*>(memory));
}

struct Pointers {
  const void* a;
  const void* b;
  const void* c;  // nullptr where beta is 0
  void* d;
  const void* scale_a;  // nullptr: 1
  const void* scale_b;
};

void run(Product product, const Algorithm& algorithm, const Pointers& pointers) {
  static std::atomic<std::uint64_t> calls{0};
  for (const void* scale : {pointers.scale_a, pointers.scale_b}) {
    if (scale != nullptr) {
      product.alpha *= static_cast<double>(load_as<float>(touch(static_cast<const std::byte*>(scale), sizeof(float))));
    }
  }
  const auto memory = [](const void* at, const Matrix& matrix) {
    return touch(static_cast<const std::byte*>(at), matrix.bytes());
  };
  multiply(product, algorithm, memory(pointers.a, product.a), memory(pointers.b, product.b),
           pointers.c == nullptr ? nullptr : memory(pointers.c, product.c),
           touch(static_cast<std::byte*>(pointers.d), product.d.bytes()), calls++);
}

Task task_of(const Question& question, const Algorithm& algorithm, const Pointers& pointers, void* workspace) {
  const Product& product = question.product;
  const std::string tile = std::to_string(algorithm.tile_m) + "x" + std::to_string(algorithm.tile_n);
  const float tiles = waves_of(algorithm, product, 1);
  Task task{.name = std::string("nvjet_emulated_") + name_of(product) + "_" + tile,
            .blocks = static_cast<int>(std::min(tiles, static_cast<float>(question.sms))),
            .threads = 384,
            .registers = 168,
            .shared_bytes = 200 * 1024};
  task.ranges = {{pointers.a, product.a.bytes(), Access::read},
                 {pointers.b, product.b.bytes(), Access::read},
                 {pointers.d, product.d.bytes(), Access::write}};
  if (pointers.c != nullptr) {
    task.ranges.push_back({pointers.c, product.c.bytes(), Access::read});
  }
  for (const void* scale : {pointers.scale_a, pointers.scale_b}) {
    if (scale != nullptr) {
      task.ranges.push_back({scale, sizeof(float), Access::read});
    }
  }
  if (algorithm.workspace > 0) {
    task.ranges.push_back({workspace, algorithm.workspace, Access::write});
  }
  task.run = [product, algorithm, pointers] { blas::run(product, algorithm, pointers); };
  return task;
}

}  // namespace
}  // namespace ovl::emulation::blas

using namespace ovl::emulation::blas;
namespace emulation = ovl::emulation;

std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  emulation::read_error();
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR: return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_UNKNOWN";
  }
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  emulation::read_error();
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED: return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE: return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "the function requires an architectural feature absent from the architecture of the device";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "the function failed to launch on the GPU";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "an internal operation failed";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the functionality requested is not supported";
    default: return "unknown status";
  }
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (const auto failure = made_to_fail("cublasLtCreate", __builtin_return_address(0), CUBLAS_STATUS_NOT_INITIALIZED)) {
    return *failure;
  }
  if (handle == nullptr) {
    return told("cublasLtCreate", CUBLAS_STATUS_INVALID_VALUE);
  }
  if (emulation::driver_version() == 0) {
    return told("cublasLtCreate", CUBLAS_STATUS_NOT_INITIALIZED);
  }
  *handle = new cublasLtContext{.device = emulation::current_device()};
  handles().add(*handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return destroy("cublasLtDestroy", __builtin_return_address(0), handles(), handle);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t stride) {
  return create("cublasLtMatrixLayoutCreate", __builtin_return_address(0), layout,
                Layout{.type = static_cast<std::uint32_t>(type),
                       .order = CUBLASLT_ORDER_COL,
                       .rows = rows,
                       .columns = columns,
                       .stride = stride,
                       .batch = 1});
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy("cublasLtMatrixLayoutDestroy", __builtin_return_address(0), descriptors(), layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* buffer,
                                                size_t bytes) {
  return set_attribute<Layout>(
      "cublasLtMatrixLayoutSetAttribute", __builtin_return_address(0), layout,
      [attribute](Layout& inner) { return member(inner, attribute); }, buffer, bytes);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return create("cublasLtMatmulDescCreate", __builtin_return_address(0), description,
                Description{.compute = compute,
                            .scale = scale,
                            .pointer_mode = CUBLASLT_POINTER_MODE_HOST,
                            .transposed_a = CUBLAS_OP_N,
                            .transposed_b = CUBLAS_OP_N,
                            .epilogue = CUBLASLT_EPILOGUE_DEFAULT});
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  return destroy("cublasLtMatmulDescDestroy", __builtin_return_address(0), descriptors(), description);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, const void* buffer,
                                              size_t bytes) {
  return set_attribute<Description>(
      "cublasLtMatmulDescSetAttribute", __builtin_return_address(0), description,
      [attribute](Description& inner) { return member(inner, attribute); }, buffer, bytes);
}

cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, void* buffer, size_t bytes,
                                              size_t* written) {
  const char* call = "cublasLtMatmulDescGetAttribute";
  if (const auto failure = made_to_fail(call, __builtin_return_address(0), CUBLAS_STATUS_INVALID_VALUE)) {
    return *failure;
  }
  descriptors().require(description, call);
  auto inner = unwrap<Description>(*description);
  return read_attribute(call, member(inner, attribute), buffer, bytes, written);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create("cublasLtMatmulPreferenceCreate", __builtin_return_address(0), preference,
                Search{.mode = CUBLASLT_SEARCH_BEST_FIT,
                       .reductions = CUBLASLT_REDUCTION_SCHEME_MASK,
                       .workspace = 0,
                       .alignment = {256, 256, 256, 256}});
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy("cublasLtMatmulPreferenceDestroy", __builtin_return_address(0), descriptors(), preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* buffer,
                                                    size_t bytes) {
  return set_attribute<Search>(
      "cublasLtMatmulPreferenceSetAttribute", __builtin_return_address(0), preference,
      [attribute](Search& inner) { return member(inner, attribute); }, buffer, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  const char* call = "cublasLtMatmulAlgoGetHeuristic";
  if (const auto failure = made_to_fail(call, __builtin_return_address(0), CUBLAS_STATUS_NOT_SUPPORTED)) {
    return *failure;
  }
  if (most < 1 || results == nullptr || found == nullptr || preference == nullptr) {
    return told(call, CUBLAS_STATUS_INVALID_VALUE);
  }
  *found = 0;
  const Question question = question_of(call, handle, operation, a, b, c, d);
  if (question.status != CUBLAS_STATUS_SUCCESS) {
    return answered(call, question.status);
  }
  descriptors().require(preference, call);
  const auto search = unwrap<Search>(*preference);
  const Preference wanted{.workspace = search.workspace,
                          .reductions = search.reductions,
                          .alignment = *std::min_element(std::begin(search.alignment), std::end(search.alignment))};
  for (const Algorithm& algorithm : candidates(question.product, question.sms, wanted)) {
    if (*found == most) {
      break;
    }
    cublasLtMatmulHeuristicResult_t& result = results[(*found)++];
    result = {};
    wrap(result.algo, record_of(question.product, algorithm.id));
    result.workspaceSize = algorithm.workspace;
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = waves_of(algorithm, question.product, question.sms);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                       cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const char* call = "cublasLtMatmulAlgoCheck";
  if (const auto failure = made_to_fail(call, __builtin_return_address(0), CUBLAS_STATUS_NOT_SUPPORTED)) {
    return *failure;
  }
  if (algo == nullptr || result == nullptr) {
    return told(call, CUBLAS_STATUS_INVALID_VALUE);
  }
  const Question question = question_of(call, handle, operation, a, b, c, d);
  if (question.status != CUBLAS_STATUS_SUCCESS) {
    return answered(call, question.status);
  }
  const std::optional<Algorithm> algorithm = algorithm_of(*algo, question.product);
  if (!algorithm) {
    return told(call, CUBLAS_STATUS_INVALID_VALUE);
  }
  if (!is_aligned(question.product, algorithm->alignment)) {
    return answered(call, CUBLAS_STATUS_NOT_SUPPORTED);
  }
  result->workspaceSize = algorithm->workspace;
  result->state = CUBLAS_STATUS_SUCCESS;
  result->wavesCount = waves_of(*algorithm, question.product, question.sms);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void* buffer,
                                                    size_t bytes, size_t* written) {
  const char* call = "cublasLtMatmulAlgoConfigGetAttribute";
  if (const auto failure = made_to_fail(call, __builtin_return_address(0), CUBLAS_STATUS_INVALID_VALUE)) {
    return *failure;
  }
  const auto recorded = algo == nullptr ? Recorded{} : unwrap<Recorded>(*algo);
  const auto algorithm =
      recorded.magic == algorithm_magic ? emulation::blas::algorithm(static_cast<int>(recorded.id)) : std::nullopt;
  if (!algorithm) {
    return told(call, CUBLAS_STATUS_INVALID_VALUE);
  }
  std::int32_t signed_value = attribute == CUBLASLT_ALGO_CONFIG_ID ? algorithm->id : algorithm->split_k;
  std::uint32_t value = 0;
  std::uint16_t small = 0;
  switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID:
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM: return read_attribute(call, field(signed_value), buffer, bytes, written);
    case CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID: return read_attribute(call, field(small), buffer, bytes, written);
    case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID:
      small = CUBLASLT_CLUSTER_SHAPE_1x1x1;
      return read_attribute(call, field(small), buffer, bytes, written);
    case CUBLASLT_ALGO_CONFIG_TILE_ID: value = static_cast<std::uint32_t>(algorithm->tile); break;
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME: value = algorithm->reduction; break;
    case CUBLASLT_ALGO_CONFIG_STAGES_ID: value = CUBLASLT_MATMUL_STAGES_64x4; break;
    case CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING:
    case CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION: break;
    default: return told(call, CUBLAS_STATUS_INVALID_VALUE);
  }
  return read_attribute(call, field(value), buffer, bytes, written);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t layout_a, const void* b, cublasLtMatrixLayout_t layout_b,
                              const void* beta, const void* c, cublasLtMatrixLayout_t layout_c, void* d,
                              cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  const char* call = "cublasLtMatmul";
  if (const auto failure = made_to_fail(call, __builtin_return_address(0), CUBLAS_STATUS_EXECUTION_FAILED)) {
    return *failure;
  }
  emulation::must_have_read_error(call);
  Question question = question_of(call, handle, operation, layout_a, layout_b, layout_c, layout_d);
  if (question.status != CUBLAS_STATUS_SUCCESS) {
    return told(call, question.status);
  }
  Product& product = question.product;
  if (alpha == nullptr || beta == nullptr || a == nullptr || b == nullptr || d == nullptr ||
      (workspace == nullptr && workspace_bytes > 0)) {
    return told(call, CUBLAS_STATUS_INVALID_VALUE);
  }
  product.alpha = scalar(alpha, product.accumulator);
  product.beta = scalar(beta, product.accumulator);
  if (c == nullptr && product.beta != 0) {
    return told(call, CUBLAS_STATUS_INVALID_VALUE);
  }
  // Without an algorithm the library asks its heuristic.
  const std::optional<Algorithm> algorithm =
      algo != nullptr ? algorithm_of(*algo, product)
                      : candidates(product, question.sms, {.workspace = workspace_bytes, .alignment = 1}).front();
  if (!algorithm || algorithm->workspace > workspace_bytes || !is_aligned(workspace, 16)) {
    return told(call, CUBLAS_STATUS_INVALID_VALUE);
  }
  for (const void* matrix : {a, b, product.beta == 0 ? d : c, static_cast<const void*>(d)}) {
    if (!is_aligned(matrix, algorithm->alignment) || !is_aligned(product, algorithm->alignment)) {
      return told(call, CUBLAS_STATUS_NOT_SUPPORTED);
    }
  }
  // Kernels go to the handle's device, which is the stream's and the current one.
  const int device = handle->device;
  if (emulation::device_of(stream) != device || emulation::current_device() != device) {
    return told(call, CUBLAS_STATUS_EXECUTION_FAILED);
  }
  const Pointers pointers{.a = a,
                          .b = b,
                          .c = product.beta == 0 ? nullptr : c,
                          .d = d,
                          .scale_a = question.description.scale_a,
                          .scale_b = question.description.scale_b};
  const bool enqueued = emulation::enqueue(stream, task_of(question, *algorithm, pointers, workspace)) == cudaSuccess;
  return told(call, enqueued ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED);
}
