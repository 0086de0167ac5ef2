// SPDX-License-Identifier: Apache-2.0
//
// A captured body: what one rank's lanes do with one set of buffer copies, launched as one.
#pragma once

#include <functional>

#include "backend/cuda/api.hpp"

namespace ovl::cuda {

class Graph {
 public:
  // Captures what `enqueue` puts on `stream` and on streams that it forks from it and joins again. Other threads go on
  // with their own work (thread-local mode). Uploaded, so that a launch has nothing left to allocate.
  Graph(cudaStream_t stream, const std::function<void()>& enqueue);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  void launch(cudaStream_t stream) const;

 private:
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace ovl::cuda
