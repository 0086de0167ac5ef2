// SPDX-License-Identifier: Apache-2.0
//
// Runs as each of two processes that a launcher of MPI started: what one checks, all check, in step.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "app/modules.hpp"
#include "backend/conformance.hpp"
#include "backend/distributed.hpp"
#include "backend/host/host.hpp"
#include "backend/launcher_environment.hpp"
#include "backend/tcp_world.hpp"
#include "base/error.hpp"
#include "measure/verify.hpp"
#include "program/builder.hpp"
#include "schedule/pair.hpp"

namespace ovl {
namespace {

World& world() {
  static const std::unique_ptr<World> joined = [] {
    const Environment environment = read_environment();
    const Launched launched = launched_by(environment, "", ::getppid());
    return make_tcp_world(tcp_options(launched, job_token(environment, launched.job), 0));
  }();
  return *joined;
}

std::function<MessagePassing&()> load(const std::string& library) {
  return load_message_passing(library, module_folders());
}

std::unique_ptr<Backend> open() {
  static const std::atomic<bool> never{false};
  return distribute(open_host(world(), {.transport = "mpi"}, load), world(), never);
}

std::string transport() { return "mpi-" + launched_library(read_environment()); }

BackendUnderTest in_mode(const char* progress) {
  return {.name = transport(),
          .transport = transport(),
          .open = open,
          .waitings = {Waiting::spin, Waiting::yield},
          .only_ranks = launched_by(read_environment(), "", ::getppid()).size,
          .most_channels = 1,
          .progress = parse_progress(progress),
          .scatters_in_place = false};
}
std::string library_name(const testing::TestParamInfo<BackendUnderTest>& /*info*/) {
  return launched_library(read_environment());
}
INSTANTIATE_TEST_SUITE_P(none, BackendConformance, testing::Values(in_mode("none")), library_name);
INSTANTIATE_TEST_SUITE_P(poll, BackendConformance, testing::Values(in_mode("poll:50us")), library_name);
INSTANTIATE_TEST_SUITE_P(thread, BackendConformance, testing::Values(in_mode("thread")), library_name);

// Instantiated as the conformance suite is, so that one filter selects a mode.
class OverMpi : public BackendConformance {};
INSTANTIATE_TEST_SUITE_P(none, OverMpi, testing::Values(in_mode("none")), library_name);
INSTANTIATE_TEST_SUITE_P(poll, OverMpi, testing::Values(in_mode("poll:50us")), library_name);
INSTANTIATE_TEST_SUITE_P(thread, OverMpi, testing::Values(in_mode("thread")), library_name);

std::string fact(const std::vector<Fact>& facts, const std::string& name) {
  const auto found = std::find_if(facts.begin(), facts.end(), [&](const Fact& f) { return f.name == name; });
  return found == facts.end() ? "no fact " + name : found->value;
}

// A GEMM of several tiles beside an all_reduce.
struct Beside {
  Program program;
  BufferId product;
  OpId reduce;
};
Beside gemm_beside_all_reduce(const MessageProgress& progress) {
  ProgramBuilder p("beside", 2);
  const LaneId compute = p.lane({.name = "compute"});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const CommId world = p.world("world", transport(), 1, progress);
  constexpr std::int64_t edge = 300;
  constexpr std::int64_t count = 1 << 18;
  const BufferId a = p.buffer({.name = "a", .count = edge * edge});
  const BufferId b = p.buffer({.name = "b", .count = edge * edge});
  const BufferId c = p.buffer({.name = "c", .count = edge * edge});
  const BufferId in = p.buffer({.name = "in", .count = count});
  const BufferId out = p.buffer({.name = "out", .count = count});
  ClassBuilder all = p.all_ranks();
  all.prologue(compute, Fill{}, {}, {p.whole(a), p.whole(b), p.whole(in)});
  all.body(compute, Gemm{edge, edge, edge, DType::f32, 3}, {p.whole(a), p.whole(b)}, {p.whole(c)});
  const OpId reduce = all.body(comm, Collective{CollectiveKind::all_reduce, world, DType::f32, count, 0}, {p.whole(in)},
                               {p.whole(out)});
  return {std::move(p).finish(), c, reduce};
}

TEST_P(OverMpi, TheLibrarysCallReturnsBeforeTheOperationEnds) {
  const Beside beside = gemm_beside_all_reduce(GetParam().progress);
  const auto prepared = backend_->prepare({beside.program}, Data::random, 1);
  const Timings t = prepared->run(0, {.recording = Recording::operations});
  int seen = 0;
  for (const OperationTiming& op : t.operations) {
    if (op.op != beside.reduce) {
      EXPECT_TRUE(std::isnan(op.host_return.value())) << "no library was called";
      continue;
    }
    ++seen;
    EXPECT_GE(op.host_return, op.start);
    EXPECT_LE(op.host_return, op.end);
  }
  EXPECT_EQ(seen, 2) << "on both ranks";
  EXPECT_EQ(fact(prepared->observed(), "launch_mode"), "live");
  EXPECT_EQ(fact(prepared->observed(), "progress"), progress_name(GetParam().progress));
}

TEST_P(OverMpi, EveryCollectiveAndDTypePassesTheChecksOfAMeasurement) {
  for (const auto& [kind, text] : EnumNames<CollectiveKind>::table) {
    for (const DType dtype : backend_->describe().dtypes) {
      const Program program = pair_program({.ranks = 2,
                                            .m = 64,
                                            .n = 64,
                                            .k = 64,
                                            .collective = kind,
                                            .bytes = kibibytes(256),
                                            .dtype = dtype,
                                            .transport = transport(),
                                            .progress = GetParam().progress,
                                            .repeats = 3});
      for (const Data data : {Data::exact, Data::random}) {
        const auto prepared = backend_->prepare({program}, data, 5);
        prepared->run(0, {});
        EXPECT_EQ(verify(program, *prepared, data, 0), "") << text << " " << name(dtype);
      }
    }
  }
}

// Polling cuts GEMMs into tiles; the tiles make up the whole.
TEST_P(OverMpi, AGemmIsTheProductInEveryProgressMode) {
  const Beside beside = gemm_beside_all_reduce(GetParam().progress);
  const auto prepared = backend_->prepare({beside.program}, Data::exact, 1);
  prepared->run(0, {});
  const std::vector<double> a = prepared->contents(BufferId(0), Rank(1), 0);
  const std::vector<double> b = prepared->contents(BufferId(1), Rank(1), 0);
  const std::vector<double> c = prepared->contents(beside.product, Rank(1), 0);
  constexpr std::size_t edge = 300;
  for (const std::size_t i : {std::size_t{0}, std::size_t{127}, std::size_t{128}, std::size_t{299}}) {
    for (std::size_t j = 0; j < edge; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < edge; ++k) sum += a[i * edge + k] * b[k * edge + j];
      ASSERT_EQ(c[i * edge + j], sum) << i << " " << j;
    }
  }
}

TEST_P(OverMpi, WhatItCannotDoHasAReason) {
  const auto reason = [&](void (*spoil)(Program&)) {
    Program program = gemm_beside_all_reduce(GetParam().progress).program;
    spoil(program);
    return backend_->supports(program).reason;
  };
  EXPECT_EQ(reason([](Program&) {}), "");
  EXPECT_EQ(reason([](Program& p) { p.lanes[1].waiting = Waiting::block; }),
            "MPI has no call that sleeps until a message is there: type --waiting yield or spin");
  EXPECT_EQ(reason([](Program& p) { p.communicators[0].channels = 2; }),
            "MPI has no channels to choose: type --channels 0");
  EXPECT_EQ(reason([](Program& p) { p.ranks = 3; }), "3 ranks: over MPI each is a process, and this run has 2");
  EXPECT_EQ(reason([](Program& p) { p.communicators[0].transport = "shm"; }),
            "the host backend has no transport \"shm\" in this run; it has " + transport());
  EXPECT_EQ(reason([](Program& p) { std::get<Collective>(p.classes[0].body[1].work).count = std::int64_t{1} << 31; }),
            "2147483648 elements: MPI counts up to 2147483647");
}

TEST_P(OverMpi, TheRunNamesTheLibrary) {
  const Description d = backend_->describe();
  EXPECT_EQ(d.transports, std::vector<std::string>{transport()});
  const std::string library = launched_library(read_environment()) == "openmpi" ? "Open MPI" : "MPICH";
  EXPECT_TRUE(fact(d.at_open, "mpi_library").starts_with(library)) << fact(d.at_open, "mpi_library");
  EXPECT_EQ(d.default_ranks, 2);
  EXPECT_EQ(d.device.find("2 x "), std::string::npos) << "one machine: " << d.device;
}

TEST_P(OverMpi, AnotherNumberOfRanksThanProcessesIsRefused) {
  try {
    open_host(world(), {.ranks = 3, .transport = "mpi"}, load);
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_STREQ(error.what(),
                 "--ranks 3 in 2 processes: over MPI each process is a rank; leave --ranks out, or start as many "
                 "processes");
  }
}

}  // namespace
}  // namespace ovl

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
