// SPDX-License-Identifier: Apache-2.0
#include "program/print.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "base/random.hpp"
#include "program/builder.hpp"
#include "support/sample_programs.hpp"

namespace ovl {
namespace {

// Every kind of operation and of table entry once, with no field at its default where a default is not printed.
Program everything() {
  ProgramBuilder p("everything", 4);
  const LaneId compute = p.lane({.name = "compute"});
  const LaneId comm = p.lane({"comm", Role::communication, Priority::high, Partition::by_role, Waiting::spin});
  const CommId world = p.world("world", "shm", 2);
  const CommId pairs = p.communicator({"pairs", {{Rank(0), Rank(2)}, {Rank(1), Rank(3)}}, "nccl", 0});
  const BufferId x = p.buffer({.name = "x", .count = 16});
  const BufferId y = p.buffer({"y", DType::bf16, 32, Memory::symmetric, 3});
  const EventId started = p.event("started");
  ClassBuilder most = p.ranks("most", {Rank(0), Rank(1), Rank(2)});
  most.prologue(compute, Fill{}, {}, {p.whole(x), p.whole(y)});
  most.body(compute, Record{started, Moment::start});
  const OpId gemm = most.body(compute, Gemm{2, 4, 8, DType::f32, 3, 66}, {{x, 0, 16}, {x, 4, 8}}, {{y, 8, 8}});
  most.body(comm, Wait{started});
  most.body(comm, Collective{CollectiveKind::broadcast, world, DType::bf16, 32, 1}, {p.whole(y)}, {p.whole(y)});
  most.body(comm, Exchange{pairs, DType::f32, {{Direction::send, 1}, {Direction::receive, 1}}}, {{x, 0, 8}},
            {{x, 8, 8}});
  most.body(comm, Copy{}, {{x, 0, 4}}, {{x, 4, 4}});
  most.body(compute, Busy{Seconds(1.25e-5)});
  most.order(compute, comm);
  most.body(compute, HostSync{});
  most.body(compute, Elementwise{}, {{x, 0, 8}}, {{x, 8, 8}});
  most.epilogue(compute, Verify{gemm});
  p.ranks("rest", {Rank(3)});
  Program program = std::move(p).finish();
  program.graph = true;
  return program;
}

TEST(Print, AllOfAProgram) {
  EXPECT_EQ(print(everything()), R"(program everything ranks=4 graph
lane compute role=compute priority=normal partition=auto waiting=yield
lane comm role=comm priority=high partition=by_role waiting=spin
comm 0 world transport=shm channels=2 groups={0..3}
comm 1 pairs transport=nccl channels=0 groups={0,2}{1,3}
event 0 started
event 1 e1
buffer x f32 count=16 memory=plain copies=1
buffer y bf16 count=32 memory=symmetric copies=3
class most ranks={0..2}
  prologue
    %0 @compute fill -> x[0:16], y[0:32]
  body
    %1 @compute record e0 at start
    %2 @compute gemm 2x4x8 f32 x3 sm_target=66 <- x[0:16], x[4:12] -> y[8:16]
    %3 @comm wait e0
    %4 @comm broadcast 64 bf16 comm=0 root=1 <- y[0:32] -> y[0:32]
    %5 @comm exchange f32 comm=1 to:1 from:1 <- x[0:8] -> x[8:16]
    %6 @comm copy <- x[0:4] -> x[4:8]
    %7 @compute busy 1.25e-05 s
    %8 @compute record e1
    %9 @comm wait e1
    %10 @compute host_sync
    %11 @compute elementwise <- x[0:8] -> x[8:16]
  epilogue
    %12 @compute verify %2
class rest ranks={3}
)");
}

TEST(Print, DescribesOneOperation) {
  const auto text = [](Work work) { return describe(Operation{.work = std::move(work)}); };
  EXPECT_EQ(text(Gemm{.m = 1024, .n = 512, .k = 256}), "gemm 1024x512x256 f32");
  EXPECT_EQ(text(Gemm{.m = 1, .n = 2, .k = 3, .dtype = DType::f64, .repeat = 4}), "gemm 1x2x3 f64 x4");
  EXPECT_EQ(text(Collective{.comm = CommId(0), .count = 6553600}), "all_reduce 25MiB f32 comm=0");
  EXPECT_EQ(text(Collective{CollectiveKind::all_gather, CommId(2), DType::f16, 1000}), "all_gather 2kB f16 comm=2");
  EXPECT_EQ(text(Busy{Seconds(0.5)}), "busy 0.5 s");
  EXPECT_EQ(text(Occupy{.count = 2, .duration = Seconds(0.5)}), "occupy 2 for 0.5 s");
  EXPECT_EQ(text(Occupy{.until = EventId(3)}), "occupy 1 until e3");
  EXPECT_EQ(text(Stream{.bytes = mebibytes(1)}), "stream 1MiB workers=1");
  EXPECT_EQ(text(Stream{.pace = BytesPerSecond(2.5e9), .workers = 4, .until = EventId(3)}),
            "stream until e3 pace=2500000000 workers=4");
}

TEST(Print, ATimeStandsBehindWhatIsSubmittedThen) {
  ProgramBuilder p("timed", 1);
  const LaneId lane = p.lane({.name = "comm", .role = Role::communication});
  p.all_ranks().submit(Seconds(0.25), lane, Busy{Seconds(0.5)});
  EXPECT_THAT(print(std::move(p).finish()), testing::HasSubstr("\n    %0 @comm busy 0.5 s not_before=0.25 s\n"));
}

TEST(Print, RanksAreRuns) {
  const auto text = [](const std::vector<int>& values) {
    return describe(std::vector<Rank>(values.begin(), values.end()));
  };
  EXPECT_EQ(text({}), "{}");
  EXPECT_EQ(text({5}), "{5}");
  EXPECT_EQ(text({0, 1, 2, 3, 8}), "{0..3,8}");
  EXPECT_EQ(text({3, 2, 1}), "{3,2,1}") << "the order in a group says who is which peer";
  std::vector<int> many(1024);
  std::iota(many.begin(), many.end(), 0);
  EXPECT_EQ(text(many), "{0..1023}");
}

// Each changes one field of everything().
std::map<std::string, std::function<void(Program&)>> mutations() {
  std::map<std::string, std::function<void(Program&)>> all;
  all["program.name"] = [](Program& p) { p.name = "other"; };
  all["program.ranks"] = [](Program& p) { p.ranks = 5; };
  all["program.graph"] = [](Program& p) { p.graph = false; };
  all["program.lanes"] = [](Program& p) { p.lanes.push_back({.name = "third"}); };
  all["program.communicators"] = [](Program& p) { p.communicators.push_back({"third", {}, "shm", 1}); };
  all["program.events"] = [](Program& p) { p.events.push_back({"third"}); };
  all["program.buffers"] = [](Program& p) { p.buffers.push_back({.name = "third"}); };
  all["program.classes"] = [](Program& p) { p.classes.pop_back(); };

  all["lane.name"] = [](Program& p) { p.lanes[1].name = "other"; };
  all["lane.role"] = [](Program& p) { p.lanes[1].role = Role::compute; };
  all["lane.priority"] = [](Program& p) { p.lanes[1].priority = Priority::normal; };
  all["lane.partition"] = [](Program& p) { p.lanes[1].partition = Partition::by_rank; };
  all["lane.waiting"] = [](Program& p) { p.lanes[1].waiting = Waiting::block; };

  all["communicator.name"] = [](Program& p) { p.communicators[0].name = "other"; };
  all["communicator.groups"] = [](Program& p) {
    std::swap(p.communicators[0].groups[0][0], p.communicators[0].groups[0][1]);
  };
  all["communicator.groups.split"] = [](Program& p) {
    p.communicators[0].groups = {{Rank(0), Rank(1)}, {Rank(2), Rank(3)}};
  };
  all["communicator.transport"] = [](Program& p) { p.communicators[0].transport = "nccl"; };
  all["communicator.channels"] = [](Program& p) { p.communicators[0].channels = 3; };

  all["event.name"] = [](Program& p) { p.events[0].name = "other"; };

  all["buffer.name"] = [](Program& p) { p.buffers[1].name = "other"; };
  all["buffer.dtype"] = [](Program& p) { p.buffers[1].dtype = DType::f16; };
  all["buffer.count"] = [](Program& p) { p.buffers[1].count = 33; };
  all["buffer.memory"] = [](Program& p) { p.buffers[1].memory = Memory::registered; };
  all["buffer.copies"] = [](Program& p) { p.buffers[1].copies = 2; };

  all["class.name"] = [](Program& p) { p.classes[0].name = "other"; };
  all["class.members"] = [](Program& p) { p.classes[0].members.pop_back(); };
  all["class.prologue"] = [](Program& p) { p.classes[0].prologue.clear(); };
  all["class.body"] = [](Program& p) { p.classes[0].body.pop_back(); };
  all["class.body.order"] = [](Program& p) { std::swap(p.classes[0].body[5], p.classes[0].body[6]); };
  all["class.epilogue"] = [](Program& p) { p.classes[0].epilogue.clear(); };

  const auto on = [&all](const std::string& name, std::size_t position, const std::function<void(Operation&)>& change) {
    all[name] = [position, change](Program& p) { change(p.classes[0].body.at(position)); };
  };
  on("operation.id", 5, [](Operation& op) { op.id = OpId(99); });
  on("operation.lane", 5, [](Operation& op) { op.lane = LaneId(0); });
  on("operation.role", 5, [](Operation& op) { op.role = Role::compute; });
  on("operation.work", 5, [](Operation& op) { op.work = Elementwise{}; });
  on("operation.not_before", 5, [](Operation& op) { op.not_before = Seconds(0); });
  on("operation.reads", 5, [](Operation& op) { op.reads.clear(); });
  on("operation.writes", 5, [](Operation& op) { op.writes.clear(); });
  on("operation.reads and writes", 5, [](Operation& op) { std::swap(op.reads, op.writes); });
  on("slice.buffer", 5, [](Operation& op) { op.reads[0].buffer = BufferId(1); });
  on("slice.offset", 5, [](Operation& op) { op.reads[0].offset = 1; });
  on("slice.count", 5, [](Operation& op) { op.reads[0].count = 3; });

  on("record.event", 0, [](Operation& op) { std::get<Record>(op.work).event = EventId(1); });
  on("record.moment", 0, [](Operation& op) { std::get<Record>(op.work).moment = Moment::completion; });
  on("gemm.m", 1, [](Operation& op) { std::get<Gemm>(op.work).m = 9; });
  on("gemm.n", 1, [](Operation& op) { std::get<Gemm>(op.work).n = 9; });
  on("gemm.k", 1, [](Operation& op) { std::get<Gemm>(op.work).k = 9; });
  on("gemm.dtype", 1, [](Operation& op) { std::get<Gemm>(op.work).dtype = DType::tf32; });
  on("gemm.repeat", 1, [](Operation& op) { std::get<Gemm>(op.work).repeat = 1; });
  on("gemm.sm_target", 1, [](Operation& op) { std::get<Gemm>(op.work).sm_target = 0; });
  on("wait.event", 2, [](Operation& op) { std::get<Wait>(op.work).event = EventId(1); });
  on("collective.kind", 3, [](Operation& op) { std::get<Collective>(op.work).kind = CollectiveKind::all_reduce; });
  on("collective.comm", 3, [](Operation& op) { std::get<Collective>(op.work).comm = CommId(1); });
  on("collective.dtype", 3, [](Operation& op) { std::get<Collective>(op.work).dtype = DType::f16; });
  on("collective.count", 3, [](Operation& op) { std::get<Collective>(op.work).count = 31; });
  on("collective.root", 3, [](Operation& op) { std::get<Collective>(op.work).root = 0; });
  on("exchange.comm", 4, [](Operation& op) { std::get<Exchange>(op.work).comm = CommId(0); });
  on("exchange.dtype", 4, [](Operation& op) { std::get<Exchange>(op.work).dtype = DType::f64; });
  on("exchange.transfers", 4, [](Operation& op) { std::get<Exchange>(op.work).transfers.pop_back(); });
  on("transfer.direction", 4,
     [](Operation& op) { std::get<Exchange>(op.work).transfers[1].direction = Direction::send; });
  on("transfer.peer", 4, [](Operation& op) { std::get<Exchange>(op.work).transfers[1].peer = 0; });
  on("busy.duration", 6,
     [](Operation& op) { std::get<Busy>(op.work).duration = Seconds(std::nextafter(1.25e-5, 1.0)); });
  all["verify.target"] = [](Program& p) { std::get<Verify>(p.classes[0].epilogue[0].work).target = OpId(3); };
  return all;
}

TEST(Print, EqualProgramsPrintAlikeAndAnyOneFieldChangesTheText) {
  const std::string original = print(everything());
  EXPECT_EQ(print(Program(everything())), original);
  std::map<std::string, std::string> seen{{original, "nothing changed"}};
  for (const auto& [field, mutate] : mutations()) {
    Program program = everything();
    mutate(program);
    const auto [other, fresh] = seen.emplace(print(program), field);
    EXPECT_TRUE(fresh) << field << " prints like: " << other->second;
    EXPECT_NE(program_hash(program), program_hash(everything())) << field;
  }
}

TEST(Print, TheHashIsOfTheTextAndStaysFromReleaseToRelease) {
  // A change of this literal makes every stored result's program another one: only with a change of the text above.
  EXPECT_EQ(program_hash(sample::pair()), "0c7cc00e106fe6c4");
  EXPECT_EQ(program_hash(Program{.name = "tiny"}).size(), 16U) << "leading zeros are kept";
  EXPECT_EQ(std::stoull(program_hash(sample::ddp()), nullptr, 16), hash64(print(sample::ddp())));
}

}  // namespace
}  // namespace ovl
