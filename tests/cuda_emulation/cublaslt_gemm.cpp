// SPDX-License-Identifier: Apache-2.0
#include "cuda_emulation/cublaslt_gemm.hpp"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <type_traits>

namespace ovl::emulation::blas {
namespace {

// id, tile, its size, lanes; split-K has id 70.
constexpr std::array plain_algorithms{
    Algorithm{
        .id = 66, .tile = CUBLASLT_MATMUL_TILE_128x256, .tile_m = 128, .tile_n = 256, .lanes = 8, .workspace = 65536},
    Algorithm{.id = 67, .tile = CUBLASLT_MATMUL_TILE_128x128, .tile_m = 128, .tile_n = 128, .lanes = 4},
    Algorithm{.id = 68, .tile = CUBLASLT_MATMUL_TILE_64x64, .tile_m = 64, .tile_n = 64, .lanes = 2, .alignment = 1},
};
constexpr Algorithm split{.id = 70,
                          .tile = CUBLASLT_MATMUL_TILE_128x128,
                          .tile_m = 128,
                          .tile_n = 128,
                          .lanes = 4,
                          .split_k = 4,
                          .reduction = CUBLASLT_REDUCTION_SCHEME_INPLACE,
                          .workspace = 65536};

std::int64_t tiles_of(const Algorithm& algorithm, const Product& product) {
  const auto blocks = [](std::int64_t size, int tile) { return (size + tile - 1) / tile; };
  return blocks(product.m(), algorithm.tile_m) * blocks(product.n(), algorithm.tile_n) * algorithm.split_k;
}

// Nearest, ties away from zero, as the tensor core's conversion does.
float to_tf32(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7f800000U) != 0x7f800000U) {
    bits = (bits + 0x1000U) & 0xffffe000U;
  }
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

// op(matrix) with its `k` dimension contiguous: rows of op(A), columns of op(B).
template <class T>
std::vector<T> pack(const Matrix& matrix, const std::byte* data, bool is_a, bool tf32) {
  const std::int64_t outer = is_a ? matrix.op_rows() : matrix.op_columns();
  const std::int64_t inner = is_a ? matrix.op_columns() : matrix.op_rows();
  const bool inner_is_column = is_a != matrix.transposed;  // a step along k goes to the next column as it lies
  std::vector<T> packed(static_cast<std::size_t>(outer * inner));
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) {
      const std::int64_t at = inner_is_column ? o + i * matrix.stride : i + o * matrix.stride;
      auto value = static_cast<T>(load(matrix.element, data, static_cast<std::size_t>(at)));
      if constexpr (std::is_same_v<T, float>) {
        value = tf32 ? to_tf32(value) : value;
      }
      packed[static_cast<std::size_t>(o * inner + i)] = value;
    }
  }
  return packed;
}

// One part of a dot product, in partial sums that are added in order.
template <int lanes, class T>
T dot_in(const T* a, const T* b, std::int64_t begin, std::int64_t end) {
  std::array<T, static_cast<std::size_t>(lanes)> sums{};
  std::int64_t k = begin;
  for (; k + lanes <= end; k += lanes) {
    for (int lane = 0; lane < lanes; ++lane) {
      sums[static_cast<std::size_t>(lane)] += a[k + lane] * b[k + lane];
    }
  }
  for (std::size_t lane = 0; k < end; ++k, ++lane) {
    sums[lane] += a[k] * b[k];
  }
  T total = 0;
  for (const T sum : sums) {
    total += sum;
  }
  return total;
}

template <class T>
T dot(const T* a, const T* b, std::int64_t begin, std::int64_t end, int lanes) {
  switch (lanes) {
    case 8: return dot_in<8>(a, b, begin, end);
    case 4: return dot_in<4>(a, b, begin, end);
    default: return dot_in<2>(a, b, begin, end);
  }
}

template <class T>
void multiply_as(const Product& product, const Algorithm& algorithm, const std::byte* a, const std::byte* b,
                 const std::byte* c, std::byte* d, std::uint64_t call) {
  const bool tf32 = product.accumulator == Accumulator::tf32;
  const std::vector<T> rows = pack<T>(product.a, a, true, tf32);
  const std::vector<T> columns = pack<T>(product.b, b, false, tf32);
  const std::int64_t k = product.k();
  const int parts = algorithm.split_k;
  const auto first = static_cast<int>(call % static_cast<std::uint64_t>(parts));
  for (std::int64_t j = 0; j < product.n(); ++j) {
    for (std::int64_t i = 0; i < product.m(); ++i) {
      T sum = 0;
      for (int part = 0; part < parts; ++part) {
        const int p = (first + part) % parts;
        sum += dot(rows.data() + i * k, columns.data() + j * k, k * p / parts, k * (p + 1) / parts, algorithm.lanes);
      }
      T value = static_cast<T>(product.alpha) * sum;
      if (product.beta != 0) {
        const auto at = static_cast<std::size_t>(i + j * product.c.stride);
        value += static_cast<T>(product.beta) * static_cast<T>(load(product.c.element, c, at));
      }
      store(product.d.element, d, static_cast<std::size_t>(i + j * product.d.stride), static_cast<double>(value));
    }
  }
}

}  // namespace

std::size_t Matrix::bytes() const { return static_cast<std::size_t>((columns - 1) * stride + rows) * size_of(element); }

std::string mistake(const Product& product) {
  for (const Matrix* matrix : {&product.a, &product.b, &product.c, &product.d}) {
    if (matrix->rows < 1 || matrix->columns < 1 || matrix->stride < matrix->rows) {
      return "a matrix is empty, or its leading dimension is less than its rows";
    }
  }
  if (product.a.op_rows() != product.m() || product.b.op_columns() != product.n() ||
      product.b.op_rows() != product.k() || product.c.rows != product.m() || product.c.columns != product.n()) {
    return "the shapes do not fit each other";
  }
  return "";
}

std::string unsupported(const Product& product, int capability) {
  const Element in = product.a.element;
  const Element out = product.d.element;
  if (product.b.element != in || product.c.element != out) {
    return "types that are not multiplied with each other";
  }
  if (product.accumulator == Accumulator::f64) {
    return in == Element::f64 && out == Element::f64 ? "" : "64 bit sums of other types";
  }
  if (product.accumulator == Accumulator::tf32) {
    return in == Element::f32 && out == Element::f32 && capability >= 80 ? "" : "tf32 is for f32 from 8.0";
  }
  switch (in) {
    case Element::f32: return out == Element::f32 ? "" : "f32 gives f32";
    case Element::f16: return out == Element::f16 || out == Element::f32 ? "" : "f16 gives f16 or f32";
    case Element::bf16:
      if (capability < 80) {
        return "bf16 begins with 8.0";
      }
      return out == Element::bf16 || out == Element::f32 ? "" : "bf16 gives bf16 or f32";
    case Element::f8e4m3: {
      if (capability < 89) {
        return "f8e4m3 begins with 8.9";
      }
      if (!product.a.transposed || product.b.transposed) {
        return "f8e4m3 is multiplied as TN";
      }
      if (product.m() % 16 != 0 || product.n() % 16 != 0 || product.k() % 16 != 0) {
        return "f8e4m3 is multiplied in multiples of 16";
      }
      return out == Element::bf16 || out == Element::f16 || out == Element::f32 ? "" : "f8e4m3 gives bf16, f16 or f32";
    }
    default: return "types that are not multiplied";
  }
}

std::optional<Algorithm> algorithm(int id) {
  if (id == split.id) {
    return split;
  }
  const auto found = std::find_if(plain_algorithms.begin(), plain_algorithms.end(),
                                  [id](const Algorithm& algorithm) { return algorithm.id == id; });
  return found == plain_algorithms.end() ? std::nullopt : std::optional(*found);
}

float waves_of(const Algorithm& algorithm, const Product& product, int sms) {
  return static_cast<float>(tiles_of(algorithm, product)) / static_cast<float>(sms);
}

bool is_aligned(const Product& product, std::uint64_t alignment) {
  const auto fits = [alignment](const Matrix& matrix) {
    return static_cast<std::uint64_t>(matrix.stride) * size_of(matrix.element) % alignment == 0;
  };
  return fits(product.a) && fits(product.b) && fits(product.c) && fits(product.d);
}

std::vector<Algorithm> candidates(const Product& product, int sms, const Preference& preference) {
  const auto fits = [&](const Algorithm& algorithm) {
    return algorithm.workspace <= preference.workspace && algorithm.alignment <= preference.alignment &&
           is_aligned(product, algorithm.alignment);
  };
  std::vector<Algorithm> fitting;
  std::copy_if(plain_algorithms.begin(), plain_algorithms.end(), std::back_inserter(fitting), fits);
  // Time: waves begun, each as long as its tile is large.
  const auto time = [&](const Algorithm& algorithm) {
    return std::ceil(static_cast<double>(waves_of(algorithm, product, sms))) * algorithm.tile_m * algorithm.tile_n;
  };
  std::stable_sort(fitting.begin(), fitting.end(),
                   [&](const Algorithm& a, const Algorithm& b) { return time(a) < time(b); });
  if ((preference.reductions & split.reduction) != 0 && fits(split) && product.k() >= split.split_k) {
    fitting.insert(fitting.begin(), split);
  }
  return fitting;
}

void multiply(const Product& product, const Algorithm& algorithm, const std::byte* a, const std::byte* b,
              const std::byte* c, std::byte* d, std::uint64_t call) {
  if (product.accumulator == Accumulator::f64) {
    multiply_as<double>(product, algorithm, a, b, c, d, call);
  } else {
    multiply_as<float>(product, algorithm, a, b, c, d, call);
  }
}

}  // namespace ovl::emulation::blas
