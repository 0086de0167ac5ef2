// SPDX-License-Identifier: Apache-2.0
#include "schedule/pair.hpp"
#include "support/errors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/error.hpp"
#include "program/check.hpp"
#include "program/print.hpp"
#include "program/projection.hpp"

namespace ovl {
namespace {

using test::error_text;

std::vector<Operation> of_kind(const Program& program, std::string_view kind) {
  std::vector<Operation> found;
  for (const Operation& op : program.classes.at(0).body) {
    if (kind_name(op.work) == kind) found.push_back(op);
  }
  return found;
}

const Buffer& buffer(const Program& program, std::string_view name) {
  for (const Buffer& b : program.buffers) {
    if (b.name == name) return b;
  }
  throw std::logic_error("no buffer " + std::string(name));
}

// Two pairs of two GEMMs and a collective in a window. A GEMM's operands are (8 + 12 + 6) · 4 bytes on 2 ranks, 208
// together: three different ones rotate over 624 bytes, as slices. A collective's are (4 + 4) · 4 on 2 ranks, 64: ten
// of them, two as slices of a window and the rest as copies for the replays that follow.
TEST(PairProgram, WorkedExample) {
  const Program program = pair_program({.ranks = 2,
                                        .m = 2,
                                        .n = 3,
                                        .k = 4,
                                        .gemm_repeat = 2,
                                        .bytes = Bytes(16),
                                        .channels = 2,
                                        .waiting = Waiting::spin,
                                        .repeats = 2,
                                        .rotate_over = Bytes(624)});
  EXPECT_EQ(print(program),
            R"(program pair ranks=2
lane compute role=compute priority=normal partition=auto waiting=spin
lane comm role=comm priority=normal partition=auto waiting=spin
comm 0 world transport=shm channels=2 groups={0..1}
buffer a f32 count=24 memory=plain copies=1
buffer b f32 count=36 memory=plain copies=1
buffer c f32 count=18 memory=plain copies=1
buffer send f32 count=8 memory=plain copies=5
buffer receive f32 count=8 memory=plain copies=5
class all ranks={0..1}
  prologue
    %0 @compute fill -> a[0:24], b[0:36]
    %1 @comm fill -> send[0:8]
  body
    %2 @compute gemm 2x3x4 f32 <- a[0:8], b[0:12] -> c[0:6]
    %3 @compute gemm 2x3x4 f32 <- a[8:16], b[12:24] -> c[6:12]
    %4 @compute gemm 2x3x4 f32 <- a[16:24], b[24:36] -> c[12:18]
    %5 @compute gemm 2x3x4 f32 <- a[0:8], b[0:12] -> c[0:6]
    %6 @comm all_reduce 16 f32 comm=0 <- send[0:4] -> receive[0:4]
    %7 @comm all_reduce 16 f32 comm=0 <- send[4:8] -> receive[4:8]
  epilogue
    %8 @compute verify %5
    %9 @compute verify %3
    %10 @compute verify %4
    %11 @compute verify %6
    %12 @compute verify %7
)");
}

// However many GEMMs a balance asks for, a window has a bounded number of operations and runs every one of them.
TEST(PairProgram, ManyGemmsAreFewOperationsThatRepeat) {
  for (const auto& [gemm_repeat, repeats] : {std::pair{1, 1}, {255, 1}, {256, 1}, {257, 1}, {1000, 3}, {3, 1000}}) {
    const Program program =
        pair_program({.m = 2, .n = 2, .k = 2, .gemm_repeat = gemm_repeat, .bytes = Bytes(16), .repeats = repeats});
    std::int64_t runs = 0;
    for (const Operation& op : of_kind(program, "gemm")) runs += std::get<Gemm>(op.work).repeat;
    EXPECT_EQ(runs, gemm_repeat * repeats);
    EXPECT_LE(of_kind(program, "gemm").size(), static_cast<std::size_t>(std::max(256, repeats)));
    EXPECT_EQ(of_kind(program, "all_reduce").size(), static_cast<std::size_t>(repeats));
  }
}

TEST(PairProgram, PartsOfTheArrayAreWhatTheKindSays) {
  struct Row {
    CollectiveKind kind;
    std::int64_t read, written;  // of 12 elements on 3 ranks
  };
  for (const auto& [kind, read, written] :
       {Row{CollectiveKind::all_reduce, 12, 12}, Row{CollectiveKind::all_gather, 4, 12},
        Row{CollectiveKind::reduce_scatter, 12, 4}, Row{CollectiveKind::broadcast, 12, 12},
        Row{CollectiveKind::all_to_all, 12, 12}}) {
    const Program program = pair_program({.ranks = 3, .m = 2, .n = 2, .k = 2, .collective = kind, .bytes = Bytes(48)});
    const Operation op = of_kind(program, name(kind)).at(0);
    EXPECT_EQ(std::get<Collective>(op.work).count, 12) << name(kind);
    EXPECT_EQ(op.reads.at(0).count, read) << name(kind);
    EXPECT_EQ(op.writes.at(0).count, written) << name(kind);
  }
}

// a and b take 8 + 12 bytes, c 6 · 2: 32 on one rank. So do the collective's arrays, 16 each. 3 of either rotate
// over 96.
TEST(PairProgram, InF8TheProductIsBf16) {
  const Program program = pair_program(
      {.ranks = 1, .m = 2, .n = 3, .k = 4, .bytes = Bytes(16), .dtype = DType::f8e4m3, .rotate_over = Bytes(96)});
  for (const char* name : {"a", "b", "send", "receive"}) EXPECT_EQ(buffer(program, name).dtype, DType::f8e4m3) << name;
  EXPECT_EQ(buffer(program, "c").dtype, DType::bf16);
  EXPECT_EQ(buffer(program, "c").copies, 3);
  EXPECT_EQ(memory_per_rank(program), Bytes(2 * 96));
  EXPECT_THAT(check(program), testing::IsEmpty());

  Program narrow = program;
  narrow.buffers.at(2).dtype = DType::f8e4m3;
  EXPECT_THAT(check(narrow), testing::SizeIs(1));
}

// ---- counts --------------------------------------------------------------------------------------------------------

PairSpec sized(CollectiveKind kind, int ranks, std::int64_t bytes, DType dtype = DType::f32) {
  return {.ranks = ranks, .collective = kind, .bytes = Bytes(bytes), .dtype = dtype};
}

TEST(CollectiveCount, IsBytesInElementsRoundedUp) {
  EXPECT_EQ(collective_count(sized(CollectiveKind::all_reduce, 3, 16)), 4);
  EXPECT_EQ(collective_count(sized(CollectiveKind::all_reduce, 3, 17)), 5);
  EXPECT_EQ(collective_count(sized(CollectiveKind::broadcast, 3, 1)), 1);
  EXPECT_EQ(collective_count(sized(CollectiveKind::all_reduce, 3, 17, DType::f64)), 3);
  EXPECT_EQ(collective_count(sized(CollectiveKind::all_reduce, 3, 17, DType::f8e4m3)), 17);
}

TEST(CollectiveCount, IsAMultipleOfTheRanksWhereTheKindDividesTheArray) {
  for (const CollectiveKind kind :
       {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_to_all}) {
    EXPECT_EQ(collective_count(sized(kind, 3, 16)), 6) << name(kind);
    EXPECT_EQ(collective_count(sized(kind, 3, 24)), 6) << name(kind);
    EXPECT_EQ(collective_count(sized(kind, 4, 1)), 4) << name(kind);
    EXPECT_EQ(collective_count(sized(kind, 1, 20)), 5) << name(kind);
  }
}

TEST(CollectiveCount, HasALimitThatKeepsEveryProductExact) {
  EXPECT_EQ(collective_count(sized(CollectiveKind::all_gather, 7, std::int64_t{1} << 60)) % 7, 0);
  EXPECT_EQ(error_text([] {
              (void)collective_count(sized(CollectiveKind::all_gather, 2, std::numeric_limits<std::int64_t>::max()));
            }),
            "a collective of 9223372036854775807 is too large: it has at most 2^60 bytes; use smaller sizes");
}

TEST(PairProgram, ThatNoAddressSpaceHoldsIsAUsersMistake) {
  EXPECT_EQ(error_text([] {
              (void)pair_program({.ranks = 4, .m = 1 << 28, .n = 1 << 28, .k = 1 << 28, .bytes = mebibytes(1)});
            }),
            "gemm 268435456x268435456x268435456 beside 1MiB on 4 ranks is too large: all arrays together have at most "
            "2^60 bytes; use smaller sizes");
}

TEST(PairProgram, NeedsRanksAndRepeats) {
  EXPECT_THROW((void)pair_program({.ranks = 0}), std::logic_error);
  EXPECT_THROW((void)pair_program({.repeats = 0}), std::logic_error);
  EXPECT_THROW((void)pair_program({.gemm_repeat = 0}), std::logic_error);
}

// ---- rotation ------------------------------------------------------------------------------------------------------

// Bytes of all ranks that one role touches in this many replays, each element once.
std::int64_t touched(const Program& program, Role role, std::int64_t replays) {
  std::set<std::tuple<BufferId, std::int64_t, std::int64_t>> slices;  // buffer, copy, offset
  std::int64_t bytes = 0;
  for (std::int64_t slot = 0; slot < replays; ++slot) {
    for (const Operation& op : program.classes.at(0).body) {
      if (op.role != role) continue;
      for (const auto* list : {&op.reads, &op.writes}) {
        for (const Slice& s : *list) {
          const Buffer& b = program.buffers[s.buffer.index()];
          if (slices.emplace(s.buffer, slot % b.copies, s.offset).second) bytes += s.count * size_of(b.dtype).value();
        }
      }
    }
  }
  return bytes * program.ranks;
}

// Each kind by itself: alone in its arm it must not find its data in a cache either.
TEST(PairProgram, EachRoleRotatesOverAtLeastTheMemoryAskedFor) {
  for (const int ranks : {1, 2, 3}) {
    for (const std::int64_t repeats : {1, 2, 7, 40}) {
      for (const std::int64_t rotate : {0, 1, 100, 1000, 1234, 100000}) {
        const Program program = pair_program({.ranks = ranks,
                                              .m = 2,
                                              .n = 3,
                                              .k = 4,
                                              .bytes = Bytes(20),
                                              .repeats = repeats,
                                              .rotate_over = Bytes(rotate)});
        const std::int64_t compute = touched(program, Role::compute, buffer(program, "a").copies);
        const std::int64_t comm = touched(program, Role::communication, buffer(program, "send").copies);
        EXPECT_GE(compute, rotate) << ranks << " ranks, " << repeats << " repeats";
        EXPECT_GE(comm, rotate) << ranks << " ranks, " << repeats << " repeats";
        // The buffers are what is touched, and at most one window more than it takes.
        EXPECT_EQ(compute + comm, (memory_per_rank(program) * ranks).value());
        EXPECT_LT(compute, rotate + (1 + repeats) * 4 * (8 + 12 + 6) * ranks);
        EXPECT_LT(comm, rotate + (1 + repeats) * 4 * (5 + 5) * ranks);
      }
    }
  }
}

TEST(PairProgram, WithoutRotationEveryPairUsesTheSameMemory) {
  const Program program = pair_program({.m = 2, .n = 2, .k = 2, .bytes = Bytes(16), .repeats = 5});
  for (const Role role : {Role::compute, Role::communication}) {
    EXPECT_EQ(touched(program, role, 10), touched(program, role, 1));
  }
  EXPECT_EQ(buffer(program, "c").copies, 1);
  EXPECT_EQ(buffer(program, "c").count, 4);
}

TEST(PairProgram, ConsecutivePairsUseConsecutiveSlicesAndStartOver) {
  // Three different GEMMs of 4 · (4 + 4 + 4) · 2 = 96 bytes, seven of them in a window.
  const Program program =
      pair_program({.m = 2, .n = 2, .k = 2, .bytes = Bytes(16), .repeats = 7, .rotate_over = Bytes(3 * 96)});
  std::vector<std::int64_t> offsets;
  for (const Operation& op : of_kind(program, "gemm")) offsets.push_back(op.writes.at(0).offset);
  EXPECT_EQ(offsets, (std::vector<std::int64_t>{0, 4, 8, 0, 4, 8, 0}));
  EXPECT_EQ(buffer(program, "c").copies, 1);
}

// ---- soundness -----------------------------------------------------------------------------------------------------

TEST(PairProgram, IsSoundInEveryArmForEveryKindAndSize) {
  for (const auto& [kind, kind_text] : EnumNames<CollectiveKind>::table) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      for (const std::int64_t repeats : {1, 2, 7}) {
        for (const std::int64_t rotate : {0, 1000}) {
          const Program program = pair_program({.ranks = ranks,
                                                .m = 2,
                                                .n = 3,
                                                .k = 4,
                                                .collective = kind,
                                                .bytes = Bytes(20),
                                                .repeats = repeats,
                                                .rotate_over = Bytes(rotate)});
          for (const auto& [arm, arm_text] : EnumNames<Arm>::table) {
            for (const Finding& finding : check(project(program, arm))) {
              ADD_FAILURE() << kind_text << " of " << ranks << ", " << repeats << " repeats, " << arm_text << ": "
                            << finding.message;
            }
          }
        }
      }
    }
  }
}

// What is read back after a replay is what the last writer of each slice left there.
TEST(PairProgram, VerifiesExactlyTheLastWriterOfEverySlice) {
  for (const std::int64_t repeats : {1, 2, 3, 7}) {
    for (const std::int64_t different : {1, 2, 3, 20}) {
      const Program program = pair_program(
          {.m = 2, .n = 2, .k = 2, .bytes = Bytes(16), .repeats = repeats, .rotate_over = Bytes(different * 160)});
      std::map<std::pair<BufferId, std::int64_t>, OpId> last;
      for (const Operation& op : program.classes.at(0).body)
        last[{op.writes.at(0).buffer, op.writes[0].offset}] = op.id;
      std::set<OpId> expected;
      for (const auto& [slice, writer] : last) expected.insert(writer);
      std::vector<OpId> verified;
      for (const Operation& op : program.classes[0].epilogue) verified.push_back(std::get<Verify>(op.work).target);
      EXPECT_EQ(std::set<OpId>(verified.begin(), verified.end()), expected) << repeats << " " << different;
      EXPECT_EQ(verified.size(), expected.size()) << "each once";
    }
  }
}

}  // namespace
}  // namespace ovl
