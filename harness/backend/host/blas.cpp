// SPDX-License-Identifier: Apache-2.0
#include "backend/host/blas.hpp"

#include <cblas.h>

#include <cstdlib>

namespace ovl::host {

void set_blas_threads(int threads) { openblas_set_num_threads(threads); }

void run_gemm(const Gemm& gemm, const GemmTile& tile, const std::byte* a, const std::byte* b, std::byte* c) {
  const auto m = static_cast<blasint>(tile.rows);
  const auto n = static_cast<blasint>(tile.columns);
  const auto k = static_cast<blasint>(gemm.k);
  const auto row = static_cast<blasint>(gemm.n);  // of b and c
  const std::int64_t element = size_of(gemm.dtype).value();
  a += tile.i * gemm.k * element;
  b += tile.j * element;
  c += (tile.i * gemm.n + tile.j) * element;
  if (gemm.dtype == DType::f64) {
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0, reinterpret_cast<const double*>(a), k,
                reinterpret_cast<const double*>(b), row, 0.0, reinterpret_cast<double*>(c), row);
  } else {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0F, reinterpret_cast<const float*>(a), k,
                reinterpret_cast<const float*>(b), row, 0.0F, reinterpret_cast<float*>(c), row);
  }
}

std::vector<Fact> blas_facts() {
  const char* forced = std::getenv("OPENBLAS_CORETYPE");
  return {{"openblas_config", openblas_get_config()},
          {"openblas_corename", openblas_get_corename()},
          {"openblas_threads", std::to_string(openblas_get_num_threads())},
          {"openblas_coretype", forced == nullptr ? "not set" : forced}};
}

}  // namespace ovl::host
