// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/graph.hpp"

namespace ovl::cuda {
namespace {

// A stream that stays in capture would fail everything after it, on all of the thread. What went wrong first is what is
// told: this may fail as it likes.
void abandon_capture(cudaStream_t stream) noexcept {
  cudaGraph_t graph = nullptr;
  static_cast<void>(cudaStreamEndCapture(stream, &graph));
  static_cast<void>(cudaGetLastError());
  if (graph != nullptr) release(cudaGraphDestroy(graph), "cudaGraphDestroy");
}

}  // namespace

Graph::Graph(cudaStream_t stream, const std::function<void()>& enqueue) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  try {
    enqueue();
    check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  } catch (...) {
    abandon_capture(stream);
    throw;
  }
  const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
  release(cudaGraphDestroy(graph), "cudaGraphDestroy");
  check(status, "cudaGraphInstantiate");
  const cudaError_t uploaded = cudaGraphUpload(executable_, stream);
  if (uploaded != cudaSuccess) {
    release(cudaGraphExecDestroy(executable_), "cudaGraphExecDestroy");
    check(uploaded, "cudaGraphUpload");
  }
}

Graph::~Graph() { release(cudaGraphExecDestroy(executable_), "cudaGraphExecDestroy"); }

void Graph::launch(cudaStream_t stream) const { check(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch"); }

}  // namespace ovl::cuda
