// SPDX-License-Identifier: Apache-2.0
#include "backend/host/blas.hpp"

#include <cblas.h>

#include <cstdlib>

namespace ovl::host {

void set_blas_threads(int threads) { openblas_set_num_threads(threads); }

void run_gemm(const Gemm& gemm, const std::byte* a, const std::byte* b, std::byte* c) {
  const auto m = static_cast<blasint>(gemm.m);
  const auto n = static_cast<blasint>(gemm.n);
  const auto k = static_cast<blasint>(gemm.k);
  for (std::int64_t i = 0; i < gemm.repeat; ++i) {
    if (gemm.dtype == DType::f64) {
      cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0, reinterpret_cast<const double*>(a), k,
                  reinterpret_cast<const double*>(b), n, 0.0, reinterpret_cast<double*>(c), n);
    } else {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0F, reinterpret_cast<const float*>(a), k,
                  reinterpret_cast<const float*>(b), n, 0.0F, reinterpret_cast<float*>(c), n);
    }
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
