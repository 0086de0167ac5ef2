// SPDX-License-Identifier: Apache-2.0
//
// The emulated NCCL through its interface: ranks are threads of this process, one device each. What NCCL leaves to hang
// hangs here, and is ended by aborting; no time decides.
#include <gtest/gtest.h>
#include <nccl.h>

#include <algorithm>
#include <barrier>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cuda_emulation/device_test.hpp"
#include "cuda_emulation/emulator.hpp"

namespace ovl::emulation {
namespace {

using testing::Array;
using testing::must;
using testing::Stream;
using Floats = std::vector<float>;

// Before the emulator reads it.
[[maybe_unused]] const int four_devices = setenv("OVL_EMULATED_GPUS", "4", 1);

void nccl(ncclResult_t result) { ASSERT_EQ(result, ncclSuccess) << ncclGetLastError(nullptr); }

ncclUniqueId fresh_id() {
  ncclUniqueId id;
  nccl(ncclGetUniqueId(&id));
  return id;
}

ncclConfig_t limits(int ctas, int policy = NCCL_CTA_POLICY_DEFAULT) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.minCTAs = config.maxCTAs = ctas;
  config.CTAPolicy = policy;
  return config;
}

struct Rank {
  int rank;
  ncclComm_t comm;
  const Stream& stream;
};

// Each rank is a thread with its device, communicator and stream.
template <class Body>
void on_ranks(int ranks, Body body, ncclConfig_t config = NCCL_CONFIG_INITIALIZER) {
  const ncclUniqueId id = fresh_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      must(cudaSetDevice(rank), "cudaSetDevice");
      const Stream stream;
      ncclComm_t comm = nullptr;
      ncclConfig_t mine = config;
      nccl(ncclCommInitRankConfig(&comm, ranks, id, rank, &mine));
      body(Rank{rank, comm, stream});
      stream.synchronize();
      nccl(ncclCommDestroy(comm));
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// As above, but the body ends its communicator itself.
template <class Body>
void on_unowned_ranks(int ranks, Body body) {
  const ncclUniqueId id = fresh_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      must(cudaSetDevice(rank), "cudaSetDevice");
      const Stream stream;
      ncclComm_t comm = nullptr;
      nccl(ncclCommInitRankConfig(&comm, ranks, id, rank, nullptr));
      body(Rank{rank, comm, stream});
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// ---- results -------------------------------------------------------------------------------------------------------

TEST(Nccl, SaysItsVersion) {
  int version = 0;
  nccl(ncclGetVersion(&version));
  EXPECT_EQ(version, 22809);
  EXPECT_STREQ(ncclGetErrorString(ncclInvalidUsage), "invalid usage (run with NCCL_DEBUG=WARN for details)");
}

TEST(Nccl, EveryCollectiveOnTwoRanks) {
  on_ranks(2, [](const Rank& r) {
    const bool first = r.rank == 0;
    const Array<float> in(first ? Floats{1, 2} : Floats{10, 20});
    const Array<float> two(2);
    const Array<float> one(1);
    const Array<float> four(4);
    const cudaStream_t stream = r.stream.get();

    nccl(ncclAllReduce(in.get(), two.get(), 2, ncclFloat32, ncclSum, r.comm, stream));
    r.stream.synchronize();
    EXPECT_EQ(two.values(), (Floats{11, 22}));

    nccl(ncclReduceScatter(in.get(), one.get(), 1, ncclFloat32, ncclSum, r.comm, stream));
    r.stream.synchronize();
    EXPECT_EQ(one.values(), first ? Floats{11} : Floats{22});

    nccl(ncclAllGather(in.get(), four.get(), 2, ncclFloat32, r.comm, stream));
    r.stream.synchronize();
    EXPECT_EQ(four.values(), (Floats{1, 2, 10, 20}));

    nccl(ncclBroadcast(in.get(), two.get(), 2, ncclFloat32, 1, r.comm, stream));
    r.stream.synchronize();
    EXPECT_EQ(two.values(), (Floats{10, 20}));

    nccl(ncclAlltoAll(in.get(), two.get(), 1, ncclFloat32, r.comm, stream));
    r.stream.synchronize();
    EXPECT_EQ(two.values(), first ? (Floats{1, 10}) : (Floats{2, 20}));
  });
}

TEST(Nccl, GroupedSendsAndReceivesProceedTogether) {
  on_ranks(2, [](const Rank& r) {
    const Array<float> in(Floats(100'000, static_cast<float>(r.rank + 1)));
    const Array<float> out(100'000);
    nccl(ncclGroupStart());
    nccl(ncclSend(in.get(), 100'000, ncclFloat32, 1 - r.rank, r.comm, r.stream.get()));
    nccl(ncclRecv(out.get(), 100'000, ncclFloat32, 1 - r.rank, r.comm, r.stream.get()));
    nccl(ncclGroupEnd());
    r.stream.synchronize();
    EXPECT_EQ(out.values(), Floats(100'000, static_cast<float>(2 - r.rank)));
  });
}

TEST(Nccl, OneThreadServesTwoDevicesInGroups) {
  const ncclUniqueId id = fresh_id();
  ncclComm_t comms[2] = {};
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<Array<float>>> values;
  nccl(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) {
    must(cudaSetDevice(rank), "cudaSetDevice");
    streams.push_back(std::make_unique<Stream>());
    values.push_back(std::make_unique<Array<float>>(Floats{static_cast<float>(rank + 1)}));
    nccl(ncclCommInitRankConfig(&comms[rank], 2, id, rank, nullptr));
  }
  nccl(ncclGroupEnd());
  nccl(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) {  // device 1 is current: NCCL finds the right one
    nccl(ncclAllReduce(values[static_cast<std::size_t>(rank)]->get(), values[static_cast<std::size_t>(rank)]->get(), 1,
                       ncclFloat32, ncclSum, comms[rank], streams[static_cast<std::size_t>(rank)]->get()));
  }
  nccl(ncclGroupEnd());
  for (std::size_t rank = 0; rank < 2; ++rank) {
    must(cudaSetDevice(static_cast<int>(rank)), "cudaSetDevice");
    streams[rank]->synchronize();
    EXPECT_EQ(values[rank]->values(), Floats{3});
  }
  int rank = -1;
  int count = 0;
  nccl(ncclCommUserRank(comms[1], &rank));
  nccl(ncclCommCount(comms[1], &count));
  EXPECT_EQ(rank, 1);
  EXPECT_EQ(count, 2);
  nccl(ncclGroupStart());
  nccl(ncclCommFinalize(comms[0]));
  nccl(ncclCommFinalize(comms[1]));
  nccl(ncclGroupEnd());
  nccl(ncclCommDestroy(comms[0]));
  nccl(ncclCommDestroy(comms[1]));
  streams.clear();
  values.clear();
}

TEST(Nccl, AGroupOverSeveralStreamsJoinsThem) {
  on_ranks(2, [](const Rank& r) {
    const Stream other;
    const Array<float> a(Floats{1});
    const Array<float> b(Floats{2});
    nccl(ncclGroupStart());
    nccl(ncclAllReduce(a.get(), a.get(), 1, ncclFloat32, ncclSum, r.comm, r.stream.get()));
    nccl(ncclAllReduce(b.get(), b.get(), 1, ncclFloat32, ncclSum, r.comm, other.get()));
    nccl(ncclGroupEnd());
    // Ordered after the other stream's member too, or this were a race.
    must(cudaMemsetAsync(b.get(), 0, sizeof(float), r.stream.get()), "cudaMemsetAsync");
    r.stream.synchronize();
    other.synchronize();
    EXPECT_EQ(a.values(), Floats{2});
    EXPECT_EQ(b.values(), Floats{0});
  });
}

TEST(Nccl, OneRankCopiesOrDoesNothing) {
  must(cudaSetDevice(0), "cudaSetDevice");
  record_spans(true);
  static_cast<void>(take_spans());
  on_ranks(1, [](const Rank& r) {
    const Array<float> in(Floats{1, 2});
    const Array<float> out(2);
    nccl(ncclAllReduce(in.get(), in.get(), 2, ncclFloat32, ncclSum, r.comm, r.stream.get()));
    nccl(ncclAllReduce(in.get(), out.get(), 2, ncclFloat32, ncclSum, r.comm, r.stream.get()));
    r.stream.synchronize();
    const std::vector<KernelSpan> spans = take_spans();
    EXPECT_EQ(std::count_if(spans.begin(), spans.end(), [](const KernelSpan& s) { return s.name[0] == 'n'; }), 0);
    EXPECT_EQ(out.values(), (Floats{1, 2}));
  });
  record_spans(false);
}

TEST(Nccl, CapturedAndReplayed) {
  on_ranks(2, [](const Rank& r) {
    const Array<float> value(Floats{1});
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    must(cudaStreamBeginCapture(r.stream.get(), cudaStreamCaptureModeThreadLocal), "begin");
    nccl(ncclAllReduce(value.get(), value.get(), 1, ncclFloat32, ncclSum, r.comm, r.stream.get()));
    must(cudaStreamEndCapture(r.stream.get(), &graph), "end");
    must(cudaGraphInstantiate(&ready, graph, 0), "instantiate");
    for (int i = 0; i < 3; ++i) {
      must(cudaGraphLaunch(ready, r.stream.get()), "launch");
    }
    r.stream.synchronize();
    EXPECT_EQ(value.values(), Floats{8});  // doubled three times
    must(cudaGraphExecDestroy(ready), "destroy");
    must(cudaGraphDestroy(graph), "destroy");
  });
}

// ---- what runs, and when -------------------------------------------------------------------------------------------

// The spans of one rank's device whose names begin so, in the order of their starts.
std::vector<KernelSpan> spans_of(const std::vector<KernelSpan>& all, int device, const std::string& prefix) {
  std::vector<KernelSpan> mine;
  std::copy_if(all.begin(), all.end(), std::back_inserter(mine),
               [&](const KernelSpan& s) { return s.device == device && s.name.rfind(prefix, 0) == 0; });
  std::sort(mine.begin(), mine.end(), [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
  return mine;
}

TEST(Nccl, AskedForCtasAreLaunchedWhereTheSizeNeedsThem) {
  record_spans(true);
  static_cast<void>(take_spans());
  on_ranks(
      2,
      [](const Rank& r) {
        const Array<float> large(Floats(64 * 1024));  // 256 KiB: 8 channels of 32 KiB, of which 4 are allowed
        const Array<float> small(Floats(16));
        nccl(ncclAllReduce(large.get(), large.get(), 64 * 1024, ncclFloat32, ncclSum, r.comm, r.stream.get()));
        nccl(ncclAllReduce(small.get(), small.get(), 16, ncclFloat32, ncclSum, r.comm, r.stream.get()));
        r.stream.synchronize();
      },
      limits(4));
  const auto kernels = spans_of(take_spans(), 0, "nccl");
  record_spans(false);
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].name, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
  EXPECT_EQ(kernels[0].blocks, 4);
  EXPECT_EQ(kernels[0].threads, 544);
  EXPECT_EQ(kernels[0].registers, 96);
  EXPECT_EQ(kernels[1].blocks, 1);
}

// What the communicator of `config` runs for a gather and a sum in buffers with or without symmetric windows.
std::vector<KernelSpan> paths(bool windows, const ncclConfig_t& config) {
  record_spans(true);
  static_cast<void>(take_spans());
  std::vector<KernelSpan> all;
  on_ranks(
      2,
      [&](const Rank& r) {
        void* memory = nullptr;
        nccl(ncclMemAlloc(&memory, 8192));
        const Floats zeros(2048);
        must(cudaMemcpy(memory, zeros.data(), 8192, cudaMemcpyHostToDevice), "cudaMemcpy");
        auto* floats = static_cast<float*>(memory);
        ncclWindow_t window = nullptr;
        if (windows) {
          nccl(ncclCommWindowRegister(r.comm, memory, 8192, &window, NCCL_WIN_COLL_SYMMETRIC));
          EXPECT_NE(window, nullptr);
        }
        nccl(ncclAllGather(floats, floats + 1024, 16, ncclFloat32, r.comm, r.stream.get()));
        nccl(ncclAllReduce(floats, floats + 1024, 16, ncclFloat32, ncclSum, r.comm, r.stream.get()));
        r.stream.synchronize();
        if (windows) {
          nccl(ncclCommWindowDeregister(r.comm, window));
        }
        nccl(ncclMemFree(memory));
      },
      config);
  for (const KernelSpan& span : take_spans()) {
    if (span.device == 0 &&
        (span.name.rfind("nccl", 0) == 0 || (span.name == "memcpy" && span.bytes == 128))) {  // 2 ranks of 16 floats
      all.push_back(span);
    }
  }
  record_spans(false);
  return all;
}

TEST(Nccl, ZeroCtaGathersByCopyEngineAndFallsBackWithoutAWord) {
  const auto zero = limits(4, NCCL_CTA_POLICY_ZERO);
  const auto copied = paths(true, zero);
  ASSERT_EQ(copied.size(), 2U);
  EXPECT_TRUE(copied[0].copy);
  EXPECT_EQ(copied[1].name, "ncclSymkDevKernel_AllReduce_Sum_f32_ST");
  EXPECT_FALSE(copied[1].copy);
  const auto plain = paths(false, zero);
  ASSERT_EQ(plain.size(), 2U);
  EXPECT_EQ(plain[0].name, "ncclDevKernel_AllGather_RING_LL");
  const auto symmetric = paths(true, limits(4));
  ASSERT_EQ(symmetric.size(), 2U);
  EXPECT_EQ(symmetric[0].name, "ncclSymkDevKernel_AllGather_ST");
}

TEST(Nccl, ACommunicatorSerialisesItsCollectivesOnWhateverStreams) {
  record_spans(true);
  static_cast<void>(take_spans());
  on_ranks(2, [](const Rank& r) {
    const Stream other;
    const Array<float> a(Floats(256 * 1024));
    const Array<float> b(Floats(16));
    nccl(ncclAllReduce(a.get(), a.get(), 256 * 1024, ncclFloat32, ncclSum, r.comm, r.stream.get()));
    nccl(ncclAllReduce(b.get(), b.get(), 16, ncclFloat32, ncclSum, r.comm, other.get()));
    other.synchronize();
    EXPECT_TRUE(r.stream.ready());  // the first was before it
    r.stream.synchronize();
  });
  static_cast<void>(take_spans());
  record_spans(false);
}

TEST(Nccl, TwoCommunicatorsAreConcurrent) {
  const ncclUniqueId second_id = fresh_id();
  on_ranks(2, [&](const Rank& r) {
    ncclComm_t second = nullptr;
    nccl(ncclCommInitRankConfig(&second, 2, second_id, r.rank, nullptr));
    const Stream other;
    const Array<float> a(Floats{1});
    const Array<float> b(Floats{1});
    const auto on_first = [&] {
      nccl(ncclAllReduce(a.get(), a.get(), 1, ncclFloat32, ncclSum, r.comm, r.stream.get()));
    };
    const auto on_second = [&] { nccl(ncclAllReduce(b.get(), b.get(), 1, ncclFloat32, ncclSum, second, other.get())); };
    // Rank 1 issues the first communicator's only after the second's is done on both, which rank 0 issued after it.
    if (r.rank == 0) {
      on_first();
    }
    on_second();
    other.synchronize();
    if (r.rank == 1) {
      on_first();
    }
    r.stream.synchronize();
    EXPECT_EQ(a.values(), Floats{2});
    EXPECT_EQ(b.values(), Floats{2});
    nccl(ncclCommDestroy(second));
  });
}

// ---- what hangs ----------------------------------------------------------------------------------------------------

// Both ranks enqueue what they are told, never finish, and are free once they abort, each for itself.
void expect_hang(const std::function<void(const Rank&, float* memory)>& enqueue_work) {
  std::barrier<> both(2);
  on_unowned_ranks(2, [&](const Rank& r) {
    const Array<float> memory(Floats(64));
    enqueue_work(r, memory.get());
    EXPECT_FALSE(r.stream.ready());
    both.arrive_and_wait();
    if (r.rank == 0) {
      nccl(ncclCommAbort(r.comm));
      r.stream.synchronize();
    }
    both.arrive_and_wait();
    if (r.rank == 1) {
      EXPECT_FALSE(r.stream.ready());  // its peer's abort does not free it
      nccl(ncclCommAbort(r.comm));
      r.stream.synchronize();
    }
  });
}

TEST(Nccl, AMismatchedCountHangs) {
  expect_hang([](const Rank& r, float* memory) {
    nccl(ncclAllReduce(memory, memory, r.rank == 0 ? 8 : 4, ncclFloat32, ncclSum, r.comm, r.stream.get()));
  });
}

TEST(Nccl, AnotherOrderOnOneRankHangs) {
  expect_hang([](const Rank& r, float* memory) {
    for (int i = 0; i < 2; ++i) {
      if ((i == 0) == (r.rank == 0)) {
        nccl(ncclAllReduce(memory, memory, 8, ncclFloat32, ncclSum, r.comm, r.stream.get()));
      } else {
        nccl(ncclBroadcast(memory, memory, 8, ncclFloat32, 0, r.comm, r.stream.get()));
      }
    }
  });
}

TEST(Nccl, ASendBeforeItsReceiveWithoutAGroupHangs) {
  expect_hang([](const Rank& r, float* memory) {
    nccl(ncclSend(memory, 8, ncclFloat32, 1 - r.rank, r.comm, r.stream.get()));
    nccl(ncclRecv(memory + 32, 8, ncclFloat32, 1 - r.rank, r.comm, r.stream.get()));
  });
}

// ---- what is refused -----------------------------------------------------------------------------------------------

TEST(Nccl, TwoRanksOnOneDevice) {
  const ncclUniqueId id = fresh_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      must(cudaSetDevice(0), "cudaSetDevice");
      ncclComm_t comm = nullptr;
      EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, rank, nullptr), ncclInvalidUsage);
      EXPECT_EQ(comm, nullptr);
      EXPECT_EQ(std::string(ncclGetLastError(nullptr)).rfind("Duplicate GPU detected : rank 0 and rank 1 both on", 0),
                0U);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(Nccl, RefusesWhatNcclRefuses) {
  ncclConfig_t minimum_alone = NCCL_CONFIG_INITIALIZER;
  minimum_alone.minCTAs = 4;
  ncclComm_t none = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&none, 1, fresh_id(), 0, &minimum_alone), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRankConfig(&none, 2, fresh_id(), 2, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRankConfig(&none, 1, ncclUniqueId{}, 0, nullptr), ncclInvalidArgument);
  EXPECT_STREQ(ncclGetLastError(nullptr), "the unique id is not from ncclGetUniqueId");

  on_ranks(2, [](const Rank& r) {
    const Array<float> in(Floats(4));
    const cudaStream_t stream = r.stream.get();
    float* memory = in.get();
    EXPECT_EQ(ncclAllReduce(nullptr, memory, 1, ncclFloat32, ncclSum, r.comm, stream), ncclInvalidArgument);
    EXPECT_EQ(ncclAllReduce(memory, memory, 1, ncclFloat32, ncclMax, r.comm, stream), ncclInvalidArgument);
    EXPECT_EQ(ncclBroadcast(memory, memory, 1, ncclFloat32, 2, r.comm, stream), ncclInvalidArgument);
    EXPECT_STREQ(ncclGetLastError(nullptr), "ncclBroadcast: invalid root or peer 2 (not in the range 0..1)");
    EXPECT_EQ(ncclSend(memory, 1, ncclFloat32, r.rank, r.comm, stream), ncclInvalidUsage);  // to itself, unmet
    static_cast<void>(ncclGetLastError(nullptr));
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);

    must(cudaSetDevice(1 - r.rank), "cudaSetDevice");
    {
      const Stream foreign;
      EXPECT_EQ(ncclAllReduce(memory, memory, 1, ncclFloat32, ncclSum, r.comm, foreign.get()), ncclInvalidArgument);
    }
    must(cudaSetDevice(r.rank), "cudaSetDevice");
    static_cast<void>(ncclGetLastError(nullptr));
  });
}

TEST(Nccl, ACommunicatorCannotBeMadeDuringACapture) {
  must(cudaSetDevice(0), "cudaSetDevice");
  const Stream stream;
  must(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "begin");
  ncclComm_t none = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&none, 1, fresh_id(), 0, nullptr), ncclUnhandledCudaError);
  static_cast<void>(ncclGetLastError(nullptr));
  cudaGraph_t graph = nullptr;
  EXPECT_NE(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);  // the capture is spoilt
  static_cast<void>(cudaGetLastError());
}

TEST(Nccl, AGroupWithAMistakeDoesNothing) {
  on_ranks(2, [](const Rank& r) {
    const Array<float> value(Floats{1});
    nccl(ncclGroupStart());
    nccl(ncclAllReduce(value.get(), value.get(), 1, ncclFloat32, ncclSum, r.comm, r.stream.get()));
    EXPECT_EQ(ncclBroadcast(value.get(), value.get(), 1, ncclFloat32, 9, r.comm, r.stream.get()), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    static_cast<void>(ncclGetLastError(nullptr));
    r.stream.synchronize();
    EXPECT_EQ(value.values(), Floats{1});
  });
}

TEST(Nccl, WindowsNeedMemoryOfNccl) {
  on_ranks(1, [](const Rank& r) {
    const Array<float> plain(Floats(2048));
    ncclWindow_t window = nullptr;
    EXPECT_EQ(ncclCommWindowRegister(r.comm, plain.get(), 8192, &window, NCCL_WIN_COLL_SYMMETRIC), ncclInvalidArgument);
    setenv("OVL_EMULATED_NCCL", "22902", 1);
    EXPECT_EQ(ncclCommWindowRegister(r.comm, plain.get(), 8192, &window, NCCL_WIN_COLL_SYMMETRIC), ncclSuccess);
    unsetenv("OVL_EMULATED_NCCL");
    EXPECT_EQ(window, nullptr);  // from 2.29: no window, and no error
    void* handle = nullptr;
    static_cast<void>(ncclGetLastError(nullptr));
    nccl(ncclCommRegister(r.comm, plain.get(), 8192, &handle));
    EXPECT_EQ(ncclCommWindowDeregister(r.comm, static_cast<ncclWindow_t>(handle)), ncclInvalidArgument);
    static_cast<void>(ncclGetLastError(nullptr));
    nccl(ncclCommDeregister(r.comm, handle));
  });
}

TEST(Nccl, OlderVersionsHaveLess) {
  setenv("OVL_EMULATED_NCCL", "22707", 1);
  int version = 0;
  nccl(ncclGetVersion(&version));
  EXPECT_EQ(version, 22707);
  EXPECT_EQ(ncclAlltoAll(nullptr, nullptr, 1, ncclFloat32, nullptr, nullptr), ncclInvalidUsage);
  EXPECT_STREQ(ncclGetLastError(nullptr), "ncclAlltoAll is not part of this version");
  unsetenv("OVL_EMULATED_NCCL");
}

// ---- asynchronous errors -------------------------------------------------------------------------------------------

TEST(Nccl, AnAsynchronousErrorIsToldByItsRankAlone) {
  setenv("OVL_EMULATED_NCCL_ASYNC", "1:2:6", 1);
  std::barrier<> both(2);
  on_unowned_ranks(2, [&](const Rank& r) {
    const Array<float> value(Floats{1});
    ncclResult_t error = ncclInternalError;
    nccl(ncclAllReduce(value.get(), value.get(), 1, ncclFloat32, ncclSum, r.comm, r.stream.get()));
    r.stream.synchronize();
    nccl(ncclCommGetAsyncError(r.comm, &error));
    EXPECT_EQ(error, ncclSuccess);
    nccl(ncclAllReduce(value.get(), value.get(), 1, ncclFloat32, ncclSum, r.comm, r.stream.get()));
    EXPECT_FALSE(r.stream.ready());
    nccl(ncclCommGetAsyncError(r.comm, &error));
    EXPECT_EQ(error, r.rank == 1 ? ncclRemoteError : ncclSuccess);
    both.arrive_and_wait();
    nccl(ncclCommAbort(r.comm));
    r.stream.synchronize();
    EXPECT_EQ(value.values(), Floats{2});  // of the first alone
  });
  unsetenv("OVL_EMULATED_NCCL_ASYNC");
}

// ---- what a GPU would not tell -------------------------------------------------------------------------------------

class NcclDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  // A communicator of one rank.
  static ncclComm_t one() {
    must(cudaSetDevice(0), "cudaSetDevice");
    ncclComm_t comm = nullptr;
    nccl(ncclCommInitRankConfig(&comm, 1, fresh_id(), 0, nullptr));
    return comm;
  }
};
const auto violated = ::testing::ExitedWithCode(86);

TEST_F(NcclDeathTest, UseAfterDestroy) {
  EXPECT_EXIT(
      {
        const ncclComm_t comm = one();
        nccl(ncclCommDestroy(comm));
        int count = 0;
        static_cast<void>(ncclCommCount(comm, &count));
      },
      violated, "ncclCommCount with a communicator that was destroyed, aborted or never made");
}

TEST_F(NcclDeathTest, DestroyAfterAbort) {
  EXPECT_EXIT(
      {
        const ncclComm_t comm = one();
        nccl(ncclCommAbort(comm));
        static_cast<void>(ncclCommDestroy(comm));
      },
      violated, "ncclCommDestroy with a communicator that was destroyed, aborted or never made");
}

TEST_F(NcclDeathTest, ALeakedCommunicator) {
  EXPECT_EXIT(
      {
        one();
        std::exit(0);
      },
      violated, "1 live NCCL communicators");
}

TEST_F(NcclDeathTest, MemoryFreedWhileRegistered) {
  EXPECT_EXIT(
      {
        const ncclComm_t comm = one();
        void* memory = nullptr;
        void* handle = nullptr;
        nccl(ncclMemAlloc(&memory, 8192));
        nccl(ncclCommRegister(comm, memory, 8192, &handle));
        static_cast<void>(ncclMemFree(memory));
      },
      violated, "ncclMemFree of memory that is still registered with a communicator");
}

TEST_F(NcclDeathTest, DestroyedWhileBuffersAreRegistered) {
  EXPECT_EXIT(
      {
        const ncclComm_t comm = one();
        void* memory = nullptr;
        void* handle = nullptr;
        nccl(ncclMemAlloc(&memory, 8192));
        nccl(ncclCommRegister(comm, memory, 8192, &handle));
        static_cast<void>(ncclCommDestroy(comm));
      },
      violated, "ncclCommDestroy while 1 buffers are registered with the communicator");
}

TEST_F(NcclDeathTest, MemoryOfCudaGivenToNccl) {
  EXPECT_EXIT(
      {
        must(cudaSetDevice(0), "cudaSetDevice");
        const Array<float> plain(Floats(4));
        static_cast<void>(ncclMemFree(plain.get()));
      },
      violated, "ncclMemFree of memory that is not from ncclMemAlloc");
}

TEST_F(NcclDeathTest, OverlapThatIsNotInPlace) {
  EXPECT_EXIT(
      {
        const ncclComm_t comm = one();
        const Stream stream;
        const Array<float> memory(Floats(8));
        static_cast<void>(ncclAllReduce(memory.get(), memory.get() + 2, 4, ncclFloat32, ncclSum, comm, stream.get()));
      },
      violated, "ncclAllReduce whose input and output overlap without being in place");
}

TEST_F(NcclDeathTest, AUniqueIdUsedTwice) {
  EXPECT_EXIT(
      {
        must(cudaSetDevice(0), "cudaSetDevice");
        const ncclUniqueId id = fresh_id();
        ncclComm_t first = nullptr;
        ncclComm_t second = nullptr;
        nccl(ncclCommInitRankConfig(&first, 1, id, 0, nullptr));
        static_cast<void>(ncclCommInitRankConfig(&second, 1, id, 0, nullptr));
      },
      violated, "rank 0 uses a unique id a second time");
}

TEST_F(NcclDeathTest, AnErrorThatNobodyRead) {
  EXPECT_EXIT(
      {
        const ncclComm_t comm = one();
        const Stream stream;
        const Array<float> memory(Floats(8));
        static_cast<void>(ncclBroadcast(memory.get(), memory.get(), 4, ncclFloat32, 5, comm, stream.get()));
        static_cast<void>(ncclAllReduce(memory.get(), memory.get() + 4, 4, ncclFloat32, ncclSum, comm, stream.get()));
      },
      violated, "ncclBroadcast");
}

TEST_F(NcclDeathTest, AReleaseThatFailsStillReleases) {
  EXPECT_EXIT(
      {
        setenv("OVL_EMULATED_FAIL", "ncclCommDestroy:1", 1);
        const ncclComm_t comm = one();
        EXPECT_EQ(ncclCommDestroy(comm), ncclUnhandledCudaError);
        std::exit(::testing::Test::HasFailure() ? 1 : 0);  // no leak
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(NcclDeathTest, AGroupThatFailsStillReleases) {
  EXPECT_EXIT(
      {
        setenv("OVL_EMULATED_FAIL", "ncclGroupEnd:1", 1);
        const ncclComm_t comm = one();
        nccl(ncclGroupStart());
        nccl(ncclCommDestroy(comm));
        EXPECT_EQ(ncclGroupEnd(), ncclUnhandledCudaError);
        std::exit(::testing::Test::HasFailure() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

// ---- per-call configuration ----------------------------------------------------------------------------------------

#if NCCL_VERSION_CODE >= 23100
TEST(NcclCall, OneCallMayTakeFewerCtasFrom231) {
  setenv("OVL_EMULATED_NCCL", "23203", 1);
  record_spans(true);
  static_cast<void>(take_spans());
  on_ranks(2, [](const Rank& r) {
    const Array<float> values(Floats(64 * 1024));
    ncclCollConfig_t two = NCCL_COLLCONFIG_INITIALIZER;
    two.minCTAs = two.maxCTAs = 2;
    nccl(
        ncclAllReduceConfig(values.get(), values.get(), 64 * 1024, ncclFloat32, ncclSum, r.comm, r.stream.get(), &two));
    r.stream.synchronize();
  });
  const auto kernels = spans_of(take_spans(), 0, "nccl");
  record_spans(false);
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].blocks, 2);
  unsetenv("OVL_EMULATED_NCCL");
}

TEST(NcclCall, AnEventTellsThatAllCtasRunBeforeThePeerIsThere) {
  setenv("OVL_EMULATED_NCCL", "23203", 1);
  std::barrier<> both(2);
  on_ranks(2, [&](const Rank& r) {
    const Stream other;
    const Array<float> value(Floats{1});
    cudaEvent_t began = nullptr;
    must(cudaEventCreateWithFlags(&began, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    config.launchCompletionEvent = began;
    const auto reduce = [&] {
      nccl(ncclAllReduceConfig(value.get(), value.get(), 1, ncclFloat32, ncclSum, r.comm, r.stream.get(), &config));
      must(cudaStreamWaitEvent(other.get(), began, 0), "cudaStreamWaitEvent");
      other.synchronize();
    };
    if (r.rank == 0) {
      reduce();  // comes back while the collective itself waits for rank 1
    }
    both.arrive_and_wait();
    if (r.rank == 1) {
      reduce();
    }
    r.stream.synchronize();
    EXPECT_EQ(value.values(), Floats{2});
    must(cudaEventDestroy(began), "cudaEventDestroy");
  });
  unsetenv("OVL_EMULATED_NCCL");
}

TEST(NcclCall, IsNotPartOfOlderVersions) {
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  EXPECT_EQ(ncclAllReduceConfig(nullptr, nullptr, 1, ncclFloat32, ncclSum, nullptr, nullptr, &config),
            ncclInvalidUsage);
  EXPECT_STREQ(ncclGetLastError(nullptr), "ncclAllReduceConfig is not part of this version");
}
#endif

}  // namespace
}  // namespace ovl::emulation
