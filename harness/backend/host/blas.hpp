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

// c = a · b, row-major, gemm.repeat times. f32 or f64.
void run_gemm(const Gemm& gemm, const std::byte* a, const std::byte* b, std::byte* c);

// openblas_config, openblas_corename, openblas_threads, openblas_coretype (what OPENBLAS_CORETYPE forces, or "not
// set").
std::vector<Fact> blas_facts();

}  // namespace ovl::host
