// SPDX-License-Identifier: Apache-2.0
//
// One rank of an emulated communicator in a process of its own: nccl_rank <what> <rank> <ranks> <unique id>. Ends with
// 0 where what was expected came.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

void require(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "nccl_rank: %s\n", what);
    std::exit(1);
  }
}

// Sums of 1, 2, 4 ... over 100000 elements, more than the mailboxes hold.
void sum(ncclComm_t comm, int rank, int ranks) {
  constexpr std::size_t count = 100'000;
  std::vector<float> values(count, static_cast<float>(1 << rank));
  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  require(cudaMalloc(&memory, count * sizeof(float)) == cudaSuccess, "cudaMalloc");
  require(cudaMemcpy(memory, values.data(), count * sizeof(float), cudaMemcpyHostToDevice) == cudaSuccess,
          "cudaMemcpy");
  require(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0) == cudaSuccess, "stream");
  require(ncclAllReduce(memory, memory, count, ncclFloat32, ncclSum, comm, stream) == ncclSuccess, "ncclAllReduce");
  require(cudaStreamSynchronize(stream) == cudaSuccess, "cudaStreamSynchronize");
  require(cudaMemcpy(values.data(), memory, count * sizeof(float), cudaMemcpyDeviceToHost) == cudaSuccess,
          "cudaMemcpy");
  for (const float value : values) {
    require(value == static_cast<float>((1 << ranks) - 1), "the sum");
  }
  require(cudaStreamDestroy(stream) == cudaSuccess, "cudaStreamDestroy");
  require(cudaFree(memory) == cudaSuccess, "cudaFree");
}

}  // namespace

int main(int argc, char** argv) {
  require(argc == 5, "nccl_rank <what> <rank> <ranks> <unique id>");
  const std::string what = argv[1];
  const int rank = std::atoi(argv[2]);
  const int ranks = std::atoi(argv[3]);
  ncclUniqueId id{};
  std::strncpy(id.internal, argv[4], sizeof id.internal - 1);
  require(cudaSetDevice(what == "duplicate" ? 0 : rank) == cudaSuccess, "cudaSetDevice");
  ncclComm_t comm = nullptr;
  const ncclResult_t made = ncclCommInitRankConfig(&comm, ranks, id, rank, nullptr);
  if (what == "duplicate") {
    require(made == ncclInvalidUsage, "two ranks on one device must be refused");
    require(std::strstr(ncclGetLastError(nullptr), "Duplicate GPU detected : rank 0 and rank 1") != nullptr,
            "the text");
    return 0;
  }
  require(made == ncclSuccess, "ncclCommInitRankConfig");
  if (what == "abandon" && rank > 0) {
    std::_Exit(0);  // as if it had died
  }
  if (what == "abandon") {
    void* memory = nullptr;
    cudaStream_t stream = nullptr;
    require(cudaMalloc(&memory, 64) == cudaSuccess, "cudaMalloc");
    require(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0) == cudaSuccess, "stream");
    require(ncclAllReduce(memory, memory, 16, ncclFloat32, ncclSum, comm, stream) == ncclSuccess, "ncclAllReduce");
    for (int i = 0; i < 1000; ++i) {
      require(cudaStreamQuery(stream) == cudaErrorNotReady, "nobody else takes part");
    }
    require(cudaGetLastError() != cudaErrorIllegalAddress, "only asked");
    require(ncclCommAbort(comm) == ncclSuccess, "ncclCommAbort");
    require(cudaStreamSynchronize(stream) == cudaSuccess, "an aborted communicator frees its streams");
    require(cudaStreamDestroy(stream) == cudaSuccess && cudaFree(memory) == cudaSuccess, "release");
    return 0;
  }
  sum(comm, rank, ranks);
  require(ncclCommDestroy(comm) == ncclSuccess, "ncclCommDestroy");
  return 0;
}
