// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "program/builder.hpp"
#include "program/placement.hpp"
#include "program/projection.hpp"
#include "support/sample_programs.hpp"

namespace ovl::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Plan plan_of(const Program& program, int first = 0, int ranks = 2, int partition_sms = 0) {
  return make_plan(program, comm_configs({program}), Rank(first), ranks, partition_sms);
}

// Two ranks: a GEMM on one lane, an all_reduce of its result on the other.
Program chained(const std::string& transport = "nccl", int channels = 4) {
  ProgramBuilder p("chained", 2);
  const LaneId compute = p.lane({.name = "compute", .role = Role::compute});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const CommId world = p.world("world", transport, channels);
  const BufferId a = p.buffer({.name = "a", .count = 64});
  const BufferId b = p.buffer({.name = "b", .count = 64});
  const BufferId c = p.buffer({.name = "c", .count = 64});
  const BufferId sum = p.buffer({.name = "sum", .count = 64});
  ClassBuilder all = p.all_ranks();
  all.body(compute, Gemm{8, 8, 8, DType::f32, 3}, {p.whole(a), p.whole(b)}, {p.whole(c)});
  all.order(compute, comm);
  all.body(comm, Collective{CollectiveKind::all_reduce, world, DType::f32, 64, 0}, {p.whole(c)}, {p.whole(sum)});
  return std::move(p).finish();
}

TEST(Plan, HasOneStepForEachOperationInIssueOrder) {
  const Program program = chained();
  const Plan plan = plan_of(program);
  ASSERT_EQ(plan.ranks.size(), 2U);
  const RankPlan& rank = plan.ranks[0];
  ASSERT_EQ(rank.steps.size(), 4U) << "GEMM, record, wait, all_reduce";
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(rank.steps[i].op, program.classes[0].body[i].id);

  const auto& gemm = std::get<GemmStep>(rank.steps[0].action);
  EXPECT_EQ(gemm.repeat, 3);
  EXPECT_EQ(plan.shapes[gemm.shape], (GemmShape{.m = 8, .n = 8, .k = 8, .dtype = DType::f32}));
  EXPECT_EQ(std::get<RecordStep>(rank.steps[1].action).event, 0U);
  EXPECT_EQ(std::get<WaitStep>(rank.steps[2].action).event, 0U);
  EXPECT_EQ(rank.steps[2].source, 1U) << "what it waits for is the record";
  const auto& collective = std::get<CollectiveStep>(rank.steps[3].action);
  EXPECT_THAT(plan.groups[collective.group].members, ElementsAre(Rank(0), Rank(1)));
  EXPECT_EQ(plan.groups[collective.group].config, (CommConfig{.channels = 4}));

  ASSERT_EQ(rank.lanes.size(), 2U);
  EXPECT_EQ(rank.lanes[0].first_work, 0U);
  EXPECT_EQ(rank.lanes[0].last_work, 0U);
  EXPECT_EQ(rank.lanes[1].first_work, 3U);
  EXPECT_FALSE(plan.live);
}

TEST(Plan, OfAProcessHasItsRanksOnly) {
  const Plan plan = plan_of(chained(), 1, 1);
  ASSERT_EQ(plan.ranks.size(), 1U);
  EXPECT_EQ(plan.ranks[0].rank, Rank(1));
  EXPECT_EQ(plan.groups.size(), 1U) << "groups are those of all processes";
}

TEST(Plan, EachRecordHasAnEventOfItsOwnAndAWaitTakesTheLatest) {
  ProgramBuilder p("twice", 1);
  const LaneId a = p.lane({.name = "a"});
  const LaneId b = p.lane({.name = "b"});
  const EventId event = p.event("again");
  ClassBuilder all = p.all_ranks();
  all.body(a, Record{event});
  all.body(b, Wait{event});
  all.body(a, Record{event});
  all.body(b, Wait{event});
  const Plan plan = plan_of(std::move(p).finish(), 0, 1);
  EXPECT_EQ(plan.ranks[0].events, 2U);
  EXPECT_EQ(std::get<WaitStep>(plan.ranks[0].steps[1].action).event, 0U);
  EXPECT_EQ(std::get<WaitStep>(plan.ranks[0].steps[3].action).event, 1U);
}

TEST(Plan, StartsOfOneOperationShareTheEventThatItRecords) {
  ProgramBuilder p("starts", 1);
  const LaneId a = p.lane({.name = "a"});
  const LaneId b = p.lane({.name = "b"});
  const EventId one = p.event("one");
  const EventId two = p.event("two");
  ClassBuilder all = p.all_ranks();
  all.body(a, Record{one, Moment::start});
  all.body(a, Record{two, Moment::start});
  all.body(a, Busy{microseconds(1)});
  all.body(b, Wait{two});
  all.body(b, Wait{one});
  const Plan plan = plan_of(std::move(p).finish(), 0, 1);
  const RankPlan& rank = plan.ranks[0];
  EXPECT_EQ(rank.events, 1U);
  EXPECT_EQ(rank.steps[2].began, 0U);
  EXPECT_EQ(std::get<BusyStep>(rank.steps[2].action).nanoseconds, 1000U);
  for (const std::size_t wait : {3U, 4U}) {
    EXPECT_EQ(rank.steps[wait].source, 2U) << "the work, whose start it is";
    EXPECT_EQ(rank.steps[wait].source_moment, Moment::start);
  }
}

TEST(Plan, AWaitBeforeItsRecordIsRefusedBecauseOnAStreamItWouldBeNone) {
  ProgramBuilder p("early", 1);
  const LaneId a = p.lane({.name = "a"});
  const LaneId b = p.lane({.name = "b"});
  const EventId event = p.event("late");
  ClassBuilder all = p.all_ranks();
  all.body(b, Wait{event});
  all.body(a, Record{event});
  const Program program = std::move(p).finish();
  EXPECT_THAT(order_reason(program), HasSubstr("event \"late\" is waited for before its record"));
  EXPECT_THROW(plan_of(program, 0, 1), Error);
  EXPECT_EQ(order_reason(chained()), "");
}

TEST(Plan, CopyOnOneRankGoesThroughTheHostAndNeedsNoCommunicator) {
  ProgramBuilder p("copy", 1);
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const CommId world = p.world("world", "copy", 1);
  const BufferId x = p.buffer({.name = "x", .count = 1000});
  const BufferId y = p.buffer({.name = "y", .count = 1000});
  p.all_ranks().body(comm, Collective{CollectiveKind::all_reduce, world, DType::f32, 1000, 0}, {p.whole(x)},
                     {p.whole(y)});
  const Program program = std::move(p).finish();
  const Plan plan = plan_of(program, 0, 1);
  EXPECT_TRUE(std::holds_alternative<StagedStep>(plan.ranks[0].steps[0].action));
  EXPECT_TRUE(plan.groups.empty());
  EXPECT_EQ(lane_needs({program})[0].staging, Bytes(4000));
  EXPECT_EQ(align_group(program, comm_configs({program})), std::nullopt) << "one rank has nobody to wait for";
}

TEST(Plan, AProxyIsAKernelOfOurs) {
  ProgramBuilder p("proxy", 1);
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const CommId world = p.world("world", "proxy:2GB/s", 3);
  const BufferId x = p.buffer({.name = "x", .count = 1000});
  const BufferId y = p.buffer({.name = "y", .count = 1000});
  p.all_ranks().body(comm, Collective{CollectiveKind::reduce_scatter, world, DType::f32, 1000, 0}, {p.whole(x)},
                     {p.whole(y)});
  const Program program = std::move(p).finish();
  const Plan plan = plan_of(program, 0, 1);
  const auto& step = std::get<ProxyStep>(plan.ranks[0].steps[0].action);
  EXPECT_EQ(step.steps, kernels::RingSteps::reduce);
  EXPECT_EQ(step.ns_per_byte, 0.5);
  EXPECT_EQ(step.stay.blocks, 3);
  EXPECT_TRUE(plan.groups.empty());
  EXPECT_THAT(plan.ranks[0].report_blocks, ElementsAre(3));
  EXPECT_EQ(lane_needs({program})[0].fifo, Bytes(3 * kernels::ring_fifo));
}

// One word for both that last until the event; its record, which comes later, writes it.
TEST(Plan, TheRecordOfAnEventEndsWhatLastsUntilIt) {
  ProgramBuilder p("until", 1);
  const LaneId victim = p.lane({.name = "victim"});
  const LaneId first = p.lane({.name = "first", .role = Role::communication});
  const LaneId second = p.lane({.name = "second", .role = Role::communication});
  const EventId done = p.event("done");
  const BufferId x = p.buffer({.name = "x", .count = 1000});
  const BufferId y = p.buffer({.name = "y", .count = 1000});
  ClassBuilder all = p.all_ranks();
  all.body(first, Occupy{.count = 4, .until = done});
  all.body(second, ovl::Stream{.pace = BytesPerSecond(4e9), .workers = 2, .until = done}, {p.whole(x)}, {p.whole(y)});
  all.body(victim, Occupy{.count = 1, .duration = Seconds(2e-6)});
  all.body(victim, Record{done});
  const Plan plan = plan_of(std::move(p).finish(), 0, 1);
  const RankPlan& rank = plan.ranks[0];
  EXPECT_EQ(rank.words, 1U);
  EXPECT_THAT(rank.report_blocks, ElementsAre(4, 2, 1));
  EXPECT_EQ(std::get<OccupyStep>(rank.steps[0].action).stay.word, 0U);
  const auto& stream = std::get<StreamStep>(rank.steps[1].action);
  EXPECT_EQ(stream.stay.word, 0U);
  EXPECT_EQ(stream.ns_per_byte, 0.5) << "4 GB/s read and written are 2 GB/s copied";
  EXPECT_EQ(std::get<OccupyStep>(rank.steps[2].action).nanoseconds, 2000U);
  EXPECT_EQ(std::get<OccupyStep>(rank.steps[2].action).stay.word, std::nullopt);
  EXPECT_EQ(std::get<RecordStep>(rank.steps[3].action).word, 0U);
  EXPECT_EQ(queued_by(rank.steps[3]), 2) << "the word and the event";
}

TEST(Plan, CopyOnSeveralRanksIsACommunicatorWithoutCtas) {
  const Program program = chained("copy", 2);
  const Plan plan = plan_of(program);
  EXPECT_EQ(plan.groups[0].config, (CommConfig{.channels = 2, .copy_engine = true}));
  // Ranks do not meet on it: a reduction is no copy.
  EXPECT_EQ(align_group(program, comm_configs({program}))->config, CommConfig{});
}

TEST(Plan, RanksMeetOnTheProgramsOwnCommunicatorButNotOnOneOfAGraph) {
  Program program = chained("nccl", 4);
  EXPECT_EQ(align_group(program, comm_configs({program}))->config, (CommConfig{.channels = 4}));
  program.graph = true;
  EXPECT_EQ(plan_of(program).groups[0].config, (CommConfig{.channels = 4, .graph = true}));
  EXPECT_EQ(align_group(program, comm_configs({program}))->config, CommConfig{});
}

TEST(Plan, ArmsShareTheCommunicatorsOfTheCase) {
  const Program program = chained();
  const Program compute = project(program, Arm::compute);
  const auto comms = comm_configs({compute, program});
  EXPECT_EQ(make_plan(compute, comms, Rank(0), 2, 0).groups, make_plan(program, comms, Rank(0), 2, 0).groups);
}

TEST(Plan, CommunicatorsThatSendAndReceiveSaySo) {
  const Program program = sample::pipeline();
  const auto comms = comm_configs({program});
  ASSERT_TRUE(comms[0].has_value());
  EXPECT_TRUE(comms[0]->point_to_point);
  EXPECT_FALSE(comm_configs({chained()})[0]->point_to_point);
}

TEST(Plan, GemmsOfAPartitionCountOnItsSmsUnlessAskedOtherwise) {
  const Program program = place(chained(), parse_placement("partitioned"));
  const Plan plan = plan_of(program, 0, 2, 116);
  EXPECT_EQ(plan.shapes[0].sm_target, 116);
  EXPECT_EQ(plan_of(chained(), 0, 2, 116).shapes[0].sm_target, 0);
}

TEST(Plan, AlignmentIsThatOfTheOperandThatIsAlignedLeast) {
  ProgramBuilder p("odd", 1);
  const LaneId lane = p.lane({.name = "compute"});
  const BufferId a = p.buffer({.name = "a", .count = 64});
  const BufferId c = p.buffer({.name = "c", .count = 100});
  p.all_ranks().body(lane, Gemm{4, 4, 4}, {{a, 0, 16}, {a, 16, 16}}, {{c, 3, 16}});
  EXPECT_EQ(plan_of(std::move(p).finish(), 0, 1).shapes[0].alignment, 4) << "12 bytes into c";
}

TEST(Plan, RegistersWhatCommunicatorsTouchAndNothingPlain) {
  Program program = chained();
  const auto comms = comm_configs({program});
  const auto groups = plan_of(program).groups;
  EXPECT_TRUE(registrations({program}, comms, groups).empty());
  program.buffers[0].memory = Memory::symmetric;   // a: only the GEMM reads it
  program.buffers[2].memory = Memory::symmetric;   // c
  program.buffers[3].memory = Memory::registered;  // sum
  EXPECT_THAT(registrations({program}, comms, groups),
              ElementsAre(std::pair{std::size_t{0}, BufferId(2)}, std::pair{std::size_t{0}, BufferId(3)}));
}

TEST(Plan, HostSyncsMakeItLive) {
  const Program program = place(sample::ddp(), parse_placement("global_sync"));
  EXPECT_TRUE(plan_of(program).live);
}

TEST(Plan, TimesOfSubmissionMakeItLive) {
  ProgramBuilder p("timed", 2);
  const LaneId lane = p.lane({.name = "comm", .role = Role::communication});
  ClassBuilder all = p.all_ranks();
  all.body(lane, Busy{Seconds(1)});
  all.submit(Seconds(3), lane, Busy{Seconds(1)});
  const Plan plan = plan_of(std::move(p).finish());
  EXPECT_TRUE(plan.live);
  EXPECT_TRUE(plan.ranks[0].timed);
  EXPECT_EQ(plan.ranks[0].steps[0].not_before, std::nullopt);
  EXPECT_EQ(plan.ranks[0].steps[1].not_before, Seconds(3));
}

TEST(Plan, StartsAreToldByAllRanksOrNone) {
  Program program = chained();
  EXPECT_TRUE(starts_agree(program));
  EXPECT_TRUE(starts_agree(place(sample::pair(), parse_placement("comm_first"))));
  // Rank 1 in a class of its own that marks the start of its collective.
  RankClass other = program.classes[0];
  program.classes[0].members = {Rank(0)};
  other.members = {Rank(1)};
  other.body.insert(other.body.end() - 1,
                    Operation{.id = OpId(90), .lane = LaneId(1), .work = Record{EventId(0), Moment::start}});
  program.classes.push_back(other);
  EXPECT_FALSE(starts_agree(program));
}

TEST(Plan, QueueCountsAreByWhatAStepLeavesInItsStream) {
  const Plan plan = plan_of(chained());
  EXPECT_EQ(queued_by(plan.ranks[0].steps[0]), 1) << "of one repeat";
  EXPECT_EQ(queued_by(plan.ranks[0].steps[3]), 4);
  const Step sum{.op = OpId(0), .lane = LaneId(0), .action = AddStep{{}, std::vector<Slice>(9)}};
  EXPECT_EQ(queued_by(sum), 2) << "eight inputs a kernel";
}

// Two communicators of one group, one each way, as pipelines have them: on one of NCCL's the second message on rank 0's
// side would wait for its first, and that for rank 1's.
TEST(Plan, CommunicatorsThatAProgramKeepsApartStayApart) {
  ProgramBuilder p("both_ways", 2);
  const LaneId there = p.lane({.name = "there", .role = Role::communication});
  const LaneId back = p.lane({.name = "back", .role = Role::communication});
  const CommId forward = p.world("forward", "nccl", 4);
  const CommId backward = p.world("backward", "nccl", 4);
  const CommId wider = p.world("wider", "nccl", 8);
  const BufferId buffer = p.buffer({.name = "a", .count = 8});
  ClassBuilder all = p.all_ranks();
  const auto reduce = [&](LaneId lane, CommId comm) {
    all.body(lane, Collective{CollectiveKind::all_reduce, comm, DType::f32, 8}, {p.whole(buffer)}, {p.whole(buffer)});
  };
  reduce(there, forward);
  reduce(back, backward);
  reduce(back, wider);
  const auto configs = comm_configs({std::move(p).finish()});
  ASSERT_EQ(configs.size(), 3U);
  EXPECT_EQ(configs[0], (CommConfig{.channels = 4}));
  EXPECT_EQ(configs[1], (CommConfig{.channels = 4, .twin = 1}));
  EXPECT_EQ(configs[2], (CommConfig{.channels = 8}));
}

}  // namespace
}  // namespace ovl::cuda
