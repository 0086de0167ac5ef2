// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/communicator.hpp"

#include <gmock/gmock.h>

#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "backend/cuda/stream.hpp"
#include "backend/cuda/trace.hpp"
#include "backend/world.hpp"
#include "base/error.hpp"
#include "cuda_backend/needs_device.hpp"

namespace ovl::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST(Versions, ReadAsPeopleWriteThem) {
  EXPECT_EQ(nccl_version_text(22809), "2.28.9");
  EXPECT_EQ(nccl_version_text(23203), "2.32.3");
  EXPECT_EQ(nccl_version_text(2804), "2.8.4");
  EXPECT_GE(nccl_version(), 21900);
}

TEST(Versions, CallsAreConfiguredFrom231) {
  EXPECT_EQ(has_call_config(), nccl_version() >= 23100 && nccl_header_version() >= 23100);
  EXPECT_EQ(has_launch_completion(), nccl_version() >= 23200 && nccl_header_version() >= 23200);
}

// ---- overrides ------------------------------------------------------------------------------------------------------

Environment environment_of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found != variables.end() ? found->second.c_str() : nullptr;
  };
}

TEST(Overrides, NoneWhereNothingIsSet) { EXPECT_THAT(overrides_in(environment_of({}), {}, 8), IsEmpty()); }

TEST(Overrides, SayWhereTheyAreSet) {
  EXPECT_THAT(overrides_in(environment_of({{"NCCL_MAX_CTAS", "8"}, {"NCCL_DEBUG", "INFO"}}),
                           {{"/etc/nccl.conf", "NCCL_CGA_CLUSTER_SIZE=2\nNCCL_SOCKET_IFNAME=eth0\n"}}, 4),
              ElementsAre("NCCL_MAX_CTAS=8 (environment)", "NCCL_CGA_CLUSTER_SIZE=2 (/etc/nccl.conf)"));
}

TEST(Overrides, OfCtasMatterOnlyWhereACaseAsksForThem) {
  EXPECT_THAT(overrides_in(environment_of({{"NCCL_MIN_CTAS", "2"}}), {}, 0), IsEmpty());
  EXPECT_THAT(overrides_in(environment_of({{"NCCL_MIN_CTAS", "2"}}), {}, 1),
              ElementsAre("NCCL_MIN_CTAS=2 (environment)"));
}

TEST(Overrides, BothEndsOfTheCtasAreNamed) {
  EXPECT_THAT(overrides_in(environment_of({{"NCCL_MAX_CTAS", "8"}, {"NCCL_MIN_CTAS", "2"}}), {}, 4),
              ElementsAre("NCCL_MIN_CTAS=2 (environment)", "NCCL_MAX_CTAS=8 (environment)"));
}

// The environment beats the files, and the first file the second.
TEST(Overrides, TheFirstThatSaysItIsNamed) {
  const std::vector<ConfigFile> files = {{"/users/me/.nccl.conf", "NCCL_MAX_NCHANNELS=4\n"},
                                         {"/etc/nccl.conf", "NCCL_MAX_NCHANNELS=16\n"}};
  EXPECT_THAT(overrides_in(environment_of({{"NCCL_MAX_NCHANNELS", "2"}}), files, 1),
              ElementsAre("NCCL_MAX_NCHANNELS=2 (environment)"));
  EXPECT_THAT(overrides_in(environment_of({}), files, 1), ElementsAre("NCCL_MAX_NCHANNELS=4 (/users/me/.nccl.conf)"));
}

// NCCL writes what it reads from a file into the environment.
TEST(Overrides, AFileIsNamedAlsoAfterNcclHasReadIt) {
  EXPECT_THAT(overrides_in(environment_of({{"NCCL_MAX_CTAS", "4"}}), {{"/etc/nccl.conf", "NCCL_MAX_CTAS=4"}}, 1),
              ElementsAre("NCCL_MAX_CTAS=4 (/etc/nccl.conf)"));
}

TEST(Overrides, FilesAreReadAsNcclDoes) {
  const std::string contents = "#NCCL_MAX_CTAS=1\n # NCCL_MIN_CTAS=1\nNCCL_MIN_CTAS\nNCCL_SYM_CTAS=2 # two\n";
  EXPECT_THAT(overrides_in(environment_of({}), {{"f", contents}}, 1), ElementsAre("NCCL_SYM_CTAS=2 # two (f)"));
}

TEST(Overrides, CallsThatDoNotBlockAlwaysMatter) {
  EXPECT_THAT(overrides_in(environment_of({{"NCCL_COMM_BLOCKING", "0"}}), {}, 0),
              ElementsAre("NCCL_COMM_BLOCKING=0 (environment)"));
  EXPECT_THAT(overrides_in(environment_of({{"NCCL_COMM_BLOCKING", "1"}}), {}, 0), IsEmpty());
}

// ---- configuration --------------------------------------------------------------------------------------------------

TEST(Configuration, LeavesTheChoiceToNccl) {
  const ncclConfig_t config = nccl_config({});
  EXPECT_EQ(config.blocking, 1);
  EXPECT_EQ(config.minCTAs, NCCL_CONFIG_UNDEF_INT);
  EXPECT_EQ(config.maxCTAs, NCCL_CONFIG_UNDEF_INT);
  EXPECT_EQ(config.cgaClusterSize, NCCL_CONFIG_UNDEF_INT);
  EXPECT_EQ(config.CTAPolicy, NCCL_CONFIG_UNDEF_INT);
  EXPECT_EQ(config.version, static_cast<unsigned>(NCCL_VERSION_CODE));
}

// A minimum alone is ncclInvalidArgument, and a cluster of 4 changes shape with the count.
TEST(Configuration, SetsMinimumAndMaximumTogetherAndNoCluster) {
  const ncclConfig_t config = nccl_config({.channels = 6});
  EXPECT_EQ(config.minCTAs, 6);
  EXPECT_EQ(config.maxCTAs, 6);
  EXPECT_EQ(config.cgaClusterSize, 0);
}

TEST(Configuration, TheCopyEnginesPolicyTakesNoCtas) {
  const ncclConfig_t config = nccl_config(communicator_config({.channels = 6, .copy_engine = true}, false));
  EXPECT_EQ(config.CTAPolicy, NCCL_CTA_POLICY_ZERO);
  EXPECT_EQ(config.maxCTAs, NCCL_CONFIG_UNDEF_INT);
}

TEST(Configuration, BeforeCallsAreConfiguredEachCountHasItsCommunicator) {
  EXPECT_EQ(communicator_config({.channels = 6}, false), (CommConfig{.channels = 6}));
  EXPECT_EQ(communicator_config({.channels = 6, .point_to_point = true}, false), (CommConfig{.channels = 6}));
}

// A call takes at most its communicator's CTAs; sends and receives cannot be configured by call.
TEST(Configuration, OneCommunicatorServesAllCountsWhereCallsAreConfigured) {
  EXPECT_EQ(communicator_config({.channels = 1}, true), (CommConfig{.channels = 32}));
  EXPECT_EQ(communicator_config({.channels = 32}, true), (CommConfig{.channels = 32}));
  EXPECT_EQ(communicator_config({.channels = 33}, true), (CommConfig{.channels = 64}));
  EXPECT_EQ(communicator_config({.channels = 0}, true), (CommConfig{}));
  EXPECT_EQ(communicator_config({.channels = 0, .point_to_point = true}, true), (CommConfig{}));
  EXPECT_EQ(communicator_config({.channels = 4, .point_to_point = true}, true),
            (CommConfig{.channels = 4, .point_to_point = true}));
  EXPECT_EQ(communicator_config({.channels = 4, .graph = true}, true), (CommConfig{.channels = 32, .graph = true}));
}

// ---- what NCCL can do -----------------------------------------------------------------------------------------------

Program program_of(const Work& work, const std::string& transport, Memory memory = Memory::plain) {
  Program p;
  p.ranks = 2;
  p.communicators = {{.name = "world", .groups = {{Rank(0), Rank(1)}}, .transport = transport, .channels = 0}};
  p.buffers = {{.name = "in", .count = 8, .memory = memory}, {.name = "out", .count = 8, .memory = memory}};
  p.classes = {{.name = "all",
                .members = {Rank(0), Rank(1)},
                .prologue = {},
                .body = {{.id = OpId(0),
                          .lane = LaneId(0),
                          .role = Role::communication,
                          .work = work,
                          .reads = {{BufferId(0), 0, 8}},
                          .writes = {{BufferId(1), 0, 8}}}},
                .epilogue = {}}};
  return p;
}

Collective collective(CollectiveKind kind, DType dtype = DType::f32) {
  return {.kind = kind, .comm = CommId(0), .dtype = dtype, .count = 8};
}

constexpr int driver_13 = 13000;
const NcclTraits hopper = {
    .version = 22809, .header_version = 22809, .driver_version = driver_13, .capability = 90, .cta_policy = {}};

std::string nccl_reason(const Program& program, const NcclTraits& traits = hopper) {
  return cannot_communicate(program, CommId(0), traits);
}

TEST(CannotCommunicate, TheUsualIsPossible) {
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
        CollectiveKind::broadcast, CollectiveKind::all_to_all}) {
    EXPECT_EQ(nccl_reason(program_of(collective(kind), "nccl")), "");
  }
  EXPECT_EQ(nccl_reason(program_of(Exchange{.comm = CommId(0), .transfers = {}}, "nccl")), "");
}

TEST(CannotCommunicate, CopyEnginesDoNotAdd) {
  EXPECT_EQ(nccl_reason(program_of(collective(CollectiveKind::all_reduce), "copy", Memory::symmetric)),
            "NCCL has no copy-engine all_reduce: copy engines cannot add; use all_gather or all_to_all");
  EXPECT_THAT(nccl_reason(program_of(collective(CollectiveKind::broadcast), "copy", Memory::symmetric)),
              HasSubstr("its zero-CTA policy leaves it out"));
  EXPECT_THAT(nccl_reason(program_of(Exchange{.comm = CommId(0), .transfers = {}}, "copy", Memory::symmetric)),
              HasSubstr("no copy-engine exchange"));
}

TEST(CannotCommunicate, CopyEnginesNeedSymmetricBuffersAndADriver) {
  const Collective gather = collective(CollectiveKind::all_gather);
  EXPECT_EQ(nccl_reason(program_of(gather, "copy", Memory::symmetric)), "");
  EXPECT_EQ(nccl_reason(program_of(gather, "copy", Memory::registered)),
            "the transport copy needs symmetric buffers: type --buffers symmetric");
  NcclTraits old = hopper;
  old.driver_version = 12040;
  EXPECT_THAT(nccl_reason(program_of(gather, "copy", Memory::symmetric), old), HasSubstr("CUDA 12.5"));
}

TEST(CannotCommunicate, AnotherPolicyInTheEnvironmentIsRefusedForCopy) {
  const Program program = program_of(collective(CollectiveKind::all_gather), "copy", Memory::symmetric);
  NcclTraits set = hopper;
  set.cta_policy = "NCCL_CTA_POLICY=0 (environment)";
  EXPECT_EQ(nccl_reason(program, set),
            "NCCL_CTA_POLICY=0 (environment) overrides the zero-CTA policy that the transport copy asks for: unset it");
  set.cta_policy = "NCCL_CTA_POLICY=2 (environment)";
  EXPECT_EQ(nccl_reason(program, set), "");
  set.cta_policy = "NCCL_CTA_POLICY=ZERO (/etc/nccl.conf)";
  EXPECT_EQ(nccl_reason(program, set), "");
}

TEST(CannotCommunicate, SaysWhichNcclIsNeeded) {
  NcclTraits old = hopper;
  old.version = 22304;
  EXPECT_EQ(nccl_reason(program_of(collective(CollectiveKind::all_gather, DType::f8e4m3), "nccl"), old),
            "f8e4m3 needs NCCL 2.24.0, and 2.23.4 was loaded: put a newer libnccl.so.2 first on LD_LIBRARY_PATH");
  EXPECT_THAT(nccl_reason(program_of(collective(CollectiveKind::all_gather), "nccl", Memory::symmetric), old),
              StartsWith("a symmetric buffer needs NCCL 2.27.0"));
  old = hopper;
  old.header_version = 22304;
  EXPECT_EQ(nccl_reason(program_of(collective(CollectiveKind::all_gather, DType::f8e4m3), "nccl"), old),
            "f8e4m3 needs NCCL 2.24.0, and this was compiled against 2.23.4: set NCCL_HOME and build again");
}

TEST(CannotCommunicate, SmallFloatsAreMovedEarlierThanReduced) {
  NcclTraits ada = hopper;
  ada.capability = 89;
  EXPECT_EQ(nccl_reason(program_of(collective(CollectiveKind::all_gather, DType::f8e4m3), "nccl"), ada), "");
  EXPECT_EQ(nccl_reason(program_of(collective(CollectiveKind::all_reduce, DType::f8e4m3), "nccl"), ada),
            "NCCL reduces f8e4m3 from compute capability 9.0");
  EXPECT_EQ(nccl_reason(program_of(collective(CollectiveKind::all_reduce, DType::f8e4m3), "nccl")), "");
}

TEST(CannotCommunicate, MoreChannelsThanNcclHas) {
  Program program = program_of(collective(CollectiveKind::all_gather), "nccl");
  program.communicators[0].channels = 65;
  EXPECT_EQ(nccl_reason(program), "65 channels: NCCL has at most 64");
}

// ---- several processes ----------------------------------------------------------------------------------------------

// Another process than 0, which hears what process 0 says.
class Listening : public World {
 public:
  explicit Listening(std::string heard) : heard_(std::move(heard)) {}
  [[nodiscard]] int process() const override { return 1; }
  [[nodiscard]] int size() const override { return 2; }
  void barrier() override {}
  std::string broadcast(const std::string& text, int from) override {
    EXPECT_EQ(text, "");
    EXPECT_EQ(from, 0);
    return heard_;
  }
  std::vector<std::string> gather(const std::string&) override { return {}; }
  double minimum(double value) override { return value; }
  double maximum(double value) override { return value; }
  void abort(const std::string&) noexcept override {}

 private:
  std::string heard_;
};

// Process 0 had no id to give: the others do not wait for one.
TEST(UniqueId, AFailureOfProcess0IsEverybodys) {
  Listening world("!ncclGetUniqueId failed: no network");
  Communicators communicators(world, Rank(1), {});
  try {
    communicators.get({Rank(0), Rank(1)}, {});
    FAIL() << "a communicator without an id";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "ncclGetUniqueId failed: no network");
    EXPECT_EQ(error.kind(), ErrorKind::failure);
  }
}

// 128 bytes as hexadecimal digits. Without a member here nothing is made, but the group is known.
TEST(UniqueId, AProcessWithoutAMemberOnlyListens) {
  std::string digits;
  for (int i = 0; i < 128; ++i) digits += "a5";
  Listening world(digits);
  Communicators communicators(world, Rank(1), {});
  const Group& group = communicators.get({Rank(0), Rank(2)}, {});
  EXPECT_EQ(group.of(Rank(0)), nullptr);
  EXPECT_EQ(group.index_of(Rank(2)), 1);
  EXPECT_EQ(communicators.asynchronous_error(), "");
}

// ---- on devices -----------------------------------------------------------------------------------------------------

// Ranks are threads of this process, one a device, as many as there are.
class CommunicatorTest : public NeedsDevice {
 protected:
  void SetUp() override {
    NeedsDevice::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    for (int i = 0; i < device_count(); ++i) {
      devices.push_back(read_device(i));
      ranks.push_back(Rank(i));
    }
    world = make_solo_world();
  }

  // What each rank reads afterwards, of `count` elements that it received.
  template <class Enqueue>
  std::vector<std::vector<float>> run(const std::vector<std::vector<float>>& inputs, std::size_t count, Memory memory,
                                      Communicators& communicators, const Group& group, const Enqueue& enqueue) {
    std::vector<DeviceMemory> sends;
    std::vector<DeviceMemory> receives;
    std::vector<Stream> streams;
    const std::vector<float> nothing(count, -1.0F);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      streams.emplace_back(devices[i], devices[i].least_priority);
      sends.emplace_back(Bytes(static_cast<std::int64_t>(inputs[i].size() * sizeof(float))), memory);
      receives.emplace_back(Bytes(static_cast<std::int64_t>(count * sizeof(float))), memory);
      check(cudaMemcpy(sends[i].get(), inputs[i].data(), inputs[i].size() * sizeof(float), cudaMemcpyHostToDevice),
            "cudaMemcpy");
      check(cudaMemcpy(receives[i].get(), nothing.data(), count * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
    }
    std::vector<Registration> registrations;
    if (memory != Memory::plain) {
      for (auto* buffers : {&sends, &receives}) {
        std::vector<std::pair<Rank, const DeviceMemory*>> all;
        for (std::size_t i = 0; i < inputs.size(); ++i) all.emplace_back(ranks[i], &(*buffers)[i]);
        for (Registration& one : register_all(group, all, memory)) registrations.push_back(std::move(one));
      }
    }
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> errors(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          make_current(devices[i]);
          enqueue(ranks[i], sends[i].get(), receives[i].get(), streams[i].get());
          check(cudaStreamSynchronize(streams[i].get()), "cudaStreamSynchronize");
        } catch (...) {
          errors[i] = std::current_exception();
          communicators.abort();  // the others would wait for this one
        }
      });
    }
    for (std::thread& t : threads) t.join();
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    std::vector<std::vector<float>> results(inputs.size(), nothing);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      make_current(devices[i]);
      check(cudaMemcpy(results[i].data(), receives[i].get(), count * sizeof(float), cudaMemcpyDeviceToHost),
            "cudaMemcpy");
    }
    registrations.clear();
    return results;
  }

  std::vector<Device> devices;
  std::vector<Rank> ranks;
  std::unique_ptr<World> world;
};

class TwoRanksTest : public CommunicatorTest {
 protected:
  void SetUp() override {
    CommunicatorTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (devices.size() < 2) GTEST_SKIP() << "one device";
    devices.resize(2);
    ranks.resize(2);
  }

  std::vector<std::vector<float>> collect(CollectiveKind kind, std::size_t send, std::size_t receive,
                                          const CommConfig& config = {}, Memory memory = Memory::plain) {
    Communicators communicators(*world, Rank(0), devices);
    const Group& group = communicators.get(ranks, config);
    // Rank 0 sends 1 2 3 4, rank 1 sends 10 20 30 40.
    std::vector<std::vector<float>> inputs = {{1, 2, 3, 4}, {10, 20, 30, 40}};
    for (auto& input : inputs) input.resize(send);
    const Collective c{.kind = kind, .comm = CommId(0), .dtype = DType::f32, .count = 4, .root = 1};
    return run(inputs, receive, memory, communicators, group,
               [&](Rank rank, const void* in, void* out, cudaStream_t stream) {
                 enqueue_collective(group, rank, c, in, out, stream);
               });
  }
};

TEST_F(TwoRanksTest, AllReduceAdds) {
  EXPECT_THAT(collect(CollectiveKind::all_reduce, 4, 4),
              ElementsAre(ElementsAre(11, 22, 33, 44), ElementsAre(11, 22, 33, 44)));
}

TEST_F(TwoRanksTest, AllGatherPutsTheRanksPartsInOrder) {
  EXPECT_THAT(collect(CollectiveKind::all_gather, 2, 4),
              ElementsAre(ElementsAre(1, 2, 10, 20), ElementsAre(1, 2, 10, 20)));
}

TEST_F(TwoRanksTest, ReduceScatterLeavesEachRankItsPart) {
  EXPECT_THAT(collect(CollectiveKind::reduce_scatter, 4, 2), ElementsAre(ElementsAre(11, 22), ElementsAre(33, 44)));
}

TEST_F(TwoRanksTest, BroadcastTakesTheRootsInput) {
  EXPECT_THAT(collect(CollectiveKind::broadcast, 4, 4),
              ElementsAre(ElementsAre(10, 20, 30, 40), ElementsAre(10, 20, 30, 40)));
}

TEST_F(TwoRanksTest, AllToAllTransposes) {
  EXPECT_THAT(collect(CollectiveKind::all_to_all, 4, 4),
              ElementsAre(ElementsAre(1, 2, 10, 20), ElementsAre(3, 4, 30, 40)));
}

TEST_F(TwoRanksTest, RegisteredAndSymmetricBuffersGiveTheSame) {
  for (const Memory memory : {Memory::registered, Memory::symmetric}) {
    EXPECT_THAT(collect(CollectiveKind::all_gather, 2, 4, {}, memory),
                ElementsAre(ElementsAre(1, 2, 10, 20), ElementsAre(1, 2, 10, 20)));
  }
  EXPECT_THAT(collect(CollectiveKind::all_gather, 2, 4, {.copy_engine = true}, Memory::symmetric),
              ElementsAre(ElementsAre(1, 2, 10, 20), ElementsAre(1, 2, 10, 20)));
}

TEST_F(TwoRanksTest, AnExchangeSendsAndReceivesTogether) {
  Communicators communicators(*world, Rank(0), devices);
  const Group& group = communicators.get(ranks, {.channels = 2, .point_to_point = true});
  const auto results = run(
      {{1, 2}, {10, 20}}, 2, Memory::plain, communicators, group,
      [&](Rank rank, const void* in, void* out, cudaStream_t stream) {
        const int peer = 1 - rank.value;
        const Exchange exchange{
            .comm = CommId(0), .dtype = DType::f32, .transfers = {{Direction::send, peer}, {Direction::receive, peer}}};
        enqueue_exchange(group, rank, exchange, {const_cast<void*>(in), out}, {2, 2}, stream);
      });
  EXPECT_THAT(results, ElementsAre(ElementsAre(10, 20), ElementsAre(1, 2)));
}

// A count asked for is a property of the call or of the communicator, and a group says which.
TEST_F(TwoRanksTest, CommunicatorsAreKeptAndSharedWhereCallsAreConfigured) {
  Communicators communicators(*world, Rank(0), devices);
  const Group& two = communicators.get(ranks, {.channels = 2});
  const Group& four = communicators.get(ranks, {.channels = 4});
  const Group& graph = communicators.get(ranks, {.channels = 2, .graph = true});
  EXPECT_EQ(&communicators.get(ranks, {.channels = 2}), &two);
  EXPECT_EQ(two.of(Rank(0)) == four.of(Rank(0)), has_call_config());
  EXPECT_EQ(four.channels_by_call(), has_call_config() ? 4 : 0);
  EXPECT_NE(two.of(Rank(0)), graph.of(Rank(0)));
  EXPECT_NE(two.of(Rank(0)), two.of(Rank(1)));
  EXPECT_EQ(two.of(Rank(2)), nullptr);
  EXPECT_EQ(two.index_of(Rank(1)), 1);
  EXPECT_THAT(two.members(), ElementsAre(Rank(0), Rank(1)));
}

TEST_F(TwoRanksTest, CountsAreHonouredInEitherWay) {
  for (const int channels : {1, 3, 8}) {
    EXPECT_THAT(collect(CollectiveKind::all_reduce, 4, 4, {.channels = channels}),
                ElementsAre(ElementsAre(11, 22, 33, 44), ElementsAre(11, 22, 33, 44)));
  }
}

// As CUPTI sees it: 24 CTAs are what the emulated NCCL takes where nobody asks; 1 MiB is enough work for all of them.
TEST_F(TwoRanksTest, TheCtasAskedForAreTheBlocksLaunched) {
  if (!device.emulated) GTEST_SKIP() << "a GPU's NCCL may launch fewer for a small message";
  Trace trace;
  ASSERT_TRUE(trace.available()) << trace.status();
  constexpr std::size_t count = std::size_t{1} << 18;
  const std::vector<std::vector<float>> inputs(2, std::vector<float>(count, 1.0F));
  for (const int channels : {0, 2, 7}) {
    Communicators communicators(*world, Rank(0), devices);
    const Group& group = communicators.get(ranks, {.channels = channels});
    const Collective c{.kind = CollectiveKind::all_reduce, .comm = CommId(0), .dtype = DType::f32, .count = count};
    trace.start();
    run(inputs, count, Memory::plain, communicators, group,
        [&](Rank rank, const void* in, void* out, cudaStream_t stream) {
          enqueue_collective(group, rank, c, in, out, stream);
        });
    int kernels = 0;
    for (const KernelRecord& r : trace.stop()) {
      if (!r.name.starts_with("ncclDevKernel")) continue;
      ++kernels;
      EXPECT_EQ(r.blocks, channels == 0 ? 24 : channels);
    }
    EXPECT_EQ(kernels, 2);
  }
}

TEST_F(TwoRanksTest, AnEventTellsThatACollectivesBlocksHaveBegun) {
  Communicators communicators(*world, Rank(0), devices);
  const Group& group = communicators.get(ranks, {.channels = 2});
  const Collective c{.kind = CollectiveKind::all_reduce, .comm = CommId(0), .dtype = DType::f32, .count = 2};
  std::vector<Event> began;
  for (const Device& d : devices) {
    make_current(d);
    began.emplace_back(Timing::off);
  }
  const auto enqueue = [&](Rank rank, const void* in, void* out, cudaStream_t stream) {
    enqueue_collective(group, rank, c, in, out, stream, began[rank.index()].get());
    check(cudaEventSynchronize(began[rank.index()].get()), "cudaEventSynchronize");
  };
  if (has_launch_completion()) {
    EXPECT_THAT(run({{1, 2}, {10, 20}}, 2, Memory::plain, communicators, group, enqueue),
                ElementsAre(ElementsAre(11, 22), ElementsAre(11, 22)));
  } else {
    EXPECT_THROW(run({{1, 2}, {10, 20}}, 2, Memory::plain, communicators, group, enqueue), std::logic_error);
  }
}

TEST_F(TwoRanksTest, ASubgroupHasNoCommunicatorOfOthers) {
  Communicators communicators(*world, Rank(0), devices);
  const Group& alone = communicators.get({Rank(1)}, {});
  EXPECT_EQ(alone.of(Rank(0)), nullptr);
  EXPECT_NE(alone.of(Rank(1)), nullptr);
  EXPECT_EQ(communicators.asynchronous_error(), "");
}

TEST_F(TwoRanksTest, TheCallersDeviceIsWhatItWas) {
  make_current(devices[1]);
  Communicators communicators(*world, Rank(0), devices);
  communicators.get(ranks, {});
  int current = -1;
  check(cudaGetDevice(&current), "cudaGetDevice");
  EXPECT_EQ(current, 1);
}

TEST_F(TwoRanksTest, AfterAnAbortNothingIsEnqueued) {
  Communicators communicators(*world, Rank(0), devices);
  const Group& group = communicators.get(ranks, {});
  make_current(devices[0]);
  const DeviceMemory memory(Bytes(16), Memory::registered);
  const Stream stream(devices[0], devices[0].least_priority);
  {
    const Registration registration(group, Rank(0), memory, Memory::registered);
    communicators.abort();
    communicators.abort();
    EXPECT_EQ(communicators.asynchronous_error(), "the communicators were aborted");
    EXPECT_TRUE(group.aborted());
    const Collective c{.kind = CollectiveKind::all_reduce, .comm = CommId(0), .dtype = DType::f32, .count = 4};
    EXPECT_THROW(enqueue_collective(group, Rank(0), c, memory.get(), memory.get(), stream.get()), Error);
    EXPECT_THROW(communicators.get({Rank(0)}, {}), Error);
  }
}

// A rank whose peer never comes hangs until it is aborted.
TEST_F(TwoRanksTest, AnAbortEndsAWaitForAPeer) {
  Communicators communicators(*world, Rank(0), devices);
  const Group& group = communicators.get(ranks, {});
  make_current(devices[0]);
  const DeviceMemory memory(Bytes(16));
  const Stream stream(devices[0], devices[0].least_priority);
  const Collective c{.kind = CollectiveKind::all_reduce, .comm = CommId(0), .dtype = DType::f32, .count = 4};
  enqueue_collective(group, Rank(0), c, memory.get(), memory.get(), stream.get());
  EXPECT_EQ(cudaStreamQuery(stream.get()), cudaErrorNotReady);
  communicators.abort();
  forgive(cudaStreamSynchronize(stream.get()));
}

}  // namespace
}  // namespace ovl::cuda
