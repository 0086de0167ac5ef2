// SPDX-License-Identifier: Apache-2.0
//
// Compute on the host: OpenBLAS. Lanes call it concurrently, each with its own threads (one unless asked).
#pragma once

#include <cstddef>
#include <vector>

#include "backend/backend.hpp"
#include "program/program.hpp"

namespace ovl::host {

// For the whole process: OpenBLAS keeps one number.
void set_blas_threads(int threads);

// A part of c: rows [i, i + rows) and columns [j, j + columns).
struct GemmTile {
  std::int64_t i = 0;
  std::int64_t rows = 0;
  std::int64_t j = 0;
  std::int64_t columns = 0;
};

// A tile of c = a · b, row-major, over all of k, once. f32 or f64.
void run_gemm(const Gemm& gemm, const GemmTile& tile, const std::byte* a, const std::byte* b, std::byte* c);

// openblas_config, openblas_corename, openblas_threads, openblas_coretype (what OPENBLAS_CORETYPE forces, or "not
// set").
std::vector<Fact> blas_facts();

}  // namespace ovl::host
