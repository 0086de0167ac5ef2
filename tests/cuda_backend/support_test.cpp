// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program/builder.hpp"
#include "program/placement.hpp"
#include "support/sample_programs.hpp"

namespace ovl::cuda {
namespace {

using testing::HasSubstr;

Capabilities machine() {
  Device device;
  device.name = "Some GPU";
  device.major = 9;
  device.sms = 132;
  return {.ranks = 2,
          .dtypes = {DType::f64, DType::f32, DType::bf16},
          .devices = {device, device},
          .free = {mebibytes(100), mebibytes(100)},
          .green_contexts = true,
          .words = true,
          .workspace = mebibytes(32)};
}

// The sample programs' transport is the host's.
Program good() {
  Program program = sample::pair();
  for (Communicator& comm : program.communicators) comm.transport = "nccl";
  return program;
}

std::string reason(const Program& program, const Capabilities& here = machine()) {
  return unsupported_reason(program, here);
}

TEST(Support, APairRuns) { EXPECT_EQ(reason(good()), ""); }

TEST(Support, RanksAreGpus) {
  Capabilities here = machine();
  here.ranks = 1;
  EXPECT_EQ(reason(good(), here), "2 ranks: the cuda backend places 1 to 1, since NCCL refuses two ranks on one GPU");
  here = machine();
  here.several_processes = true;
  here.ranks = 4;
  EXPECT_THAT(reason(good(), here), HasSubstr("2 ranks in a job of 4 processes"));
}

TEST(Support, NamesTheTransportsAndDtypesThatItHas) {
  Program program = good();
  program.communicators[0].transport = "shm";
  EXPECT_EQ(reason(program), "the cuda backend has no transport \"shm\"; it has nccl, copy and proxy");
  program.communicators[0].transport = "nccl";
  program.communicators[0].progress = {ProgressMode::thread, Seconds(0)};
  EXPECT_EQ(reason(program), "a device moves its own bytes: there is no progress mode \"thread\" on cuda");
  Capabilities here = machine();
  here.dtypes = {DType::f64};
  EXPECT_THAT(reason(good(), here), HasSubstr("this device does not compute in f32; it has f64"));
}

Program alone(const std::string& transport, int channels) {
  Program program = good();
  program.ranks = 1;
  program.classes[0].members = {Rank(0)};
  program.communicators[0].groups = {{Rank(0)}};
  program.communicators[0].transport = transport;
  program.communicators[0].channels = channels;
  return program;
}

TEST(Support, TheProxyStandsForThePeersOfOneRank) {
  EXPECT_EQ(reason(alone("proxy", 4)), "");
  EXPECT_EQ(reason(alone("proxy:50GB/s", 4)), "");
  EXPECT_THAT(reason(alone("proxy", 0)), HasSubstr("the proxy needs a number of CTAs: type for example --channels 8"));
  EXPECT_THAT(reason(alone("proxy", 133)), HasSubstr("each takes an SM, and the device has 132: type --channels 132"));
  Program several = good();
  several.communicators[0].transport = "proxy";
  EXPECT_THAT(reason(several), HasSubstr("type --ranks 1, or --transport nccl"));
  Capabilities here = machine();
  here.residents.proxy.reason = "the kernel ovl_ring_proxy is not what it is stated to be";
  EXPECT_EQ(reason(alone("proxy", 4), here), here.residents.proxy.reason);
  EXPECT_EQ(reason(place(alone("proxy", 12), parse_placement("partitioned"))), "") << "its CTAs can be confined";
}

// Which may hang: 8 and 8 are all 16 SMs.
TEST(Support, TwoRanksOnOneGpuNeedAllTheirCtasOnItAtOnce) {
  Program program = good();
  program.communicators[0].transport = "nccl-shared-gpu";
  Capabilities here = machine();
  here.shared_devices = true;
  for (Device& device : here.devices) device.sms = 16;
  program.communicators[0].channels = 8;
  EXPECT_EQ(reason(program, here), "");
  program.communicators[0].channels = 9;
  EXPECT_THAT(reason(program, here), HasSubstr("would wait for each other for ever: type --channels 8 or less"));
  program.communicators[0].channels = 0;
  EXPECT_THAT(reason(program, here), HasSubstr("two ranks on one GPU need a number of channels"));
  program.communicators[0].channels = 8;
  EXPECT_THAT(reason(place(program, parse_placement("partitioned")), here), HasSubstr("cannot each split its SMs"));
}

// ---- what contends
// ---------------------------------------------------------------------------------------------------

Program contended(const Work& aggressor, const Work& victim = Busy{Seconds(1e-3)}) {
  return sample::contended(aggressor, victim);
}
constexpr EventId done_event = sample::contended_end;

TEST(Support, WhatHoldsSmsUntilAnEventLeavesOneForIt) {
  EXPECT_EQ(reason(contended(Occupy{.count = 131, .until = done_event})), "");
  EXPECT_EQ(reason(contended(Occupy{.count = 132, .until = done_event})),
            "132 of 132 SMs held until an event leave too few for the 1 that it needs to come: hold 131 or less");
  EXPECT_EQ(reason(contended(Occupy{.count = 132, .duration = Seconds(1)})), "") << "it ends by itself";
  EXPECT_THAT(reason(contended(Occupy{.count = 133, .duration = Seconds(1)})),
              HasSubstr("occupy 133: the device has 132 SMs: ask for 132 or less"));
  EXPECT_THAT(reason(contended(ovl::Stream{.workers = 133, .until = done_event})), HasSubstr("stream workers 133"));
}

// CTAs that are not there would be waited for by their peers; NCCL's own choice may be 32 of them.
TEST(Support, WhatHoldsSmsUntilAnEventLeavesOneForEachCta) {
  const auto held_beside = [](int channels, int count) {
    Program program = good();
    program.communicators[0].channels = channels;
    const LaneId lane(program.lanes.size());
    program.lanes.push_back({.name = "aggressor"});
    const EventId done(program.events.size());
    program.events.push_back({"done"});
    for (RankClass& c : program.classes) {
      const OpId id = free_id(c);
      const LaneId comm = c.body.back().lane;
      c.body.insert(c.body.begin(), {.id = id, .lane = lane, .work = Occupy{.count = count, .until = done}});
      c.body.push_back({.id = OpId(id.value + 1), .lane = comm, .work = Record{done}});
    }
    return reason(program);
  };
  EXPECT_EQ(held_beside(12, 120), "");
  EXPECT_THAT(held_beside(12, 121), HasSubstr("too few for the 12 that it needs to come: hold 120 or less"));
  EXPECT_EQ(held_beside(0, 100), "");
  EXPECT_THAT(held_beside(0, 101), HasSubstr("too few for the 32"));
}

TEST(Support, WhatLastsUntilAnEventNeedsAWordAndNoGraph) {
  Capabilities here = machine();
  here.words = false;
  EXPECT_THAT(reason(contended(Occupy{.count = 1, .until = done_event}), here), HasSubstr("no cuStreamWriteValue32"));
  EXPECT_EQ(reason(contended(Occupy{.count = 1, .duration = Seconds(1)}), here), "");
  Program graph = contended(ovl::Stream{.workers = 1, .until = done_event});
  graph.graph = true;
  EXPECT_THAT(reason(graph), HasSubstr("has no place in a graph"));
}

TEST(Support, KernelsThatAreNotAsStatedAreNotUsed) {
  Capabilities here = machine();
  here.residents.occupy.reason = "not as stated";
  EXPECT_EQ(reason(contended(Occupy{.count = 1, .duration = Seconds(1)}), here), "not as stated");
  EXPECT_EQ(reason(contended(ovl::Stream{.workers = 1, .bytes = Bytes(8)}), here), "");
}

// 12 of communication beside the 20 that its lane holds; a compute lane that holds 101 of the other 100 would hang.
TEST(Support, APartitionHasRoomForAllThatStays) {
  Program program = place(contended(Occupy{.count = 20, .duration = Seconds(1)}), parse_placement("partitioned"));
  EXPECT_EQ(partition_comm_sms(program), 20);
  EXPECT_EQ(reason(program), "");
  program = place(contended(Occupy{.count = 32, .duration = Seconds(1)}, Occupy{.count = 101, .duration = Seconds(1)}),
                  parse_placement("partitioned"));
  EXPECT_THAT(reason(program), HasSubstr("101 SMs to hold or stream on in a partition of 100"));
}

TEST(Support, TheCopyEnginesReduceNothing) {
  EXPECT_THAT(reason(place(good(), parse_placement("copy_engine"))), testing::Not(testing::IsEmpty()));
}

TEST(Support, PartitionsNeedGreenContextsSmsAndANumberOfChannels) {
  Program program = place(good(), parse_placement("partitioned"));
  program.communicators[0].channels = 12;
  EXPECT_EQ(partition_comm_sms(program), 12);
  EXPECT_EQ(partition_comm_sms(good()), 0);
  EXPECT_EQ(reason(program), "");
  Capabilities here = machine();
  here.devices[1].sms = 16;
  EXPECT_THAT(reason(program, here),
              HasSubstr("12 of 16 SMs for communication leave too few for compute: type --channels 8 or less"));
  here.devices[1].sms = 15;
  EXPECT_THAT(reason(program, here), HasSubstr("leave too few for compute: use another placement"));
  here = machine();
  here.green_contexts = false;
  EXPECT_THAT(reason(program, here), HasSubstr("no green contexts"));
  program.communicators[0].channels = 0;
  EXPECT_THAT(reason(program), HasSubstr("partitioned needs a number of channels"));
  program.communicators[0].channels = 1;
  EXPECT_EQ(partition_comm_sms(program), 8) << "a green context has no fewer";
  EXPECT_THAT(reason(place(good(), parse_placement("shared_core"))), HasSubstr("no meaning on a device"));
}

TEST(Support, AGraphHasNoPlaceForTheHost) {
  Program program = place(good(), parse_placement("global_sync+graph"));
  EXPECT_THAT(reason(program), HasSubstr("global_sync and graph exclude each other"));
  Program timed = good();
  timed.graph = true;
  timed.classes[0].body.back().not_before = Seconds(1);
  EXPECT_THAT(reason(timed), HasSubstr("what is submitted over time and graph exclude each other"));
}

TEST(Support, MemoryIsThatOfARankWithTheWorkspacesOfItsLanes) {
  Capabilities here = machine();
  here.free[1] = mebibytes(32);  // the workspace alone
  // 33554752 B, of which 320 are buffers: what is needed is rounded up, what is free down.
  EXPECT_THAT(reason(good(), here),
              HasSubstr("a rank needs 32.1 MiB and 32.0 MiB are free on its device: use smaller"));
}

// Nothing would be registered with anybody: rows that say so would speak of the option alone.
TEST(Support, BuffersAreRegisteredWithCommunicatorsOfSeveralRanks) {
  Program program = good();
  for (Buffer& buffer : program.buffers) buffer.memory = Memory::registered;
  EXPECT_EQ(reason(program), "");
  for (const char* transport : {"nccl", "copy"}) {
    program.ranks = 1;
    program.classes[0].members = {Rank(0)};
    program.communicators[0].groups = {{Rank(0)}};
    program.communicators[0].transport = transport;
    EXPECT_THAT(reason(program), HasSubstr("registered buffers are known to a communicator, and one rank communicates "
                                           "with nobody: type --buffers plain, or more --ranks"));
  }
}

TEST(Support, APartitionConfinesNoCopyEngines) {
  Program program = place(good(), parse_placement("partitioned"));
  program.communicators[0].channels = 8;
  program.ranks = 1;
  program.classes[0].members = {Rank(0)};
  program.communicators[0].groups = {{Rank(0)}};
  for (const char* transport : {"nccl", "copy"}) {
    program.communicators[0].transport = transport;
    EXPECT_THAT(reason(program), HasSubstr("partitioned would confine nothing of this communication"));
  }
}

TEST(Support, LanesOfADeviceDoNotWait) {
  Program program = good();
  for (Lane& lane : program.lanes) lane.waiting = Waiting::spin;
  EXPECT_EQ(reason(program),
            "waiting spin has no meaning on a device, whose lanes do not wait on the host: leave --waiting out");
}

TEST(Support, AllToAllCannotWorkInPlace) {
  ProgramBuilder p("in place", 2);
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const CommId world = p.world("world", "nccl", 1);
  const BufferId x = p.buffer({.name = "x", .count = 8});
  p.all_ranks().body(comm, Collective{CollectiveKind::all_to_all, world, DType::f32, 8, 0}, {p.whole(x)}, {p.whole(x)});
  EXPECT_THAT(reason(std::move(p).finish()), HasSubstr("all_to_all cannot work in place"));
}

}  // namespace
}  // namespace ovl::cuda
