// SPDX-License-Identifier: Apache-2.0
//
// The backend as measure sees it, on devices: the suite that every backend passes, and what only this one does.
#include "backend/cuda/session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "backend/conformance.hpp"
#include "backend/cuda/cuda.hpp"
#include "base/error.hpp"
#include "cuda_backend/needs_device.hpp"
#include "program/builder.hpp"
#include "program/placement.hpp"
#include "program/projection.hpp"
#include "support/sample_programs.hpp"

namespace ovl {
namespace {

World& solo() {
  static const std::unique_ptr<World> world = make_solo_world();
  return *world;
}

std::unique_ptr<Backend> open_solo() { return cuda::open_cuda(solo(), {}); }

std::unique_ptr<Backend> open_spinning() {
  setenv("OVERLAPBENCH_GATE", "spin", 1);
  auto backend = open_solo();
  unsetenv("OVERLAPBENCH_GATE");
  return backend;
}

// Starts are CUPTI's to see; host stamps and device events are from different clocks.
const bool traced = cuda::Trace().available();

INSTANTIATE_TEST_SUITE_P(cuda, BackendConformance,
                         testing::Values(BackendUnderTest{.name = "cuda",
                                                          .transport = "nccl",
                                                          .open = open_solo,
                                                          .waitings = {Waiting::yield},
                                                          .sees_starts = traced,
                                                          .one_clock = false},
                                         BackendUnderTest{.name = "cuda_spinning_gate",
                                                          .transport = "nccl",
                                                          .open = open_spinning,
                                                          .waitings = {Waiting::yield},
                                                          .sees_starts = traced,
                                                          .one_clock = false}),
                         subject);

}  // namespace

namespace cuda {
namespace {

using testing::Contains;
using testing::HasSubstr;

class Devices : public NeedsDevice {
 protected:
  void SetUp() override {
    NeedsDevice::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
  }
};

std::string fact(const std::vector<Fact>& facts, const std::string& name) {
  for (const Fact& f : facts) {
    if (f.name == name) return f.value;
  }
  return "no such fact";
}

// Two ranks: GEMMs on one lane beside all_reduces on the other.
Program pair(int gemms = 1, std::int64_t repeat = 1, const std::string& transport = "nccl", int ranks = 2) {
  ProgramBuilder p("pair", ranks);
  const LaneId compute = p.lane({.name = "compute", .role = Role::compute});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const CommId world = p.world("world", transport, 2);
  const BufferId a = p.buffer({.name = "a", .count = 16, .copies = 2});
  const BufferId b = p.buffer({.name = "b", .count = 16});
  const BufferId c = p.buffer({.name = "c", .count = 16, .copies = 2});
  const BufferId x = p.buffer({.name = "x", .count = 100, .copies = 3});
  const BufferId y = p.buffer({.name = "y", .count = 100, .copies = 3});
  ClassBuilder all = p.all_ranks();
  all.prologue(compute, Fill{}, {}, {p.whole(a), p.whole(b), p.whole(x)});
  for (int i = 0; i < gemms; ++i) {
    all.body(compute, Gemm{4, 4, 4, DType::f32, repeat}, {p.whole(a), p.whole(b)}, {p.whole(c)});
  }
  all.body(comm, Collective{CollectiveKind::all_reduce, world, DType::f32, 100, 0}, {p.whole(x)}, {p.whole(y)});
  return std::move(p).finish();
}
constexpr BufferId buffer_c{2};
constexpr BufferId buffer_x{3};
constexpr BufferId buffer_y{4};

std::vector<double> sum(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

TEST_F(Devices, DescribesItselfByWhatIsThere) {
  const auto backend = open_cuda(solo(), {.ranks = 2});
  const Description d = backend->describe();
  EXPECT_EQ(d.backend, "cuda");
  EXPECT_THAT(d.device, testing::StartsWith(device.name)) << "a test double's name says that it is one";
  EXPECT_THAT(d.device, HasSubstr("2 devices"));
  EXPECT_EQ(d.transports, (std::vector<std::string>{"nccl", "copy", "proxy"}));
  EXPECT_EQ(d.default_ranks, 2);
  EXPECT_EQ(d.last_level_cache, device.l2);
  EXPECT_THAT(fact(d.facts, "gpu_uuids"), HasSubstr("0:" + device.uuid));
  EXPECT_EQ(fact(d.facts, "emulated"), device.emulated ? "1" : "0");
  EXPECT_EQ(open_cuda(solo(), {.ranks = 1})->describe().transports.front(), "copy") << "NCCL does nothing alone";
}

TEST_F(Devices, AProgramDeeperThanTheQueueRunsAsPartial) {
  const auto backend = open_cuda(solo(), {.ranks = 2});
  const auto shallow = backend->prepare({pair(1, 10)}, Data::exact, 1);
  EXPECT_FALSE(shallow->run(0, {}).partial);
  const auto deep = backend->prepare({pair(3, queue_limit)}, Data::exact, 1);
  EXPECT_TRUE(deep->run(0, {}).partial);
  EXPECT_EQ(fact(deep->observed(), "partial"), "1");
  EXPECT_EQ(deep->contents(buffer_y, Rank(1), 0),
            sum(deep->contents(buffer_x, Rank(0), 0), deep->contents(buffer_x, Rank(1), 0)));
}

TEST_F(Devices, AGraphDoesTheSameWithEverySlotsCopies) {
  const auto backend = open_cuda(solo(), {.ranks = 2});
  const Program program = place(pair(), parse_placement("graph"));
  ASSERT_EQ(backend->supports(program).reason, "");
  const auto prepared = backend->prepare({program}, Data::exact, 1);
  for (const std::int64_t slot : {0, 1, 2, 3, 4, 5, 6, 7}) {
    const Timings t = prepared->run(
        0, {.recording = slot % 2 == 0 ? Recording::spans : Recording::operations, .slot = slot, .evict = true});
    EXPECT_GE(t.step(), Seconds(0));
    EXPECT_EQ(t.ranks[0].lanes.size(), 2U);
    const int copy = static_cast<int>(slot % 3);
    EXPECT_EQ(prepared->contents(buffer_y, Rank(0), copy),
              sum(prepared->contents(buffer_x, Rank(0), copy), prepared->contents(buffer_x, Rank(1), copy)));
  }
  EXPECT_THROW(static_cast<void>(prepared->run(0, {.launch = Launch::live})), Error);
}

TEST_F(Devices, GlobalSyncRunsLiveInAllArmsOfItsCase) {
  const auto backend = open_cuda(solo(), {.ranks = 2});
  const Program program = place(pair(2), parse_placement("global_sync"));
  const Program compute = project(program, Arm::compute);
  const auto prepared = backend->prepare({compute, program}, Data::exact, 1);
  prepared->run(1, {});
  EXPECT_EQ(fact(prepared->observed(), "launch_mode"), "live");
}

TEST_F(Devices, ObservedSaysWhatWasAskedAndSeen) {
  const auto backend = open_cuda(solo(), {.ranks = 2});
  const auto prepared = backend->prepare({pair()}, Data::random, 1);
  EXPECT_EQ(fact(prepared->observed(), "ctas_observed"), "no such fact") << "nobody looked yet";
  const Timings t = prepared->run(0, {.recording = Recording::operations});
  const std::vector<Fact> facts = prepared->observed();
  EXPECT_EQ(fact(facts, "ctas_asked"), "2");
  EXPECT_THAT(fact(facts, "algorithm"), HasSubstr("split-K 1"));
  EXPECT_EQ(fact(facts, "devices"), "0 1");
  if (Trace().available()) {
    EXPECT_EQ(t.start_source, "cupti");
    EXPECT_EQ(fact(facts, "path"), "kernel");
    EXPECT_NE(fact(facts, "ctas_observed"), "no such fact");
  }
}

TEST_F(Devices, CopyOnOneRankGoesToTheHostAndBack) {
  const auto backend = open_cuda(solo(), {.ranks = 1});
  const auto prepared = backend->prepare({pair(1, 1, "copy", 1)}, Data::random, 1);
  prepared->run(0, {.recording = Recording::operations, .slot = 1});
  EXPECT_EQ(prepared->contents(buffer_y, Rank(0), 1), prepared->contents(buffer_x, Rank(0), 1));
  if (Trace().available()) {
    EXPECT_EQ(fact(prepared->observed(), "path"), "copy_engine");
  }
}

TEST_F(Devices, AProxyLeavesTheInputAndSaysWhatItIs) {
  const auto backend = open_cuda(solo(), {.ranks = 1, .transport = "proxy:100GB/s"});
  EXPECT_THAT(backend->describe().transports, testing::Contains("proxy:100GB/s"));
  const auto prepared = backend->prepare({pair(1, 1, "proxy:100GB/s", 1)}, Data::random, 1);
  prepared->run(0, {.slot = 1});
  EXPECT_EQ(prepared->contents(buffer_y, Rank(0), 1), prepared->contents(buffer_x, Rank(0), 1));
  EXPECT_EQ(fact(prepared->observed(), "path"), "proxy");
  EXPECT_EQ(fact(prepared->observed(), "ctas_observed"), "2") << "told by the kernel itself";
}

// ---- what contends
// ---------------------------------------------------------------------------------------------------

OperationTiming timing_of(const Timings& t, OpId op) {
  for (const OperationTiming& o : t.operations) {
    if (o.op == op) return o;
  }
  return {};
}

TEST_F(Devices, WhatHoldsSmsIsThereBeforeItsVictimAndOutlivesIt) {
  const auto backend = open_cuda(solo(), {.ranks = 1});
  const Program program = sample::contended(Occupy{.count = 3, .until = sample::contended_end}, Busy{Seconds(2e-3)});
  ASSERT_EQ(backend->supports(program).reason, "");
  const auto prepared = backend->prepare({program, project(program, Arm::compute)}, Data::random, 1);
  const std::vector<Operation>& body = program.classes[0].body;
  for (const Launch launch : {Launch::gated, Launch::live}) {
    const Timings t = prepared->run(0, {.launch = launch, .recording = Recording::operations});
    const OperationTiming held = timing_of(t, body[1].id);
    const OperationTiming victim = timing_of(t, body[3].id);
    EXPECT_GE(held.end, victim.end);
    EXPECT_GE(victim.end - t.ranks[0].origin, Seconds(2e-3));
    if (t.start_source == "cupti") {
      EXPECT_LE(held.start, victim.start);
    }
  }
  EXPECT_THAT(fact(prepared->observed(), "layout"), HasSubstr("kernels that contend on SMs "));
  prepared->run(1, {});  // the victim alone
}

TEST_F(Devices, AStreamTellsWhatItMoved) {
  const auto backend = open_cuda(solo(), {.ranks = 1});
  const auto moved = [&](const ovl::Stream& stream) {
    const auto prepared = backend->prepare({sample::contended(stream, Busy{Seconds(1e-3)})}, Data::random, 1);
    return prepared->run(0, {}).ranks[0].lanes;
  };
  const auto amount = moved({.workers = 2, .bytes = Bytes(4096)});
  ASSERT_EQ(amount.size(), 2U);
  EXPECT_EQ(amount[0].moved, std::nullopt) << "the victim";
  EXPECT_EQ(amount[1].moved, Bytes(4096)) << "read and written";
  const auto endless = moved({.workers = 1, .until = sample::contended_end});
  ASSERT_TRUE(endless[1].moved.has_value());
  EXPECT_EQ(endless[1].moved->value() % (2 * sample::contended_bytes.value()), 0) << "whole arrays";
}

// The victim is as patient: an abort ends both.
TEST_F(Devices, AnAbortEndsWhatLastsUntilAnEvent) {
  const auto backend = open_cuda(solo(), {.ranks = 1});
  const auto prepared = backend->prepare({sample::contended(Occupy{.count = 1, .until = sample::contended_end},
                                                            Occupy{.count = 1, .duration = Seconds(0.05)})},
                                         Data::random, 1);
  std::thread other([&] { backend->abort(); });
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i) prepared->run(0, {});
      },
      Error);
  other.join();
}

TEST_F(Devices, PartitionsAreUsedOnlyWithTheirProof) {
  const auto backend = open_cuda(solo(), {.ranks = 2});
  const Program program = place(pair(), parse_placement("partitioned"));
  if (!backend->supports(program).ok()) GTEST_SKIP() << backend->supports(program).reason;
  const auto prepared = backend->prepare({program}, Data::exact, 1);
  prepared->run(0, {});
  EXPECT_THAT(fact(prepared->observed(), "partition"), HasSubstr("proven by"));
}

TEST_F(Devices, PrioritiesAndOrdersRunToTheSameResult) {
  const auto backend = open_cuda(solo(), {.ranks = 2});
  const auto plain = backend->prepare({pair()}, Data::random, 1);
  plain->run(0, {});
  const std::uint64_t bits = plain->fingerprint(buffer_c, Rank(0), 0);
  for (const char* name :
       {"priority_comm", "priority_compute", "comm_first", "compute_first", "event_chained", "serial"}) {
    SCOPED_TRACE(name);
    const auto prepared = backend->prepare({place(pair(), parse_placement(name))}, Data::random, 1);
    prepared->run(0, {});
    EXPECT_EQ(prepared->fingerprint(buffer_c, Rank(0), 0), bits);
  }
}

TEST_F(Devices, WhatDoesNotFitIsImpossibleAndTheSessionGoesOn) {
  const auto backend = open_cuda(solo(), {.ranks = 2});
  Program large = pair();
  large.buffers[0].count = std::int64_t{1} << 45;
  try {
    static_cast<void>(backend->prepare({large}, Data::exact, 1));
    FAIL() << "that much memory";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::impossible);
    EXPECT_THAT(e.what(), HasSubstr("are free on its device"));
  }
  EXPECT_GE(backend->prepare({pair()}, Data::exact, 1)->run(0, {}).step(), Seconds(0));
}

// ---- several processes, as threads of this one
// -----------------------------------------------------------------------

// Operations of all members meet; they count them, and must agree on which one it is.
class Hall {
 public:
  explicit Hall(int size) : texts_(static_cast<std::size_t>(size)), size_(size) {}

  std::vector<std::string> meet(int process, const std::string& kind, const std::string& text) {
    std::unique_lock lock(mutex_);
    if (here_ == 0) kind_ = kind;
    EXPECT_EQ(kind_, kind) << "processes in different operations";
    texts_[static_cast<std::size_t>(process)] = text;
    const int round = round_;
    if (++here_ == size_) {
      here_ = 0;
      ++round_;
      result_ = texts_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return round_ != round; });
    }
    if (process == 0) ++operations_;
    return result_;
  }
  int operations() {
    const std::lock_guard lock(mutex_);
    return operations_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_;
  std::vector<std::string> result_;
  std::string kind_;
  int size_;
  int here_ = 0;
  int round_ = 0;
  int operations_ = 0;
};

class ThreadWorld final : public World {
 public:
  ThreadWorld(Hall& hall, int process, int size) : hall_(hall), process_(process), size_(size) {}
  [[nodiscard]] int process() const override { return process_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] int local_process() const override { return process_; }
  [[nodiscard]] int local_size() const override { return size_; }
  void barrier() override { hall_.meet(process_, "barrier", ""); }
  std::string broadcast(const std::string& text, int from) override {
    return hall_.meet(process_, "broadcast", text)[static_cast<std::size_t>(from)];
  }
  std::vector<std::string> gather(const std::string& text) override {
    auto all = hall_.meet(process_, "gather", text);
    return process_ == 0 ? all : std::vector<std::string>{};
  }
  double minimum(double value) override {
    return extreme("minimum", value, [](double a, double b) { return a < b; });
  }
  double maximum(double value) override {
    return extreme("maximum", value, [](double a, double b) { return a > b; });
  }
  void abort(const std::string&) noexcept override {}

 private:
  template <class Better>
  double extreme(const std::string& kind, double value, Better better) {
    for (const std::string& text : hall_.meet(process_, kind, std::to_string(value))) {
      if (better(std::stod(text), value)) value = std::stod(text);
    }
    return value;
  }

  Hall& hall_;
  int process_;
  int size_;
};

template <class Work>
void on_two_processes(Work work) {
  Hall hall(2);
  std::vector<std::thread> processes;
  for (int p = 0; p < 2; ++p) {
    processes.emplace_back([&hall, &work, p] {
      ThreadWorld world(hall, p, 2);
      work(world, hall);
    });
  }
  for (std::thread& process : processes) process.join();
}

TEST_F(Devices, OfTwoProcessesHaveOneRankEachAndShareAlgorithmAndClock) {
  std::mutex mutex;
  std::vector<std::string> algorithms;
  std::vector<double> epochs;
  std::vector<std::vector<double>> results(2);
  std::vector<std::vector<double>> inputs(2);
  on_two_processes([&](ThreadWorld& world, Hall&) {
    const auto backend = open_cuda(world, {});
    const auto prepared = backend->prepare({pair()}, Data::exact, 1);
    const Timings t = prepared->run(0, {});
    const Rank rank(world.process());
    const std::lock_guard lock(mutex);
    EXPECT_EQ(t.ranks.size(), 1U);
    EXPECT_EQ(t.ranks[0].rank, rank);
    algorithms.push_back(fact(prepared->observed(), "algorithm"));
    epochs.push_back(t.epoch.value());
    results[rank.index()] = prepared->contents(buffer_y, rank, 0);
    inputs[rank.index()] = prepared->contents(buffer_x, rank, 0);
  });
  EXPECT_EQ(algorithms[0], algorithms[1]);
  EXPECT_EQ(results[0], sum(inputs[0], inputs[1]));
  EXPECT_EQ(results[1], results[0]);
  EXPECT_FALSE(std::isnan(epochs[0] - epochs[1]));
}

TEST_F(Devices, AReplayIsOneOperationOfTheWorld) {
  on_two_processes([&](ThreadWorld& world, Hall& hall) {
    const auto backend = open_cuda(world, {});
    const auto prepared = backend->prepare({pair()}, Data::exact, 1);
    world.barrier();
    const int before = hall.operations();
    world.barrier();
    prepared->run(0, {});
    world.barrier();
    if (world.process() == 0) {
      EXPECT_EQ(hall.operations() - before, 3) << "two barriers and the vote";
    }
    world.barrier();
  });
}

TEST_F(Devices, ACaseThatCannotBePreparedOnOneProcessIsGivenUpOnAll) {
  on_two_processes([&](ThreadWorld& world, Hall&) {
    const auto backend = open_cuda(world, {});
    Program program = pair();
    if (world.process() == 1) program.buffers[0].count = std::int64_t{1} << 45;
    try {
      static_cast<void>(backend->prepare({program}, Data::exact, 1));
      ADD_FAILURE() << "one process has no memory for it";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::impossible) << e.what();
    }
    EXPECT_GE(backend->prepare({pair()}, Data::exact, 1)->run(0, {}).step(), Seconds(0)) << "both go on";
  });
}

TEST_F(Devices, ProcessesThatSeeTheSameGpuAreTold) {
  on_two_processes([&](ThreadWorld& world, Hall&) {
    try {
      const Session session(world, Placing{.first = Rank(world.process()), .devices = {0}}, 2);
      ADD_FAILURE() << "two ranks on one GPU";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::impossible);
      EXPECT_THAT(e.what(), HasSubstr("ranks 0 and 1 have the same GPU"));
    }
  });
}

}  // namespace
}  // namespace cuda
}  // namespace ovl
