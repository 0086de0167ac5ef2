// SPDX-License-Identifier: Apache-2.0
//
// What the emulated cuBLASLt knows of matrix products, without handles or streams; pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cuda_emulation/elements.hpp"

namespace ovl::emulation::blas {

// Column-major; element (row, column) is at row + column * stride.
struct Matrix {
  Element element = Element::f32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;
  bool transposed = false;  // of op(A), op(B)

  [[nodiscard]] std::int64_t op_rows() const { return transposed ? columns : rows; }
  [[nodiscard]] std::int64_t op_columns() const { return transposed ? rows : columns; }
  // From the first element to the last.
  [[nodiscard]] std::size_t bytes() const;
};

enum class Accumulator { f32, tf32, f64 };  // tf32: inputs rounded to 10 bits of mantissa, summed in f32

// d = alpha * op(a) * op(b) + beta * c; c has d's shape.
struct Product {
  Matrix a, b, c, d;
  Accumulator accumulator = Accumulator::f32;
  double alpha = 1;
  double beta = 0;

  [[nodiscard]] std::int64_t m() const { return d.rows; }
  [[nodiscard]] std::int64_t n() const { return d.columns; }
  [[nodiscard]] std::int64_t k() const { return a.op_columns(); }
};

// What is wrong with the shapes; nothing: empty.
std::string mistake(const Product& product);
// Why a device of this capability has no such product: the types, f8e4m3 before 8.9 or not as TN or not in multiples of
// 16, bf16 and tf32 before 8.0; it has: empty.
std::string unsupported(const Product& product, int capability);

// How a product is cut up. Another kernel sums in another order, so that random data gets other bits; a split-K that
// reduces in place sums in an order that changes from call to call.
struct Algorithm {
  int id = 0;
  int tile = 0;  // cublasLtMatmulTile_t
  int tile_m = 0;
  int tile_n = 0;
  int lanes = 1;  // partial sums side by side: k, k + lanes, ...
  int split_k = 1;
  std::uint32_t reduction = 0;   // cublasLtReductionScheme_t
  std::uint64_t workspace = 0;   // bytes that it needs
  std::uint64_t alignment = 16;  // of the matrices and their leading dimensions, bytes
};

// By id, as cublasLtMatmulAlgo_t holds it.
std::optional<Algorithm> algorithm(int id);
float waves_of(const Algorithm& algorithm, const Product& product, int sms);
// Whether all leading dimensions are multiples of so many bytes.
bool is_aligned(const Product& product, std::uint64_t alignment);

struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = 7;   // mask of cublasLtReductionScheme_t
  std::uint64_t alignment = 256;  // of the matrices, bytes
};
// Those that fit, fastest first as the heuristic believes: split-K wherever it may, then by how well they fill their
// waves on `sms`. A caller who does not forbid split-K gets it.
std::vector<Algorithm> candidates(const Product& product, int sms, const Preference& preference);

// Runs it on host memory. c is not read where beta is 0. `call` shifts the order of a reduction in place.
void multiply(const Product& product, const Algorithm& algorithm, const std::byte* a, const std::byte* b,
              const std::byte* c, std::byte* d, std::uint64_t call);

}  // namespace ovl::emulation::blas
