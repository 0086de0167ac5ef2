// SPDX-License-Identifier: Apache-2.0
#include "backend/host/host.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "backend/conformance.hpp"
#include "base/error.hpp"
#include "program/builder.hpp"

namespace ovl {
namespace {

using testing::HasSubstr;

std::string fact(const std::vector<Fact>& facts, const std::string& name) {
  const auto found = std::find_if(facts.begin(), facts.end(), [&](const Fact& f) { return f.name == name; });
  return found == facts.end() ? "no fact " + name : found->value;
}

std::unique_ptr<Backend> open(const SessionOptions& options) {
  static const std::unique_ptr<World> world = make_solo_world();
  return open_host(*world, options, {});
}
std::unique_ptr<Backend> open_default() { return open({}); }

int first_core() { return std::stoi(fact(open_default()->describe().facts, "cores")); }
// All threads of all ranks share one core: whoever waits must let the others run.
std::unique_ptr<Backend> open_on_one_core() { return open({.cores = {first_core()}}); }

INSTANTIATE_TEST_SUITE_P(backends, BackendConformance,
                         testing::Values(BackendUnderTest{"host", "shm", open_default},
                                         BackendUnderTest{"host_on_one_core", "shm", open_on_one_core}),
                         subject);

// A program that the host can run, to be spoilt in one way each.
Program good() {
  ProgramBuilder p("good", 2);
  const LaneId lane = p.lane({.name = "comm", .role = Role::communication});
  const CommId comm = p.world("world", "shm", 1);
  const BufferId in = p.buffer({.name = "in", .count = 64});
  const BufferId out = p.buffer({.name = "out", .count = 64});
  ClassBuilder all = p.all_ranks();
  all.prologue(lane, Fill{}, {}, {p.whole(in)});
  all.body(lane, Collective{CollectiveKind::all_to_all, comm, DType::f32, 64, 0}, {p.whole(in)}, {p.whole(out)});
  return std::move(p).finish();
}

struct Spoilt {
  std::string reason;
  void (*spoil)(Program&);
};

TEST(HostSupports, SaysWhyNot) {
  const auto host = open_default();
  EXPECT_EQ(host->supports(good()).reason, "");
  const Spoilt table[] = {
      {"the host backend has no graphs to capture a replay in", [](Program& p) { p.graph = true; }},
      {"65 ranks: the host backend places 1 to 64", [](Program& p) { p.ranks = 65; }},
      {"the program has no lane", [](Program& p) { p.lanes.clear(); }},
      {"host threads of one process share one priority", [](Program& p) { p.lanes[0].priority = Priority::high; }},
      {"host has no copy engine: its transport is shm, which uses cores",
       [](Program& p) { p.communicators[0].transport = "copy"; }},
      {"the host backend has no transport \"nccl\" in this run; it has shm",
       [](Program& p) { p.communicators[0].transport = "nccl"; }},
      {"shm moves its bytes on its own lanes and has no progress mode \"poll:100us\"; mpi has",
       [](Program& p) {
         p.communicators[0].progress = {ProgressMode::poll, microseconds(100)};
       }},
      {"2000 threads for all ranks' lanes and channels: the host backend starts at most 1024",
       [](Program& p) { p.communicators[0].channels = 1000; }},
      {"the host backend computes in f32 and f64, not in bf16", [](Program& p) { p.buffers[0].dtype = DType::bf16; }},
      {"the host backend computes in f32 and f64, not in f16",
       [](Program& p) { std::get<Collective>(p.classes[0].body[0].work).dtype = DType::f16; }},
      {"a GEMM on the host runs on its lane's core and cannot be given a number of SMs",
       [](Program& p) { p.classes[0].body[0].work = Gemm{.m = 1, .n = 1, .k = 1, .sm_target = 8}; }},
      {"host memory is plain: there is no network card or device to know \"registered\" buffers",
       [](Program& p) { p.buffers[1].memory = Memory::registered; }},
      {"all_to_all cannot work in place: give it an output buffer of its own",
       [](Program& p) { p.classes[0].body[0].writes = p.classes[0].body[0].reads; }},
      {"verify belongs in the epilogue", [](Program& p) { p.classes[0].body[0].work = Verify{}; }},
  };
  for (const Spoilt& s : table) {
    Program program = good();
    s.spoil(program);
    EXPECT_EQ(host->supports(program).reason, s.reason);
  }
}

TEST(HostSupports, HoldsNoMoreCoresThanThereAre) {
  const auto host = open_on_one_core();
  Program program = good();
  Operation& op = program.classes[0].body[0];
  op.work = Occupy{1, Seconds(1), {}};
  EXPECT_EQ(host->supports(program).reason, "");
  op.work = Occupy{2, Seconds(1), {}};
  EXPECT_EQ(host->supports(program).reason, "occupy 2: this process has 1 core to hold: ask for 1 or less");
  op.work = Stream{.workers = 2, .bytes = Bytes(64)};
  EXPECT_EQ(host->supports(program).reason, "stream workers 2: this process has 1 core to hold: ask for 1 or less");
}

TEST(HostSupports, CountsAllRanksMemory) {
  Program program = good();
  program.buffers[0].count = std::int64_t{1} << 50;
  EXPECT_THAT(open_default()->supports(program).reason, HasSubstr("2 ranks need"));
}

TEST(HostDescription, NamesWhatDecidesTheNumbers) {
  const Description d = open_default()->describe();
  EXPECT_EQ(d.backend, "host");
  EXPECT_EQ(d.transports, std::vector<std::string>{"shm"});
  EXPECT_EQ(fact(d.facts, "openblas_threads"), "1");
  for (const char* name : {"openblas_config", "openblas_corename", "openblas_coretype", "cores", "hwloc_version"}) {
    EXPECT_FALSE(fact(d.facts, name).empty()) << name;
  }
}

TEST(HostObserved, SaysWhereLanesRanAndHowTheyWaited) {
  Program program = good();
  program.communicators[0].channels = 2;
  program.lanes[0].waiting = Waiting::block;
  const auto host = open_default();
  const auto prepared = host->prepare({program}, Data::exact, 1);
  const std::vector<Fact> facts = prepared->observed();
  EXPECT_THAT(fact(facts, "layout"), HasSubstr("comm@"));
  EXPECT_EQ(fact(facts, "channels"), "2");
  EXPECT_EQ(fact(facts, "waiting"), "block");
}

TEST(HostConditions, HasTheReadingsOfTheSummary) {
  std::vector<std::string> names;
  for (const Reading& r : open_default()->conditions().readings) names.push_back(r.name);
  EXPECT_THAT(names, testing::ElementsAre("core_distance", "busy_core_ratio", "busy_core_slowdown", "steal_share",
                                          "foreign_cpu_share", "frequency"));
}

TEST(HostFailure, OfAMismatchedExchangeReachesTheCallerAndFreesThePeers) {
  ProgramBuilder p("mismatch", 2);
  const LaneId lane = p.lane({.name = "comm", .role = Role::communication});
  const CommId comm = p.world("world", "shm", 1);
  const BufferId in = p.buffer({.name = "in", .count = 64});
  const BufferId out = p.buffer({.name = "out", .count = 64});
  p.ranks("sender", {Rank(0)}).body(lane, Exchange{comm, DType::f32, {{Direction::send, 1}}}, {{in, 0, 64}}, {});
  p.ranks("receiver", {Rank(1)}).body(lane, Exchange{comm, DType::f32, {{Direction::receive, 0}}}, {}, {{out, 0, 32}});
  const auto host = open_default();
  const auto prepared = host->prepare({std::move(p).finish()}, Data::exact, 1);
  try {
    prepared->run(0, {});
    FAIL() << "sizes differ";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::failure);
    EXPECT_STREQ(
        e.what(),
        "an exchange does not match: member 0 sends 256 bytes where member 1 receives 128; give both transfers "
        "the same count");
  }
}

TEST(HostOpen, RefusesWhatCannotBeMeant) {
  const auto world = make_solo_world();
  const auto message = [&](const SessionOptions& options) {
    try {
      open_host(*world, options, {});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("opened");
  };
  EXPECT_THAT(message({.cores = {100000}}), HasSubstr("core 100000 cannot be used"));
  EXPECT_THAT(message({.ranks = 65}), HasSubstr("the host backend places 1 to 64"));
  EXPECT_THAT(message({.blas_threads = 0}), HasSubstr("a GEMM needs a thread"));
  EXPECT_EQ(message({.ranks = 3}), "opened");
  EXPECT_THAT(message({.transport = "mpj"}),
              HasSubstr("transport \"mpj\" is unknown: known are shm, mpi, mpi-openmpi, mpi-mpich"));
}

// ---- over message passing ------------------------------------------------------------------------------------------

// A library of a job of one process, that can only be asked about itself.
class Alone final : public MessagePassing {
 public:
  explicit Alone(int says_size = 1, ThreadSupport threads = ThreadSupport::multiple)
      : size_(says_size), threads_(threads) {}
  [[nodiscard]] int process() const override { return 0; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string version() const override { return "Alone 1.0, of a test"; }
  [[nodiscard]] ThreadSupport threads() const override { return threads_; }
  [[nodiscard]] std::unique_ptr<MessageGroup> group(const std::vector<std::vector<int>>& /*groups*/) override {
    return nullptr;
  }
  [[nodiscard]] std::unique_ptr<MessageOperation> barrier() override { return nullptr; }
  void break_off() noexcept override {}

 private:
  int size_;
  ThreadSupport threads_;
};

std::unique_ptr<Backend> open_over(MessagePassing& library, std::string& loaded) {
  static const std::unique_ptr<World> world = make_solo_world();
  return open_host(*world, {.transport = "mpi-mpich"}, [&](const std::string& name) {
    loaded = name;
    return [&library]() -> MessagePassing& { return library; };
  });
}

TEST(HostOverMessages, LoadsTheLibraryThatIsNamedAndItsProcessesAreTheRanks) {
  Alone library;
  std::string loaded;
  const Description d = open_over(library, loaded)->describe();
  EXPECT_EQ(loaded, "mpich");
  EXPECT_EQ(d.transports, std::vector<std::string>{"mpi-mpich"});
  EXPECT_EQ(d.most_ranks, 1);
  EXPECT_EQ(fact(d.at_open, "mpi_library"), "Alone 1.0, of a test");
  EXPECT_EQ(fact(d.at_open, "mpi_threads"), "multiple");
}

TEST(HostOverMessages, ALibraryThatCountsOtherwiseThanTheLauncherIsAnError) {
  Alone library(3);
  std::string loaded;
  try {
    open_over(library, loaded);
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::failure);
    EXPECT_STREQ(
        error.what(),
        "MPI counts this process as 0 of 3, its launcher as 0 of 1: the library and the launcher do not belong "
        "together (Alone 1.0, of a test); start it with the mpirun of this library, or type --transport "
        "mpi-openmpi or mpi-mpich");
  }
}

TEST(HostOverMessages, AModeThatTheLibrarysThreadsDoNotAllowIsUnsupported) {
  const auto reason = [](ThreadSupport threads, ProgressMode mode) {
    Alone library(1, threads);
    std::string loaded;
    Program program = good();
    program.ranks = 1;
    program.communicators[0].transport = "mpi-mpich";
    program.communicators[0].progress = {mode, microseconds(mode == ProgressMode::poll ? 100 : 0)};
    return open_over(library, loaded)->supports(program).reason;
  };
  EXPECT_EQ(
      reason(ThreadSupport::serialized, ProgressMode::thread),
      "progress thread needs MPI with threads \"multiple\", and this one has \"serialized\" (Alone 1.0, of a test)");
  EXPECT_EQ(reason(ThreadSupport::serialized, ProgressMode::poll), "");
  EXPECT_EQ(reason(ThreadSupport::serialized, ProgressMode::none), "");
  EXPECT_EQ(reason(ThreadSupport::multiple, ProgressMode::thread), "");
  EXPECT_EQ(reason(ThreadSupport::one, ProgressMode::none),
            "progress none needs MPI with threads \"serialized\", and this one has \"one\" (Alone 1.0, of a test)");
}

TEST(HostEntry, IsAlwaysUsableAndNobodysFirstChoice) {
  const BackendEntry entry = host_entry({});
  EXPECT_EQ(entry.name, "host");
  EXPECT_EQ(entry.preference, 1);
  EXPECT_EQ(entry.unusable(), "");
}

}  // namespace
}  // namespace ovl
